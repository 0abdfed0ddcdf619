"""Blocks of today's networks compile for a small machine and mean what onnxruntime says; both forms cost the same."""

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest

from tests.helpers.graphs import Net, conv, weight
from tilestitch.hardware.load import load_machine
from tilestitch.ir.report import Report
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named

pytestmark = pytest.mark.quick

Block = Callable[[Net, str], str]


def dilated(net: Net, x: str) -> str:
    """Two dilations beside each other, as in atrous pyramids."""
    parts = [net.op("Relu", conv(net, x, 8, 8, 3, dilation=d)) for d in (2, 3)]
    return conv(net, net.op("Concat", *parts, axis=1), 8, 16)


def inverted_bottleneck(net: Net, x: str) -> str:
    """MobileNet-v3: expansion, depthwise 5x5, squeeze and excite, projection, residual."""
    y = net.op("HardSwish", conv(net, x, 24, 8))
    y = net.op("HardSwish", conv(net, y, 24, 24, 5, group=24))
    squeezed = net.op("Relu", conv(net, net.op("GlobalAveragePool", y), 8, 24))
    y = net.op("Mul", y, net.op("HardSigmoid", conv(net, squeezed, 24, 8), alpha=1 / 6, beta=0.5))
    return net.op("Add", x, conv(net, y, 8, 24))


def shuffled(net: Net, x: str) -> str:
    """ShuffleNet: grouped 1x1, channel shuffle, depthwise 3x3 by 2 beside an average pool."""
    y = net.op("Relu", conv(net, x, 16, 8, group=2))
    y = net.op("Reshape", y, [1, 2, 8, 16, 16])
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3, 4]), [1, 16, 16, 16])
    y = conv(net, conv(net, y, 16, 16, 3, stride=2, group=16), 8, 16, group=2)
    pooled = net.op("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    return net.op("Relu", net.op("Concat", y, pooled, axis=1))


def decoder(net: Net, x: str) -> str:
    """U-Net: down, up by a transposed convolution, joined, group norm and SiLU."""
    down = net.op("Relu", conv(net, x, 16, 8, 3, stride=2))
    up = net.op("ConvTranspose", down, weight(net, 16, 8, 2, 2), strides=[2, 2])
    y = conv(net, net.op("Concat", x, up, axis=1), 12, 16, 3)
    y = net.op("GroupNormalization", y, net.random(12), net.random(12), num_groups=3)
    return net.op("Swish", y)


def pyramid(net: Net, x: str) -> str:
    """Feature pyramids and segmentation heads: nearest and bilinear resizing, reflected borders, depth to space."""
    down = net.op("MaxPool", conv(net, x, 8, 8, 3), kernel_shape=[2, 2], strides=[2, 2])
    y = net.op("Add", x, net.op("Resize", down, "", [1.0, 1.0, 2.0, 2.0], mode="nearest"))
    y = net.op("Pad", y, [0, 0, 1, 1, 0, 0, 1, 1], mode="reflect")
    y = net.op("Conv", y, weight(net, 12, 8, 3, 3))
    y = net.op("DepthToSpace", y, blocksize=2)
    return net.op("Resize", y, "", [1.0, 1.0, 0.75, 0.75], mode="linear")


def local_responses(net: Net, x: str) -> str:
    """AlexNet: local response normalisation between convolution and pool."""
    y = net.op("LRN", net.op("Relu", conv(net, x, 16, 8, 3)), size=5, alpha=0.1)
    return net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2])


def gated(net: Net, x: str) -> str:
    """Llama: RMS norm, a gated feed-forward of two projections, residual."""
    x = net.op("Reshape", x, [1, 64, 32])
    y = net.op("RMSNormalization", x, net.random(32), epsilon=1e-6)
    gate, up = (net.op("MatMul", y, weight(net, 32, 48)) for _ in range(2))
    return net.op("Add", x, net.op("MatMul", net.op("Mul", net.op("Swish", gate), up), weight(net, 48, 32)))


BLOCKS = [dilated, inverted_bottleneck, shuffled, decoder, pyramid, local_responses, gated]


def compiled(*blocks: Block, opset: int = 24, strategy: str = "tvm") -> Report:
    """The verified report of blocks one after another, on a machine that must cut them into tiles."""
    net = Net(opset)
    x = net.input(1, 8, 16, 16)
    for block in blocks:
        x = block(net, x)
    options = Options(batch=1, verify=True)
    done = compile_network(net.model(x), "net", load_machine("toy"), strategy_named(strategy), options)
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert done.report.latency_cycles >= done.report.bound_cycles
    assert done.report.ddr_bytes >= done.report.compulsory_bytes
    return done.report


@pytest.mark.parametrize("strategy", ["layerwise", "tvm"])
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__)
def test_a_block_of_a_network_means_what_onnxruntime_says(block: Block, strategy: str) -> None:
    compiled(block, strategy=strategy)


def shifted(net: Net, x: str, axis: int, by: int) -> str:
    """Rolled along an axis, as slices that are joined the other way round."""
    start, end = (net.op("Slice", x, *bounds, [axis]) for bounds in (([0], [by]), ([by], [1 << 30])))
    return net.op("Concat", end, start, axis=axis)


