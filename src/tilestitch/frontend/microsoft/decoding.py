"""Attention of decoders, whose heads share keys, and the rotation of pairs of channels by the place of a token."""

import numpy as np

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.microsoft.attention import Operands, attend
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.writing import Writer

_UNUSED = {9: "position_ids", 11: "head_sink", 12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight"}


def rotary_embedding(node: Node, network: Reading) -> Definition:
    """RotaryEmbedding: the standard's, with the place of each token, or that of the first one of all samples."""
    write = Writer(node, network)
    x, positions, cos, sin = node.inputs
    shape, given = network.shape(x), network.shape(positions)
    rotated, heads = node.integer("rotary_embedding_dim", 0), node.integer("num_heads", 0)
    node.ignore("is_packed_batching")
    if node.real("scale", 1.0) != 1:
        raise node.not_covered("attribute scale has no rule.")
    if len(shape) == 3 and not heads:
        heads = shape[2] // (2 * network.shape(cos)[1])
    batch, tokens = shape[0], shape[1 if len(shape) == 3 else 2]
    if given == (1,) and (batch, tokens) != (1, 1):
        each = write.constant(np.tile(np.arange(tokens, dtype=network.element_type(positions)), (batch, 1)))
        positions = write.op("Add", each, positions)
    elif given != (batch, tokens):
        positions = write.reshape(positions, batch, tokens)
    write.op(
        "RotaryEmbedding",
        *(x, cos, sin, positions),
        output=0,
        interleaved=node.integer("interleaved", 0),
        num_heads=heads if len(shape) == 3 else None,
        rotary_embedding_dim=rotated or None,
    )
    return write.finished()


def group_query_attention(node: Node, network: Reading) -> Definition:
    """GroupQueryAttention where it is known while reading how long the sequences are, and their cache is full.

    Each query attends to the keys up to its own, or to that and `local_window_size` - 1 before it; the tokens are
    rotated first where `do_rotary`.
    """
    if not network.is_known(node.inputs[6]):
        raise node.fault(
            f"total_sequence_length '{node.inputs[6]}' depends on the network's inputs, and the shape of a result on "
            "it; export with static shapes."
        )
    write = Writer(node, network)
    q, k, v = node.inputs[0], node.operand(1), node.operand(2)
    heads = node.integer("num_heads", 0), node.integer("kv_num_heads", 0)
    window = node.integer("local_window_size", -1)
    causal = node.flag("causal", default=True)
    batch, length, width = network.shape(q)
    if k is None or v is None:
        size = width // (heads[0] + 2 * heads[1])
        sizes = write.integers(heads[0] * size, heads[1] * size, heads[1] * size)
        q, k, v = write.ops("Split", (q, sizes), (None, None, None), axis=-1)
    past = _past(node, network, length)
    _expect_plain(node)
    added = node.operand(10)
    if added is not None and "softcap" in node.attributes:
        raise node.not_covered("attribute softcap with a bias has no rule.")
    if node.flag("do_rotary"):
        places = write.constant(np.tile(np.arange(past, past + length), (batch, 1)))
        q, k = (_rotated(node, network, write, x, count, places) for x, count in zip((q, k), heads, strict=True))
    node.ignore("rotary_interleaved")
    caches = (node.operand(3), node.operand(4)) if past else (None, None)
    if window > 0 and past + length > window:
        distance = np.arange(past, past + length)[:, None] - np.arange(past + length)
        near = np.where(distance < window, 0, -np.inf).astype(network.element_type(node.inputs[0]))
        hidden = write.constant(near.reshape(1, 1, *near.shape))
        added = hidden if added is None else write.op("Add", hidden, added)
    attend(node, write, Operands(q, k, v, *caches), heads, added, causal=causal, outputs=(1, 2))
    return write.finished()


def _past(node: Node, network: Reading, length: int) -> int:
    """How many tokens the cache holds: all that it has room for."""
    lengths, total = (network.required_value(node, number, "sequence length") for number in (5, 6))
    room = 0 if node.operand(3) is None else network.shape(node.inputs[3])[2]
    if total.size != 1 or int(total.reshape(())) != room + length or not (lengths == room + length - 1).all():
        raise node.not_covered(
            f"sequences of {text_of(tuple((lengths.ravel() + 1).tolist()))} tokens, {length} of them new, with a cache "
            f"of {room} have no rule."
        )
    return room


def _expect_plain(node: Node) -> None:
    """Refuse what has no rule."""
    for number, meaning in _UNUSED.items():
        if node.operand(number) is not None:
            raise node.not_covered(f"operand {number} ({meaning}) has no rule.")
    for name in ("smooth_softmax", "sliding_window_cache", "qk_output"):
        if node.integer(name, 0) > 0:
            raise node.not_covered(f"attribute {name} has no rule.")
    for name in ("k_quant_type", "v_quant_type"):
        if node.text(name, "NONE") != "NONE":
            raise node.not_covered(f"attribute {name} has no rule.")
    node.ignore("kv_cache_bit_width", "qk_norm_epsilon")


def _rotated(node: Node, network: Reading, write: Writer, x: str, heads: int, places: str) -> str:
    """Queries or keys, turned by their places behind the cache."""
    interleaved = node.attributes.get("rotary_interleaved")
    cos, sin = node.operand(7), node.operand(8)
    if cos is None or sin is None:
        raise node.fault("attribute do_rotary=1 without cos_cache and sin_cache; expected both.")
    return write.op(
        "RotaryEmbedding",
        *(x, cos, sin, places),
        interleaved=0 if interleaved is None else interleaved.i,
        num_heads=heads,
        rotary_embedding_dim=2 * network.shape(cos)[1],
    )
