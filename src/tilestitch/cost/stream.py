"""Estimated cycles of an operator whose operands pass a core in pieces, because they do not fit it."""

from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Accelerator, Core
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ops.work import operand_dtype, tile_cycles


def streamed_cycles(graph: Graph, op: Operator, machine: Accelerator, core: Core) -> int:
    """Every operand through the slowest port on its way, the arithmetic beside that, then every result."""
    home = machine.memory(machine.home(core))
    assert home is not None
    rate = min(machine.channel_bytes_per_cycle, machine.link.bandwidth_bytes_per_cycle, home.bandwidth_bytes_per_cycle)

    def through(names: tuple[str, ...]) -> int:
        sizes = [graph.tensors[name].size_bytes for name in names]
        pieces = sum(ceil_div(2 * size, home.size_bytes) for size in sizes)
        return int(sum(sizes) / rate) + machine.setup.mover_cycles * pieces

    compute = machine.setup.compute_cycles
    compute += tile_cycles(op, op.whole, operand_dtype(op, graph), core, matrix=False)
    return machine.setup.launch_cycles + max(through(op.inputs), compute) + through(op.outputs)
