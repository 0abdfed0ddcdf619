"""What no schedule can beat: compute rooflines and compulsory traffic. Source: docs/model.md#bounds."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from tilestitch.base.dtypes import DType
from tilestitch.base.units import ceil_div
from tilestitch.cost.needs import Needs, needs
from tilestitch.hardware.accelerator import Accelerator, Core, MatrixUnit
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.units import matrix_rate, vector_lanes
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.per_graph import once_per_graph
from tilestitch.ir.region import Region
from tilestitch.kernels.mapped import units_at_most
from tilestitch.ops import is_contraction, is_elementwise
from tilestitch.ops.contraction import product_shape
from tilestitch.ops.depthwise import least_folds_of, plain_on_matrix, results_in, whole_sizes_of
from tilestitch.ops.partial_sums import is_partial_sum
from tilestitch.ops.recomputed import is_again
from tilestitch.ops.streaming import CARRY, is_block
from tilestitch.ops.work import on_matrix_unit, operand_dtype, vector_operations, whole_product


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
    rows = operator_bounds(graph, machine)
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


def compulsory_bytes(graph: Graph, *, iterations: int, sharers: int = 1) -> Mapping[str, int]:
    """What `bounds` lets one DDR carry at least, by tensor."""
    needed = needs(graph)
    found = {name: size * sharers * iterations for name, size in _border_bytes(graph, needed).items()}
    return {**_constant_bytes(graph, needed, iterations), **found}


@once_per_graph
def operator_bounds(graph: Graph, machine: Accelerator) -> tuple[OperatorBound, ...]:
    """What `bounds` counts for each operator that is computed and that an output needs.

    Each on its class; a depthwise convolution takes as much of it as is left if all are divided as is best.

    Those that vector units run can be banded products on matrix units instead, and the other way round. The class that
    has more to do has least where both end together; no more of them than that is counted where they are.
    """
    needed = needs(graph)
    rows = list(_on_their_classes(graph, needed, machine))
    either = {row.operator: one for row in rows if (one := _either_class(graph, needed, machine, row)) is not None}
    if not either:
        return tuple(rows)
    peaks = _shares(rows, {name: (one.peak_cycles, one.vector_cycles) for name, one in either.items()}, at_peak=True)
    folds = _shares(rows, {name: (one.least_cycles, one.vector_cycles) for name, one in either.items()}, at_peak=False)
    found = []
    for row in rows:
        if row.operator in either:
            one = either[row.operator]
            peak, least = (one.peak_cycles, one.least_cycles) if row.matrix else (one.vector_cycles,) * 2
            row = replace(
                row, work=one.work, peak_cycles=peak * peaks[row.matrix], least_cycles=least * folds[row.matrix]
            )
        found.append(row)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Either:
    """A depthwise convolution that either class of units can run, with what it takes of each at least."""

    work: int  # multiply-accumulates, but those with zeros between weights
    peak_cycles: Fraction
    least_cycles: Fraction
    vector_cycles: Fraction


def _either_class(graph: Graph, needed: Needs, machine: Accelerator, row: OperatorBound) -> _Either | None:
    """None of what only one class runs."""
    op = graph.by_name[row.operator]
    sizes, dtype = whole_sizes_of(op, graph), operand_dtype(op, graph)
    units = {core.matrix: matrix_rate(core.matrix, dtype) for core in machine.cores if core.matrix is not None}
    able = [(unit, rate) for unit, rate in units.items() if rate is not None]
    if sizes is None or not able or any(unit.mapped for unit, _ in able):
        return None
    results = results_in(op, needed.iterations[op.name])
    of_all = results * sizes.channels // product_shape(op, op.whole).groups if is_block(op) else results
    on_matrix, _ = plain_on_matrix(sizes, of_all, dtype, machine)
    if on_matrix:
        return None
    work = results * prod(sizes.window)
    macs_per_cycle = sum(_peak(core.matrix) for core in machine.cores if core.matrix is not None)
    folds = (
        _peak(unit) * Fraction(results, unit.m) * least_folds_of(sizes, unit.k, unit.n) / rate for unit, rate in able
    )
    return _Either(
        work,
        min(work / rate for _, rate in able) / macs_per_cycle,
        min(folds) / macs_per_cycle,
        _lane_cycles(machine, dtype, work),
    )


def _shares(
    rows: Sequence[OperatorBound], either: Mapping[str, tuple[Fraction, Fraction]], *, at_peak: bool
) -> dict[bool, Fraction]:
    """By class, how much of what either class can run, and is there, is left if all is divided as is best.

    `either` has what these operators take of matrix units and of vector units.
    """
    fixed = {True: Fraction(0), False: Fraction(0)}
    there = {True: Fraction(0), False: Fraction(0)}
    for row in rows:
        if row.operator in either:
            there[row.matrix] += either[row.operator][0 if row.matrix else 1]
        else:
            fixed[row.matrix] += row.peak_cycles if at_peak else row.least_cycles
    matrix, vector = fixed[True], fixed[False] + sum(one for _, one in either.values())
    for of_matrix, of_vector in sorted(either.values(), key=lambda pair: pair[0] / pair[1]):
        moved = min(Fraction(1), max(Fraction(0), (vector - matrix) / (of_matrix + of_vector)))
        matrix, vector = matrix + moved * of_matrix, vector - moved * of_vector
    until = max(matrix, vector)
    return {
        kind: min(Fraction(1), (until - fixed[kind]) / there[kind]) if there[kind] else Fraction(1) for kind in there
    }


def _on_their_classes(graph: Graph, needed: Needs, machine: Accelerator) -> Iterator[OperatorBound]:
    """Each on the class of units that runs it."""
    multipliers = [core.matrix for core in machine.cores if core.matrix is not None]
    trees = {core.matrix: core.inside for core in machine.cores if core.matrix is not None}
    macs_per_cycle = sum(map(_peak, multipliers))
    behind = sum(map(_lanes_behind_products, machine.cores))
    for op in graph.operators:
        box = needed.iterations.get(op.name)
        if box is None or op.kind in ("gather", "copy"):
            continue  # not needed, or moved and not computed
        dtype = operand_dtype(op, graph)
        work = vector_operations(op, box) if _counts(graph, op) else 0
        if op.kind == "softmax" and _is_weight_alone(graph, op):
            work -= box.size
        if on_matrix_unit(op, dtype, machine):
            rates = {unit: matrix_rate(unit, dtype) for unit in multipliers}
            able = [(unit, rate) for unit, rate in rates.items() if rate is not None]
            peak = min(work / rate for _, rate in able) / macs_per_cycle
            steps = {unit: _least_steps(graph, op, box, unit, trees[unit]) for unit, _ in able}
            folds = min(_peak(unit) * steps[unit] / rate for unit, rate in able) / macs_per_cycle
            yield OperatorBound(op.name, True, box.size, work, peak, folds)
        else:
            cycles = _lane_cycles(machine, dtype, work)
            if is_elementwise(op) and any(name in graph.producers for name in op.inputs):
                cycles = min(cycles, Fraction(work, behind))
            yield OperatorBound(op.name, False, box.size, work, cycles, cycles)


def _is_weight_alone(graph: Graph, op: Operator) -> bool:
    """Whether one product alone reads a softmax, so that its sums may be divided instead, of which there may be few."""
    readers = graph.consumers.get(op.outputs[0], ())
    return op.outputs[0] not in graph.outputs and len(readers) == 1 and is_contraction(readers[0])


def _counts(graph: Graph, op: Operator) -> bool:
    """Whether a network needs an operator, as it does not need what is computed again or what cutting adds to it."""
    if is_partial_sum(op) or is_again(op):
        return False
    makers = (maker.kind for name in op.inputs for maker in graph.producers.get(name, ()))
    return CARRY not in (op.kind, *makers)


def _lane_cycles(machine: Accelerator, dtype: DType, operations: int) -> Fraction:
    """Of so many operations if all vector units shared them, at the price of the unit that they suit best."""
    vectors = [core.vector for core in machine.cores if core.vector is not None]
    slowdown = min(Fraction(unit.usual_lanes, vector_lanes(unit, dtype)) for unit in vectors)
    return operations * slowdown / sum(unit.usual_lanes for unit in vectors)


def _lanes_behind_products(core: Core) -> int:
    """Operations a cycle on results of a product: of an array, one in each element that adds some of them up."""
    if core.array is not None and core.only_array:
        return core.array.rows * core.array.columns
    return 0 if core.vector is None else core.vector.usual_lanes


def _bounds(graph: Graph, needed: Needs, machine: Accelerator, *, iterations: int, sharers: int) -> Bounds:
    macs = operations = 0
    matrix = folds = vector = lanes = Fraction(0)  # at the peak of matrix units, in folds; of vector units beside them
    for one in operator_bounds(graph, machine):
        macs += one.work if is_contraction(graph.by_name[one.operator]) else 0
        if one.matrix:
            matrix += one.peak_cycles
            folds += one.least_cycles
        else:
            operations += one.work
            vector += one.peak_cycles
            lanes += one.least_cycles
    constants, tables, borders = _compulsory(graph, needed, iterations)
    constants += tables
    carried = constants + borders * iterations * sharers
    return Bounds(
        compute_cycles=_ceil(max(matrix, vector) * iterations),
        attainable_cycles=_ceil(max(folds, lanes) * iterations),
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
    on_chip: Collection[str] = (),
) -> int:
    """What no schedule of this compiler takes less than for the samples of `iterations` runs of `graph` on one cluster.

    Beyond `bounds`: constants are loaded in every iteration, of which there may be more or fewer with more or fewer
    samples each, and what one of the kernels `through_ddr` makes for another is written to DDR and read from it, but
    for tensors that stay `on_chip`. Kernels may be pieces, with the same operators.
    """
    needed = needs(graph)
    constants, tables, borders = _compulsory(graph, needed, iterations)
    kernels: dict[str, set[int]] = {}
    for number, kernel in enumerate(through_ddr):
        for name in kernel:
            kernels.setdefault(name, set()).add(number)

    def is_passed(name: str, writer: Operator) -> bool:
        made = kernels.get(writer.name, set())
        read = [kernels.get(reader.name, set()) for reader in graph.consumers.get(name, ())]
        return any(made and used and made.isdisjoint(used) for used in read)

    passed = sum(
        needed.elements.get(name, 0) * graph.tensors[name].dtype.size_bytes
        for name, writers in graph.producers.items()
        if name not in graph.outputs and name not in on_chip and any(is_passed(name, writer) for writer in writers)
    )
    carried = constants * constant_loads + tables + (borders + 2 * passed) * sharers * iterations
    limits = _bounds(graph, needed, machine, iterations=iterations, sharers=sharers)
    return max(limits.latency_cycles, _ceil(carried / machine.ddr.bandwidth_bytes_per_cycle))


def _peak(unit: MatrixUnit) -> int:
    return unit.m * unit.k * unit.n


def _least_steps(graph: Graph, op: Operator, box: Region, unit: MatrixUnit, inside: MachineTree | None) -> Fraction:
    """Fewest cycles at rate 1: on units of a tree as many work as its axes let, a block of a larger plane on all."""
    if inside is None or is_block(op):
        return least_folds(op, box, unit)
    return Fraction(product_shape(op, box).macs, units_at_most(graph, op, inside))


def least_folds(op: Operator, box: Region, unit: MatrixUnit) -> Fraction:
    """Fewest cycles any tiling of `box` needs on one matrix unit at rate 1: `groups * M/m * ceil(K/k) * ceil(N/n)`.

    However the K x N plane is cut into rectangles, each covers at most ceil(K'/k) * ceil(N'/n) points of the grid with
    pitch k x n, and the plane has ceil(K/k) * ceil(N/n) of them; so no cut needs fewer folds for any row of M. An array
    of processing elements has no folds, only its peak. A block of a larger plane has its share of the points there.
    """
    shape = product_shape(op, box)
    if unit.mapped:
        return Fraction(shape.macs, _peak(unit))
    whole = whole_product(op) if is_block(op) else shape
    folds = Fraction(1)
    for extent, of, pitch in ((shape.k, whole.k, unit.k), (shape.n, whole.n, unit.n)):
        folds *= ceil_div(of, pitch) * Fraction(extent, of)
    return Fraction(shape.groups * shape.m, unit.m) * folds


def _compulsory(graph: Graph, needed: Needs, iterations: int) -> tuple[int, int, int]:
    """Bytes that must move: of constants, of constant tables in all runs, of the inputs and outputs of one run."""
    found = _constant_bytes(graph, needed, iterations)
    tables = sum(size for name, size in found.items() if name in needed.rows)
    return sum(found.values()) - tables, tables, sum(_border_bytes(graph, needed).values())


def _constant_bytes(graph: Graph, needed: Needs, iterations: int) -> dict[str, int]:
    """Of each constant, in all runs: what is needed of it once, and of a table as many rows as are asked for.

    Of the weights of banded products no more than those of their convolutions.
    """
    found, plain = {}, dict[str, int]()
    for op in graph.operators:
        sizes = whole_sizes_of(op, graph)
        if sizes is not None:
            plain[op.reads[1].tensor] = sizes.channels * prod(sizes.window)
    for name in graph.constants:
        elements = needed.elements.get(name, 0)
        size_bytes = min(elements, plain.get(name, elements)) * graph.tensors[name].dtype.size_bytes
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
