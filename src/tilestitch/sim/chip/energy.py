"""The energy of a simulated program: of the bytes that moved, bursts included, and of the arithmetic."""

from collections import Counter
from dataclasses import dataclass

from tilestitch.errors import InvalidIR
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.program import Flag, Kind, Program
from tilestitch.ir.trace import Trace
from tilestitch.ops.contraction import product_shape
from tilestitch.ops.work import vector_operations


@dataclass(frozen=True, slots=True)
class EnergyBreakdown:
    """Picojoules of the one cluster that a program describes; idle and clock power are not modelled."""

    transfers_pj: tuple[tuple[str, float], ...]  # per level of memory, and the links; alike resources of cores together
    matrix_pj: float
    vector_pj: float

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """Every part by name, transfers first."""
        return (*self.transfers_pj, ("matrix", self.matrix_pj), ("vector", self.vector_pj))

    @property
    def total_pj(self) -> float:
        return sum(energy for _, energy in self.transfers_pj) + self.matrix_pj + self.vector_pj


def energy(trace: Trace, machine: Accelerator) -> EnergyBreakdown:
    """What the bytes and the arithmetic of a simulated program cost.

    Bytes of a resource x its `pj_per_byte`, multiply-accumulates on matrix units x `mac_pj`, primitive operations on
    vector units x `operation_pj`, each unit with the number of its own core. What a unit reads and writes in its core's
    memories while it computes is not counted, unless the unit's own number includes it.
    """
    transfers: dict[str, float] = {}
    for resource, size_bytes in zip(trace.program.resources, trace.resource_bytes, strict=True):
        level = resource.name.rstrip("0123456789")  # lb3 -> lb
        transfers[level] = transfers.get(level, 0.0) + int(size_bytes) * resource.pj_per_byte

    matrix_pj = vector_pj = 0.0
    macs, operations = _work(trace.program)
    for core, count in macs.items():
        unit = machine.cores[core].matrix
        if unit is None:
            raise InvalidIR(f"program: computes on the matrix unit of core {core}, and {machine.name} has none there")
        matrix_pj += count * unit.mac_pj
    for core, count in operations.items():
        vector_pj += count * machine.cores[core].vector.operation_pj
    return EnergyBreakdown(tuple(transfers.items()), matrix_pj, vector_pj)


def _work(program: Program) -> tuple[dict[int, int], dict[int, int]]:
    """Per core, multiply-accumulates on its matrix unit and primitive operations on its vector unit."""
    computes = program.kind == Kind.COMPUTE
    columns = (program.operator, program.box, program.engine, program.flags & Flag.MATRIX)
    alike = Counter(zip(*(column[computes].tolist() for column in columns), strict=True))
    macs: dict[int, int] = {}
    operations: dict[int, int] = {}
    done: dict[tuple[int, int, int], int] = {}
    for (operator, box, engine, matrix), count in alike.items():
        core = program.engines[engine].core
        if operator < 0 or box < 0 or core is None:
            raise InvalidIR(f"program: a compute on {program.engines[engine].name} has no operator, box or core")
        if (operator, box, matrix) not in done:
            op, region = program.graph.by_name[program.operators[operator]], program.regions[box]
            done[operator, box, matrix] = product_shape(op, region).macs if matrix else vector_operations(op, region)
        work = macs if matrix else operations
        work[core] = work.get(core, 0) + count * done[operator, box, matrix]
    return macs, operations
