"""Indices inside a kernel: sums of variables that hold the indices of a block, each with the range of its lanes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilestitch.ir.graph import Axis


@dataclass(frozen=True, slots=True)
class Guard:
    """A mask: which lanes of a block stand for an element."""

    text: str
    depth: int  # of the loop in which it was computed


@dataclass(frozen=True, slots=True)
class Var:
    """A variable of a kernel that holds indices from `low` to `high`, both included, where its guards allow it."""

    name: str
    low: int
    high: int
    axes: frozenset[int] = frozenset()  # of the block, along which it varies; none: a number
    guards: tuple[Guard, ...] = ()
    depth: int = 0  # of the loop in which it is computed


@dataclass(frozen=True, slots=True)
class Index:
    """The sum of `factor * variable` over `terms`, plus `offset`."""

    terms: tuple[tuple[Var, int], ...] = ()
    offset: int = 0

    def __add__(self, other: "Index | int") -> "Index":
        if isinstance(other, int):
            return Index(self.terms, self.offset + other)
        factors = dict(self.terms)
        for var, factor in other.terms:
            factors[var] = factors.get(var, 0) + factor
        terms = tuple((var, factor) for var, factor in factors.items() if factor != 0)
        return Index(terms, self.offset + other.offset)

    def __mul__(self, factor: int) -> "Index":
        if factor == 0:
            return Index()
        return Index(tuple((var, factor * each) for var, each in self.terms), factor * self.offset)

    @property
    def low(self) -> int:
        return self.offset + sum(min(factor * var.low, factor * var.high) for var, factor in self.terms)

    @property
    def high(self) -> int:
        return self.offset + sum(max(factor * var.low, factor * var.high) for var, factor in self.terms)

    @property
    def axes(self) -> frozenset[int]:
        return frozenset(axis for var, _ in self.terms for axis in var.axes)

    @property
    def depth(self) -> int:
        return max((var.depth for var, _ in self.terms), default=0)

    @property
    def guards(self) -> tuple[Guard, ...]:
        """Those of all variables, each once."""
        return tuple(dict.fromkeys(guard for var, _ in self.terms for guard in var.guards))

    @property
    def only(self) -> Var | None:
        """The variable that it is, if it is one and nothing else."""
        return self.terms[0][0] if len(self.terms) == 1 and self.terms[0][1] == 1 and self.offset == 0 else None

    @property
    def is_simple(self) -> bool:
        """Whether it can stand in a product or a comparison without brackets."""
        return self.only is not None or not self.terms

    def __str__(self) -> str:
        parts = [
            (var.name if abs(factor) == 1 else f"{var.name} * {abs(factor)}", factor < 0) for var, factor in self.terms
        ]
        if self.offset or not parts:
            parts.append((str(abs(self.offset)), self.offset < 0))
        first, negative = parts[0]
        text = f"-{first}" if negative else first
        return text + "".join(f" {'-' if minus else '+'} {part}" for part, minus in parts[1:])


def of_var(var: Var) -> Index:
    return Index(((var, 1),))


def total(parts: Iterable[Index]) -> Index:
    found = Index()
    for part in parts:
        found = found + part
    return found


def along(axis: Axis, dims: Sequence[Index]) -> Index:
    """Where an access is along one axis, with the operator at these indices."""
    return total(dims[dim] * stride for dim, stride in axis.terms) + axis.offset


def strides_of(shape: Sequence[int], layout: Sequence[int]) -> tuple[int, ...]:
    """Elements between neighbours along each axis, where `layout` lists the axes, the innermost last."""
    found, step = [0] * len(shape), 1
    for axis in reversed(layout):
        found[axis] = step
        step *= shape[axis]
    return tuple(found)
