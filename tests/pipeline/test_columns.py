"""Products in pieces of their weights' columns: every weight is read once, and the parts of a result lie apart."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.pairs import first
from tests.helpers.verified import machine_named, model
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.choices import Stage
from tilestitch.ir.program import Kind, Program
from tilestitch.kernels.instances import PieceNeeds
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.compile import compile_network, requested, resume_network
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.search.candidate import Candidate, Cut, candidate_of, in_running_order
from tilestitch.pipeline.search.columns import columns, with_columns
from tilestitch.pipeline.search.evaluate import Evaluator
from tilestitch.pipeline.search.fusing import with_attention
from tilestitch.pipeline.search.heads import _attentions, _is_divided, with_heads_in_turn
from tilestitch.pipeline.search.scene import Scene
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.strategies import strategy_named

MACHINE = "stcp920"


def begun(network: str) -> tuple[Evaluator, Candidate]:
    """What compiles candidates, and the network uncut, four samples an iteration."""
    proto, machine = model(network, small=True), machine_named(MACHINE)
    done = compile_network(proto, network, machine, strategy_named("astitch"), Options(batch=16))
    request = requested(proto, network, machine, done.options)
    evaluator = Evaluator(request, Networks(proto, network, fold_bn=True))
    begin = candidate_of(done)
    assert begin is not None
    begin = replace(begin, batch=4)
    return evaluator, begin.uncut(evaluator.graph(begin))


def read_bytes(program: Program) -> dict[str, int]:
    """By tensor, what comes from DDR."""
    found: dict[str, int] = {}
    for number in np.flatnonzero(program.kind == Kind.COPY).tolist():
        source = program[number].operands[0].buffer
        if program.spaces[program.buffers.space[source]].level is Level.DDR:
            name = program.tensors[program.buffers.tensor[source]]
            found[name] = found.get(name, 0) + int(program.size_bytes[number])
    return found


def assert_computes(network: str, done: Compilation) -> None:
    """The program of the schedule, read back from its file, computes what onnxruntime does."""
    start = started(stage_text(done, Stage.SCHEDULE), "file.json")
    again = resume_network(model(network, small=True), start, machine_named(MACHINE), Options(verify=True))
    assert again.report is not None
    assert again.report.outcome == "passed"


@pytest.mark.parametrize("network", first(1, ("vit-b16", "bert-base-64", "resnet18")))
def test_kernels_in_pieces_of_columns_read_their_weights_once(network):
    """The first kernels that are cut have as many pieces; the program computes what the network does."""
    evaluator, begin = begun(network)
    graph, machine = evaluator.graph(begin), machine_named(MACHINE)
    found = next(columns(Scene(begin, graph, machine, {}, (4,))))
    cut = {cut.operators[-1]: cut for cut in found.cuts if cut.pieces > 1}
    assert cut
    assert in_running_order(graph, found.cuts)
    done = evaluator.compiled(found)
    assert done.schedule is not None
    assert done.program is not None
    read = read_bytes(done.program)
    for sink, one in cut.items():
        boxes = [kernel.box for kernel in done.schedule.kernels if kernel.sink == sink]
        assert len(boxes) == one.pieces == 2
        weights = [name for op in one.operators for name in graph.by_name[op].inputs if name in graph.constants]
        weights = [name for name in weights if len(graph.tensors[name].shape) > 1]  # biases come whole
        assert weights
        assert all(read[name] == graph.tensors[name].size_bytes for name in weights)
    assert_computes(network, done)


def test_a_result_too_large_for_the_cores_is_cut():
    """Into pieces of at most half of their memories, and nothing else; where all are small, nothing is."""
    evaluator, begin = begun("vit-b16")
    graph, machine = evaluator.graph(begin), machine_named(MACHINE)
    assert with_columns(begin, graph, machine) == begin
    sizes = {op.name: graph.tensors[op.outputs[0]].size_bytes for op in graph.operators}
    largest = max(size for name, size in sizes.items() if name.endswith("gelu"))
    room = largest // 2 // len(machine.cores)
    small = [replace(one, size_bytes=room) if one.level is Level.LB else one for one in machine.memories]
    found = with_columns(begin, graph, replace(machine, memories=tuple(small)))
    pieces = {cut.operators[-1]: cut.pieces for cut in found.cuts if cut.pieces > 1}
    assert {name for name in sizes if sizes[name] == largest and name.endswith("gelu")} <= set(pieces)
    for name, count in pieces.items():
        assert sizes[name] > room * len(machine.cores) // 2 >= sizes[name] // (2 * count)
        assert (count - 1) * (room * len(machine.cores) // 2) < sizes[name]


@pytest.mark.parametrize("network", ["bert-base-64", "llama-block-prefill-64"])
def test_attention_runs_some_heads_at_a_time_where_its_operands_have_no_room(network):
    """With its projections and what lies between; each piece reads its own columns of the weights.

    Rows narrower than a burst are read with others. Keys and values of the Llama block are outputs, and made whole.
    """
    evaluator, begin = begun(network)
    graph, machine = evaluator.graph(begin), machine_named(MACHINE)
    begin = with_attention(begin, graph, machine)
    assert with_heads_in_turn(begin, graph, machine) is begin
    memories = tuple(replace(one, size_bytes=one.size_bytes // 128) for one in machine.memories)
    found = with_heads_in_turn(begin, graph, replace(machine, memories=memories))
    assert in_running_order(graph, found.cuts)
    cuts = {cut.operators[-1]: cut for cut in found.cuts if cut.pieces > 1}
    attention = [sink for sink in begin.sinks if sink.endswith(".context")]
    assert attention
    done = evaluator.compiled(found)
    assert done.schedule is not None
    assert done.program is not None
    read = read_bytes(done.program)
    for sink in attention:
        cut = cuts[sink]
        assert any("query.matmul" in name or "query.rotary" in name for name in cut.operators)
        assert sum(kernel.sink == sink for kernel in done.schedule.kernels) == cut.pieces
        tensors = [graph.tensors[name] for op in cut.operators for name in graph.by_name[op].inputs]
        weights = [one for one in tensors if one.name in graph.constants and one.shape == (64, 64)]
        assert weights
        if 64 // cut.pieces * weights[0].dtype.size_bytes >= machine.ddr.burst_bytes:
            assert [read[one.name] for one in weights] == [one.size_bytes for one in weights]
    assert_computes(network, done)


def test_pieces_of_several_kernels_share_neither_work_nor_weights():
    """Of attention no samples, which share the weights, and no rows, which share keys; columns of whole heads do."""
    evaluator, begin = begun("bert-base-64")
    graph, machine = evaluator.graph(begin), machine_named(MACHINE)
    begin = with_attention(begin, graph, machine)
    context = next(sink for sink in begin.sinks if sink.endswith(".context"))
    group = dict(_attentions(graph, begin))[context]
    names = tuple(name for kernel in group for name in kernel)
    result, needs = graph.by_name[context].outputs[0], PieceNeeds(graph)
    ways = [
        (axis, count) for axis, extent in enumerate(graph.tensors[result].shape) for count in (2, 4) if extent > count
    ]
    assert [way for way in ways if _is_divided(graph, needs, names, result, *way)] == [(2, 2), (2, 4)]


@pytest.mark.parametrize("pieces", [1, 2])
def test_sub_graphs_make_only_what_the_outputs_need(pieces):
    """Of ViT's last MLP the class token's row, also where it is a sub-graph; the program computes the same."""
    evaluator, begin = begun("vit-b16")
    graph, names = evaluator.graph(begin), begin.cuts[0].operators
    sink = [kernel[-1] for kernel in begin.kernels if kernel[-1].endswith("gelu")][-1]
    (kernel,) = (one for one in begin.kernels if one[-1] == sink)
    ends = names.index(kernel[0]), names.index(sink) + 1
    assert names[slice(*ends)] == kernel
    cuts = Cut(names[: ends[0]]), Cut(kernel, 2, pieces), Cut(names[ends[1] :])
    done = evaluator.compiled(replace(begin, cuts=cuts))
    assert done.schedule is not None
    boxes = [one.box.extents for one in done.schedule.kernels if one.sink == sink and one.box is not None]
    tokens = graph.tensors[graph.by_name[sink].outputs[0]].shape[1]
    assert tokens > 1
    assert [box[:2] for box in boxes] == [(4, 1)] * pieces
    assert_computes("vit-b16", done)
