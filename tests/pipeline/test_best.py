"""The strategy `best`: candidates cost what they cost compiled in full, and no seed is faster than what is found."""

import re
from dataclasses import replace
from itertools import islice
from math import inf
from random import Random

import onnx
import pytest

from tests.helpers.graphs import Net
from tests.helpers.pairs import first
from tests.helpers.verified import REFERENCES, machine_named, model
from tilestitch import api
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.cost.block_bounds import least_block_cycles
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.choices import Effort, Stage
from tilestitch.ir.partition import Blocks
from tilestitch.ir.searched import START
from tilestitch.ir.tile_rule import KernelRule, Once
from tilestitch.kernels.runnable import picks_from_itself
from tilestitch.lower import blocks
from tilestitch.ops.depthwise import sizes_of
from tilestitch.pipeline import batches
from tilestitch.pipeline import compile as compile_module
from tilestitch.pipeline.batches import FAR, latency, possible_batches
from tilestitch.pipeline.compile import compile_network, requested, resume_network
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.search import beginnings
from tilestitch.pipeline.search import best as search
from tilestitch.pipeline.search.banding import with_bands
from tilestitch.pipeline.search.beginnings import grown
from tilestitch.pipeline.search.best import Budget
from tilestitch.pipeline.search.candidate import Candidate, Cut, candidate_of, in_running_order
from tilestitch.pipeline.search.evaluate import Evaluator
from tilestitch.pipeline.search.moves import MOVES
from tilestitch.pipeline.search.scene import Scene
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.strategies import outdone_by_best, seeds_of, strategy_named

NETWORKS = ("resnet18", "bert-base-128", "mobilenet-v2", "conformer", "googlenet")
FEW = Budget(6, 10**9)


def compiled(network, strategy="best", *, machine="toy", batch=4, effort=Effort.LOW, **options):
    """A small network of the zoo."""
    return compile_network(
        model(network, small=True),
        network,
        machine_named(machine),
        strategy_named(strategy),
        Options(batch=batch, effort=effort, **options),
        references=REFERENCES.setdefault(network, {}),
    )


def scene_of(network, strategy="graphturbo", batch=4, machine="toy"):
    """What evaluates candidates, and a candidate with what its kernels lose."""
    done = compiled(network, strategy, machine=machine, batch=batch)
    proto = model(network, small=True)
    request = requested(proto, network, machine_named(machine), done.options)
    evaluator = Evaluator(request, Networks(proto, network, fold_bn=True))
    begin = candidate_of(done)
    assert begin is not None
    one = evaluator.evaluate(begin)
    assert one is not None
    assert one.latency_cycles <= latency(done)
    graph = evaluator.graph(begin)
    return evaluator, Scene(begin, graph, request.machine, one.lost_cycles, possible_batches(request))


def neighbours(scene: Scene, most: int) -> list[Candidate]:
    """So many of each kind of move."""
    return [one for moves in MOVES.values() for one in islice(moves(scene), most)]


@pytest.mark.parametrize("network", first(1, NETWORKS))
def test_a_candidate_takes_the_cycles_of_its_full_compilation(network):
    """Whatever was evaluated before it, and shares tilings, blocks and numbers with it."""
    evaluator, scene = scene_of(network)
    found = [one for candidate in neighbours(scene, 1)[:6] if (one := evaluator.evaluate(candidate)) is not None]
    assert len({one.latency_cycles for one in found}) > 1
    for one in found:
        assert latency(evaluator.compiled(one.candidate, alone=True)) == one.latency_cycles, one.candidate


@pytest.mark.parametrize("walk", first(1, range(12)))
def test_any_moves_one_after_another_come_to_a_candidate_or_to_none(walk):
    """Also those that make it slower, as a longer search may take them; and what runs takes its full compilation."""
    rng = Random(f"moves {walk}")
    network, strategy = rng.choice(NETWORKS), rng.choice(("graphturbo", "astitch", "stay-in-lb"))
    evaluator, scene = scene_of(network, strategy, batch=rng.choice((2, 4)))
    ran = 0
    for _ in range(12):
        moves = list(islice(MOVES[rng.choice(list(MOVES))](scene), 20))
        one = evaluator.evaluate(rng.choice(moves)) if moves else None
        if one is not None:
            ran += 1
            if rng.random() < 0.3:
                assert latency(evaluator.compiled(one.candidate, alone=True)) == one.latency_cycles, one.candidate
            graph = evaluator.graph(one.candidate)
            scene = replace(scene, candidate=one.candidate, graph=graph, lost_cycles=one.lost_cycles)
    assert ran


