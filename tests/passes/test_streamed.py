"""Attention block by block of its keys: the same values, and scores that never leave the cores."""

from dataclasses import replace
from random import Random

import numpy as np
import onnx
import pytest

from tests.helpers.attention import attention
from tests.helpers.verified import machine_named, model
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.cost.bounds import bounds
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.by_hand import HandGroup, HandSchedule
from tilestitch.ir.choices import Effort, Stage
from tilestitch.ir.graph import DimKind, Graph
from tilestitch.ir.rewriting import Rewriting, Stream
from tilestitch.ir.verify import verify_graph
from tilestitch.ops.streaming import CARRY, carry, exp_difference
from tilestitch.passes import simplify
from tilestitch.passes.streamed import attention_of, with_streams
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.compile import resume_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.views import composed_graph

DRAWS = 12


def composed(model: onnx.ModelProto, streams: tuple[Stream, ...] = (), *, batch: int = 1) -> Graph:
    loaded = read_onnx(model, name="attention", batch=batch, weights={})
    return composed_graph(simplify(loaded, fold_bn=True), Rewriting(streams=streams))[0]


def by_blocks(model: onnx.ModelProto, keys: int, rows: int, machine: str = "toy", **asked) -> Compilation:
    """All of a network of one attention in one piece for each range of rows, verified."""
    graph = composed(model)
    (softmax,) = (op for op in graph.operators if op.kind == "softmax")
    found = attention_of(graph, softmax)
    assert found is not None
    _, queries, _ = found.extents(graph)
    count = -(-queries // rows)
    groups = [HandGroup(f"g{number}", (f"{found.context.name}.{number}",)) for number in range(count - 1)]
    schedule = HandSchedule("blocks", (*groups, HandGroup("last")), streams=(Stream(softmax.name, keys, rows),))
    return api.compile(model, machine, strategy=replace(schedule, **asked), batch=1, verify=True)


def drawn(number: int) -> tuple[onnx.ModelProto, int, int]:
    """An attention, and how many keys and rows a block of it has."""
    random = Random(number)
    shared_by = random.choice((1, 1, 2, 3))
    queries, keys = random.randint(1, 20), random.randint(2, 50)
    native = shared_by > 1 or random.random() < 0.4
    mask = random.choice(("none", "input", "hidden", "causal" if native and queries == keys else "input"))
    model = attention(
        heads=shared_by * random.randint(1, 3),
        shared_by=shared_by,
        queries=queries,
        keys=keys,
        depth=random.choice((4, 8, 16)),
        scale=random.choice((0.25, 0.3)),
        mask=mask,
        native=native,
        hidden=random.randint(1, keys - 1),
    )
    return model, random.randint(1, keys), random.randint(1, queries)


def assert_passed(done: Compilation) -> None:
    assert done.report is not None
    assert done.report.outcome == "passed", done.report.checks
    assert done.report.latency_cycles >= done.report.bound_cycles


@pytest.mark.parametrize("number", range(DRAWS))
def test_blocks_of_any_size_compute_what_whole_rows_do(number):
    """As onnxruntime does, within what rounding whole rows may change; scores and weights are never in DDR."""
    model, keys, rows = drawn(number)
    done = by_blocks(model, keys, rows)
    assert_passed(done)
    program, graph = given(done.program), given(done.graph)
    between = {op.outputs[0] for op in graph.operators if op.kind in ("exp_difference", "reduce_max", "reduce_sum")}
    levels = {
        program.spaces[space].level
        for space, tensor in zip(program.buffers.space.tolist(), program.buffers.tensor.tolist(), strict=True)
        if program.tensors[tensor] in between
    }
    assert levels == {Level.LB}


@pytest.mark.parametrize(("queries", "hidden"), [(9, 16), (9, 20), (1, 0)])
def test_a_block_of_which_all_keys_are_hidden_counts_nothing(queries, hidden):
    """The running maximum is minus infinity there, and its difference to itself is no number."""
    done = by_blocks(attention(queries=queries, hidden=hidden, mask="hidden"), 8, queries)
    assert_passed(done)


@pytest.mark.parametrize("form", ["", "-native"])
def test_parts_of_rows_make_boxes_of_results(form):
    """Heads that share keys lie inside their groups in one axis of the result, where a part of them is no box."""
    graph = composed(model(f"llama-block-decode-16{form}", small=True))
    for softmax in (op for op in graph.operators if op.kind == "softmax"):
        found = attention_of(graph, softmax)
        assert found is not None
        keys, rows, _ = found.extents(graph)
        for count in range(1, rows + 1):
            verify_graph(with_streams(graph, (Stream(softmax.name, keys // 2, count),))[0])


@pytest.mark.parametrize("machine", ["stcp920-paper", "mlu100", "ipu-mk1", "tpu-v1", "goya"])
def test_other_machines_run_blocks_as_well(machine):
    """Without accumulators, weight areas or local buffers, with several clusters."""
    done = by_blocks(attention(queries=32, keys=96), 32, 32, machine)
    assert_passed(done)


def test_the_state_of_a_block_takes_the_place_of_the_one_before():
    """In the cores, at one address; and a larger maximum in a later block rescales what was there."""
    done = by_blocks(attention(keys=64), 16, 24)
    states = [home for home in given(done.schedule).homes if "state" in home.tensor]
    assert [home.instead_of for home in states] == [None, *(home.tensor for home in states[:-1])]
    assert {(home.level, home.address) for home in states} == {(Level.LB, states[0].address)}
    assert_passed(done)


def test_queries_come_once_for_all_blocks():
    """All that comes more often is the scale, two bytes with each of eight blocks."""
    done = by_blocks(attention(queries=32, keys=128, depth=16), 16, 32)
    assert done.report is not None
    assert done.report.ddr_bytes == done.report.compulsory_bytes + 7 * 2


def test_a_schedule_with_blocks_is_read_back_from_its_text():
    model = attention()
    done = by_blocks(model, 16, 12, ring=True)
    start = started(stage_text(done, Stage.SCHEDULE), "file.json")
    again = resume_network(model, start, machine_named("toy"), Options())
    assert given(again.schedule).kernels == given(done.schedule).kernels


def test_what_cannot_run_in_blocks_is_refused():
    graph = composed(attention())
    with pytest.raises(InputError, match="expected a softmax along one axis between two products"):
        with_streams(graph, (Stream("scores", 8, 8),))
    with pytest.raises(InputError, match="41 keys and 24 rows; expected 1 to 40 keys and 1 to 24 rows"):
        with_streams(graph, (Stream("softmax", 41, 24),))
    with pytest.raises(InputError, match="once"):
        with_streams(graph, (Stream("softmax", 8, 24), Stream("softmax", 8, 24)))


@pytest.mark.parametrize("shared_by", [1, 2])
def test_heads_that_share_keys_are_cut_into_groups_and_single_ones(shared_by):
    """Each is an axis of scores of its own, so that a tile may have one head of a group."""
    graph = composed(attention(heads=4, shared_by=shared_by, native=True), (Stream("attention.softmax", 16, 24),))
    verify_graph(graph)
    state = next(op for op in graph.operators if op.kind == CARRY)
    parallel = [dim.extent for dim in state.dims if dim.kind is DimKind.PARALLEL]
    assert parallel == ([1, 4, 24] if shared_by == 1 else [1, 2, 2, 24])


@pytest.mark.parametrize("streams", [(16, 24), (40, 24), (7, 5)])
def test_bounds_do_not_depend_on_blocks(streams):
    """What only the blocks add is no part of what a network needs, and folds are those of whole products."""
    model, machine = attention(keys=40, depth=16), machine_named("stcp920-paper")
    found = [bounds(composed(model, one), machine, iterations=1) for one in ((), (Stream("softmax", *streams),))]
    assert replace(found[0], vector_operations=0) == replace(found[1], vector_operations=0)
    assert found[0].vector_operations == found[1].vector_operations


def test_attention_whose_rows_fit_nowhere_runs_in_blocks_by_search():
    """Where one row of scores is larger than the accumulators of a core."""
    done = api.compile(
        attention(queries=4, keys=6000, depth=4),
        "toy",
        strategy="best",
        batch=1,
        options=Options(effort=Effort.LOW),
        verify=True,
    )
    assert_passed(done)
    assert any(op.kind == CARRY for op in given(done.schedule).graph.operators)


def test_exponentials_and_states_by_hand():
    x, y = np.array([1.0, -np.inf, -np.inf], np.float32), np.array([0.0, 0.0, -np.inf], np.float32)
    with np.errstate(all="ignore"):
        assert exp_difference(x, y).tolist() == pytest.approx([np.e, 0.0, 0.0])
    graph = composed(attention(), (Stream("softmax", 20, 24),))
    op = next(op for op in graph.operators if op.kind == CARRY and len(op.reads) == 5)
    product = np.array([[1.0, 2.0, 0.0, 0.0]], np.float32)  # two columns, and padding
    before = np.array([[10.0, 20.0, 4.0, 3.0]], np.float32)
    total, largest, factor = (np.full((1, 1), one, np.float32) for one in (5.0, 7.0, 0.5))
    (found,) = carry(op, [product, total, largest, before, factor])
    assert found.tolist() == [[6.0, 12.0, 7.0, 7.0]]
