"""Factors and permutations of Timeloop's constraints, as its architectures and its files of constraints have them."""

import re
from collections.abc import Sequence

from tilestitch.formats.foreign_file import Part

_FACTOR = re.compile(r"([A-Za-z]\w*?)\s*(<=|=)?\s*([0-9]{1,9})", re.ASCII)


def factors_of(part: Part) -> list[tuple[str, str, int]]:
    """Loops with = or <= and a factor, 0 left out: it is what the others leave, which says nothing."""
    if isinstance(part.value, list):
        texts = [item.text("a factor") for item in part.items("factors", least=0)]
    else:
        texts = re.split(r"[\s,]+", re.sub(r"\s*(<=|=)\s*", r"\1", part.text("factors")).strip())
    found: list[tuple[str, str, int]] = []
    for text in texts:
        match = _FACTOR.fullmatch(text)
        if match is None:
            part.expected("loops with their factors, as in [K=16, C<=4]")
        if int(match[3]) > 0:
            found.append((match[1], match[2] or "=", int(match[3])))
    return found


def permutation_of(part: Part) -> tuple[str, ...]:
    """The loops of a permutation in its order: a list, words, or letters in a row."""
    if isinstance(part.value, list):
        return tuple(item.text("a loop") for item in part.items("loops", least=0))
    words = re.split(r"[\s,]+", part.text("loops such as PRKC").strip())
    return tuple(words[0]) if len(words) == 1 else tuple(words)


def spread_loops(
    permutation: Sequence[str],
    split: int | None,
    is_y: bool,
    fixed: Sequence[tuple[str, str, int]],
    known: Sequence[str],
) -> tuple[str, ...] | None:
    """The loops that a mesh may spread along its X or its Y; nothing where everything may be.

    What stands before the split goes along X, the rest along Y; a loop with the factor 1 along neither.
    """
    alone = {loop for loop, sign, factor in fixed if factor == 1}
    if split is None:
        return tuple(loop for loop in known if loop not in alone) if alone else None
    order = (*permutation, *(loop for loop in known if loop not in permutation))
    here = order[split:] if is_y else order[:split]
    return tuple(loop for loop in here if loop not in alone)
