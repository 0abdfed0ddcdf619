"""What no schedule can beat: compute rooflines and compulsory traffic. Source: docs/model.md#bounds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tilestitch.base.units import ceil_div
from tilestitch.cost.needs import Needs, needs
from tilestitch.hardware.accelerator import Accelerator, Core, MatrixUnit
from tilestitch.hardware.units import matrix_rate, vector_lanes
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ops import is_contraction, is_elementwise
from tilestitch.ops.contraction import product_shape
from tilestitch.ops.work import on_matrix_unit, operand_dtype, vector_operations


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds of the latency of one cluster's whole batch, in cycles, and the traffic they rest on.

    `compute` counts every unit at its own peak; `attainable` counts each operator's best folds on its unit, and is
    what a perfect schedule of this network could reach on this array. Both are a maximum over classes of units.
    """

    compute_cycles: int
    attainable_cycles: int
    compulsory_bytes: int
    traffic_cycles: int
    macs: int
    vector_operations: int

    @property
    def latency_cycles(self) -> int:
        """The largest of the bounds: nothing that computes this network here ends earlier."""
        return max(self.compute_cycles, self.attainable_cycles, self.traffic_cycles)

    @property
    def binding(self) -> str:
        """Which bound is the largest."""
        return "memory" if self.traffic_cycles >= max(self.attainable_cycles, self.compute_cycles) else "compute"


def bounds(graph: Graph, machine: Accelerator, *, iterations: int, sharers: int = 1) -> Bounds:
    """Bounds for `iterations` runs of `graph` on one cluster, each operator on the class of units that runs it.

    Where units of a class differ, an operator counts as if its work were shared by all of them in proportion to their
    peaks, at the price of the unit that it suits best.

    Latency starts with everything in DDR. Compulsory traffic is every input and output of every iteration, and every
    constant once however often the outer loop runs; of a table that is only gathered from, as many rows as are asked
    for, if it has as many. `sharers` clusters share one DDR, which then carries the inputs and outputs of all and the
    constants once. What no output needs counts nowhere.
    """
    return _bounds(graph, needs(graph), machine, iterations=iterations, sharers=sharers)


@dataclass(frozen=True, slots=True)
class Limit:
    """One of the limits that `bounds` is the largest of: a class of units, or the port of DDR."""

    of: str
    cycles: int
    work: int  # multiply-accumulates, primitive operations, or bytes
    unit: str  # of the work
    assumes: str


def limits(graph: Graph, machine: Accelerator, *, iterations: int, sharers: int = 1) -> tuple[Limit, ...]:
    """Every limit that `bounds` takes the largest of, in cycles of one cluster's batch."""
    needed = needs(graph)
    rows = tuple(_operator_bounds(graph, needed, machine))
    on_matrix, on_vector = ([one for one in rows if one.matrix is matrix] for matrix in (True, False))
    constants, tables, borders = _compulsory(graph, needed, iterations)
    carried = constants + tables + borders * iterations * sharers

    def of(name: str, cycles: Fraction | int, work: int, unit: str, assumes: str) -> Limit:
        return Limit(name, _ceil(Fraction(cycles) * iterations), work * iterations, unit, assumes)

    macs, operations = sum(one.work for one in on_matrix), sum(one.work for one in on_vector)
    peak = sum((one.peak_cycles for one in on_matrix), Fraction(0))
    folds = sum((one.least_cycles for one in on_matrix), Fraction(0))
    lanes = sum((one.least_cycles for one in on_vector), Fraction(0))
    return (
        of("matrix units", peak, macs, "MACs", "every multiplier works in every cycle"),
        of("matrix units", folds, macs, "MACs", "each operator in the best tiles for its unit"),
        of("vector units", lanes, operations, "operations", "every lane works in every cycle"),
        Limit(
            "port of DDR",
            _ceil(carried / machine.ddr.bandwidth_bytes_per_cycle),
            carried,
            "bytes",
            "every input, output and constant passes once, and nothing else",
        ),
    )


@dataclass(frozen=True, slots=True)
class OperatorBound:
    """What one operator takes of the units of its class at least, in one iteration, if all of them shared it."""

    operator: str
    matrix: bool  # on matrix units, else on vector units
    iterations: int  # of its loops, that are needed
    work: int  # multiply-accumulates of a contraction, else primitive operations
    peak_cycles: Fraction  # at the peak of the units
    least_cycles: Fraction  # in the best folds


def operator_bounds(graph: Graph, machine: Accelerator) -> tuple[OperatorBound, ...]:
    """What `bounds` counts for each operator that is computed and that an output needs."""
    return tuple(_operator_bounds(graph, needs(graph), machine))


def compulsory_bytes(graph: Graph, *, iterations: int, sharers: int = 1) -> Mapping[str, int]:
    """What `bounds` lets one DDR carry at least, by tensor."""
    needed = needs(graph)
    found = {name: size * sharers * iterations for name, size in _border_bytes(graph, needed).items()}
    return {**_constant_bytes(graph, needed, iterations), **found}


