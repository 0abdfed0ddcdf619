"""What a loop nest from a file may be, whatever the format."""

from collections.abc import Iterable, Sequence
from math import prod

from tilestitch.base.errors import InputError
from tilestitch.ir.loop_nest import LoopNest, LoopOperand

MAX_LOOPS = 16
MAX_OPERANDS = 8  # that are read
MAX_EXTENT = 2**24
MAX_STEP = 2**20  # of an index, for one more iteration of a loop
MAX_ITERATIONS = 2**52  # counts, and their products with a few bytes, are exact in 64 bits
MAX_ELEMENTS = 2**44  # of one array
MAX_BITS = 64


def span(terms: Iterable[tuple[int, int]], extents: tuple[int, ...]) -> tuple[int, int]:
    """The least and the greatest value of a sum of (loop, coefficient) terms over all iterations."""
    ends = [step * (extents[loop] - 1) for loop, step in terms]
    return sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)


def operand(
    name: str, axes: Sequence[Sequence[tuple[int, int]]], extents: tuple[int, ...], bits: int = 16
) -> LoopOperand:
    """An array that reaches from its least index, or from 0, to its greatest."""
    frozen = tuple(tuple(terms) for terms in axes)
    ends = [span(terms, extents) for terms in frozen]
    return LoopOperand(name, frozen, tuple(most - min(0, least) + 1 for least, most in ends), bits)


def checked(nest: LoopNest, where: str) -> LoopNest:
    """The nest itself; refuses one that is too large to count in, or whose loops or arrays make no sense."""
    if not 1 <= len(nest.loops) <= MAX_LOOPS:
        raise InputError(f"{where}: expected 1 to {MAX_LOOPS} loops, found {len(nest.loops)}")
    if not 1 <= len(nest.reads) <= MAX_OPERANDS:
        raise InputError(f"{where}: expected 1 to {MAX_OPERANDS} arrays that are read, found {len(nest.reads)}")
    for loop in nest.loops:
        if not 1 <= loop.extent <= MAX_EXTENT:
            raise InputError(
                f"{where}: loop {loop.name!r}: expected an extent of 1 to {MAX_EXTENT:,}, found {loop.extent:,}"
            )
    if nest.macs > MAX_ITERATIONS:
        raise InputError(f"{where}: expected at most 2^52 iterations, found {nest.macs:,}; map a part of it")
    indexed = frozenset().union(*(operand.indexed_by for operand in nest.operands))
    for number, loop in enumerate(nest.loops):
        if number not in indexed and loop.extent > 1:
            raise InputError(f"{where}: loop {loop.name!r} indexes no array; remove it")
    for operand in nest.operands:
        _check_operand(nest, operand, where)
    return nest


def _check_operand(nest: LoopNest, operand: LoopOperand, where: str) -> None:
    here = f"{where}: array {operand.name!r}"
    for terms in operand.axes:
        for loop, step in terms:
            if not 1 <= abs(step) <= MAX_STEP:
                name = nest.loops[loop].name
                raise InputError(f"{here}: expected steps of 1 to {MAX_STEP:,} for loop {name!r}, found {step:,}")
    for axis, (size, read) in enumerate(zip(operand.shape, operand.extents(nest.extents), strict=True)):
        if size < read:
            raise InputError(
                f"{here}: its size along axis {axis} is {size:,}, but {read:,} indices are used; expected the array as "
                "it is in memory, with its padding"
            )
    if prod(operand.shape) > MAX_ELEMENTS:
        raise InputError(f"{here}: expected at most 2^44 elements, found {prod(operand.shape):,}")
    if not 1 <= operand.element_bits <= MAX_BITS:
        raise InputError(f"{here}: expected elements of 1 to {MAX_BITS} bits, found {operand.element_bits:,}")
