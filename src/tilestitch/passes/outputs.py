"""Outputs that nothing computes."""

from dataclasses import replace

from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator
from tilestitch.passes.fold import fresh_name


def write_outputs(graph: Graph) -> Graph:
    """The same network, in which an output that is a constant is written by a copy; who reads the constant still does.

    The copy is named `<output>.copy`, and the constant `<output>.value`.
    """
    tensors, constants, operators = dict(graph.tensors), dict(graph.constants), list(graph.operators)
    taken = {op.name for op in operators}
    for name in graph.outputs:
        if name not in constants:
            continue
        held = fresh_name(f"{name}.value", tensors)
        constants[held], tensors[held] = constants.pop(name), replace(tensors[name], name=held)
        operators = [
            replace(op, reads=tuple(replace(read, tensor=held) if read.tensor == name else read for read in op.reads))
            for op in operators
        ]
        shape = tensors[name].shape
        dims = tuple(Dim(f"d{axis}", extent, DimKind.PARALLEL) for axis, extent in enumerate(shape))
        axes = tuple(Axis(((axis, 1),)) for axis in range(len(shape)))
        copy = fresh_name(f"{name}.copy", taken)
        taken.add(copy)
        operators.append(Operator(copy, "copy", dims, (Access(held, axes),), (Access(name, axes),)))
    return replace(graph, tensors=tensors, constants=constants, operators=tuple(operators))
