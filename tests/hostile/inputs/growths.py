"""Nodes that would make something huge of a small input: constants that only they need, or results."""

import numpy as np
from onnx import TensorProto

from tests.hostile.inputs.making import model, network, node, value, weight

HUGE = 10**12
IMAGE = "x:1,1,4,4"
WINDOW = "x:4,4"


def grown(
    name: str, op_type: str, *operands: object, x: str = WINDOW, opset: int = 20, dtype: type = int, **attributes
):
    """A node of the input and of constants."""
    weights = [weight(f"c{number}", operand, dtype) for number, operand in enumerate(operands)]
    names = " ".join(["x", *(one.name for one in weights)])
    return network(
        name,
        lambda: model(
            node(op_type, names, **attributes), inputs=[x], weights=weights, opsets={"": opset}, ir_version=10
        ),
    )


def resized(name: str, mode: str, scales: list[float], sizes: list[int] | None = None):
    """A Resize by scales, or to sizes."""
    none = weight("none", [])
    last = weight("last", sizes, int) if sizes else weight("last", scales)
    names = "x none none last" if sizes else "x none last"
    return network(name, lambda: model(node("Resize", names, mode=mode), inputs=[IMAGE], weights=[none, last]))


GROWTHS = (
    grown("a tensor repeated a million million times", "Tile", [HUGE, 1]),
    grown("a tensor expanded a million million times", "Expand", [HUGE, 4, 4]),
    grown("a border of zeros", "Pad", [0, HUGE, 0, 0]),
    grown("a border of mirror images", "Pad", [0, HUGE, 0, 0], mode="reflect"),
    grown("a frame around it", "CenterCropPad", [HUGE, HUGE]),
    grown("a transform of a thousand million places", "DFT", 10**9, x="x:1,8,1"),
    grown("a transform of a window of a million samples", "STFT", 1, x=f"x:1,{2**20},1"),
    grown("the triangle of a huge matrix", "Trilu", x=f"x:{2**17},{2**17}"),
    grown("ones on the diagonal of a huge matrix", "EyeLike", x=f"x:{2**17},{2**17}"),
    grown("a thousand million neighbours", "LRN", x=IMAGE, size=10**9),
    grown("pixels spread over a grid", "ConvTranspose", [[[[1.0]]]], x=IMAGE, dtype=np.float32, strides=[10**9, 10**9]),
    resized("an enlargement by the nearest", "nearest", [1, 1, 1e9, 1e9]),
    resized("an enlargement by cubics", "cubic", [], [1, 1, HUGE, HUGE]),
    network(
        "a million million classes",
        lambda: model(
            node("OneHot", "x d v"),
            inputs=[value("x:4", TensorProto.INT64)],
            weights=[weight("d", HUGE, int), weight("v", [0.0, 1.0])],
        ),
    ),
    network(
        "a thousand million samples of a region",
        lambda: model(
            node("RoiAlign", "x r i", sampling_ratio=10**9),
            inputs=[IMAGE, "r:1,4", value("i:1", TensorProto.INT64)],
        ),
    ),
    network(
        "a grid of a thousand million places",
        lambda: model(
            node("AffineGrid", "x s"),
            inputs=["x:1,2,3"],
            weights=[weight("s", [1, 1, 10**9, 10**9], int)],
            opsets={"": 20},
        ),
    ),
    network(
        "attention of a million tokens",
        lambda: model(
            node("Attention", "x x x", q_num_heads=1, kv_num_heads=1, is_causal=1),
            inputs=[f"x:1,{2**20},64"],
            opsets={"": 23},
            ir_version=10,
        ),
    ),
    network(
        "all pairs of pairs",
        lambda: model(node("Einsum", "x x", equation="abcd,efgh->abcdefgh"), inputs=["x:300,300,300,300"]),
    ),
)