@pytest.mark.parametrize("network", first(2, NETWORKS))
@pytest.mark.parametrize("effort", [Effort.LOW, pytest.param(Effort.MEDIUM, marks=pytest.mark.slow)])
def test_the_search_curve_is_the_least_latency_after_each_simulation(network, effort, monkeypatch):
    """Whatever is simulated and in which order: noted by the simulation itself."""
    simulate, simulated = Evaluator._simulated, []

    def spy(*arguments):
        found = simulate(*arguments)
        simulated.append(found[0])
        return found

    monkeypatch.setattr(Evaluator, "_simulated", spy)
    done = compiled(network, effort=effort)
    seeds = [compiled(network, name) for name in seeds_of(effort)]
    least, expected = min(map(latency, seeds)), []
    for number, cycles in enumerate(simulated, 1):
        if cycles < least:
            least = cycles
            expected.append((number, cycles))
    assert expected, "a search that finds nothing has no curve to look at"
    searched = done.report.searched
    assert searched.evaluations == len(simulated)
    first_step, *steps = searched.steps
    assert (first_step.evaluations, first_step.latency_cycles) == (0, min(map(latency, seeds)))
    assert first_step.by in {one.run.strategy for one in seeds}
    assert [(one.evaluations, one.latency_cycles) for one in steps[: len(expected)]] == expected
    assert all(one.by in {START, *MOVES} for one in steps[: len(expected)])
    assert all(one.by in outdone_by_best(effort) for one in steps[len(expected) :])  # what was faster than the search
    assert searched.steps[-1].latency_cycles == latency(done)


@pytest.mark.parametrize("network", first(1, ("bert-base-128", "mobilenet-v2")))
@pytest.mark.parametrize("machine", first(2, ("goya", "tpu-v1", "mlu100")))
def test_moves_of_every_kind_can_be_made_on_other_machines(machine, network):
    """Whose cores are not alike, or have no memories of their own; what a move comes to may not fit."""
    evaluator, scene = scene_of(network, machine=machine)
    moves = neighbours(scene, 1)
    assert len(moves) > len(MOVES) // 2
    found = [evaluator.evaluate(one) for one in moves]
    assert any(one is not None for one in found)


def test_kernels_whose_sums_lie_elsewhere_are_not_lowered_again(monkeypatch):
    evaluator, scene = scene_of("resnet18")
    lowered = []
    monkeypatch.setattr(blocks, "lower_kernel", lambda *args: lowered.append(args))
    one = evaluator.evaluate(replace(scene.candidate, ring=not scene.candidate.ring))
    assert one is not None
    assert not one.repeated
    assert not lowered


def test_small_tables_come_to_gb_once_and_rows_are_picked_there():
    """BERT's two token types, which 32 rows are picked of; then the indices of all tables come once as well."""
    _, scene = scene_of("bert-base-16", "astitch")
    graph, tables, all_indices = scene.graph, *MOVES["pick"](scene)
    asked = [{one.sink for one in found.rules if one.once is Once.SMALL} for found in (tables, all_indices)]
    read = [{graph.by_name[sink].inputs[0] for sink in sinks} for sinks in asked]
    assert read == [{"embeddings.token_type"}, {"embeddings.token_type", "embeddings.word"}]
    assert tables.picks
    assert all_indices.picks
    assert not list(MOVES["pick"](replace(scene, candidate=tables)))


def test_no_kernel_picks_rows_of_what_it_makes():
    """The rows of DLRM's pairs lie in DDR when they are picked, so the products that make them are another kernel."""
    evaluator, scene = scene_of("dlrm")
    graph, found = scene.graph, 0
    for candidate in MOVES["fuse"](scene):
        found += 1
        assert not any(picks_from_itself([graph.by_name[name] for name in kernel]) for kernel in candidate.kernels)
        evaluator.evaluate(candidate)
    assert found


def test_a_kernel_that_picks_rows_of_what_it_makes_is_refused():
    """Also where a file asks for it."""
    evaluator, scene = scene_of("dlrm")
    graph, kernels = scene.graph, scene.candidate.kernels
    pick = next(op for op in graph.operators if picks_from_itself([*graph.producers.get(op.inputs[0], ()), op]))
    maker = next(kernel for kernel in kernels if kernel[-1] == graph.producers[pick.inputs[0]][0].name)
    joined = tuple((*maker, *kernel) if pick.name in kernel else kernel for kernel in kernels if kernel != maker)
    with pytest.raises(DoesNotFit, match="picks rows of what the kernel itself makes"):
        evaluator.compiled(replace(scene.candidate, kernels=joined))


def test_operators_that_work_part_by_part_are_compiled_with_what_candidates_share():
    """They are others than those of the network, and so is what is known of their kernels."""
    evaluator, scene = scene_of("densenet121")
    parted = next(MOVES["part"](scene))
    assert parted.apart
    one = evaluator.evaluate(parted)
    assert one is not None
    assert latency(evaluator.compiled(parted)) == one.latency_cycles
    assert latency(evaluator.compiled(scene.candidate)) != one.latency_cycles


def test_vector_units_leave_depthwise_convolutions_to_matrix_units_that_have_less_to_do():
    """As many as make the busier end earliest, and no other candidate comes of that where matrix units have more."""
    evaluator, scene = scene_of("mobilenet-v2")
    banded = with_bands(scene.candidate, scene.graph, scene.machine)
    every = [op.name for op in scene.graph.operators if sizes_of(op, scene.graph) is not None]
    assert 0 < len(banded.bands) <= len(every)
    assert banded.bands == next(MOVES["band"](scene)).bands
    one = evaluator.evaluate(banded)
    assert one is not None
    assert latency(evaluator.compiled(banded, alone=True)) == one.latency_cycles
    ways = {candidate.bands for candidate in MOVES["band"](replace(scene, candidate=banded))}
    assert len(ways) > len(every) / 2
    _, other = scene_of("resnet18")
    assert not list(MOVES["band"](other))


