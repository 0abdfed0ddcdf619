"""A kernel whose operands do not fit a core: they pass it in pieces, while their values are taken as a whole."""

from tilestitch.base.units import ceil_div
from tilestitch.ir.graph import Graph, Tensor
from tilestitch.ir.program import EngineKind, Kind, Mode
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel
from tilestitch.lower.builder import Builder, Iterations, Passage
from tilestitch.ops.work import operand_dtype, tile_cycles


def lower_streamed(builder: Builder, graph: Graph, kernel: Kernel, ddr: dict[str, int]) -> None:
    """Tell a builder a kernel of one operator on one core: every operand passes in, once, and every result out.

    Each piece is half of what the core works in, so that the next can come while one is in use; it costs a set-up of
    the mover. The arithmetic runs beside the operands, and the results leave after it.
    """
    (op,) = (graph.by_name[name] for name in kernel.operators)
    (core,) = kernel.cores[:1]
    machine, cluster = builder.cluster.machine, builder.cluster
    home = cluster.space(machine.home(machine.cores[core]), core)
    window = cluster.spaces[home].size_bytes // 2
    mover = cluster.engine(EngineKind.MOVER, core)

    def stream(tensor: Tensor, mode: Mode) -> None:
        ends = (ddr_space, home) if mode is Mode.READ else (home, ddr_space)
        builder.emit(
            Kind.STREAM,
            mover,
            ((ddr[tensor.name], Region.whole(tensor.shape), mode),),
            cycles=machine.setup.mover_cycles * ceil_div(tensor.size_bytes, window),
            passage=Passage(tensor.size_bytes, cluster.path(ends[0], ends[1:], alone=True)),
        )

    ddr_space = builder.space_of[ddr[op.inputs[0]]]
    if kernel.launches:
        builder.launch(machine.setup.launch_cycles)
    for name in op.inputs:
        stream(graph.tensors[name], Mode.READ)
    reads = tuple((ddr[a.tensor], graph.read_region(a, op.whole), Mode.READ) for a in op.reads)
    writes = tuple((ddr[a.tensor], a.hull(op.whole), Mode.WRITE) for a in op.writes)
    builder.emit(
        Kind.COMPUTE,
        cluster.engine(EngineKind.VECTOR, core),
        (*reads, *writes),
        cycles=machine.setup.compute_cycles
        + tile_cycles(op, op.whole, operand_dtype(op, graph), machine.cores[core], matrix=False),
        work=Iterations(op.name, op.whole),
    )
    for name in op.outputs:
        stream(graph.tensors[name], Mode.WRITE)
