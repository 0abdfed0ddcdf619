"""Which axes of tensors are cut where the results of some operators are cut."""

from collections.abc import Sequence

from tilestitch.ir.graph import Access, DimKind, Graph, Operator


def axes_that_follow(graph: Graph, operators: Sequence[Operator], outputs: dict[str, int]) -> dict[str, int]:
    """Per tensor the axis that is cut when the outputs are cut along theirs; a tensor that is needed whole is absent.

    Where readers disagree the tensor is needed whole.
    """
    axes: dict[str, int | None] = dict(outputs)
    for op in reversed(operators):
        dims = {_mover(write, axis) for write in op.writes if (axis := axes.get(write.tensor)) is not None}
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
