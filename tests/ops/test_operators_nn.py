"""Operators of neural networks mean what the ONNX project's own tests of single nodes say, whole and tile by tile."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase

from tests.helpers.graphs import Net
from tests.helpers.interpreter import interpret
from tests.helpers.onnx_nodes import NEURAL, node_cases
from tilestitch.base.errors import InputError
from tilestitch.frontend.operators.rearranging import affine_pieces
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.load import load_machine
from tilestitch.ir.verify import verify_graph
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named

# Which operands of an operator must be known while reading.
CONSTANT_OPERANDS: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Dropout": (1, 2),
    "MaxUnpool": (2,),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
}


# Operators without a rule, that the standard spells out in others.
SPELLED_OUT = ("CausalConvWithState", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")

REFUSED = {
    "test_causal_conv_with_state_kernel_size_one": "must not be empty",
    "test_training_dropout": "what is dropped is random",
    "test_training_dropout_default": "what is dropped is random",
    "test_training_dropout_default_mask": "what is dropped is random",
    "test_training_dropout_mask": "what is dropped is random",
}


@pytest.mark.parametrize("operator", [*NEURAL, *SPELLED_OUT])
@pytest.mark.filterwarnings("ignore::RuntimeWarning:onnx")
def test_an_operator_means_what_the_onnx_project_says(operator: str) -> None:
    """Its loop nests on arrays give the expected values; what is refused is refused for the reason listed."""
    for case in node_cases(operator):
        for arrays, expected in case.data_sets or ():
            if case.name in REFUSED:
                with pytest.raises(InputError, match=REFUSED[case.name]):
                    _interpreted(case, arrays)
                continue
            found = _interpreted(case, arrays)
            for name, value in zip(found, expected, strict=True):
                narrow = np.asarray(value).dtype.itemsize == 2
                rtol, atol = (1e-2, 5e-3) if narrow else (case.rtol, 1e-6)
                np.testing.assert_allclose(found[name], value, rtol, atol, err_msg=f"{case.name}: {name}")


def _interpreted(case: TestCase, arrays: list) -> dict[str, np.ndarray]:
    """The outputs of a node, whose settings become constants."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())  # pyright: ignore[reportOptionalMemberAccess]
    (node,) = model.graph.node
    values = {value.name: np.asarray(array) for value, array in zip(model.graph.input, arrays, strict=True)}
    for number in CONSTANT_OPERANDS.get(node.op_type, ()):
        if number < len(node.input) and node.input[number]:
            model.graph.initializer.append(numpy_helper.from_array(values[node.input[number]], node.input[number]))
    graph = read_onnx(model)
    verify_graph(graph)
    assert all(op.kind != "generic" for op in graph.operators)
    found = interpret(graph, {name: values[name] for name in graph.inputs})
    return {value.name: found[value.name] for value in model.graph.output}


def normalised_channels(net: Net) -> str:
    return net.op("LRN", net.input(1, 64, 20, 20), size=5, alpha=0.5)


def grouped_norm(net: Net) -> str:
    return net.op("GroupNormalization", net.input(1, 48, 20, 20), net.random(48), net.random(48), num_groups=6)


def instance_norm(net: Net) -> str:
    return net.op("InstanceNormalization", net.input(1, 48, 20, 20), net.random(48), net.random(48))


def rms_norm(net: Net) -> str:
    return net.op("RMSNormalization", net.input(1, 300, 80), net.random(80))


def normalised_rows(net: Net) -> str:
    return net.op("LpNormalization", net.input(1, 300, 80), p=2)


def transposed_convolution(net: Net) -> str:
    return net.op("ConvTranspose", net.input(1, 32, 14, 14), net.random(32, 24, 3, 3), pads=[1] * 4, strides=[2, 2])


def grouped_transposed_convolution(net: Net) -> str:
    x, w, b = net.input(1, 32, 14, 14), net.random(32, 16, 4, 4), net.random(32)
    return net.op("ConvTranspose", x, w, b, pads=[1] * 4, strides=[2, 2], group=2)


def columns(net: Net) -> str:
    return net.op("Col2Im", net.input(1, 16 * 9, 100), [21, 21], [3, 3], strides=[2, 2])


def constant_pad(net: Net) -> str:
    x = net.op("Relu", net.input(1, 32, 28, 28))
    return net.op("Relu", net.op("Pad", x, [0, 0, 2, 1, 0, 0, 3, 2]))


def mirror_pad(net: Net) -> str:
    x = net.op("Relu", net.input(1, 32, 28, 28))
    return net.op("Relu", net.op("Pad", x, [0, 0, 2, 1, 0, 0, 3, 2], mode="reflect"))


def resized_nearest(net: Net) -> str:
    x = net.op("Relu", net.input(1, 32, 20, 20))
    return net.op("Relu", net.op("Resize", x, "", [1.0, 1.0, 2.0, 2.0], mode="nearest"))


def resized_nearest_unevenly(net: Net) -> str:
    return net.op("Resize", net.op("Relu", net.input(1, 64, 32, 32)), "", [1.0, 1.0, 1.7, 1.3], mode="nearest")


