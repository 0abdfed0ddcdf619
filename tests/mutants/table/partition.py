"""Which operators run together."""

from tests.mutants.mutant import Mutant

PARTITION = (
    Mutant(
        "anchors take what follows them in the second sweep",
        "partition/groups/fuse_ops.py",
        "sweep == 0\n",
        "sweep == 1\n",
        ("test_partition",),
    ),
    Mutant(
        "views move in the first sweep",
        "partition/groups/fuse_ops.py",
        "and sweep == 1",
        "and sweep >= 0",
        ("test_partition",),
    ),
    Mutant(
        "an anchor takes what another anchor made",
        "partition/groups/fuse_ops.py",
        "self.pattern[target] = max(self.pattern[target], Pattern.OUT_ELEMENTWISE_FUSABLE)",
        "pass",
        ("test_partition",),
    ),
    Mutant(
        "a set that grows does not look at what both halves read from outside",
        "partition/subgraphs/liveness.py",
        "default=len(first.stretches))\n",
        "default=len(first.stretches)) + 1\n",
        ("test_liveness",),
    ),
    Mutant(
        "an operator that leaves more live runs at once",
        "partition/subgraphs/stretch.py",
        "if step <= peak and after <= now:",
        "if step <= peak:",
        ("test_liveness",),
    ),
    Mutant(
        "a tensor that follows along another axis counts",
        "partition/subgraphs/splitting.py",
        "axis = along.inputs.get(tensor)",
        "axis = 0",
        ("test_liveness",),
    ),
    Mutant(
        "the factor may grow by merging",
        "partition/subgraphs/coarse.py",
        "factor = self.groups[consumer].split.factor",
        "factor = 1 << 29",
        ("test_graphturbo::test_resnet50_is_cut_where_its_stages_end",),
    ),
    Mutant(
        "what pieces make several times is not counted",
        "partition/subgraphs/cuts.py",
        "found.append(cut if again <= MADE_AGAIN else",
        "found.append(cut if again >= 0 else",
        ("test_whole::test_a_sub_graph_is_cut_where_its_pieces_make_little_twice",),
    ),
    Mutant(
        "weights that pieces read again cost nothing",
        "partition/subgraphs/cuts.py",
        "(cut.pieces - 1) * _weight_bytes",
        "(cut.pieces - cut.pieces) * _weight_bytes",
        ("test_whole::test_staying_whole_is_looked_at_where_pieces_read_more_weights_again",),
    ),
    Mutant(
        "a batch is cut into uneven pieces where even ones fit",
        "partition/subgraphs/splitting.py",
        "if extent % factor == 0), least)",
        "if extent % factor == 1), least)",
        ("test_graphturbo::test_a_number_of_pieces_divides_the_extent_where_one_little_larger_does",),
    ),
    Mutant(
        "half of the rate is enough work for a core",
        "partition/blocks/synthetic.py",
        "SATURATED = 0.9",
        "SATURATED = 0.5",
        ("test_reproduce_dlfusion::test_each_reading_of_enough_work_has_its_speed_up",),
    ),
    Mutant(
        "slow layers say when a core is saturated",
        "partition/blocks/synthetic.py",
        "if not rising or operations / time > rising[-1][0] / rising[-1][1]:",
        "if not rising or operations > rising[-1][0]:",
        ("test_fusion::test_saturation_is_read_off_the_fastest_layers",),
    ),
    Mutant(
        "a certificate may be off by one",
        "partition/blocks/checker.py",
        "potentials[upper] > potentials[lower] + cost:",
        "potentials[upper] > potentials[lower] + cost + 1:",
        ("test_certificate::test_numbers_that_say_too_much_are_rejected",),
    ),
    Mutant(
        "a certificate's plan keeps the price that it says",
        "partition/blocks/checker.py",
        "if found[0] != costs[number] or found[1] != choices[number]:",
        "if found[1] != choices[number]:",
        ("test_certificate::test_a_block_that_costs_otherwise_is_rejected",),
    ),
)
