"""Activations, alone and behind a bias, a convolution or a product."""

from collections.abc import Mapping, Sequence

import numpy as np

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.writing import Writer

# The attributes of each activation that onnxruntime fuses, in the order of `activation_params`.
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "Softplus": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}


def gelu(node: Node, network: Reading) -> Definition:
    """Gelu and BiasGelu: exactly, by the error function."""
    return _gelu(node, network, "none")


def fast_gelu(node: Node, network: Reading) -> Definition:
    """FastGelu: by the hyperbolic tangent, with a bias perhaps."""
    return _gelu(node, network, "tanh")


def _gelu(node: Node, network: Reading, approximate: str) -> Definition:
    write = Writer(node, network)
    x, bias = node.inputs[0], node.operand(1)
    if bias is not None:
        x = write.op("Add", x, bias)
    write.op("Gelu", x, output=0, approximate=approximate)
    return write.finished()


def quick_gelu(node: Node, network: Reading) -> Definition:
    """x * sigmoid(alpha * x)."""
    write = Writer(node, network)
    write.op("Swish", node.inputs[0], output=0, alpha=node.real("alpha", 1.702))
    return write.finished()


def fused_convolution(node: Node, network: Reading) -> Definition:
    """FusedConv: a convolution, a sum with Z perhaps, and an activation."""
    write = Writer(node, network)
    kind = node.text("activation", "")
    found = node.attributes.pop("activation_params", None)
    attributes = {name: node.integers(name) for name in ("kernel_shape", "pads", "strides", "dilations")}
    x = write.op(
        "Conv",
        *node.inputs[:3],
        output=None,
        auto_pad=node.text("auto_pad", "NOTSET"),
        group=node.integer("group", 1),
        **attributes,
    )
    other = node.operand(3)
    if other is not None:
        x = write.op("Add", x, other)
    activate(node, write, x, kind, () if found is None else tuple(found.floats))
    return write.finished()


def fused_gemm(node: Node, network: Reading) -> Definition:
    """FusedGemm: a Gemm and an activation."""
    write = Writer(node, network)
    kind = node.text("activation", "")
    named = [node.attributes.pop(f"activation_{name}", None) for name in ("alpha", "beta", "gamma")]
    given = [attribute.f for attribute in named if attribute is not None]
    x = write.op(
        "Gemm",
        *node.inputs,
        alpha=node.real("alpha", 1.0),
        beta=node.real("beta", 1.0),
        transA=node.integer("transA", 0),
        transB=node.integer("transB", 0),
    )
    activate(node, write, x, kind, given)
    return write.finished()


def activate(node: Node, write: Writer, x: str, kind: str, parameters: Sequence[float]) -> None:
    """The activation of that name, as the first output; "" is none."""
    if not kind:
        write.op("Identity", x, output=0)
        return
    if kind not in _ACTIVATIONS or len(parameters) > len(_ACTIVATIONS[kind]):
        raise node.not_covered(
            f"attribute activation={kind!r} with {len(parameters)} parameters has no rule; known: "
            f"{', '.join(sorted(_ACTIVATIONS))}."
        )
    if kind == "Clip":
        limits = [write.constant(np.asarray(value, np.float32)) for value in parameters]
        write.op("Clip", x, *limits, output=0)
        return
    write.op(kind, x, output=0, **dict(zip(_ACTIVATIONS[kind], parameters, strict=False)))
