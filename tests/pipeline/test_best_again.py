"""The search computes results again for late readers where that gains, and is as without where it does not."""

from dataclasses import replace

import onnx

from tests.helpers.forks import shifted_sum
from tests.helpers.graphs import Net
from tests.helpers.scenes import scene_of
from tests.helpers.verified import machine_named
from tilestitch.ir.choices import Effort
from tilestitch.ir.partition import ByHand
from tilestitch.ir.rewriting import Again
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.tile_rule import KernelRule, Once
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.search import best as search
from tilestitch.pipeline.search.again import again
from tilestitch.pipeline.search.best import Budget
from tilestitch.pipeline.search.dividing import across
from tilestitch.pipeline.search.parting import pack
from tilestitch.pipeline.strategies import strategy_named

TWICE = Again("double", ("shift",)), Again("sum", ("double.again",))


def searched(network: onnx.ModelProto, machine: str) -> Compilation:
    options = Options(batch=1, effort=Effort.MEDIUM, verify=True)
    return compile_network(network, "network", machine_named(machine), strategy_named("best"), options)


def computed_again(done: Compilation) -> tuple[Again, ...]:
    partition = given(done.partition)
    assert isinstance(partition, ByHand)
    return tuple(partition.schedule.again)


def test_all_that_makes_a_result_is_computed_again_where_it_is_read_late():
    """A candidate takes the cycles of its full compilation, with what was first made in the kernel that reads it."""
    evaluator, scene = scene_of(shifted_sum())
    apart, fused = again(scene)
    assert apart.again == fused.again == TWICE
    assert [kernel for kernel in apart.kernels if "double" in kernel] == [("sum", "double")]
    assert ("sum", "double", "peak") in fused.kernels
    assert ("sum.again", "double.again", "shift", "exp", "total") in apart.kernels
    for candidate in (apart, fused):
        assert sorted(name for cut in candidate.cuts for name in cut.operators) == sorted(
            evaluator.graph(candidate).by_name
        )
        one = given(evaluator.evaluate(candidate))
        whole = evaluator.compiled(one.candidate, alone=True)
        assert given(whole.trace).latency_cycles == one.latency_cycles
    assert not list(again(replace(scene, candidate=apart, graph=evaluator.graph(apart))))


def test_what_is_a_kernel_of_its_own_follows_no_rule_of_what_reads_it():
    """It has other loops; what reads it keeps its rule, and other moves can follow."""
    net = Net()
    wide = net.op("Add", net.input("N", 8, 1), net.input("N", 1, 16), name="wide")
    soft = net.op("Softmax", net.op("MatMul", wide, net.random(16, 8), name="early"), name="soft")
    evaluator, scene = scene_of(net.model(net.op("MatMul", soft, wide, name="late")))
    rule = KernelRule("late", once=Once.ALL, splits=(1, 2, 1, 1))
    candidate, *_ = again(replace(scene, candidate=replace(scene.candidate, rules=(rule,))))
    assert candidate.again == (Again("wide", ("late",)),)
    assert {("wide.again",), ("late",)} <= set(candidate.kernels)
    assert candidate.rules == (rule,)
    after = replace(scene, candidate=candidate, graph=evaluator.graph(candidate))
    assert not list(across(after))
    assert evaluator.evaluate(candidate) is not None


def test_small_constants_are_packed_beside_what_is_computed_again():
    net = Net()
    wide = net.op("Add", net.input("N", 16, 1), net.input("N", 1, 32), name="wide")
    last = net.op("Add", net.op("MatMul", wide, net.random(32, 32), name="early"), net.random(32), name="bias")
    late = net.op("Mul", net.op("Softmax", last, name="soft"), wide, name="late")
    evaluator, scene = scene_of(net.model(net.op("Add", late, net.random(32), name="end")))
    first, *_ = again(scene)
    (packed,) = pack(replace(scene, candidate=first, graph=evaluator.graph(first)))
    assert packed.packed
    assert packed.again == first.again
    assert evaluator.evaluate(packed) is not None