def windows_that_are_shifted(net: Net, x: str) -> str:
    """Swin: windows back in their image, which is shifted and added to the residual."""
    y = net.op("Softmax", net.op("Reshape", x, [4, 8, 8, 64]))
    y = net.op("Transpose", net.op("Reshape", y, [1, 2, 2, 8, 8, 64]), perm=[0, 1, 3, 2, 4, 5])
    y = net.op("Reshape", y, [1, 16, 16, 64])
    return net.op("Add", shifted(net, shifted(net, y, 1, 3), 2, 3), net.op("Reshape", x, [1, 16, 16, 64]))


@pytest.mark.parametrize("machine, strategy", [("toy", "graphturbo"), ("toy", "dlfusion"), ("goya", "tvm")])
def test_operators_without_room_together_run_apart(machine: str, strategy: str) -> None:
    """TVM fuses all copies of a shift with the addition, of which a tile needs the whole image several times."""
    net = Net()
    x = net.input(1, 64, 16, 16)
    done = compile_network(
        net.model(windows_that_are_shifted(net, x)),
        "net",
        load_machine(machine),
        strategy_named(strategy),
        Options(batch=1, verify=True),
    )
    assert done.report is not None
    assert done.report.verified, done.report.checks


def in_cast(net: Net, x: str, inside: Block) -> str:
    return net.op("Cast", inside(net, net.op("Cast", x, to=1)), to=1)


def rms(net: Net, x: str) -> str:
    mean = net.op("ReduceMean", net.op("Pow", x, 2.0), [-1])
    return net.op("Mul", x, net.op("Reciprocal", net.op("Sqrt", net.op("Add", mean, 1e-6))))


def centred(net: Net, x: str, axes: list[int]) -> str:
    y = net.op("Sub", x, net.op("ReduceMean", x, axes))
    variance = net.op("ReduceMean", net.op("Mul", y, y), axes)
    return net.op("Div", y, net.op("Sqrt", net.op("Add", variance, 1e-5)))


def grouped(net: Net, x: str) -> str:
    y = net.op("Reshape", x, [0, 2, -1])
    y = net.op("InstanceNormalization", y, np.ones(2, np.float32), np.zeros(2, np.float32))
    y = net.op("Reshape", y, [1, 8, 16, 16])
    return net.op("Add", net.op("Mul", y, net.random(8, 1, 1)), net.random(8, 1, 1))


FORMS: dict[str, tuple[Block, Block]] = {
    "silu": (lambda net, x: net.op("Swish", x), lambda net, x: net.op("Mul", x, net.op("Sigmoid", x))),
    "hard-swish": (
        lambda net, x: net.op("HardSwish", x),
        lambda net, x: net.op("Mul", x, net.op("Div", net.op("Clip", net.op("Add", x, 3.0), 0.0, 6.0), 6.0)),
    ),
    "mish": (lambda net, x: net.op("Mish", x), lambda net, x: net.op("Mul", x, net.op("Tanh", net.op("Softplus", x)))),
    "rms-norm": (
        lambda net, x: net.op("RMSNormalization", x, net.random(16), epsilon=1e-6),
        lambda net, x: net.op("Mul", net.random(16), in_cast(net, x, rms)),
    ),
    "layer-norm": (
        lambda net, x: net.op("LayerNormalization", x, net.random(16), net.random(16)),
        lambda net, x: net.op("Add", net.op("Mul", centred(net, x, [-1]), net.random(16)), net.random(16)),
    ),
    "instance-norm": (
        lambda net, x: net.op("InstanceNormalization", x, net.random(8), net.random(8)),
        lambda net, x: net.op("Add", net.op("Mul", centred(net, x, [2, 3]), net.random(8, 1, 1)), net.random(8, 1, 1)),
    ),
    "group-norm": (
        lambda net, x: net.op("GroupNormalization", x, net.random(8), net.random(8), num_groups=2),
        grouped,
    ),
    "gelu": (
        lambda net, x: net.op("Gelu", x),
        lambda net, x: net.op(
            "Mul", net.op("Mul", x, 0.5), net.op("Add", net.op("Erf", net.op("Div", x, sqrt(2))), 1.0)
        ),
    ),
    "softmax": (
        lambda net, x: net.op("Softmax", x, axis=-1),
        lambda net, x: net.op(
            "Div", (e := net.op("Exp", net.op("Sub", x, net.op("ReduceMax", x, [-1])))), net.op("ReduceSum", e, [-1])
        ),
    ),
}


@pytest.mark.parametrize("forms", FORMS.values(), ids=FORMS)
def test_both_forms_of_a_function_give_the_same_schedule(forms: tuple[Block, Block]) -> None:
    """Behind a convolution, native or in elementary operators: the same kernels, traffic and cycles."""
    reports = [compiled(lambda net, x: conv(net, x, 8, 8, 3), form) for form in forms]
    costs = [(len(r.kernels), r.ddr_bytes, r.latency_cycles) for r in reports]
    assert costs[0] == costs[1]