def test_a_candidate_that_comes_to_the_same_is_known():
    """It is not simulated again, and another is no such one; a limit keeps instructions in their order."""
    evaluator, scene = scene_of("resnet18")
    instructions = evaluator.instructions
    again, other = evaluator.evaluate(scene.candidate), evaluator.evaluate(next(MOVES["pieces"](scene)), 0)
    assert again is not None
    assert other is not None
    assert again.repeated
    assert not other.repeated
    assert again.latency_cycles <= again.lowered_cycles
    assert other.latency_cycles == other.lowered_cycles
    assert evaluator.instructions > instructions


def test_a_kind_of_moves_that_comes_to_nothing_rests_until_one_of_another_kind_gains():
    """One that is simulated keeps it from that, though it gains nothing."""
    line = search.Line([])
    for gain in (*[None] * (search.BARREN - 1), 0.0, *[None] * (search.BARREN - 1)):
        line.learn("axis", gain)
        assert not line.rests("axis")
    line.learn("axis", None)
    assert line.rests("axis")
    assert not line.rests("pieces")
    line.learn("pieces", 0.1)
    assert not line.rests("axis")


def test_moves_of_another_candidate_begin_behind_those_that_were_looked_at():
    """And from the first one on, where these were all there are; each comes once."""
    evaluator, scene = scene_of("resnet18")
    one = evaluator.evaluate(scene.candidate)
    assert one is not None
    line = search.Line([one])
    every = list(MOVES["tiles"](scene))
    assert list(islice(line.opened(scene)["tiles"], 3)) == every[:3]
    assert list(line.opened(scene)["tiles"]) == [*every[3:], *every[:3]]
    line.looked["tiles"] = len(every) + 1
    assert list(islice(line.opened(scene)["tiles"], 3)) == every[:3]
    assert "divide" not in line.opened(scene)
    line.widen(("divide",))
    assert next(line.opened(scene)["divide"]) == next(MOVES["divide"](scene))


def test_a_candidate_that_is_slow_by_estimate_is_not_simulated():
    """Unless it is asked for with another limit; then it takes the cycles of its full compilation."""
    evaluator, scene = scene_of("resnet18")
    instructions = evaluator.instructions
    other = next(MOVES["pieces"](scene))
    assert evaluator.evaluate(other, None, 1) is None
    assert evaluator.instructions == instructions
    one = evaluator.evaluate(other)
    assert one is not None
    assert not one.repeated
    assert evaluator.instructions > instructions
    assert evaluator.evaluate(other, None, 1) is not None
    assert latency(evaluator.compiled(other, alone=True)) == one.latency_cycles


@pytest.mark.parametrize("network", first(1, NETWORKS))
def test_moves_change_the_schedule_and_keep_it_in_running_order(network):
    """Every operator is in one cut and in one kernel; nothing comes before what it reads.

    A candidate that rewrites the network otherwise has other operators: those of its own graph.
    """
    evaluator, scene = scene_of(network)
    for candidate in neighbours(scene, 3):
        assert candidate != scene.candidate
        graph = scene.graph if candidate.rewriting == scene.candidate.rewriting else evaluator.graph(candidate)
        names = sorted(op.name for op in graph.operators)
        assert sorted(name for cut in candidate.cuts for name in cut.operators) == names
        assert sorted(name for kernel in candidate.kernels for name in kernel) == names
        assert in_running_order(graph, candidate.cuts)


