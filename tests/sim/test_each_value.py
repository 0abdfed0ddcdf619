"""PASSED means every value: each within its own bound, for integers of all sizes, and by more than one judge."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.helpers.graphs import Net, random_inputs
from tilestitch import api
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError
from tilestitch.cli.output import verdict
from tilestitch.hardware.load import load_machine
from tilestitch.ir.graph import Access, Axis, Tensor
from tilestitch.ir.region import Region
from tilestitch.ir.report import Outcome, Report
from tilestitch.pipeline.compile import References, compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.report.report_text import report_text
from tilestitch.sim.chip.bounds import rounding
from tilestitch.sim.chip.check import checked
from tilestitch.sim.chip.compare import compare, decides
from tilestitch.sim.chip.interpret import interpret
from tilestitch.sim.chip.reference import Reference
from tilestitch.sim.chip.steps import Steps
from tilestitch.zoo.inputs import sample_inputs


def verified(model: onnx.ModelProto) -> Report:
    report = api.compile(model, "toy", verify=True).report
    assert report is not None
    return report


# ---- a bound for each value


def beside_a_million() -> onnx.ModelProto:
    """A product next to constants of a million, which are the largest magnitude of the output."""
    net = Net()
    y = net.op("MatMul", net.input(4, 8, name="x"), net.random(8, 6))
    return net.model(net.op("Concat", y, net.constant(np.full((4, 6), 1e6, np.float32)), axis=1, name="y"))


@pytest.mark.parametrize("scale, passes", [(1.0, True), (1.0001, False), (0.5, False)])
def test_an_error_beside_large_values_is_seen(scale, passes):
    """Half of the values are wrong by a half of themselves, and by a millionth of the largest one."""
    model = beside_a_million()
    done = compile_network(model, "net", load_machine("toy"), strategy_named("tvm"), Options(batch=4))
    assert done.trace is not None
    program = done.trace.program
    constants = dict(program.graph.constants)
    constants["w0"] = (constants["w0"] * scale).astype(np.float32)
    wrong = replace(program, graph=replace(program.graph, constants=constants))
    inputs = random_inputs(program.graph)
    wide, _ = checked(replace(done.trace, program=wrong), Reference(model, program.graph, [inputs])).rows
    assert wide.error <= wide.allowed
    assert (wide.passed, wide.failed) == (passes, not passes)
    assert (wide.compared, wide.decided) == (48, 48)


def test_what_rounding_leaves_open_is_no_proof(capsys):
    """A hundred million is added and taken off again: any value at all would pass; that is said, and is no failure."""
    net = Net()
    report = verified(net.model(net.op("Sub", net.op("Add", net.input(4, 16), 1e8), 1e8, name="y")))
    wide = report.checks[0]
    assert (wide.outcome, report.outcome) == (Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE)
    assert (wide.compared, report.verified) == (64, False)
    assert wide.decided < 0.99 * 64
    assert "float32 decides" in report_text(report)
    assert verdict([report]) == 0
    assert "not conclusive" in capsys.readouterr().err


def test_bounds_follow_what_is_rounded():
    """Moving is exact; a sum of many terms may be off by more than one of few, and x - x by nothing."""
    net = Net()
    x = net.input(4, 1024, name="x")
    moved = net.op("Transpose", net.op("Relu", x), perm=[1, 0])
    many, few = net.op("ReduceSum", x, [1]), net.op("ReduceSum", net.op("Slice", x, [0], [4], [1]), [1])
    nothing, power = net.op("Sub", x, x), net.op("Exp", x)
    graph = net.graph(moved, many, few, nothing, power)
    inputs = random_inputs(graph)
    bounds = rounding(graph, [inputs], [{}])[0].wide
    assert not bounds[moved].any()
    assert not bounds[nothing].any()
    assert (bounds[many] > 4 * bounds[few]).all()
    exponential = interpret(graph, inputs, wide=True)[power]
    assert (bounds[power] < 2e-6 * exponential).all()
    assert (bounds[power] > 2e-7 * exponential).all()


def test_errors_in_common_add_up_as_they_are():
    """Of y + relu(y) they are twice those of y, also behind a Reshape; of two products they add up as squares."""
    net = Net()
    x, weight = net.input(16, 64, name="x"), net.random(64, 24)
    y, other = net.op("MatMul", x, weight), net.op("MatMul", net.input(16, 64, name="z"), weight)
    flat = net.op("Relu", net.op("Reshape", y, [384]))
    alike, apart = net.op("Add", y, net.op("Reshape", flat, [16, 24])), net.op("Add", y, net.op("Relu", other))
    square = net.op("MatMul", y, net.op("Transpose", y, perm=[1, 0]))
    product = net.op("MatMul", y, net.op("Transpose", other, perm=[1, 0]))
    graph = net.graph(y, alike, apart, square, product)
    inputs = random_inputs(graph)
    inputs["z"] = inputs["x"]
    bounds, values = rounding(graph, [inputs], [{}])[0].wide, interpret(graph, inputs, wide=True)
    positive = values[y] > 0
    assert (bounds[alike][positive] > 1.999 * bounds[y][positive]).all()
    assert (bounds[alike] < 2.2 * bounds[y] + 1e-6).all()
    assert (bounds[apart][positive] < 1.6 * bounds[y][positive] + 1e-6).all()
    assert (bounds[square] > 1.05 * bounds[product]).all()


@pytest.mark.parametrize("kind", ["Relu", "Gelu"])
def test_what_adds_to_itself_again_and_again_passes(kind):
    """Each time what was rounded before is there twice."""
    net = Net()
    y = net.op("MatMul", net.input(64, 64, name="x"), net.random(64, 64))
    for _ in range(8):
        y = net.op("Add", y, net.op(kind, y))
    assert verified(net.model(y)).outcome is Outcome.PASSED


def test_bounds_are_the_same_from_a_second_thread(monkeypatch):
    """Which large results get."""
    net = Net()
    y = net.op("Relu", net.op("MatMul", net.input(4, 8, name="x"), net.random(8, 6)))
    graph = net.graph(y)
    inputs = [random_inputs(graph)]
    (alone,) = rounding(graph, inputs, [{}])
    monkeypatch.setattr("tilestitch.sim.chip.bounds._WORTH_A_THREAD", 0)
    (beside,) = rounding(graph, inputs, [{}])
    assert alone.narrow[y].any()
    assert np.array_equal(alone.wide[y], beside.wide[y])
    assert np.array_equal(alone.narrow[y], beside.narrow[y])


@pytest.mark.parametrize("kind", [None, "Add", "Exp"])
def test_what_float32_loses_of_a_double_is_no_error(kind):
    """The file's doubles are stored in float32 before anything else happens."""
    name = "x" if kind is None else "y"
    nodes = [] if kind is None else [helper.make_node(kind, ["x"] * (2 if kind == "Add" else 1), ["y"])]
    x, y = (helper.make_tensor_value_info(one, TensorProto.DOUBLE, [4]) for one in ("x", name))
    graph = helper.make_graph(nodes, "doubles", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    assert verified(model).outcome is Outcome.PASSED


def test_a_scalar_is_compared_like_any_value():
    """Arithmetic on arrays without axes gives bare numbers, which cannot be written to."""
    one, bound = np.array(1, np.float32), np.array(1e-6, np.float32)
    assert not compare([one], [one], [bound]).wrong
    assert compare([one], [one + 1], [bound]).wrong
    assert compare([np.array(np.inf, np.float32)], [one], [bound]).wrong
    assert not compare([np.array(np.nan, np.float32)], [np.array(np.nan, np.float32)], [bound]).wrong


def test_a_value_is_decided_where_a_wrong_one_would_show():
    """Under itself, or well under those that are as uncertain; an integer where no other one is near."""
    expected, bounds = np.array([1.0, 1e-3, 0.0, 1e6, 0.0]), np.array([1e-2, 1e-2, 0.0, 0.1, 0.1])
    assert decides(expected, bounds).tolist() == [True, True, True, True, True]
    assert decides(np.array([1e-3, 2e-3]), np.array([1e-2, 1e-2])).tolist() == [False, False]
    assert decides(np.array([5, 7]), np.array([0.0, 1.0])).tolist() == [True, False]
    assert decides(np.array([1000]), np.array([1.0])).tolist() == [True]
    found = compare([np.array([1.0, np.nan])], [np.array([1.0, 2.0])], [np.array([0.0, 0.1])])
    assert (found.wrong, found.worst is not None and found.worst.place) == (True, (1,))


def test_a_quantised_value_may_differ_only_near_half_way():
    """One element of 2,000 is a step off, which was right wherever it lay."""
    expected, found = np.zeros(2000, np.int8), np.zeros(2000)
    found[7] = 1
    bounds = np.zeros(2000)
    tensor, access = Tensor("x", (2000,), DType.INT8, (0,)), Access("x", (Axis(((0, 1),)),))
    ratios = []
    for place in (7, 8):
        bounds[:] = 0
        bounds[place] = 1
        steps = Steps([{"x": expected}], [{"x": bounds}])
        steps.compare(tensor, 0, access, Region((0,), (2000,)), found)
        assert steps.sizes() == (2000, 1999)
        ratios.append(steps.ratio())
    assert ratios == [0.0, np.inf]


# ---- integers


def integers(op: str, second: np.ndarray, dtype: int = TensorProto.INT64, **attributes) -> onnx.ModelProto:
    net = Net()
    return net.model(net.op(op, net.input(4, 16, name="x", dtype=dtype), net.constant(second), name="y", **attributes))


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(integers("Mul", np.int64(2**30)), id="multiplied"),
        pytest.param(
            integers("BitShift", np.uint64(40), TensorProto.UINT64, direction="LEFT"),
            id="shifted",
        ),
    ],
)
def test_integers_that_32_bits_do_not_hold_are_refused(model):
    """They were right for 0 and 1, which were all that was drawn, or 0 at either side."""
    with pytest.raises(InputError, match=r"'y'.*machine (holds|stores)"):
        verified(model)


