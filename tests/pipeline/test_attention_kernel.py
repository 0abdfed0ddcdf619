"""Attention as one kernel: what is between its products stays in the core, also where one product made all operands."""

from dataclasses import replace

import pytest

from tests.helpers.graphs import Net, weight
from tests.helpers.pairs import first
from tests.helpers.verified import machine_named, model
from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.choices import Stage
from tilestitch.ir.program import Kind, Mode, Program
from tilestitch.ir.region import Region
from tilestitch.passes import simplify
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.compile import compile_network, requested, resume_network
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.search.beginnings import with_fused_attention
from tilestitch.pipeline.search.candidate import Candidate, candidate_of
from tilestitch.pipeline.search.evaluate import Evaluator
from tilestitch.pipeline.search.fusing import fuse
from tilestitch.pipeline.search.scene import Scene
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.pipeline.views import composed_graph
from tilestitch.schedule.tilings import Tilings

MACHINE = "stcp920"
NETWORKS = ("vit-b16", "bert-base-64", "bert-base-64-decomposed", "llama-block-prefill-128")


def with_attention(network: str, batch: int = 4) -> tuple[Evaluator, Candidate]:
    """What compiles candidates, and one with the first kernels fused that begin and end with products."""
    proto, machine = model(network, small=True), machine_named(MACHINE)
    done = compile_network(proto, network, machine, strategy_named("astitch"), Options(batch=batch))
    request = requested(proto, network, machine, done.options)
    evaluator = Evaluator(request, Networks(proto, network, fold_bn=True))
    begin = candidate_of(done)
    assert begin is not None
    scene = Scene(begin, evaluator.graph(begin), machine, {}, (begin.batch,))
    return evaluator, next(fuse(scene))


def executed(network: str, done: Compilation) -> Compilation:
    """The schedule of a compilation again, verified."""
    start = started(stage_text(done, Stage.SCHEDULE), "file.json")
    return resume_network(model(network, small=True), start, machine_named(MACHINE), Options(verify=True))


def weights(program: Program, operator: str) -> set[tuple[str, Region]]:
    """What lies in the weight area of a core when a product reads it there."""
    found = set()
    for number in range(len(program)):
        one = program[number]
        if one.kind is Kind.COMPUTE and program.operators[program.operator[number]] == operator:
            for operand in one.operands:
                space = program.spaces[program.buffers.space[operand.buffer]]
                if operand.mode is Mode.READ and space.level is Level.WEIGHTS:
                    held = program.regions[program.buffers.region[operand.buffer]]
                    found.add((program.tensors[program.buffers.tensor[operand.buffer]], held))
    return found


@pytest.mark.parametrize("network", first(2, NETWORKS))
def test_attention_as_one_kernel_computes_the_same(network):
    """As onnxruntime does; no transfer moves scores."""
    evaluator, candidate = with_attention(network)
    (kernel, *_) = (one for one in candidate.kernels if sum("scores" in name for name in one) > 0 and len(one) > 2)
    graph = evaluator.graph(candidate)
    products = [name for name in kernel if graph.by_name[name].kind == "matmul"]
    assert len(products) == 2
    done = evaluator.compiled(candidate)
    again = executed(network, done)
    assert again.report is not None
    assert again.report.outcome == "passed"
    program = again.program
    assert program is not None
    inside = {tensor for name in kernel[:-1] for tensor in graph.by_name[name].outputs}
    moved = {
        program.tensors[program.buffers.tensor[operand.buffer]]
        for number in range(len(program))
        if program[number].kind is Kind.COPY
        for operand in program[number].operands
    }
    assert not moved & inside


def test_key_and_value_of_one_product_are_brought_apart():
    """Each product of ViT's attention has its own part of what one product made, and no more, among its weights."""
    evaluator, candidate = with_attention("vit-b16")
    program = evaluator.compiled(candidate).program
    assert program is not None
    kernel = next(one for one in candidate.kernels if "attention.scores" in " ".join(one))
    graph = evaluator.graph(candidate)
    products = [graph.by_name[name] for name in kernel if graph.by_name[name].kind == "matmul"]
    for op in products:
        held = weights(program, op.name)
        assert {tensor for tensor, _ in held} == {op.reads[1].tensor}
        whole = graph.read_region(op.reads[1], op.whole)
        assert all(whole.contains(region) for _, region in held)
    assert products[0].reads[1].tensor == products[1].reads[1].tensor


def test_a_search_begins_with_attention_fused_in_pieces_and_uncut_with_small_and_large_tiles():
    """Each of them runs, on two samples."""
    network, machine = "bert-base-64", machine_named(MACHINE)
    done = compile_network(model(network, small=True), network, machine, strategy_named("astitch"), Options(batch=8))
    request = requested(model(network, small=True), network, machine, done.options)
    evaluator = Evaluator(request, Networks(model(network, small=True), network, fold_bn=True))
    seed = candidate_of(done)
    assert seed is not None
    half = replace(seed, batch=2, cuts=(replace(seed.cuts[0], pieces=2),))
    found = with_fused_attention(half, evaluator.graph(half), machine)
    assert [one.cuts[0].pieces for one in found] == [2, 2, 1, 1]
    assert [len(one.rules) for one in found] == [0, len(found[1].kernels), 0, len(found[3].kernels)]
    assert all(len(one.kernels) < len(seed.kernels) for one in found)
    for one in found:
        assert evaluator.evaluate(one) is not None


def scaled_on_both_sides() -> Net:
    """Attention as PyTorch exports it: queries and keys are scaled by a root each."""
    net = Net()
    x = net.input(4, 32, 64)
    query, key, value = (
        net.op("Transpose", net.op("Reshape", net.op("MatMul", x, weight(net, 64, 64)), [-1, 32, 4, 16]), perm=perm)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scores = net.op(
        "MatMul", net.op("Mul", query, 0.3, name="query"), net.op("Mul", key, 0.3, name="key"), name="scores"
    )
    context = net.op("MatMul", net.op("Softmax", scores), value)
    merged = net.op("Reshape", net.op("Transpose", context, perm=[0, 2, 1, 3]), [-1, 32, 64])
    net.op("MatMul", merged, weight(net, 64, 64), name="y")
    return net


def test_what_scales_the_keys_is_no_part_of_the_product():
    """The second operand of a product comes to its unit from outside the kernel, so that no move fuses both."""
    model = scaled_on_both_sides().model("y")
    done = compile_network(model, "net", machine_named(MACHINE), strategy_named("tvm"), Options())
    begin = candidate_of(done)
    assert begin is not None
    graph = given(done.graph)
    (key,) = (
        kernel for kernel in begin.kernels if graph.by_name["scores"].inputs[1] in graph.by_name[kernel[-1]].outputs
    )
    moves = list(fuse(Scene(begin, graph, done.machine, {}, (1,))))
    assert any("scores" in kernel and "softmax" in " ".join(kernel) for move in moves for kernel in move.kernels)
    assert not any(key[-1] in kernel and "scores" in kernel for move in moves for kernel in move.kernels)


def test_a_kernel_that_makes_a_second_operand_itself_is_refused():
    graph, _ = composed_graph(simplify(scaled_on_both_sides().graph("y"), fold_bn=True))
    key = next(op.name for op in graph.operators if op.outputs[0] == graph.by_name["scores"].inputs[1])
    with pytest.raises(DoesNotFit, match="makes the second operand of its own product"):
        Tilings(graph, machine_named("gemmini")).alone((key, "scores"), "k0")
