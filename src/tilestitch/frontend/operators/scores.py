"""From the scores of an attention to its weights: scale, cap, masks and softmax."""

from dataclasses import dataclass
from math import sqrt

import ml_dtypes
import numpy as np

from tilestitch.frontend.element_types import BOOL
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.operators.accesses import broadcast
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.normalisation import over_axes
from tilestitch.frontend.operators.shapes import copy, regroup
from tilestitch.frontend.operators.slicing import join

_SCALED, _CAPPED, _MASKED, _WEIGHTS = range(4)  # what the fourth output shows


@dataclass(frozen=True, slots=True)
class Scores:
    """Sizes of the scores; the first `past` keys are older than the first query."""

    batch: int
    heads: int
    queries: int
    keys: int
    past: int
    head_size: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.batch, self.heads, self.queries, self.keys)


@dataclass(frozen=True, slots=True)
class _Window:
    """`lower <= key - query <= upper` by their places in the sequence; None is no bound."""

    lower: int | None
    upper: int | None

    def allows(self, distance: np.ndarray) -> np.ndarray:
        """Which keys at those distances a query may attend to."""
        allowed = np.ones(distance.shape, np.bool_)
        if self.lower is not None:
            allowed &= distance >= self.lower
        if self.upper is not None:
            allowed &= distance <= self.upper
        return allowed


@dataclass(frozen=True, slots=True)
class _Masks:
    """What hides keys. `known` broadcasts to the scores; each tensor of `computed` is boolean, `added` is a float."""

    known: np.ndarray
    computed: tuple[str, ...]
    added: str | None
    by_position: bool  # known from positions alone, as frameworks write a causal mask


def attention_weights(node: Node, network: Reading, x: str, scores: Scores) -> str:
    """How much each query attends to each key.

    The default scale is written as a division by the root of the head size, as frameworks export it. What follows from
    positions alone is added to the scores; boolean masks replace them by a large negative number. Rows in which no key
    is left become 0. The intermediate result that the fourth output asks for is copied to it.
    """
    shown = node.integer("qk_matmul_output_mode", _SCALED)
    node.ignore("softmax_precision")
    if not _SCALED <= shown <= _WEIGHTS:
        raise node.fault(f"attribute qk_matmul_output_mode={shown}: expected 0 to 3.")

    def show(stage: int, x: str) -> str:
        if node.needs(3) and stage == shown:
            copy(node, network, x, network.step(node, "scores.output", node.outputs[3]))
        return x

    x = show(_SCALED, _scaled(node, network, x, scores))
    x = show(_CAPPED, _capped(node, network, x))
    masks = _masks(node, network, scores)
    element_type = network.element_type(x)
    # finite, so that a row without keys does not become NaN, unless that is what an output shows
    lowest = -np.inf if node.needs(3) and shown == _MASKED else _lowest(element_type)
    allowed = _joint_mask(node, network, masks)
    if allowed is not None:
        if masks.added is not None:
            x = apply(node, network, "add", (x, masks.added), network.step(node, "added"))
        hidden = network.new_constant(node, "masked_score", np.asarray(lowest, element_type))
        x = apply(node, network, "where", (allowed, x, hidden), network.step(node, "masked"), element_type=element_type)
    else:
        if not masks.known.all():
            hidden = np.where(masks.known, 0, lowest).astype(element_type)
            future = network.new_constant(node, "future", hidden)
            x = apply(node, network, "add", (x, future), network.step(node, "causal"))
        if masks.added is not None:
            x = apply(node, network, "add", (x, masks.added), network.step(node, "masked"))
    show(_MASKED, x)
    x = over_axes(node, network, "softmax", x, (3,), network.step(node, "softmax"))
    return show(_WEIGHTS, _cleared(node, network, x, masks, allowed))


def _scaled(node: Node, network: Reading, x: str, scores: Scores) -> str:
    element_type = network.element_type(x)
    scale = node.real("scale", 0.0) if "scale" in node.attributes else None
    root = sqrt(scores.head_size)
    if scale is None or abs(scale * root - 1.0) < 1e-6:
        divisor = network.new_constant(node, "root", np.asarray(root, element_type))
        return apply(node, network, "div", (x, divisor), network.step(node, "scaled"))
    if scale == 1.0:
        return x
    factor = network.new_constant(node, "scale", np.asarray(scale, element_type))
    return apply(node, network, "mul", (x, factor), network.step(node, "scaled"))


def _capped(node: Node, network: Reading, x: str) -> str:
    """cap * tanh(x / cap)."""
    cap = node.real("softcap", 0.0)
    if cap == 0.0:
        return x
    limit = network.new_constant(node, "cap", np.asarray(cap, network.element_type(x)))
    x = apply(node, network, "div", (x, limit), network.step(node, "uncapped"))
    x = apply(node, network, "tanh", (x,), network.step(node, "tanh"))
    return apply(node, network, "mul", (x, limit), network.step(node, "capped"))


