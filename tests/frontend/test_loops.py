"""Loops with a known number of turns and sequences of tensors are written out; others are refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.frontend.loops import MAX_TURNS
from tilestitch.frontend.reader import read_onnx

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name: str, dtype: int | None = None, shape: tuple[int, ...] = ()) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name) if dtype is None else helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, **weights) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", inputs, [value(name) for name in outputs], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def growing_sum(*, turns=4, limit=None, outputs=("total", "each"), used=2, given=()) -> onnx.ModelProto:
    """total = total * x + turn, for some turns or up to a limit of the count; `each` holds every total."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["number"], to=FLOAT),
            helper.make_node("Mul", ["before", "x"], ["product"]),
            helper.make_node("Add", ["product", "number"], ["after"]),
            helper.make_node("Add", ["i", "one"], ["next"]),
            helper.make_node("Less", ["next", "limit"], ["going"]),
            helper.make_node("Identity", ["after"], ["shown"]),
        ],
        "body",
        [value("i", INT64), value("c", BOOL), value("before", FLOAT, (2, 3))],
        [value("going", BOOL), value("after", FLOAT, (2, 3)), value("shown", FLOAT, (2, 3))],
    )
    names = ["turns" if turns is not None else "", "true" if limit is None else "", "x"]
    nodes = [
        helper.make_node("Loop", names, list(outputs), "loop", body=body),
        *(helper.make_node("Neg", [name], [f"{name}.out"]) for name in outputs[:used]),
    ]
    weights = {"one": np.int64(1), "limit": np.int64(99 if limit is None else limit), "true": np.array(True)}
    weights["turns"] = np.int64(turns or 0)
    weights = {name: array for name, array in weights.items() if name not in given}
    inputs = [value("x", FLOAT, (2, 3)), *(value(name, INT64) for name in given)]
    return model_of(nodes, inputs, [f"{name}.out" for name in outputs[:used]], **weights)


@pytest.mark.parametrize(
    ("options", "turns"),
    [({}, 4), ({"turns": None, "limit": 3}, 3), ({"turns": 7, "limit": 2}, 2), ({"used": 1}, 4)],
)
def test_a_loop_means_what_onnxruntime_computes(options, turns):
    """By a count, by a condition that is known in each turn, by whichever ends first; and nothing else is left."""
    done = api.compile(growing_sum(**options), "toy", verify=True)
    assert done.report.verified, done.report.checks
    assert [op.kind for op in done.loaded.operators].count("mul") == turns


def test_a_loop_without_turns_gives_what_it_begins_with():
    done = api.compile(growing_sum(turns=0, used=1), "toy", verify=True)
    assert done.report.verified
    assert "mul" not in [op.kind for op in done.loaded.operators]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"given": ("turns",)}, "its number of turns \\('turns'\\) depends on the network's inputs"),
        ({"given": ("limit",)}, "its condition \\('loop.going'\\) depends on the network's inputs"),
        ({"turns": MAX_TURNS + 1}, f"more than {MAX_TURNS:,} iterations"),
        ({"turns": 2**62}, f"more than {MAX_TURNS:,} iterations"),
        ({"turns": 0}, "output 'each' joins no tensors"),
        ({"outputs": ("total", "each", "more")}, "3 outputs, and its body results for 2"),
    ],
)
def test_a_loop_that_cannot_be_written_out_is_refused(options, message):
    """With the node and the reason, in bounded time."""
    options = {"limit": 2**62, **options} if options.get("turns", 0) > MAX_TURNS else options
    with pytest.raises(InputError, match=f"node 'loop' \\(Loop\\): .*{message}"):
        read_onnx(growing_sum(**options))


def test_a_body_that_does_not_fit_is_refused():
    """Operands of the loop and inputs of its body belong together."""
    model = growing_sum()
    del model.graph.node[0].attribute[0].g.input[2]
    with pytest.raises(InputError, match="its body has 2 inputs and 3 outputs"):
        read_onnx(model)


def decaying(*, axes=(0,), directions=(0, 0), count=2) -> onnx.ModelProto:
    """state = state / 2 + row, over rows of x; the states and the differences, of which the latter may be reversed."""
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["state", "half"], ["less"]),
            helper.make_node("Add", ["less", "row"], ["after"]),
            helper.make_node("Sub", ["after", "other"], ["difference"]),
        ],
        "body",
        [value(name, FLOAT, (4,)) for name in ("state", "row", "other")],
        [value("after", FLOAT, (4,)), value("difference", FLOAT, (4,))],
    )
    scan = helper.make_node(
        "Scan",
        ["s", "x", "y"],
        ["last", "all"],
        "scan",
        body=body,
        num_scan_inputs=count,
        scan_input_axes=[axes[0], 1],
        scan_input_directions=directions,
        scan_output_axes=[1],
        scan_output_directions=[directions[0]],
    )
    inputs = [value("s", FLOAT, (4,)), value("x", FLOAT, (3, 4)), value("y", FLOAT, (4, 3))]
    nodes = [scan, helper.make_node("Neg", ["last"], ["last.out"]), helper.make_node("Neg", ["all"], ["all.out"])]
    return model_of(nodes, inputs, ["last.out", "all.out"], half=np.float32(0.5))