def test_an_intermediate_that_32_bits_do_not_hold_is_refused():
    """What leaves the network is small again, but not what the machine would make of it."""
    net = Net()
    big = net.op("Mul", net.input(4, 16, name="x", dtype=TensorProto.INT64), np.int64(2**30), name="big")
    with pytest.raises(InputError, match=r"tensor 'big' holds 64-bit integers from -\d+ to \d+, and the machine"):
        verified(net.model(net.op("Div", big, np.int64(2**29))))


def test_integers_are_drawn_as_large_as_the_network_takes_them():
    """A square leaves 32 bits from 2**16 on; it is verified for less, and 32-bit integers wrap around."""
    for dtype in (TensorProto.INT64, TensorProto.INT32):
        net = Net()
        x = net.input(4, 16, name="x", dtype=dtype)
        references: References = {}
        done = compile_network(
            net.model(net.op("Mul", x, x)),
            "net",
            load_machine("toy"),
            strategy_named("tvm"),
            Options(batch=4, verify=True),
            references=references,
        )
        assert done.report is not None
        assert done.report.verified, done.report.checks
        (found,) = references.values()
        drawn = np.concatenate([one["x"] for reference in found for one in reference.inputs])
        assert len(found) == 2
        assert not np.array_equal(found[0].inputs[0]["x"], found[1].inputs[0]["x"])
        assert drawn.min() < -1000
        assert drawn.max() > 1000
        assert (np.abs(drawn).max() < 2**16) == (dtype == TensorProto.INT64)


