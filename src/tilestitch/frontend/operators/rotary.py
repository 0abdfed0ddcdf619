"""Rotary embedding, written out as the element-wise operators that it stands for."""

import numpy as np

from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.operators.accesses import along, axis
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.gathering import pick
from tilestitch.frontend.operators.shapes import insert, regroup
from tilestitch.frontend.operators.slicing import cut, join, select


def rotary_embedding(node: Node, network: Reading) -> None:
    """x * cos + (x with the two halves of each pair exchanged) * (-sin, sin), per pair of channels.

    x is [N, heads, tokens, size], or [N, tokens, heads * size] with the number of heads as an attribute. Pairs are
    neighbours where `interleaved`, else a channel of the first half and one of the second. Channels from
    `rotary_embedding_dim` on pass. The angles are those of each token, or rows of a table that positions pick.

    Source: ONNX operator RotaryEmbedding, version 23.
    """
    x, shape = node.inputs[0], network.shape(node.inputs[0])
    merged, heads = len(shape) == 3, node.integer("num_heads", 0)
    if merged and heads > 0 and shape[2] % heads == 0:
        split = (*shape[:2], heads, shape[2] // heads)
        x = regroup(node, network, "reshape", x, split, network.step(node, "heads"))
    elif len(shape) != 4:
        raise node.fault(
            f"operand of shape {text_of(shape)} with {heads} heads; expected [batch, heads, tokens, size], or "
            "[batch, tokens, channels] and a number of heads (num_heads) that divides the channels."
        )
    size = network.shape(x)[3]
    rotated = node.integer("rotary_embedding_dim", 0) or size
    if not 0 < rotated <= size or rotated % 2:
        raise node.fault(f"rotary_embedding_dim={rotated} of {size} channels a head; expected an even number of them.")
    half = 4 if node.flag("interleaved") else 3  # axis of [N, ., ., ., .] that tells the halves of a pair apart
    pairs = (rotated // 2, 2) if half == 4 else (2, rotated // 2)
    tokens_at = 1 if merged else 2
    cos, sin = _angles(node, network, network.shape(x)[tokens_at], rotated // 2, half=half, heads_at=3 - tokens_at)

    turned = x if rotated == size else cut(node, network, x, 3, 0, rotated, network.step(node, "rotated.part"))
    outer = network.shape(turned)[:3]
    turned = regroup(node, network, "reshape", turned, (*outer, *pairs), network.step(node, "pairs"))
    exchanged = [*along(*range(3)), *along(3, 4)]
    exchanged[half] = axis((half, -1), offset=1)
    swapped = select(node, network, turned, (*outer, *pairs), tuple(exchanged), network.step(node, "exchanged"))
    first = apply(node, network, "mul", (turned, cos), network.step(node, "cos"))
    second = apply(node, network, "mul", (swapped, sin), network.step(node, "sin"))

    steps = ["sum", "channels"]
    steps += ["joined"] if rotated < size else []
    steps += ["merged"] if merged else []
    targets = [network.step(node, name) for name in steps[:-1]] + [network.last_step(node, steps[-1])]
    turned = apply(node, network, "add", (first, second), targets.pop(0))
    turned = regroup(node, network, "reshape", turned, (*outer, rotated), targets.pop(0))
    if rotated < size:
        rest = cut(node, network, x, 3, rotated, size, network.step(node, "rest"))
        turned = join(node, network, (turned, rest), 3, targets.pop(0))
    if merged:
        regroup(node, network, "reshape", turned, shape, targets.pop(0))


def _angles(node: Node, network: Reading, tokens: int, channels: int, *, half: int, heads_at: int) -> tuple[str, str]:
    """Cosines, and sines with the sign of each half of a pair, that broadcast to the pairs of all heads."""
    positions = node.operand(3)
    found = []
    for role, name in zip(("cos", "sin"), node.inputs[1:3], strict=True):
        shape = network.shape(name)
        rank, of_tokens = (3, shape[-2:-1] == (tokens,)) if positions is None else (2, True)
        if len(shape) != rank or shape[-1] != channels or not of_tokens:
            wanted = f"[batch, {tokens}, {channels}]" if positions is None else f"[positions, {channels}]"
            raise node.fault(f"{role}_cache '{name}' has shape {text_of(shape)}; expected {wanted}.")
        if positions is not None:
            name = pick(node, network, name, positions, 0, network.step(node, f"{role}.rows"))
        name = insert(node, network, name, (half - 1,), network.step(node, f"{role}.pairs"))
        if role == "sin":
            sign = np.array([[-1], [1]] if half == 3 else [[-1, 1]], network.element_type(name))
            signs = network.new_constant(node, "sign", sign)
            name = apply(node, network, "mul", (name, signs), network.step(node, "sin.signed"))
        found.append(insert(node, network, name, (heads_at,), network.step(node, f"{role}.heads")))
    return found[0], found[1]