@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (0, 1)])
def test_a_scan_means_what_onnxruntime_computes(directions):
    """Rows of one operand and columns of another, from either end."""
    done = api.compile(decaying(directions=directions), "toy", verify=True)
    assert done.report.verified, done.report.checks
    assert [op.kind for op in done.loaded.operators].count("mul") == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axes": (1,)}, "its operands have \\[3, 4\\] parts along the axes that are cut"),
        ({"count": 0}, "3 operands of which 0 are cut"),
        ({"directions": (0,)}, "expected 2 axes and directions of operands"),
    ],
)
def test_a_scan_that_does_not_fit_is_refused(options, message):
    with pytest.raises(InputError, match=f"node 'scan' \\(Scan\\): .*{message}"):
        read_onnx(decaying(**options))


def sequences() -> onnx.ModelProto:
    """Every operator on sequences: split, insert, erase, length, pick, join along an old and along a new axis."""
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0),
        helper.make_node("SplitToSequence", ["x", "two"], ["pairs"], axis=1),
        helper.make_node("SplitToSequence", ["x", "lengths"], ["parts"], axis=1),
        helper.make_node("SequenceAt", ["rows", "last"], ["row"]),
        helper.make_node("SequenceInsert", ["rows", "row", "one"], ["more"]),
        helper.make_node("SequenceErase", ["more", "last"], ["fewer"]),
        helper.make_node("Identity", ["fewer"], ["same"]),
        helper.make_node("ConcatFromSequence", ["same"], ["stacked"], axis=-1, new_axis=1),
        helper.make_node("ConcatFromSequence", ["pairs"], ["joined"], axis=0),
        helper.make_node("SequenceAt", ["parts", "one"], ["part"]),
        helper.make_node("SequenceLength", ["pairs"], ["length"]),
        helper.make_node("Cast", ["length"], ["number"], to=FLOAT),
        helper.make_node("Mul", ["part", "number"], ["scaled"]),
        helper.make_node("SequenceEmpty", [], ["none"]),
        helper.make_node("SequenceInsert", ["none", "row"], ["single"]),
        helper.make_node("SequenceConstruct", ["row", "row"], ["double"]),
        helper.make_node("ConcatFromSequence", ["single"], ["once"], axis=0),
        helper.make_node("ConcatFromSequence", ["double"], ["twice"], axis=0),
    ]
    weights = {"two": np.int64(2), "lengths": np.array([1, 3]), "one": np.int64(1), "last": np.int64(-1)}
    outputs = ("stacked", "joined", "scaled", "once", "twice")
    nodes += [helper.make_node("Exp", [name], [f"{name}.out"]) for name in outputs]
    return model_of(nodes, [value("x", FLOAT, (3, 4))], [f"{name}.out" for name in outputs], **weights)


def test_sequences_mean_what_onnxruntime_computes():
    done = api.compile(sequences(), "toy", verify=True)
    assert done.report.verified, done.report.checks
    assert not done.report.generic_operators


def test_a_function_of_every_tensor_of_a_sequence_means_what_onnxruntime_computes():
    """With a tensor that is the same for all, two results, and a sequence that is optional."""
    body = helper.make_graph(
        [
            helper.make_node("Relu", ["one"], ["positive"]),
            helper.make_node("Mul", ["positive", "same"], ["scaled"]),
            helper.make_node("ReduceSum", ["scaled"], ["total"]),
        ],
        "body",
        [value("one", FLOAT, (2, 4)), value("same", FLOAT, (4,))],
        [value("scaled", FLOAT, (2, 4)), value("total", FLOAT, (1, 1))],
    )
    nodes = [
        helper.make_node("SplitToSequence", ["x", "two"], ["pairs"], axis=0),
        helper.make_node("Optional", ["pairs"], ["perhaps"]),
        helper.make_node("OptionalGetElement", ["perhaps"], ["there"]),
        helper.make_node("SequenceMap", ["there", "y"], ["parts", "totals"], body=body),
        helper.make_node("ConcatFromSequence", ["parts"], ["joined"], axis=0),
        helper.make_node("ConcatFromSequence", ["totals"], ["sums"], axis=0),
        helper.make_node("OptionalHasElement", ["perhaps"], ["has"]),
        helper.make_node("Cast", ["has"], ["number"], to=FLOAT),
        helper.make_node("Add", ["sums", "number"], ["last"]),
    ]
    inputs = [value("x", FLOAT, (6, 4)), value("y", FLOAT, (4,))]
    done = api.compile(model_of(nodes, inputs, ["joined", "last"], two=np.int64(2)), "toy", verify=True)
    assert done.report.verified, done.report.checks
    assert not done.report.generic_operators


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (helper.make_node("SequenceAt", ["s", "five"], ["y"], "n"), "position 5 lies outside a sequence of 3"),
        (helper.make_node("SequenceAt", ["x", "five"], ["y"], "n"), "operand 'x' is a tensor; expected a sequence"),
        (helper.make_node("Relu", ["s"], ["y"], "n"), "an operand of Relu is a sequence of tensors"),
    ],
)
def test_a_sequence_that_is_misread_is_refused(node, message):
    split = helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)
    with pytest.raises(InputError, match=f"node 'n' .*: {message}"):
        read_onnx(model_of([split, node], [value("x", FLOAT, (3, 4))], ["y"], five=np.int64(5)))


def test_a_sequence_is_no_output():
    """A result that is several tensors has no place in a report."""
    split = helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)
    with pytest.raises(InputError, match="output 's' is a sequence of tensors; export with tensors for outputs"):
        read_onnx(model_of([split], [value("x", FLOAT, (3, 4))], ["s"]))