def notes(model: onnx.ModelProto, *, verify: bool = True) -> str:
    report = api.compile(model, "toy", verify=verify, strategy="tvm").report
    assert report is not None
    assert not verify or report.verified, report.checks
    return "\n".join(report.notes)


def test_what_is_proven_to_fit_32_bits_passes_quietly():
    """An index stays inside its table, wherever it is used; the rest of a division is smaller than the divisor."""
    net = Net()
    ids = net.input(4, 16, name="ids", dtype=TensorProto.INT64)
    rows = net.op("Gather", net.random(1000, 3), net.op("Reshape", ids, [64]))
    x = net.input(4, 16, name="x", dtype=TensorProto.INT64)
    small = net.op("Mod", x, np.int64(1000))
    model = net.model(rows, net.op("Mul", ids, np.int64(2**20)), net.op("Mul", small, small))
    assert notes(model) == notes(model, verify=False) == ""


def test_tuples_of_indices_are_proven_to_fit_32_bits():
    """Whatever they are drawn as, their places lie inside the table."""
    net = Net()
    places = net.input(4, 2, name="places", dtype=TensorProto.INT64)
    assert notes(net.model(net.op("GatherND", net.random(5, 6, 3), places))) == ""


def test_what_is_not_proven_to_fit_is_said():
    """With the first tensor that may leave 32 bits, and how large the inputs were for which it did not."""
    net = Net()
    big = net.op("Mul", net.input(4, 16, name="x", dtype=TensorProto.INT64), np.int64(2**20), name="big")
    model = net.model(net.op("Div", big, np.int64(2**19)))
    where = "'big' (-2251799813685248 to 2251799812636672)"
    stored = "64-bit integers are stored in 32 bits"
    assert notes(model) == (
        f"{stored}, which held what was drawn, inputs of up to 8 bits; it is not proven for {where}."
    )
    assert notes(model, verify=False) == (f"{stored}, and it is not proven that these hold {where}; --verify tries it.")