def _operator_bounds(graph: Graph, needed: Needs, machine: Accelerator) -> Iterator[OperatorBound]:
    multipliers = [core.matrix for core in machine.cores if core.matrix is not None]
    vectors = [core.vector for core in machine.cores if core.vector is not None]
    macs_per_cycle = sum(map(_peak, multipliers))
    all_lanes = sum(unit.usual_lanes for unit in vectors)
    behind = sum(map(_lanes_behind_products, machine.cores))
    for op in graph.operators:
        box = needed.iterations.get(op.name)
        if box is None or op.kind in ("gather", "copy"):
            continue  # not needed, or moved and not computed
        dtype = operand_dtype(op, graph)
        work = vector_operations(op, box)
        if on_matrix_unit(op, dtype, machine):
            rates = {unit: matrix_rate(unit, dtype) for unit in multipliers}
            able = [(unit, rate) for unit, rate in rates.items() if rate is not None]
            peak = min(work / rate for _, rate in able) / macs_per_cycle
            folds = min(_peak(unit) * least_folds(op, box, unit) / rate for unit, rate in able) / macs_per_cycle
            yield OperatorBound(op.name, True, box.size, work, peak, folds)
        else:
            slowdown = min(Fraction(unit.usual_lanes, vector_lanes(unit, dtype)) for unit in vectors)
            cycles = work * slowdown / all_lanes
            if is_elementwise(op) and any(name in graph.producers for name in op.inputs):
                cycles = min(cycles, Fraction(work, behind))
            yield OperatorBound(op.name, False, box.size, work, cycles, cycles)


def _lanes_behind_products(core: Core) -> int:
    """Operations a cycle on results of a product: of an array, one in each element that adds some of them up."""
    if core.array is not None and core.only_array:
        return core.array.rows * core.array.columns
    return 0 if core.vector is None else core.vector.usual_lanes


def _bounds(graph: Graph, needed: Needs, machine: Accelerator, *, iterations: int, sharers: int) -> Bounds:
    macs = operations = 0
    matrix = folds = vector = Fraction(0)
    for one in _operator_bounds(graph, needed, machine):
        macs += one.work if is_contraction(graph.by_name[one.operator]) else 0
        if one.matrix:
            matrix += one.peak_cycles
            folds += one.least_cycles
        else:
            operations += one.work
            vector += one.least_cycles
    constants, tables, borders = _compulsory(graph, needed, iterations)
    constants += tables
    carried = constants + borders * iterations * sharers
    return Bounds(
        compute_cycles=_ceil(max(matrix, vector) * iterations),
        attainable_cycles=_ceil(max(folds, vector) * iterations),
        compulsory_bytes=constants + borders * iterations,
        traffic_cycles=_ceil(carried / machine.ddr.bandwidth_bytes_per_cycle),
        macs=macs * iterations,
        vector_operations=operations * iterations,
    )


def least_cycles(
    graph: Graph,
    machine: Accelerator,
    *,
    iterations: int,
    constant_loads: int,
    sharers: int = 1,
    through_ddr: Sequence[Sequence[str]] = (),
) -> int:
    """What no schedule of this compiler takes less than for the samples of `iterations` runs of `graph` on one cluster.

    Beyond `bounds`: constants are loaded in every iteration, of which there may be more or fewer with more or fewer
    samples each, and what one of the kernels `through_ddr` makes for another is written to DDR and read from it.
    """
    needed = needs(graph)
    constants, tables, borders = _compulsory(graph, needed, iterations)
    kernel_of = {name: number for number, kernel in enumerate(through_ddr) for name in kernel}
    passed = sum(
        needed.elements.get(name, 0) * graph.tensors[name].dtype.size_bytes
        for name, writers in graph.producers.items()
        if name not in graph.outputs
        and any(kernel_of.get(w.name) != kernel_of.get(r.name) for w in writers for r in graph.consumers.get(name, ()))
    )
    carried = constants * constant_loads + tables + (borders + 2 * passed) * sharers * iterations
    limits = _bounds(graph, needed, machine, iterations=iterations, sharers=sharers)
    return max(limits.latency_cycles, _ceil(carried / machine.ddr.bandwidth_bytes_per_cycle))


def _peak(unit: MatrixUnit) -> int:
    return unit.m * unit.k * unit.n


def least_folds(op: Operator, box: Region, unit: MatrixUnit) -> Fraction:
    """Fewest cycles any tiling of `box` needs on one matrix unit at rate 1: `groups * M/m * ceil(K/k) * ceil(N/n)`.

    However the K x N plane is cut into rectangles, each covers at most ceil(K'/k) * ceil(N'/n) points of the grid with
    pitch k x n, and the plane has ceil(K/k) * ceil(N/n) of them; so no cut needs fewer folds for any row of M. An array
    of processing elements has no folds, only its peak.
    """
    shape = product_shape(op, box)
    if unit.mapped:
        return Fraction(shape.macs, _peak(unit))
    return Fraction(shape.groups * shape.m, unit.m) * ceil_div(shape.k, unit.k) * ceil_div(shape.n, unit.n)


def _compulsory(graph: Graph, needed: Needs, iterations: int) -> tuple[int, int, int]:
    """Bytes that must move: of constants, of constant tables in all runs, of the inputs and outputs of one run."""
    found = _constant_bytes(graph, needed, iterations)
    tables = sum(size for name, size in found.items() if name in needed.rows)
    return sum(found.values()) - tables, tables, sum(_border_bytes(graph, needed).values())


def _constant_bytes(graph: Graph, needed: Needs, iterations: int) -> dict[str, int]:
    """Of each constant, in all runs: what is needed of it once, and of a table as many rows as are asked for."""
    found = {}
    for name in graph.constants:
        size_bytes = needed.elements.get(name, 0) * graph.tensors[name].dtype.size_bytes
        if name in needed.rows:
            asked, size = needed.rows[name]
            size_bytes = size_bytes // asked * min(size, asked * iterations)
        found[name] = size_bytes
    return found


def _border_bytes(graph: Graph, needed: Needs) -> dict[str, int]:
    """Of each input and output of the network, in one run."""
    found = {name: graph.tensors[name].size_bytes for name in graph.outputs}
    for name in graph.inputs:
        found[name] = found.get(name, 0) + needed.elements.get(name, 0) * graph.tensors[name].dtype.size_bytes
    return found


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