def _masks(node: Node, network: Reading, scores: Scores) -> _Masks:
    """The mask operand, what follows from positions, and the lengths of the sequences in a cache."""
    window, mask, lengths = _window(node), node.operand(3), node.operand(6)
    network.afford(node, scores.keys * scores.queries)
    distance = np.arange(scores.keys) - np.arange(scores.queries)[:, np.newaxis]
    known, computed, added = np.ones((1, 1), np.bool_), [], None
    by_position = True
    if lengths is None:
        known = window.allows(distance - scores.past)
    else:
        if network.shape(lengths) != (scores.batch,):
            found = text_of(network.shape(lengths))
            raise node.fault(f"nonpad_kv_seqlen '{lengths}' has shape {found}; expected [{scores.batch}].")
        value = network.value(lengths)
        by_position = False
        if value is None:
            computed += _in_sequence(node, network, lengths, window, distance)
        else:
            length = value.reshape(-1, 1, 1, 1)
            known = (np.arange(scores.keys) < length) & window.allows(distance - (length - scores.queries))
    if mask is not None:
        mask = _for_all_keys(node, network, mask, scores)
        value = network.value(mask)
        if network.element_type(mask) != BOOL:
            added = mask
        elif value is None:
            computed.append(mask)
            by_position = False
        else:
            known = known & value
            by_position = False
    return _Masks(known, tuple(computed), added, by_position)


def _window(node: Node) -> _Window:
    left, right = node.integer("left_window_size", -1), node.integer("right_window_size", -1)
    causal = node.flag("is_causal")
    if min(left, right) < -1:
        raise node.fault(f"left_window_size={left}, right_window_size={right}: expected -1 (no bound) or more.")
    upper = 0 if causal else right if right >= 0 else None
    return _Window(-left if left >= 0 else None, upper)


def _in_sequence(node: Node, network: Reading, lengths: str, window: _Window, distance: np.ndarray) -> list[str]:
    """Boolean tensors that say of a cache filled up to `lengths` which keys the queries, its newest, may attend to."""
    queries, keys = distance.shape
    length = regroup(
        node, network, "reshape", lengths, (*network.shape(lengths), 1, 1, 1), network.step(node, "lengths")
    )

    def compared(name: str, numbers: np.ndarray, *, least: bool) -> str:
        constant = network.new_constant(node, f"{name}.bound", numbers.astype(network.element_type(lengths)))
        operands = (constant, length) if least else (length, constant)
        return apply(node, network, "less_or_equal", operands, network.step(node, name), element_type=BOOL)

    found = []
    if window.upper is not None:
        found.append(compared("past", distance + queries - window.upper, least=True))
    if window.upper is None or window.upper > 0:  # the future of the last query holds the padding
        found.append(compared("filled", np.arange(keys) + 1, least=True))
    if window.lower is not None:
        found.append(compared("recent", distance + queries - window.lower, least=False))
    return found


def _for_all_keys(node: Node, network: Reading, mask: str, scores: Scores) -> str:
    """The mask operand; where it ends before the keys do, no query attends to the rest."""
    shape = network.shape(mask)
    fits = broadcast((*shape[:-1], scores.keys), scores.shape) == scores.shape
    if not shape or not fits or shape[-1] > scores.keys:
        raise node.fault(
            f"attn_mask '{mask}' has shape {text_of(shape)}; expected one that broadcasts to {text_of(scores.shape)}, "
            f"with at most {scores.keys} keys."
        )
    if shape[-1] == scores.keys:
        return mask
    element_type = network.element_type(mask)
    hidden = False if element_type == BOOL else _lowest(element_type)
    rest = np.full((*shape[:-1], scores.keys - shape[-1]), hidden, element_type)
    value = network.value(mask)
    if value is not None:
        return network.new_constant(node, "mask.padded", np.concatenate((value, rest), axis=-1))
    names = mask, network.new_constant(node, "mask.rest", rest)
    return join(node, network, names, len(shape) - 1, network.step(node, "mask.padded"))


def _joint_mask(node: Node, network: Reading, masks: _Masks) -> str | None:
    """One boolean tensor of all masks, or None where positions alone hide keys."""
    if masks.by_position:
        return None
    names = list(masks.computed)
    if not names or not masks.known.all():
        names.append(network.new_constant(node, "allowed", masks.known))
    mask = names[0]
    for name in names[1:]:
        mask = apply(node, network, "and", (mask, name), network.step(node, "allowed"))
    return mask


def _cleared(node: Node, network: Reading, x: str, masks: _Masks, allowed: str | None) -> str:
    """Zeros in rows in which no key is left."""
    known = masks.known
    if masks.added is not None:
        value = network.value(masks.added)
        known = known if value is None else known & (value > -np.inf)
    rows = np.asarray(known.any(axis=-1, keepdims=True))
    if rows.all() and not masks.computed:
        return x
    if allowed is None or not masks.computed:
        allowed = network.new_constant(node, "attending", rows)
    element_type = network.element_type(x)
    zero = network.new_constant(node, "zero", np.zeros((), element_type))
    return apply(node, network, "where", (allowed, x, zero), network.step(node, "cleared"), element_type=element_type)


def _lowest(element_type: np.dtype) -> float:
    """A finite score so small that nothing is left of it after the softmax."""
    return float(max(ml_dtypes.finfo(element_type).min, np.finfo(np.float32).min))