def test_a_network_whose_integers_never_fit_is_refused_unseen():
    """Whatever its inputs are, and without an execution."""
    net = Net()
    x = net.op("Cast", net.input(4, 16, name="x", dtype=TensorProto.UINT8), to=TensorProto.INT64)
    far = net.op("Mul", net.op("Add", x, np.int64(2**12)), np.int64(2**20), name="far")
    message = r"tensor 'far' holds 64-bit integers from 4294967296 to 4562354176 for any input, and the machine stores"
    with pytest.raises(InputError, match=message):
        notes(net.model(net.op("Div", far, np.int64(2**20))), verify=False)


@pytest.mark.parametrize("op", ["Cast", "Pow"])
def test_what_leaves_32_bits_in_between_is_not_taken_for_a_wrong_program(op):
    """The machine's own rule gives 32 bits of it, and onnxruntime divides 64: smaller inputs, or a refusal."""
    net = Net()
    if op == "Pow":
        big = net.op("Pow", net.input(4, 16, name="x", dtype=TensorProto.INT64), np.int64(3), name="big")
        assert "not proven for 'big'" in notes(net.model(net.op("Div", big, np.int64(2**10))))
        return
    x = net.op("Mul", net.input(4, 16, name="x"), 1e12)
    big = net.op("Cast", x, to=TensorProto.INT64, name="big")
    with pytest.raises(InputError, match=r"tensor 'big' holds 64-bit integers from -\d+ to \d+, and the machine"):
        notes(net.model(net.op("Div", big, np.int64(2**20))))


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_quotients_of_negative_integers_are_verified(op):
    """By divisors of both signs, none of them zero, which would end onnxruntime's process."""
    net = Net()
    x, y = (net.input(4, 16, name=name, dtype=TensorProto.INT32) for name in "xy")
    model = net.model(net.op(op, x, y))
    assert verified(model).verified
    drawn = sample_inputs(model, batch=4)
    assert (drawn["x"] < 0).any()
    assert (drawn["y"] < 0).any()
    assert (drawn["y"] != 0).all()


def test_a_quotient_by_zero_is_refused():
    net = Net()
    x = net.input(4, 16, name="x", dtype=TensorProto.INT32)
    with pytest.raises(InputError, match="operator 'y' divides integers by zero"):
        verified(net.model(net.op("Div", x, net.op("Sub", x, x), name="y")))


