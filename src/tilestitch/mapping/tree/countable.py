"""A nest whose indices trees can count: sums of at most two loops, that only go forward.

The elements that a tile touches are as many if a loop runs the other way, and if an axis whose loops are digits of the
index, as in `64*h + d` with fewer than 64 of `d`, is several axes.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import gcd

from tilestitch.base.errors import InputError
from tilestitch.ir.loop_nest import LoopNest, LoopOperand

_Terms = tuple[tuple[int, int], ...]  # loop and step, of an index
_MOST = 2


def countable(nest: LoopNest, *, widest: bool = False) -> LoopNest:
    """The nest with all steps forward, and with an axis for each digit where an index is of more than two loops.

    Where one stays a sum of more, it has only the two that reach furthest if `widest`, so that it counts too low; else
    that raises `InputError`.
    """
    reads = tuple(_countable(array, nest, widest=widest) for array in nest.reads)
    return replace(nest, reads=reads, write=_countable(nest.write, nest, widest=widest))


def _countable(array: LoopOperand, nest: LoopNest, *, widest: bool) -> LoopOperand:
    axes: list[_Terms] = []
    shape: list[int] = []
    for terms, size in zip(array.axes, array.shape, strict=True):
        forward = tuple((loop, abs(step)) for loop, step in terms)
        for digit in [forward] if len(forward) <= _MOST else _digits(forward, nest.extents):
            if len(digit) > _MOST and widest:
                digit = tuple(sorted(digit, key=lambda term: -term[1] * (nest.extents[term[0]] - 1))[:_MOST])
            elif len(digit) > _MOST:
                loops = ", ".join(nest.loops[loop].name for loop, _ in digit)
                raise InputError(
                    f"layer {nest.name}: an index of {array.name} is a sum of the loops {loops}; trees count sums of "
                    "at most two. Make two of them one loop, name the other layers (--layer), or map it on a PE array "
                    "(map --machine eyeriss)"
                )
            axes.append(digit)
            shape.append(size if len(forward) <= _MOST else _values(digit, nest.extents))
    return array if axes == list(array.axes) else replace(array, axes=tuple(axes), shape=tuple(shape))


def _digits(terms: _Terms, extents: Sequence[int]) -> list[_Terms]:
    """The terms apart wherever all inner ones together stay below the step of the outer ones; the outermost first."""
    ordered = sorted(terms, key=lambda term: -term[1])
    steps = list(accumulate((step for _, step in ordered), gcd))  # of all from the outermost up to each
    found: list[list[tuple[int, int]]] = [[ordered[0]]]
    for at, term in enumerate(ordered[1:], 1):
        reach = sum(step * (extents[loop] - 1) for loop, step in ordered[at:])
        if reach < steps[at - 1]:
            found.append([])
        found[-1].append(term)
    return [tuple(one) for one in found]


def _values(terms: _Terms, extents: Sequence[int]) -> int:
    """The most values that a sum may take: those from its least to its largest that its steps allow."""
    return 1 + sum(step * (extents[loop] - 1) for loop, step in terms) // gcd(*(step for _, step in terms))