def grid_sample(net: Net) -> str:
    grid = net.op("Tanh", net.input(1, 24, 24, 2))
    return net.op("GridSample", net.op("Relu", net.input(1, 16, 20, 20)), grid)


def deformed_convolution(net: Net) -> str:
    x, w = net.input(1, 8, 12, 12), net.random(8, 8, 3, 3)
    offset = net.op("Conv", x, net.constant(np.full((18, 8, 1, 1), 0.03)))
    return net.op("DeformConv", x, w, offset, pads=[1] * 4)


def depth_to_space(net: Net) -> str:
    x = net.op("Conv", net.input(1, 16, 20, 20), net.random(48, 16, 1, 1))
    return net.op("Relu", net.op("DepthToSpace", x, blocksize=2))


def largest_places(net: Net) -> str:
    x = net.input(1, 32, 20, 20)
    return net.ops(2, "MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)[1]


def unpooled(net: Net) -> str:
    x = net.op("Relu", net.input(1, 16, 12, 12))
    values, places = net.ops(2, "MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return net.op("MaxUnpool", values, places, kernel_shape=[2, 2], strides=[2, 2])


def powers(net: Net) -> str:
    return net.op("LpPool", net.input(1, 32, 28, 28), kernel_shape=[3, 3], p=2)


def resized_linear(net: Net) -> str:
    return net.op("Resize", net.op("Relu", net.input(1, 32, 20, 20)), "", [1.0, 1.0, 2.0, 2.0], mode="linear")


@pytest.mark.parametrize(
    "build",
    [
        normalised_channels,
        grouped_norm,
        instance_norm,
        rms_norm,
        normalised_rows,
        transposed_convolution,
        grouped_transposed_convolution,
        columns,
        constant_pad,
        mirror_pad,
        resized_nearest,
        resized_nearest_unevenly,
        resized_linear,
        grid_sample,
        deformed_convolution,
        depth_to_space,
        largest_places,
        unpooled,
        powers,
    ],
    ids=lambda f: f.__name__,
)
def test_an_operator_may_be_cut_into_tiles(build) -> None:
    """The program for a machine in whose memories the operator does not fit at once gives the reference's values."""
    net = Net(23)
    model = net.model(build(net))
    done = compile_network(model, "net", load_machine("toy"), strategy_named("tvm"), Options(batch=1, verify=True))
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert done.schedule is not None
    assert any(_tiles(kernel, done.schedule.graph) > 2 for kernel in done.schedule.kernels)


def celu_of_negative_alpha(net: Net) -> str:
    return net.op("Celu", net.input(1, 30), alpha=-0.5)


def squeezed_without_naming_axes(net: Net) -> str:
    return net.op("Relu", net.op("Squeeze", net.input(1, 3, 4), net.constant(np.zeros(0, np.int64))))


@pytest.mark.parametrize("build", [celu_of_negative_alpha, squeezed_without_naming_axes], ids=lambda f: f.__name__)
def test_what_the_standard_leaves_open_is_as_onnxruntime_has_it(build) -> None:
    net = Net(23)
    model = net.model(build(net))
    done = compile_network(model, "net", load_machine("toy"), strategy_named("tvm"), Options(batch=1, verify=True))
    assert done.report is not None
    assert done.report.verified, done.report.checks


def test_a_tensor_may_be_padded_by_a_computed_value() -> None:
    """Behind cut-off elements too."""
    net = Net()
    x, value = net.input(3, 4), net.op("Relu", net.input(1))
    graph = net.graph(net.op("Pad", x, [1, -1, 0, 2], net.op("Squeeze", value)))
    verify_graph(graph)
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    (found,) = (interpret(graph, {x: rows, "in1": np.array([7], np.float32)})[name] for name in graph.outputs)
    np.testing.assert_array_equal(found, np.pad(rows[:, 1:], ((1, 0), (0, 2)), constant_values=7))


@given(st.lists(st.integers(-3, 12), min_size=1, max_size=24))
def test_pieces_are_the_indices_that_they_came_from(indices: list[int]) -> None:
    """Also where they are cut badly, each index comes once and in its place."""
    found = [
        (piece.start + piece.inner * i + k, piece.first + piece.outer_step * i + piece.inner_step * k)
        for piece in affine_pieces(indices)
        for i in range(piece.outer)
        for k in range(piece.inner)
    ]
    assert found == list(enumerate(indices))


@pytest.mark.parametrize(
    "indices, count",
    [([0, 0, 1, 1, 2, 2], 1), ([0, 1, 1, 2, 2, 3], 1), ([2, 1, 0, 1, 2, 3, 2, 1], 3), ([0, 0, 0, 1, 2, 2], 3)],
)
def test_repeated_and_mirrored_indices_are_few_pieces(indices: list[int], count: int) -> None:
    assert len(affine_pieces(indices)) == count


def _tiles(kernel, graph) -> int:
    """Tiles of a kernel, on all cores."""
    sink = graph.by_name[kernel.operators[-1]]
    return int(np.prod([-(-dim.extent // extent) for dim, extent in zip(sink.dims, kernel.tiling.tile, strict=True)]))
