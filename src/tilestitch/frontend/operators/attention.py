"""Attention, written out as the views, products, softmax and element-wise operators that it stands for."""

from dataclasses import dataclass

from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.operators.products import multiply
from tilestitch.frontend.operators.scores import Scores, attention_weights
from tilestitch.frontend.operators.shapes import copy, insert, permute, regroup, stretch
from tilestitch.frontend.operators.slicing import join


@dataclass(frozen=True, slots=True)
class Heads:
    """Sizes of an attention; `groups` query heads share each head of keys and values."""

    batch: int
    heads: int
    groups: int
    queries: int
    keys: int

    @property
    def scores(self) -> tuple[int, int, int, int]:
        return (self.batch, self.heads * self.groups, self.queries, self.keys)


def attention(node: Node, network: Reading) -> None:
    """softmax(Q K^T * scale + mask) V per head, in the operators of a network that spells it out.

    Operands are [N, heads, tokens, size], or [N, tokens, heads * size] with the numbers of heads as attributes. A cache
    of earlier keys and values comes before the new ones. `scores` says how scores become weights.

    Source: ONNX operator Attention, versions 23 to 25.
    """
    q, k, v = node.inputs[:3]
    merged = len(network.shape(q)) == 3
    query_heads, key_heads = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    if merged:
        q = _split_heads(node, network, q, "query", query_heads)
    past = _past_keys(node, network)
    k = _transposed_keys(node, network, k, key_heads if merged else None)
    v = _joined(node, network, v, "value", key_heads if merged else None)
    sizes = _sizes(node, network, q, k, v)
    head_size = network.shape(q)[-1]
    if sizes.groups > 1:
        k, v = (_repeated(node, network, x, sizes, role) for x, role in ((k, "key"), (v, "value")))

    x = multiply(node, network, q, k, network.step(node, "scores"))
    x = attention_weights(node, network, x, Scores(*sizes.scores, past, head_size))
    steps = ["context", *(["context.transposed", "context.merged"] if merged else [])]
    targets = [network.step(node, name) for name in steps[:-1]] + [network.last_step(node, steps[-1])]
    x = multiply(node, network, x, v, targets.pop(0))
    if merged:
        size = network.shape(x)[1] * network.shape(x)[3]
        x = permute(node, network, x, (0, 2, 1, 3), targets.pop(0))
        regroup(node, network, "reshape", x, (sizes.batch, sizes.queries, size), targets.pop(0))


_OPERANDS = {"key": 4, "value": 5}  # of a cache
_OUTPUTS = {"key": 1, "value": 2}


def _past_keys(node: Node, network: Reading) -> int:
    """How many keys the cache holds."""
    key, value = node.operand(4), node.operand(5)
    if (key is None) != (value is None):
        raise node.fault("expected both past_key and past_value, or neither.")
    if key is not None and node.operand(6) is not None:
        raise node.fault("expected past_key or nonpad_kv_seqlen, not both.")
    if key is None or value is None:
        return 0
    shapes = network.shape(key), network.shape(value)
    if any(len(shape) != 4 for shape in shapes):
        raise node.fault(
            f"past_key of shape {text_of(shapes[0])} and past_value of shape {text_of(shapes[1])}; "
            "expected [batch, heads, tokens, size]."
        )
    return shapes[0][2]


def _transposed_keys(node: Node, network: Reading, k: str, heads: int | None) -> str:
    """All keys, [N, heads, size, tokens]."""
    if heads is not None and node.operand(_OPERANDS["key"]) is None and not node.needs(_OUTPUTS["key"]):
        return _split_heads(node, network, k, "key", heads, transposed=True)
    k = _joined(node, network, k, "key", heads)
    if len(network.shape(k)) != 4:
        return k
    return permute(node, network, k, (0, 1, 3, 2), network.step(node, "key.transposed"))


def _joined(node: Node, network: Reading, x: str, role: str, heads: int | None) -> str:
    """Keys or values [N, heads, tokens, size], those of the cache first; the cache that an output shows."""
    if heads is not None:
        x = _split_heads(node, network, x, role, heads)
    past, output = node.operand(_OPERANDS[role]), _OUTPUTS[role]
    if past is not None:
        if len(network.shape(x)) != 4:
            raise node.fault(f"{role} of shape {text_of(network.shape(x))}; expected [batch, heads, tokens, size].")
        x = join(node, network, (past, x), 2, network.step(node, f"present_{role}"))
    if node.needs(output):
        copy(node, network, x, network.step(node, f"present_{role}.output", node.outputs[output]))
    return x


def _split_heads(node: Node, network: Reading, x: str, role: str, heads: int, *, transposed: bool = False) -> str:
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
    return permute(node, network, x, order, network.step(node, f"{role}.heads"))


def _sizes(node: Node, network: Reading, q: str, k: str, v: str) -> Heads:
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
            "match; expected [N, H, L, d], [N, G, d, S] and [N, G, S, e], with H a multiple of G."
        )
    return Heads(q_shape[0], k_shape[1], q_shape[1] // k_shape[1], q_shape[2], k_shape[3])


def _repeated(node: Node, network: Reading, x: str, sizes: Heads, role: str) -> str:
    """Keys or values [N, heads, ., .] with each head once for each query head that it serves, as exporters write it."""
    shape = network.shape(x)
    x = insert(node, network, x, (2,), network.step(node, f"{role}.group"))
    x = stretch(node, network, x, (*shape[:2], sizes.groups, *shape[2:]), network.step(node, f"{role}.stretched"))
    repeated = (sizes.batch, sizes.heads * sizes.groups, *shape[2:])
    return regroup(node, network, "reshape", x, repeated, network.step(node, f"{role}.repeated"))