def test_indices_that_are_computed_stay_inside_their_table():
    """An offset is added to them, so that none of the larger draws is valid."""
    net = Net()
    ids = net.op("Add", net.input(4, 16, dtype=TensorProto.INT64), np.int64(3))
    assert verified(net.model(net.op("Gather", net.random(10, 3), ids))).verified


# ---- a second judge


def of_nan(op: str, **attributes) -> onnx.ModelProto:
    """An operator on what Log makes of numbers of both signs."""
    net = Net()
    return net.model(net.op(op, net.op("Log", net.input(2, 3, 8, 8)), name="y", **attributes))


def resized() -> onnx.ModelProto:
    net = Net()
    scales = net.constant(np.array([1, 1, 0.8, 0.8], np.float32))
    how = {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}
    return net.model(net.op("Resize", net.input(1, 1, 4, 4), "", scales, name="y", **how))


@pytest.mark.filterwarnings("ignore::RuntimeWarning:onnx")
@pytest.mark.parametrize(
    "model",
    [
        *(pytest.param(of_nan(op), id=op) for op in ("GlobalMaxPool", "ReduceMax", "ReduceMin", "Hardmax")),
        pytest.param(of_nan("MaxPool", kernel_shape=[3, 3]), id="MaxPool"),
        pytest.param(resized(), id="Resize"),
    ],
)
def test_where_the_references_differ_the_result_is_disputed(model, capsys):
    """Named with both values, and no failure: the program does what onnx's reference evaluator does."""
    report = verified(model)
    assert (report.outcome, report.verified) == (Outcome.DISPUTED, False)
    dispute = report.checks[0].dispute
    assert dispute.startswith("y[")
    assert "by the program and by onnx's reference evaluator, and " in dispute
    assert f"Disputed: {dispute}." in report_text(report)
    assert verdict([report]) == 0
    assert dispute in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::RuntimeWarning:onnx")
def test_what_a_pool_makes_of_nan_is_open():
    """With strides onnx's evaluator keeps a NaN only where a window begins with it, onnxruntime where it ends so."""
    report = verified(of_nan("MaxPool", kernel_shape=[2, 2], strides=[2, 2]))
    assert (report.outcome, report.verified) == (Outcome.DISPUTED, False)
    assert "y[0, 0, " in report.checks[0].dispute
    wide = report.checks[0]
    assert wide.decided < wide.compared


def test_a_wrong_program_is_not_disputed():
    """Both references say the same of it."""
    model = beside_a_million()
    done = compile_network(model, "net", load_machine("toy"), strategy_named("tvm"), Options(batch=4))
    assert done.trace is not None
    program = done.trace.program
    constants = {name: -value if name == "w0" else value for name, value in program.graph.constants.items()}
    wrong = replace(program, graph=replace(program.graph, constants=constants))
    reference = Reference(model, program.graph, [random_inputs(program.graph)])
    wide, _ = checked(replace(done.trace, program=wrong), reference).rows
    assert (wide.outcome, wide.dispute) == (Outcome.FAILED, "")
    assert reference.second is not None


def test_a_pool_passes_over_what_is_no_number():
    """As onnx's reference evaluator does; a window of nothing else has none."""
    net = Net()
    graph = net.graph(net.op("MaxPool", net.input(1, 1, 6, name="x"), kernel_shape=[2], strides=[2]))
    x = np.array([1, np.nan, np.nan, 2, np.nan, np.nan], np.float32).reshape(1, 1, 6)
    (found,) = interpret(graph, {"x": x}, wide=True).values()
    np.testing.assert_array_equal(found.ravel(), [1, 2, np.nan])


def test_an_output_that_is_the_same_everywhere_is_told():
    """What comes of a product with zeros shows nothing of what was multiplied."""
    for last, said in ((np.zeros((16, 8), np.float32), True), (np.eye(16, 8, dtype=np.float32), False)):
        net = Net(18)
        model = net.model(net.op("MatMul", net.op("Relu", net.input(4, 16)), last))
        report = api.compile(model, "toy", strategy="tvm", verify=True).report
        assert report is not None
        assert any("are the same, so that errors" in note for note in report.notes) == said
