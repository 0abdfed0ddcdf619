"""Attention, written out as the views, products, softmax and element-wise operators that it stands for."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from tilestitch.frontend.accesses import broadcast
from tilestitch.frontend.elementwise import apply
from tilestitch.frontend.network import Network, Node, text_of
from tilestitch.frontend.normalisation import over_axes
from tilestitch.frontend.products import multiply
from tilestitch.frontend.shapes import insert, permute, regroup


@dataclass(frozen=True, slots=True)
class Heads:
    """Sizes of an attention; `groups` query heads share each head of keys and values."""

    batch: int
    heads: int
    groups: int
    queries: int
    keys: int

    @property
    def scores(self) -> tuple[int, ...]:
        return (self.batch, self.heads * self.groups, self.queries, self.keys)


def attention(node: Node, network: Network) -> None:
    """softmax(Q K^T * scale + mask) V per head, in the operators of a network that spells it out.

    Operands are [N, heads, tokens, size], or [N, tokens, heads * size] with the numbers of heads as attributes. The
    default scale is written as a division by the root of the head size, as frameworks export it. A boolean mask
    replaces scores by a large negative number, and clears rows in which no key is left.

    Source: ONNX operator Attention, versions 23 to 25.
    """
    _refuse_what_is_not_supported(node)
    q, k, v = node.inputs[:3]
    merged = len(network.shape(q)) == 3
    query_heads, key_heads = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    if merged:
        q = _split_heads(node, network, q, "query", query_heads)
        k = _split_heads(node, network, k, "key", key_heads, transposed=True)
        v = _split_heads(node, network, v, "value", key_heads)
    elif len(network.shape(k)) == 4:
        k = permute(node, network, k, (0, 1, 3, 2), network.step(node, "key.transposed"))
    sizes = _sizes(node, network, q, k, v)
    if sizes.groups > 1:
        shape = network.shape(q)
        q = regroup(node, network, "reshape", q, _grouped(shape, sizes), network.step(node, "query.grouped"))
        k = insert(node, network, k, (2,), network.step(node, "key.grouped"))
        v = insert(node, network, v, (2,), network.step(node, "value.grouped"))

    x = multiply(node, network, q, k, network.step(node, "scores"))
    if sizes.groups > 1:
        x = regroup(node, network, "reshape", x, sizes.scores, network.step(node, "scores.heads"))
    x = _weights(node, network, x, sizes, head_size=network.shape(q)[-1])
    if sizes.groups > 1:
        x = regroup(node, network, "reshape", x, _grouped(sizes.scores, sizes), network.step(node, "weights.grouped"))

    steps = ["context"]
    steps += ["context.heads"] if sizes.groups > 1 else []
    steps += ["context.transposed", "context.merged"] if merged else []
    targets = [network.step(node, name) for name in steps[:-1]] + [network.last_step(node, steps[-1])]
    x = multiply(node, network, x, v, targets.pop(0))
    if sizes.groups > 1:
        shape = (*sizes.scores[:3], network.shape(v)[-1])
        x = regroup(node, network, "reshape", x, shape, targets.pop(0))
    if merged:
        size = network.shape(x)[1] * network.shape(x)[3]
        x = permute(node, network, x, (0, 2, 1, 3), targets.pop(0))
        regroup(node, network, "reshape", x, (sizes.batch, sizes.queries, size), targets.pop(0))


def _refuse_what_is_not_supported(node: Node) -> None:
    node.refuse_outputs(1, "a cache, or the scores")
    for number, meaning in ((4, "past_key"), (5, "past_value"), (6, "nonpad_kv_seqlen")):
        if node.operand(number) is not None:
            raise node.fault(f"input {meaning} is not supported; export the network without a cache.")
    if node.real("softcap", 0.0) != 0.0:
        raise node.fault("attribute softcap is not supported unless 0; write the cap in elementary operators.")
    for name in ("left_window_size", "right_window_size"):
        if node.integer(name, -1) != -1:
            raise node.fault(f"attribute {name} is not supported unless -1; write the window as a mask.")
    node.ignore("qk_matmul_output_mode", "softmax_precision")


def _split_heads(node: Node, network: Network, x: str, role: str, heads: int, *, transposed: bool = False) -> str:
    """[N, tokens, heads * size] to [N, heads, tokens, size], or with the last two axes exchanged."""
    shape = network.shape(x)
    if len(shape) != 3 or heads < 1 or shape[2] % heads:
        raise node.fault(
            f"{role} of shape {text_of(shape)} with {heads} heads; expected [batch, tokens, channels] and a number of "
            "heads (q_num_heads, kv_num_heads) that divides the channels."
        )
    split = (*shape[:2], heads, shape[2] // heads)
    x = regroup(node, network, "reshape", x, split, network.step(node, f"{role}.split"))
    order = (0, 2, 3, 1) if transposed else (0, 2, 1, 3)
    return permute(node, network, x, order, network.step(node, f"{role}.transposed"))


def _sizes(node: Node, network: Network, q: str, k: str, v: str) -> Heads:
    """Check that queries [N, H, L, d], transposed keys [N, G, d, S] and values [N, G, S, e] belong together."""
    shapes = q_shape, k_shape, v_shape = network.shape(q), network.shape(k), network.shape(v)
    if not (
        all(len(shape) == 4 for shape in shapes)
        and q_shape[0] == k_shape[0] == v_shape[0]
        and q_shape[3] == k_shape[2]
        and k_shape[1] == v_shape[1]
        and k_shape[3] == v_shape[2]
        and q_shape[1] % k_shape[1] == 0
    ):
        raise node.fault(
            f"queries {text_of(q_shape)}, transposed keys {text_of(k_shape)} and values {text_of(v_shape)} do not "
            "belong together; expected [N, H, L, d], [N, G, d, S] and [N, G, S, e], with H a multiple of G."
        )
    return Heads(q_shape[0], k_shape[1], q_shape[1] // k_shape[1], q_shape[2], k_shape[3])


def _grouped(shape: tuple[int, ...], sizes: Heads) -> tuple[int, ...]:
    """[N, heads * groups, ...] as [N, heads, groups, ...]."""
    return (shape[0], sizes.heads, sizes.groups, *shape[2:])


def _weights(node: Node, network: Network, x: str, sizes: Heads, *, head_size: int) -> str:
    """The scores scaled, masked and through the softmax: how much each query attends to each key."""
    element_type = network.element_type(x)
    scale = node.real("scale", 0.0) if "scale" in node.attributes else None
    root = sqrt(head_size)
    if scale is None or abs(scale * root - 1.0) < 1e-6:
        divisor = network.new_constant(node, "root", np.asarray(root, element_type))
        x = apply(node, network, "div", (x, divisor), network.step(node, "scaled"))
    elif scale != 1.0:
        factor = network.new_constant(node, "scale", np.asarray(scale, element_type))
        x = apply(node, network, "mul", (x, factor), network.step(node, "scaled"))

    causal = np.tri(sizes.queries, sizes.keys, dtype=np.bool_) if node.flag("is_causal") else None
    mask = node.operand(3)
    if mask is not None:
        shape = network.shape(mask)
        if broadcast(shape, sizes.scores) != sizes.scores or shape[-1:] != sizes.scores[-1:]:
            raise node.fault(
                f"attn_mask '{mask}' has shape {text_of(shape)}; expected one that broadcasts to "
                f"{text_of(sizes.scores)}, with all {sizes.keys} keys."
            )
    if mask is not None and network.element_type(mask) == np.bool_:
        return _boolean_mask(node, network, x, mask, causal)
    if causal is not None:
        added = np.where(causal, 0, _masked_score(element_type)).astype(element_type)
        x = apply(node, network, "add", (x, network.new_constant(node, "future", added)), network.step(node, "causal"))
    if mask is not None:
        x = apply(node, network, "add", (x, mask), network.step(node, "masked"))
    return over_axes(node, network, "softmax", x, (3,), network.step(node, "softmax"))


def _boolean_mask(node: Node, network: Network, x: str, mask: str, causal: np.ndarray | None) -> str:
    """Softmax over the keys that the mask leaves, and zeros where it leaves none."""
    element_type = network.element_type(x)
    known = network.value(mask)
    if known is not None and causal is not None:
        known = known & causal
        mask = network.new_constant(node, "allowed", known)
    elif causal is not None:
        allowed = network.new_constant(node, "past", causal)
        mask = apply(node, network, "and", (mask, allowed), network.step(node, "allowed"))
    lowest = network.new_constant(node, "masked_score", np.asarray(_masked_score(element_type), element_type))
    x = apply(node, network, "where", (mask, x, lowest), network.step(node, "masked"), element_type=element_type)
    x = over_axes(node, network, "softmax", x, (3,), network.step(node, "softmax"))
    if known is not None and known.any(axis=-1).all():
        return x
    zero = network.new_constant(node, "zero", np.zeros((), element_type))
    return apply(node, network, "where", (mask, x, zero), network.step(node, "cleared"), element_type=element_type)


def _masked_score(element_type: np.dtype) -> float:
    """A finite score so small that nothing is left of it after the softmax."""
    return float(max(np.finfo(element_type).min, np.finfo(np.float32).min))
