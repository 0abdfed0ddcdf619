"""What no program beats that runs block after block, each with its launch. Source: docs/best.md."""

from collections.abc import Sequence
from fractions import Fraction

from tilestitch.cost.bounds import OperatorBound, operator_bounds
from tilestitch.cost.needs import Needs, needs, touched_elements
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.partition import FusedBlock


def least_block_cycles(
    graph: Graph, blocks: Sequence[FusedBlock], machine: Accelerator, *, iterations: int, through_ddr: bool = True
) -> int:
    """Cycles that `iterations` runs of a plan take at least on one cluster.

    A launch waits for everything before it. So the blocks add up: each takes its launch, and the longest of its
    products, its other operators and its transfers. Products and others count as in `bounds`, on the cores of the
    block. Of transfers count what is certainly needed: constants and inputs that it reads, results of other blocks, and
    what leaves it. None do unless all that is between two blocks passes DDR (`through_ddr`).
    """
    needed = needs(graph)
    bounds = {one.operator: one for one in operator_bounds(graph, machine)}
    total = Fraction(0)
    for block in blocks:
        inside = set(block.operators) & needed.iterations.keys()
        operators = [op for op in graph.operators if op.name in inside]
        if operators:
            cores = Fraction(len(machine.cores), block.cores)
            found = [bounds[op.name] for op in operators if op.name in bounds]
            units = (_cycles(found, matrix=matrix) * cores for matrix in (True, False))
            moved = _bytes(graph, operators, needed) / machine.ddr.bandwidth_bytes_per_cycle if through_ddr else 0
            total += machine.setup.launch_cycles + max(moved, *units)
    return int(total * iterations)


def _cycles(found: Sequence[OperatorBound], *, matrix: bool) -> Fraction:
    """What the operators of one class of units take, if all cores of the machine shared them."""
    return sum((one.least_cycles for one in found if one.matrix is matrix), Fraction(0))


def _bytes(graph: Graph, operators: Sequence[Operator], needed: Needs) -> int:
    """What passes between DDR and a block at least."""
    made = {name for op in operators for name in op.outputs}
    inside = {op.name for op in operators}
    read: dict[str, int] = {}
    for op in operators:
        for access in op.reads:
            if access.tensor not in made and access.indirect_axis is None:
                most = touched_elements(graph, access, needed.iterations[op.name], op.whole)
                read[access.tensor] = max(read.get(access.tensor, 0), most)
    left = {
        name: needed.elements.get(name, 0)
        for name in made
        if len(graph.producers[name]) == 1
        and (name in graph.outputs or any(one.name not in inside for one in graph.consumers.get(name, ())))
    }
    return sum(count * graph.tensors[name].dtype.size_bytes for part in (read, left) for name, count in part.items())
