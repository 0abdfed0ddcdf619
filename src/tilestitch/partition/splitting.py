"""How a sub-graph may be split into pieces: along which dim of its output, and into how many.

Source: Zhao et al., GraphTurbo, OSDI 2023, section 3.1, Algorithm 1 and Equation (1).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilestitch.ir.graph import Access, DimKind, Graph, Operator
from tilestitch.partition.liveness import least_peak
from tilestitch.units import ceil_div

UNSPLITTABLE = 1 << 30  # a factor larger than any: no split makes the sub-graph fit


@dataclass(frozen=True, slots=True)
class Split:
    """The best way to split a sub-graph: `factor` pieces along axis `axis` of its outputs, which `operators` follow."""

    axis: int
    factor: int
    operators: int
    peak_bytes: int

    @property
    def fits(self) -> bool:
        return self.factor < UNSPLITTABLE


def factors(extent: int) -> Iterator[int]:
    """Candidates for the number of pieces: 1, 2, 4, 8, 9, 10, ..., the extent.

    3, 5, 6 and 7 are left out: pieces that 8 cores cannot share evenly.
    """
    yield from (v for v in (1, 2, 4) if v <= extent)
    yield from range(8, extent + 1)


def best_split(graph: Graph, operators: Sequence[Operator], capacity_bytes: int) -> Split:
    """The split that most operators follow, then the one of fewest pieces, then along the outermost axis.

    Per axis the number of pieces is the smallest whose share of the peak fits in `capacity_bytes`. An intermediate
    tensor follows a split where the operators from it to the output move one of its axes with the axis that is split,
    and the number of pieces divides its extent. Where no split fits, the factor is `UNSPLITTABLE`.
    """
    peak = least_peak(graph, operators).peak_bytes
    inside = {op.name for op in operators}
    outputs = [name for op in operators for name in op.outputs if _leaves(graph, name, inside)]
    rank = min(len(graph.tensors[name].shape) for name in outputs)
    found = [Split(0, UNSPLITTABLE, 0, peak)]
    for axis in range(rank):
        extent = min(graph.tensors[name].shape[axis] for name in outputs)
        factor = next((v for v in factors(extent) if ceil_div(peak, v) <= capacity_bytes), None)
        if factor is None:
            continue
        following = axes_that_follow(graph, operators, dict.fromkeys(outputs, axis))
        moved = sum(
            1
            for op in operators
            if any(name in following and _divides(graph, name, following[name], factor) for name in op.outputs)
        )
        found.append(Split(axis, factor, moved, peak))
    return max(found, key=lambda split: (split.fits, split.operators, -split.factor, -split.axis))


def axes_that_follow(graph: Graph, operators: Sequence[Operator], outputs: dict[str, int]) -> dict[str, int]:
    """Per tensor the axis that is cut when the outputs are cut along theirs; a tensor that is needed whole is absent.

    Where readers disagree the tensor is needed whole.
    """
    axes: dict[str, int | None] = dict(outputs)
    for op in reversed(operators):
        cut = [(write, axes[write.tensor]) for write in op.writes if axes.get(write.tensor) is not None]
        dims = {_mover(write, axis) for write, axis in cut if axis is not None}
        dim = dims.pop() if len(dims) == 1 else None
        if dim is not None and op.dims[dim].kind is not DimKind.PARALLEL:
            dim = None
        for read in op.reads:
            if read.tensor in graph.constants:
                continue
            axis = None if dim is None else _moved(read, dim)
            axes[read.tensor] = axis if axes.get(read.tensor, axis) == axis else None
    return {name: axis for name, axis in axes.items() if axis is not None}


def _mover(access: Access, axis: int) -> int | None:
    """The outermost dim that moves an axis."""
    terms = access.axes[axis].terms
    return terms[0][0] if terms else None


def _moved(access: Access, dim: int) -> int | None:
    """The axis of which a dim is the outermost mover."""
    return next((n for n, axis in enumerate(access.axes) if axis.terms and axis.terms[0][0] == dim), None)


def _divides(graph: Graph, name: str, axis: int, factor: int) -> bool:
    return graph.tensors[name].shape[axis] % factor == 0


def _leaves(graph: Graph, name: str, inside: set[str]) -> bool:
    readers = graph.consumers.get(name, ())
    return name in graph.outputs or not readers or any(op.name not in inside for op in readers)