def test_what_would_have_to_wait_itself_is_not_read_again():
    """Where what makes a result reads as much, which nobody needs later; or reads far more; or is a product."""
    net = Net()
    hidden = net.op("MatMul", net.input("N", 32, 16), net.random(16, 16), name="hidden")
    relu = net.op("Relu", hidden, name="relu")
    mean = net.op("ReduceMean", net.input("N", 32, 16), [2], name="mean")
    last = net.op("MatMul", relu, net.random(16, 16), name="early")
    early = net.op("Add", mean, 1.0, name="plus")
    late = net.op("Add", net.op("Add", net.op("Softmax", last, name="soft"), relu, name="late"), mean, name="later")
    _, scene = scene_of(net.model(late, early))
    assert not list(again(scene))


def test_results_that_are_alike_are_computed_again_together():
    """What is there for it anyway everywhere first, then kind by kind, the most bytes first."""
    net = Net()
    ends = []
    for at, columns in enumerate((8, 64, 8)):
        wide = net.op("Add", net.input("N", 16, 1), net.input("N", 1, columns), name=f"wide{at}")
        soft = net.op("Softmax", net.op("MatMul", wide, net.random(columns, columns), name=f"early{at}"))
        ends.append(net.op("Sub", soft, wide, name=f"late{at}"))
    _, scene = scene_of(net.model(*ends))
    found = list(dict.fromkeys(tuple(one.operator for one in candidate.again) for candidate in again(scene)))
    assert found == [("wide2", "wide1", "wide0"), ("wide1",), ("wide2", "wide0")]
    joined = replace(scene, candidate=replace(scene.candidate, joined=True))
    assert not list(again(joined))


def same(first: Schedule, second: Schedule) -> bool:
    return all(getattr(first, name) == getattr(second, name) for name in ("kernels", "homes", "pieces", "blocks"))


def test_best_computes_again_what_had_waited(monkeypatch):
    """On a machine that reads two small inputs again sooner than a large sum of them."""
    monkeypatch.setitem(search.BUDGETS, Effort.MEDIUM, Budget(12, 10**9))
    network = shifted_sum(rows=1024, columns=128)
    with_it = searched(network, "mlu100")
    monkeypatch.setattr(search, "ANEW", ())
    without = searched(network, "mlu100")
    assert computed_again(with_it) == TWICE
    assert computed_again(without) == ()
    assert given(with_it.report).outcome == "passed"
    assert given(with_it.trace).latency_cycles < 0.98 * given(without.trace).latency_cycles
    notes = "\n".join(given(with_it.schedule).notes)
    assert "  again: " in notes


def test_where_nothing_is_gained_the_rest_of_the_search_is_as_without(monkeypatch):
    """What it spends is no part of the budget of what follows, and that looks at the same schedules."""
    monkeypatch.setitem(search.BUDGETS, Effort.MEDIUM, Budget(12, 10**9, 10**6))
    monkeypatch.setattr(search, "GLIMPSED", 10**6)
    promising, seen = search._promising, []

    def spy(request, spending, state):
        evaluator = spending.evaluator
        instructions = evaluator.instructions - spending.instructions_before
        spent = spending.tries, instructions, evaluator.tilings - spending.tilings_before
        seen.append((spent, sorted(state.leading), state.best.latency_cycles))
        state.leading = {state.best.latency_cycles: state.best}
        return promising(request, spending, state)

    monkeypatch.setattr(search, "_promising", spy)
    network = shifted_sum(rows=256, columns=64)
    found = searched(network, "toy")
    assert "  again: " in "\n".join(given(found.schedule).notes)
    assert computed_again(found) == ()
    monkeypatch.setattr(search, "ANEW", ())
    without = searched(network, "toy")
    assert seen[0] == seen[1]
    assert same(given(found.schedule), given(without.schedule))
    assert given(found.trace).latency_cycles == given(without.trace).latency_cycles


def test_low_effort_computes_nothing_again():
    done = compile_network(
        shifted_sum(rows=1024, columns=128),
        "network",
        machine_named("mlu100"),
        strategy_named("best"),
        Options(batch=1, effort=Effort.LOW),
    )
    assert computed_again(done) == ()
