"""Kernels that some core can run: cut where work passes from one class of units to the other."""

from collections.abc import Sequence

from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.tiles import kernels_of
from tilestitch.ops.work import can_run, on_matrix_unit, operand_dtype


def by_units(graph: Graph, kernel: tuple[Operator, ...], machine: Accelerator) -> list[tuple[Operator, ...]]:
    """Cut a kernel that no core can run whole where work passes from matrix to vector units or back.

    The pieces are in running order. Each runs on one class of units, so that some core can run it.
    """
    if any(can_run(group.core, kernel, graph, machine) for group in machine.groups):
        return [kernel]
    stages: dict[tuple[int, bool], list[Operator]] = {}  # by how often the class changed on the way there
    stage_of: dict[str, tuple[int, bool]] = {}  # of a tensor
    for op in kernel:
        matrix = on_matrix_unit(op, operand_dtype(op, graph), machine)
        before = [stage_of[name] for name in op.inputs if name in stage_of]
        stage = max((number + (other != matrix) for number, other in before), default=0), matrix
        for name in op.outputs:
            stage_of[name] = max(stage_of.get(name, stage), stage)
        stages.setdefault(stage, []).append(op)
    pieces = [piece for stage in sorted(stages) for piece in kernels_of(graph, stages[stage])]
    if pieces == [kernel]:  # products of types that no single core can multiply
        return [(op,) for op in kernel]
    return [part for piece in pieces for part in by_units(graph, piece, machine)]


def picks_from_itself(operators: Sequence[Operator]) -> bool:
    """Whether an operator picks rows of what another of its kernel makes: rows are picked in DDR, where it is not."""
    made = {name for op in operators for name in op.outputs}
    return any(read.indirect_axis is not None and read.tensor in made for op in operators for read in op.reads)


def multiplies_by_itself(graph: Graph, operators: Sequence[Operator], machine: Accelerator) -> bool:
    """Whether a product's second operand is made by another of its kernel: it comes to the unit from outside."""
    made = {name for op in operators for name in op.outputs}
    return any(
        len(op.reads) > 1 and op.reads[1].tensor in made and on_matrix_unit(op, operand_dtype(op, graph), machine)
        for op in operators
    )
