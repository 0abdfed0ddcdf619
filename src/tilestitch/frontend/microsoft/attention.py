"""Attention of encoders, written as the standard's Attention with the products, biases and masks around it."""

from dataclasses import dataclass

import numpy as np

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.writing import Writer

_HIDDEN = -10000.0  # what is added to the score of a hidden key, unless the node says another


@dataclass(frozen=True, slots=True)
class Operands:
    """Queries, keys and values [N, tokens, heads * size], and the cache before them, if it holds anything."""

    query: str
    key: str
    value: str
    past_key: str | None = None
    past_value: str | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many samples, queries, and keys with those of the cache."""

    batch: int
    queries: int
    keys: int


def attention(node: Node, network: Reading) -> Definition:
    """Attention: one product gives queries, keys and values of all heads; the cache is [2, N, heads, tokens, size]."""
    write = Writer(node, network)
    x, weights = node.inputs[:2]
    bias, past = node.operand(2), node.operand(4)
    heads = node.integer("num_heads", 0)
    widths = node.integers("qkv_hidden_sizes") or (network.shape(weights)[-1] // 3,) * 3
    if node.flag("do_rotary") or node.integer("rotary_embedding_dim", 0):
        raise node.not_covered("attribute do_rotary=1 has no rule.")
    if node.operand(6) is not None or node.flag("past_present_share_buffer"):
        raise node.not_covered("a cache that is longer than its past has no rule.")
    product = write.op("MatMul", x, weights)
    if bias is not None:
        product = write.op("Add", product, bias)
    q, k, v = write.ops("Split", (product, write.integers(*widths)), (None, None, None), axis=-1)

    batch, length = network.shape(x)[:2]
    before = 0 if past is None else network.shape(past)[3]
    operands = Operands(q, k, v)
    if past is not None and before:
        shape = network.shape(past)[1:]
        operands = Operands(q, k, v, *(write.reshape(write.cut(past, 0, at, at + 1), *shape) for at in (0, 1)))
    sizes = Sizes(batch, length, before + length)
    added = _mask(node, network, write, node.operand(3), node.operand(5), sizes)
    key, value = attend(node, write, operands, (heads, heads), added, causal=node.flag("unidirectional"))
    if node.needs(1):
        axis = write.integers(0)
        write.op("Concat", *(write.op("Unsqueeze", one, axis) for one in (key, value)), output=1, axis=0)
    return write.finished()


def multi_head_attention(node: Node, network: Reading) -> Definition:
    """MultiHeadAttention: queries, keys and values apart, or packed in one tensor or two."""
    write = Writer(node, network)
    heads, bias, past = node.integer("num_heads", 0), node.operand(3), node.operand(6)
    if node.operand(8) is not None or node.operand(9) is not None:
        raise node.not_covered("a cache that is longer than its past, or for a search of beams, has no rule.")
    batch, length = network.shape(node.inputs[0])[:2]
    keys = length if node.operand(1) is None else network.shape(node.inputs[1])[1]
    q, k, v = _unpacked(node, network, write)
    if bias is not None:
        shape, total = network.shape(node.inputs[0]), network.shape(bias)[0]
        width = shape[2] * (shape[4] if len(shape) == 5 else 1)
        parts = write.ops("Split", (bias, write.integers(width, width, total - 2 * width)), (None,) * 3, axis=0)
        q, k, v = (write.op("Add", x, part) for x, part in zip((q, k, v), parts, strict=True))
    before = 0 if past is None else network.shape(past)[2]
    caches = (past, node.operand(7)) if before else (None, None)
    sizes = Sizes(batch, length, before + keys)
    added = _mask(node, network, write, node.operand(4), node.operand(5), sizes)
    causal = node.flag("unidirectional")
    attend(node, write, Operands(q, k, v, *caches), (heads, heads), added, causal=causal, outputs=(1, 2))
    return write.finished()


def _unpacked(node: Node, network: Reading, write: Writer) -> tuple[str, str, str]:
    """Queries, keys and values, each [N, tokens, heads * size]."""
    q, k, v = node.inputs[0], node.operand(1), node.operand(2)

    def parts(x: str, count: int) -> list[str]:
        batch, tokens, heads, packed, size = network.shape(x)
        if packed != count:
            raise node.fault(f"operand '{x}' of shape {text_of(network.shape(x))}; expected {count} in its axis 3.")
        found = write.ops("Split", (x,), (None,) * count, axis=3, num_outputs=count)
        return [write.reshape(one, batch, tokens, heads * size) for one in found]

    ranks = [len(network.shape(x)) for x in (q, k, v) if x is not None]
    if ranks == [5]:
        first, second, third = parts(q, 3)
        return first, second, third
    if ranks == [3, 5] and k is not None:
        second, third = parts(k, 2)
        return q, second, third
    if ranks == [3, 3, 3] and k is not None and v is not None:
        return q, k, v
    raise node.not_covered(f"operands of {', '.join(map(str, ranks))} axes have no rule.")


def _mask(node: Node, network: Reading, write: Writer, mask: str | None, added: str | None, sizes: Sizes) -> str | None:
    """What is added to the scores, which broadcasts to [N, heads, queries, keys].

    A mask says of each key of a sample, or of each query and key, whether it counts; or how many first keys do.
    """
    hidden = np.asarray(node.real("mask_filter_value", _HIDDEN), np.float32)
    if mask is None:
        return added
    shape = network.shape(mask)
    if shape == (sizes.batch,):
        places = write.constant(np.arange(sizes.keys, dtype=network.element_type(mask)).reshape(1, 1, 1, -1))
        kept = write.op("Less", places, write.reshape(mask, sizes.batch, 1, 1, 1))
    elif shape in ((sizes.batch, sizes.keys), (sizes.batch, sizes.queries, sizes.keys)):
        queries = shape[1] if len(shape) == 3 else 1
        zero = write.constant(np.zeros((), network.element_type(mask)))
        kept = write.op("Greater", write.reshape(mask, sizes.batch, 1, queries, sizes.keys), zero)
    else:
        raise node.not_covered(f"a mask of shape {text_of(shape)} has no rule.")
    element_type = network.element_type(node.inputs[0])
    nothing, large = (write.constant(np.asarray(value, element_type)) for value in (0, hidden))
    found = write.op("Where", kept, nothing, large)
    return found if added is None else write.op("Add", found, added)


def attend(
    node: Node,
    write: Writer,
    operands: Operands,
    heads: tuple[int, int],
    added: str | None,
    *,
    causal: bool,
    outputs: tuple[int | None, int | None] = (None, None),
) -> tuple[str, str]:
    """The standard's Attention as the first output, with so many heads of queries and of keys.

    Returns all keys and values, [N, heads, tokens, size], which are the given outputs of the node if those are read.
    """
    scale = node.real("scale", 0.0)
    cap = node.real("softcap", 0.0)
    _, key, value = write.ops(
        "Attention",
        (operands.query, operands.key, operands.value, added, operands.past_key, operands.past_value),
        (0, *outputs),
        q_num_heads=heads[0],
        kv_num_heads=heads[1],
        is_causal=int(causal),
        scale=scale or None,
        softcap=cap or None,
    )
    return key, value