def two_cuts(scene: Scene) -> Scene:
    """With the first half of the operators in two pieces, and the second half whole."""
    names = tuple(op.name for op in scene.graph.operators)
    cuts = (Cut(names[: len(names) // 2], 2, 2), Cut(names[len(names) // 2 :], 0, 1))
    return replace(scene, candidate=replace(scene.candidate, cuts=cuts))


def test_the_border_of_two_sub_graphs_moves_by_whole_kernels():
    """Kernels at one end of one are in the other, and the program runs."""
    evaluator, scene = scene_of("resnet18")
    begin = two_cuts(scene)
    cuts = begin.candidate.cuts
    found = list(MOVES["borders"](begin))
    sizes = {len(one.cuts[0].operators) - len(cuts[0].operators) for one in found}
    assert min(sizes) < 0 < max(sizes)
    for one in found:
        assert sorted(name for cut in one.cuts for name in cut.operators) == sorted(begin.graph.by_name)
        moved = set(one.cuts[0].operators) ^ set(cuts[0].operators)
        assert any(moved & set(kernel) for kernel in begin.candidate.kernels)
        for kernel in begin.candidate.kernels:
            assert len(moved & set(kernel)) in (0, len(set(kernel) & set(cuts[0].operators)), len(kernel))
    near = [one for one in found if [(cut.axis, cut.pieces) for cut in one.cuts] == [(2, 2), (0, 1)]]
    assert any(evaluator.evaluate(one) is not None for one in near)


def test_what_a_far_border_leaves_of_a_sub_graph_is_cut_anew():
    """The giver has twice or half as many pieces; the taker stays in its own, and the program runs."""
    evaluator, scene = scene_of("resnet18")
    begin = two_cuts(scene)
    found = [one for one in MOVES["borders"](begin) if [cut.pieces for cut in one.cuts] != [2, 1]]
    first = [one for one in found if len(one.cuts[0].operators) < len(begin.candidate.cuts[0].operators)]
    second = [one for one in found if one not in first]
    assert {tuple(cut.pieces for cut in one.cuts) for one in first} == {(4, 1), (1, 1)}
    assert {tuple(cut.pieces for cut in one.cuts) for one in second} == {(2, 2)}
    assert any(evaluator.evaluate(one) is not None for one in found)


def test_pieces_are_cut_again_along_another_axis():
    """Into as many pieces or more, samples first; or along one of the two axes alone. The program runs."""
    evaluator, scene = scene_of("resnet18")
    begin = two_cuts(scene)
    found = [one.cuts[0] for one in MOVES["grid"](begin) if one.cuts[0] != begin.candidate.cuts[0]]
    assert found
    assert all(cut.count >= 2 and cut.along == tuple(sorted(cut.along)) for cut in found)
    assert {cut.along for cut in found} >= {((0, 2), (2, 2)), ((2, 2), (3, 4))}
    cuts = (begin.candidate.cuts[0].cut_along((0, 2), (2, 2)), begin.candidate.cuts[1])
    one = evaluator.evaluate(replace(begin.candidate, cuts=cuts))
    assert one is not None
    assert latency(evaluator.compiled(one.candidate, alone=True)) == one.latency_cycles
    again = replace(begin, candidate=one.candidate, lost_cycles=one.lost_cycles)
    assert {one.cuts[0].along for one in MOVES["grid"](again)} >= {((0, 2),), ((2, 2),)}
    (halved, *_) = (one.cuts[0] for one in MOVES["pieces"](again) if one.cuts[0].pieces < 2 or not one.cuts[0].further)
    assert halved.along == ((2, 2),)


@pytest.mark.parametrize(("channels", "width"), [(8, 112), (16, 56)])
def test_the_sums_of_the_largest_tile_fit(channels, width):
    """Of a pooled convolution on two cores: tiles of the second are longer, as those of the first end in padding.

    With 4 rows and 28 columns of the pool, of 8 channels, these are 9 rows and 57 columns of sums: 16,416 B of 16,384.
    """
    net = Net()
    conv = net.op("Conv", net.input("N", 4, 64, width), net.random(channels, 4, 3, 3), pads=[1] * 4, name="conv")
    pooled = net.op("Relu", conv, name="relu")
    model = net.model(net.op("MaxPool", pooled, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, name="pool"))
    request = requested(model, "pooled", machine_named("toy"), Options(batch=1, verify=True))
    evaluator = Evaluator(request, Networks(model, "pooled", fold_bn=True))
    kernel = ("conv", "relu", "pool")
    rules = (KernelRule("pool", splits=(1, 1, 1, 2, 1, 1)),)
    done = evaluator.compiled(Candidate(1, (kernel,), (Cut(kernel),), rules=rules))
    assert done.schedule is not None
    assert [one.tiling.splits[3] for one in done.schedule.kernels] == [2]


@pytest.mark.parametrize("scope", [None, Level.GB])
def test_pieces_that_results_do_not_have_are_no_candidate(scope):
    """Neither along an axis that they lack nor more than there are rows, whoever orders the pieces."""
    evaluator, begin = scene_of("resnet18")
    (first_cut, *others) = begin.candidate.cuts
    for changes in ({"axis": 9, "pieces": 2}, {"axis": 0, "pieces": 99}):
        cuts = (replace(first_cut, scope=scope, **changes), *others)
        assert evaluator.evaluate(replace(begin.candidate, cuts=cuts)) is None


@pytest.mark.parametrize("effort", first(1, (Effort.LOW, Effort.MEDIUM, Effort.HIGH)))
@pytest.mark.parametrize("network", first(1, NETWORKS))
def test_no_seed_is_faster_and_the_program_means_the_network(network, effort, monkeypatch):
    """Of all strategies with which the search begins; from medium effort on of all strategies."""
    monkeypatch.setitem(search.BUDGETS, effort, FEW)
    done = compiled(network, effort=effort, verify=True)
    assert done.report is not None
    assert done.report.outcome == "passed"
    assert done.report.strategy == "best"
    for strategy in outdone_by_best(effort):
        assert latency(done) <= latency(compiled(network, strategy)), strategy


def begun_with(done):
    """The strategies with whose schedules a search began."""
    (note,) = (one for one in done.report.notes if one.startswith("Searched from"))
    return set(re.findall(r"[a-z]+(?:-[a-z]+)*(?= [\d,]+)", note.partition(":")[2]))


@pytest.mark.parametrize(("far", "most"), [(0.0, 1), (1e9, None)])
def test_the_search_begins_without_what_is_far_slower(far, most, monkeypatch):
    """What is hopeless beside the first strategy is left out, nothing else."""
    monkeypatch.setattr(batches, "FAR", far)
    monkeypatch.setitem(search.BUDGETS, Effort.MEDIUM, Budget(0, 10**9))
    tried = sorted(seeds_of(Effort.MEDIUM), key=lambda name: name not in strategy_named("auto").tries)
    assert begun_with(compiled("resnet18", effort=Effort.MEDIUM)) == set(tried[:most])


@pytest.mark.parametrize(
    ("effort", "begun"), [(Effort.LOW, {"graphturbo"}), (Effort.MEDIUM, {"graphturbo", "astitch"})]
)
def test_the_search_begins_with_few_schedules_where_it_may_not_take_long(effort, begun, monkeypatch):
    monkeypatch.setattr(batches, "FAR", 1e9)
    monkeypatch.setitem(search.BUDGETS, effort, Budget(0, 10**9))
    assert begun_with(compiled("resnet18", effort=effort)) == begun


@pytest.mark.parametrize("more", [0, 1])
def test_another_strategy_is_lowered_only_if_its_bound_allows_it_to_be_faster(more, monkeypatch):
    """The bound is so high here that nothing else leaves the schedule out."""
    found = compiled("resnet18")
    proto = model("resnet18", small=True)
    request = requested(proto, "resnet18", machine_named("toy"), found.options)
    lowered, names, bound = batches.lowered, [], 10**9

    def noted(request, done, shared):
        names.append(done.way.strategy)
        return lowered(request, done, shared)

    monkeypatch.setattr(batches, "lowered", noted)
    monkeypatch.setattr(batches, "_least_planned_cycles", lambda *_: bound)
    monkeypatch.setattr(batches, "latency", lambda done: bound + more if done is found else latency(done))
    other = strategy_named("stay-in-gb")
    done = batches.not_slower(request, Networks(proto, "resnet18", fold_bn=True), found, other)
    assert (done is found) == (more == 0)
    assert bool(names) == (more > 0)


@pytest.mark.parametrize("effort", [Effort.LOW, Effort.MEDIUM])
def test_the_search_begins_with_others_where_none_of_these_fits(effort, monkeypatch):
    searched = compile_module._searched

    def without_these(request, networks, strategy, *rest):
        if strategy.name in seeds_of(effort):
            raise DoesNotFit(f"{strategy.name} does not fit.", "another strategy")
        return searched(request, networks, strategy, *rest)

    monkeypatch.setattr(compile_module, "_searched", without_these)
    monkeypatch.setitem(search.BUDGETS, effort, Budget(0, 10**9))
    assert "stay-in-lb" in begun_with(compiled("resnet18", effort=effort))


def test_the_search_curve_begins_with_the_first_candidate_where_no_strategy_fits(monkeypatch):
    """There is nothing before the search then, and the report says so of no number of candidates."""

    def nothing(request, networks, strategy, *rest):
        raise DoesNotFit(f"{strategy.name} does not fit.", "another strategy")

    searched = compile_module._searched
    monkeypatch.setattr(compile_module, "_searched", lambda *a: (searched if a[2].name == "best" else nothing)(*a))
    monkeypatch.setitem(search.BUDGETS, Effort.LOW, Budget(6, 10**9))
    report = compiled("resnet18").report
    assert report.searched.steps[0].evaluations >= 1
    assert report.searched.steps[0].by == START
    assert report.searched.steps[-1].latency_cycles == report.latency_cycles
    assert "\n           1   " in report.page().split("\nSearch: the fastest")[1]


@pytest.mark.parametrize("machine", ["toy", pytest.param("mlu100", marks=pytest.mark.slow)])
@pytest.mark.parametrize("network", first(2, NETWORKS))
def test_no_schedule_is_faster_than_its_bound(network, machine, monkeypatch):
    """Whatever has a home on chip, in pieces, fused or not: that by which schedules are left out."""
    monkeypatch.setattr(batches, "FAR", 1.0)
    for strategy in seeds_of(Effort.HIGH):
        done = compiled(network, strategy, machine=machine)
        proto = model(network, small=True)
        request = requested(proto, network, machine_named(machine), done.options)
        assert not batches.is_far_by_bound(request, done, done), strategy
        assert batches.least_launched_cycles(request, strategy_named(strategy), done) <= latency(done), strategy


@pytest.mark.parametrize("network", first(1, ("bert-base-128", "mobilenet-v2", "conformer")))
def test_what_the_search_leaves_out_is_far_slower(network, monkeypatch):
    """By a bound, where it begins with all strategies: never a schedule that might have been the fastest."""
    monkeypatch.setitem(search.BUDGETS, Effort.HIGH, Budget(0, 10**9))
    begun = begun_with(compiled(network, effort=Effort.HIGH))
    latencies = {name: latency(compiled(network, name)) for name in seeds_of(Effort.HIGH)}
    left_out = latencies.keys() - begun
    assert left_out
    assert min(latencies[name] for name in left_out) > FAR * min(latencies[name] for name in begun)


def test_a_plan_of_fused_blocks_that_is_faster_is_taken(monkeypatch):
    """Also where the search, which does not begin with it, finds nothing: MobileNet's blocks beat all seeds."""
    monkeypatch.setitem(search.BUDGETS, Effort.MEDIUM, Budget(0, 10**9))
    monkeypatch.setattr(beginnings, "with_fewer_cores", lambda one, *_: one)  # with which it is faster still
    monkeypatch.setattr(search, "LAST", ())
    done = compiled("mobilenet-v2", effort=Effort.MEDIUM, verify=True)
    assert done.report is not None
    assert done.report.outcome == "passed"
    assert done.report.strategy == "best"
    faster = min(latency(compiled("mobilenet-v2", plan)) for plan in ("fixed-fusion", "one-block"))
    assert latency(done) <= faster < latency(compiled("mobilenet-v2", "graphturbo"))
    assert any(note.startswith("A schedule of another strategy, ") for note in done.report.notes)


@pytest.mark.parametrize("plan", first(2, ("fixed-fusion", "one-block", "oracle", "baseline", "genetic")))
@pytest.mark.parametrize("network", first(1, ("mobilenet-v2", *NETWORKS)))
def test_no_plan_of_fused_blocks_is_faster_than_its_bound(network, plan):
    """And the bound is more than that of the network alone."""
    done = compiled(network, plan)
    assert done.graph is not None
    assert isinstance(done.partition, Blocks)
    least = least_block_cycles(done.graph, done.partition.blocks, machine_named("toy"), iterations=done.run.iterations)
    setup = machine_named("toy").setup.launch_cycles
    assert setup * len(done.partition.blocks) * done.run.iterations / 2 < least <= latency(done)


def test_the_search_finds_a_faster_schedule():
    """Kernels that FuseOps keeps apart are faster as one in Conformer's blocks; `graphturbo` is the fastest seed."""
    assert latency(compiled("conformer", batch=2)) < 0.95 * latency(compiled("conformer", "graphturbo", batch=2))


def test_the_same_search_gives_the_same_schedule(monkeypatch):
    """To the byte, whatever the clock says."""
    monkeypatch.setitem(search.BUDGETS, Effort.LOW, FEW)
    texts = {stage_text(compiled("resnet18", batch=2), Stage.SCHEDULE) for _ in range(2)}
    assert len(texts) == 1


def test_a_schedule_that_was_found_is_read_back(monkeypatch):
    """From every stage that decides something, also with kernels that no rule groups."""
    monkeypatch.setitem(search.BUDGETS, Effort.LOW, FEW)
    done = compiled("bert-base-128")
    assert done.way.strategy == "best"
    for stage in (Stage.PARTITION, Stage.SCHEDULE, Stage.LOWER):
        start = started(stage_text(done, stage), "file.json")
        again = resume_network(model("bert-base-128", small=True), start, machine_named("toy"), Options())
        assert latency(again) == latency(done)
        assert again.report is not None
        assert done.report is not None
        assert again.report.notes == done.report.notes


def test_kernels_that_no_rule_groups_are_no_schedule_by_hand():
    """They would be lost."""
    done = compiled("bert-base-128")
    with pytest.raises(InputError, match="runs other operators together than TVM's FuseOps would"):
        hand_schedule_of(done)


def test_an_interruption_ends_the_search_with_the_best_so_far(monkeypatch):
    """After two candidates."""
    evaluate, count = Evaluator.evaluate, 0

    def interrupted(*arguments):
        nonlocal count
        count += 1
        if count > 4:
            raise KeyboardInterrupt
        return evaluate(*arguments)

    monkeypatch.setattr(Evaluator, "evaluate", interrupted)
    done = compiled("resnet18")
    assert done.report is not None
    assert any("interrupted: this is the best that it had found" in note for note in done.report.notes)
    assert latency(done) <= latency(compiled("resnet18", "graphturbo"))


def test_the_report_says_what_was_tried(monkeypatch, golden):
    """Seeds, then each kind of move."""
    monkeypatch.setitem(search.BUDGETS, Effort.LOW, Budget(20, 10**9))
    report = compiled("conformer", batch=2).report
    assert report is not None
    golden("best_notes.txt", "\n".join(report.notes))


def test_what_is_tried_last_is_tried_of_the_fastest_alone(monkeypatch):
    """Also where the budget is spent: larger transfers, in all kernels and in fewer, and packs; at last the order."""
    tried = {}
    for effort in (Effort.LOW, Effort.MEDIUM):
        monkeypatch.setitem(search.BUDGETS, effort, Budget(0, 10**9))
        report = compiled("vit-b16", effort=effort, batch=2, verify=True).report
        assert report is not None
        assert report.outcome == "passed"
        tried[effort] = (
            report.latency_cycles,
            [note.split(", ")[0].strip() for note in report.notes if " faster, " in note],
        )
    assert tried[Effort.LOW][1] == ["compact: 1 tried"]
    assert tried[Effort.MEDIUM][1] == ["together: 8 tried", "pack: 1 tried", "compact: 1 tried", "refine: 1 tried"]
    assert tried[Effort.MEDIUM][0] < 0.9 * tried[Effort.LOW][0]


def tried(done):
    """How many candidates a search looked at."""
    (note,) = (one for one in done.report.notes if one.startswith("Search: "))
    return int(note.split()[1])


def test_a_search_ends_where_tiles_were_searched_for_often_enough(monkeypatch):
    """Where none is left, only what is tried last comes."""
    found = []
    for most in (0.0, 1.0, inf):
        monkeypatch.setitem(search.BUDGETS, Effort.LOW, Budget(20, 10**9, most))
        found.append(tried(compiled("conformer", batch=2)))
    assert found[0] < found[1] < found[2]


def test_the_fastest_is_gone_on_from_behind_what_is_tried_last(monkeypatch):
    """It may only gain by that."""
    monkeypatch.setitem(search.BUDGETS, Effort.MEDIUM, FEW)
    found = []
    for share in (0.0, 2.0):
        monkeypatch.setattr(search, "AGAIN", share)
        found.append(compiled("mobilenet-v2", effort=Effort.MEDIUM))
    assert tried(found[0]) < tried(found[1])
    assert latency(found[1]) < latency(found[0])


def test_a_refined_schedule_is_compiled_once():
    """It is no other's compilation, and takes as long as one that shares nothing."""
    evaluator, scene = scene_of("resnet18")
    refined = replace(scene.candidate, refined=True)
    one = evaluator.evaluate(refined)
    assert one is not None
    assert evaluator.compiled(refined) is evaluator.compiled(refined)
    assert latency(evaluator.compiled(refined, alone=True)) == one.latency_cycles
    assert not evaluator.compiled(scene.candidate).partition.schedule.refined


def test_of_the_fastest_the_one_that_is_fastest_at_a_glimpse_is_refined(monkeypatch):
    """Not the fastest as it is; each of them is another schedule, and a glimpse makes none of them slower."""
    monkeypatch.setattr(search, "SETTLE", 0.0)
    monkeypatch.setitem(search.BUDGETS, Effort.MEDIUM, FEW)
    looked, refined = [], []
    glimpsed, evaluate = Evaluator.glimpsed, Evaluator.evaluate

    def noted(self, candidate):
        looked.append((evaluate(self, candidate).latency_cycles, candidate))
        assert glimpsed(self, candidate) <= looked[-1][0]
        return -len(looked)

    def evaluated(self, candidate, *limits):
        refined.extend([candidate] if candidate.refined else [])
        return evaluate(self, candidate, *limits)

    monkeypatch.setattr(Evaluator, "glimpsed", noted)
    monkeypatch.setattr(Evaluator, "evaluate", evaluated)
    compiled("resnet18", effort=Effort.MEDIUM)
    cycles = [one for one, _ in looked]
    assert 1 < len(cycles) <= search.GLIMPSED
    assert cycles == sorted(set(cycles))
    assert refined == [replace(looked[-1][1], refined=True)]


def test_a_move_that_is_faster_at_a_glimpse_is_refined(monkeypatch):
    """Where it gains little, what it was made of is refined as well, as a glimpse may err."""
    monkeypatch.setitem(search.BUDGETS, Effort.MEDIUM, Budget(10, 10**9))
    evaluate = Evaluator.evaluate
    counts = []
    for share in (0.001, 0.5):  # what each further glimpse takes away
        refined, looked = [], []

        def noted(self, candidate, looked=looked, share=share):
            looked.append(candidate)
            return int(10**9 * (1 - share) ** len(looked))

        def evaluated(self, candidate, *limits, refined=refined):
            refined.extend([candidate] if candidate.refined else [])
            return evaluate(self, candidate, *limits)

        with monkeypatch.context() as patched:
            patched.setattr(Evaluator, "glimpsed", noted)
            patched.setattr(Evaluator, "evaluate", evaluated)
            patched.setattr(search, "SETTLE", 0.2)
            patched.setattr(search, "CLOSE", 10.0)
            compiled("resnet18", effort=Effort.MEDIUM)
        assert refined[0] == replace(looked[-1], refined=True)
        counts.append(len(refined))
    assert counts == [2, 1]


def test_with_more_samples_what_runs_whole_stays_whole():
    """And other pieces are as large as before, along any axis."""
    evaluator, scene = scene_of("resnet18", batch=2)
    begin = replace(two_cuts(scene).candidate, batch=1)
    found = grown(begin, evaluator, 2)
    assert found == replace(begin, batch=2, cuts=(replace(begin.cuts[0], pieces=4), begin.cuts[1]))


def test_pieces_along_two_axes_are_as_large_at_another_batch():
    both = Cut(("one",)).cut_along((0, 4), (2, 3))
    begin = Candidate(4, (("one",),), (both,))
    assert begin.at(2).cuts[0].along == ((0, 2), (2, 3))
    assert begin.at(1).cuts[0].along == ((2, 3),)


def test_it_is_one_of_several_to_compare(monkeypatch):
    monkeypatch.setitem(search.BUDGETS, Effort.LOW, FEW)
    found = api.compare("resnet18:small", "toy", ["tvm", "best"], batch=2, options=Options(effort=Effort.LOW))
    slower, faster = (done.report.latency_cycles for done in found.fitting if done.report is not None)
    assert faster < slower


def test_concatenations_written_in_place_are_compiled_with_what_candidates_share():
    """Fewer kernels, all others as before, with the cycles of a full compilation; `part` comes after it, not before."""
    evaluator, scene = scene_of("googlenet")
    (candidate,) = MOVES["join"](scene)
    assert candidate.joined
    kinds = [scene.graph.by_name[name].kind for kernel in scene.candidate.kernels for name in kernel]
    assert sum(map(len, candidate.kernels)) == len(kinds) - kinds.count("copy") < len(kinds)
    one = evaluator.evaluate(candidate)
    assert one is not None
    assert latency(evaluator.compiled(candidate, alone=True)) == one.latency_cycles
    again = replace(scene, candidate=candidate, graph=evaluator.graph(candidate))
    assert not list(MOVES["join"](again))
    assert all(other.joined for other in MOVES["part"](again))
    _, other = scene_of("resnet18")
    assert not list(MOVES["join"](other))


def tokens_first() -> onnx.ModelProto:
    """Attention with its tokens before its samples, whose Reshapes merge samples and heads, as PyTorch exports it.

    With one sample they are views, with more they are copies.
    """
    net = Net()
    x = net.op("Transpose", net.input("N", 12, 16), perm=[1, 0, 2])

    def heads(order: list[int]) -> str:
        made = net.op("Reshape", net.op("MatMul", x, net.random(16, 16)), [12, -1, 8])
        return net.op("Transpose", made, perm=order)

    scores = net.op("Mul", net.op("MatMul", heads([1, 0, 2]), heads([1, 2, 0])), 0.01)
    context = net.op("MatMul", net.op("Softmax", scores), heads([1, 0, 2]))
    context = net.op("Reshape", net.op("Transpose", context, perm=[1, 0, 2]), [12, -1, 16])
    return net.model(net.op("Transpose", net.op("MatMul", context, net.random(16, 16)), perm=[1, 0, 2]))


def test_what_is_a_copy_at_one_batch_alone_is_in_the_candidates_of_that_batch():
    proto, machine = tokens_first(), machine_named("toy")
    options = Options(batch=8, effort=Effort.LOW, verify=True)
    done = compile_network(proto, "net", machine, strategy_named("best"), options)
    assert done.report is not None
    assert done.report.verified
    request = requested(proto, "net", machine, replace(options, verify=False))
    evaluator = Evaluator(request, Networks(proto, "net", fold_bn=True))
    begins = [
        candidate_of(
            compile_network(proto, "net", machine, strategy_named("tvm"), replace(options, batch_per_cluster=k))
        )
        for k in (1, 4)
    ]
    alone, four = (one for one in begins if one is not None)
    assert sum(len(cut.operators) for cut in alone.cuts) < sum(len(cut.operators) for cut in four.cuts)
    for begin, other in ((alone, 4), (four, 1)):
        moved = evaluator.at(begin, other)
        assert {name for cut in moved.cuts for name in cut.operators} == evaluator.graph(moved).by_name.keys()
        assert sorted(name for kernel in moved.kernels for name in kernel) == sorted(evaluator.graph(moved).by_name)
        assert evaluator.evaluate(begin.at(other)) is not None


def test_what_every_step_of_a_recurrent_network_reads_comes_once():
    """The search begins with that too: steps are kernels of their own, which all read the same weights."""
    net, width = Net(22), 48
    weights = net.random(1, 4 * width, width), net.random(1, 4 * width, width)
    states = net.ops(1, "LSTM", net.input(12, 2, width), *weights, hidden_size=width)[0]
    found = {}
    for strategy in ("graphturbo", "best"):
        options = Options(effort=Effort.LOW)
        report = api.compile(net.model(states), "toy", strategy=strategy, options=options).report
        (ddr,) = (row.size_bytes for row in report.traffic if row.level == "ddr")
        found[strategy] = ddr / report.compulsory_bytes
    assert found["graphturbo"] > 4
    assert found["best"] < 1.2


def test_where_attention_has_no_room_the_search_begins_with_some_heads_at_a_time():
    """On a small part of a machine everything then comes from DDR once; `graphturbo` moves twice as much."""
    machine, network = machine_named("stcp920"), "bert-base-64"
    memories = (
        one if one.level is Level.WEIGHTS else replace(one, size_bytes=one.size_bytes // 64) for one in machine.memories
    )
    small, proto = replace(machine, memories=tuple(memories)), model(network, small=True)
    share = {}
    for strategy in ("graphturbo", "best"):
        options = Options(batch=16, effort=Effort.LOW, verify=strategy == "best")
        done = compile_network(proto, network, small, strategy_named(strategy), options)
        assert done.report is not None
        share[strategy] = done.report.ddr_bytes / done.report.compulsory_bytes
        assert done.report.outcome == (None if strategy == "graphturbo" else "passed")
    assert share["graphturbo"] > 2
    assert share["best"] < 1.01
