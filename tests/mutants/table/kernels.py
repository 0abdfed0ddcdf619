"""What a tile is, what it needs, and where the parts of a kernel lie."""

from tests.mutants.mutant import Mutant
from tests.mutants.table.noticed import KEPT, READERS

RAGGED = "test_kernels::test_rows_are_divided_evenly_and_the_last_tile_is_ragged"
IN_PLACE = "test_kernels::test_a_result_takes_no_place_that_somebody_still_reads"
STRIDES = "test_kernels::test_a_copy_pays_for_the_shape_of_what_it_moves"

KERNELS = (
    Mutant(
        "a halo is ignored",
        "ir/graph.py",
        "for dim, stride in axis.terms:\n                first, last",
        "for dim, stride in axis.terms[:1]:\n                first, last",
        (READERS,),
    ),
    Mutant(
        "only the first reader's window is loaded",
        "kernels/shape.py",
        "region = found if region is None else region.hull(found)",
        "region = found if region is None else region",
        (READERS,),
    ),
    Mutant(
        "only the last reader's window is loaded",
        "kernels/shape.py",
        "region = found if region is None else region.hull(found)",
        "region = found",
        (READERS,),
    ),
    Mutant(
        "an inner operator computes what its last reader needs",
        "ir/tiles.py",
        "needed[read.tensor] = region.hull(needed[read.tensor]) if read.tensor in needed else region",
        "needed[read.tensor] = region",
        (
            "test_tiles::test_operators_compute_what_the_last_one_needs_and_no_more",
            "test_kernels::test_an_inner_tile_is_what_all_its_readers_need",
        ),
    ),
    Mutant(
        "of several heads only the channels of the first are computed",
        "ir/tiles.py",
        "            if first != last:\n                break\n",
        "",
        ("test_tiles::test_the_box_that_writes_a_region_is_the_smallest",),
    ),
    Mutant(
        "the ragged last tile is forgotten",
        "ir/region.py",
        "for at in range(start, stop, extent))",
        "for at in range(start, max(start + 1, stop - extent + 1), extent))",
        (RAGGED,),
    ),
    Mutant(
        "the ragged last tile is as long as the others",
        "ir/region.py",
        "(at, min(at + extent, stop))",
        "(at, at + extent)",
        (RAGGED,),
    ),
    Mutant(
        "the last piece goes to no core",
        "ir/tiles.py",
        "for piece in product(*axes)]",
        "for piece in product(*(axis[: max(1, len(axis) - 1)] for axis in axes))]",
        (RAGGED,),
    ),
    Mutant(
        "the last core takes all that does not divide",
        "ir/region.py",
        "step * (units * i // count)",
        "step * (units // count * i)",
        ("test_tiles::test_even_pieces_cover_a_range_evenly", RAGGED),
    ),
    Mutant(
        "a cut falls inside a step",
        "ir/region.py",
        "min(extent, step * (units * i // count))",
        "extent * i // count",
        ("test_tiles::test_even_pieces_cover_a_range_evenly",),
    ),
    Mutant(
        "tiles follow the dims and not the loop order",
        "ir/tiles.py",
        "for choice in product(*(cuts[dim] for dim in tiling.order)):",
        "for choice in (tuple(c[d] for d in tiling.order) for c in product(*cuts)):",
        ("test_tiles::test_every_iteration_belongs_to_one_tile_of_one_core",),
    ),
    Mutant(
        "an operator that is read elsewhere is hidden inside a kernel",
        "ir/tiles.py",
        "leaves = bool(readers - members) or any(name in graph.outputs for name in op.outputs)",
        "leaves = False",
        ("test_tiles::test_an_operator_that_is_read_elsewhere_ends_a_kernel_of_its_own",),
    ),
    Mutant(
        "a result takes the place of an operand with another reader",
        "kernels/shape.py",
        "len(graph.consumers[read.tensor]) == len(graph.producers[read.tensor]) == 1",
        "len(graph.producers[read.tensor]) == 1",
        (IN_PLACE,),
    ),
    Mutant(
        "a part of a tensor takes the place of a smaller operand",
        "kernels/shape.py",
        "if len(graph.producers[write.tensor]) > 1:",
        "if len(graph.producers[write.tensor]) > 99:",
        ("test_kernels::test_a_part_of_a_tensor_takes_no_place_of_a_smaller_one",),
    ),
    Mutant(
        "a descriptor has any number of strides",
        "ir/transfers.py",
        "            if loops > MAX_STRIDES:",
        "            if loops > MAX_STRIDES + 1:",
        ("test_tiles::test_five_loops_take_a_descriptor_for_each_turn_of_the_outer_two",),
    ),
    Mutant(
        "runs follow the axes and not the layout",
        "ir/transfers.py",
        "for axis in tensor.layout)",
        "for axis in range(len(tensor.layout)))",
        (STRIDES, "test_tiles::test_a_layout_orders_the_axes_of_a_transfer"),
    ),
    Mutant(
        "a run goes on past an axis that is cut",
        "ir/transfers.py",
        "contiguous = extent == source[axis] and extent == target[axis]",
        "contiguous = extent == target[axis]",
        ("test_tiles::test_runs_and_descriptors_are_those_of_the_addresses", STRIDES),
    ),
    Mutant(
        "a float16 check that zeros would meet passes",
        "ir/report.py",
        "return self.allowed < 1",
        "return True",
        ("test_range::test_what_float16_cannot_carry_is_no_proof",),
    ),
    Mutant(
        "an error of NaN passes",
        "ir/report.py",
        "return self.conclusive and self.error <= self.allowed",
        "return self.conclusive and not self.error > self.allowed",
        ("test_hazards::test_a_missing_number_never_passes",),
    ),
    Mutant(
        "the estimate forgets the place of what a result takes over",
        "kernels/nest.py",
        "name in in_place, name in shape.results",
        "name in set(shape.in_place.values()), name in shape.results",
        ("test_kernels::test_a_result_may_take_the_place_of_more_than_it_is",),
    ),
    Mutant(
        "a reduction has parts without accumulators",
        "kernels/nest.py",
        "cut = second if sums and machine.local",
        "cut = second if machine.local",
        ("test_machine_parts::test_without_accumulators_a_reduction_is_one_part",),
    ),
    Mutant(
        "a piece is of the extent of its number",
        "kernels/instances.py",
        "pairwise(accumulate(cut, initial=0))",
        "pairwise(range(len(cut) + 1))",
        ("test_by_hand::test_pieces_may_be_uneven",),
    ),
    Mutant(
        "a piece goes to the core that holds least of what it needs",
        "kernels/division.py",
        'np.argsort(-held, kind="mergesort")',
        'np.argsort(held, kind="mergesort")',
        ("test_by_hand::test_new_owners_are_some_of_the_old_ones",),
    ),
    Mutant(
        "what several cores hold counts for each of them",
        "kernels/division.py",
        "one[0, axis], one[1, axis] = low[axis], high[axis]",
        "one[1, axis] = high[axis]",
        ("test_division::test_parts_go_to_the_cores_that_hold_them_and_the_rest_is_counted_where_it_lies",),
    ),
    Mutant(
        "a core computes from a part that holds only some of what it needs",
        "kernels/surroundings.py",
        "if near and source.region.contains(region):",
        "if near and source.region.overlaps(region):",
        (KEPT,),
    ),
)
