"""What no schedule can beat: compute rooflines and compulsory traffic. Source: docs/model.md#bounds."""

from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np

from tilestitch.dtypes import DType
from tilestitch.hardware.accelerator import Accelerator, MatrixUnit
from tilestitch.hardware.units import matrix_rate
from tilestitch.ir.graph import Axis, Graph, Operator
from tilestitch.ops import is_contraction
from tilestitch.ops.contraction import product_shape
from tilestitch.ops.work import on_matrix_unit, operand_dtype, vector_operations
from tilestitch.units import ceil_div


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
    constant once however often the outer loop runs; of a table that is only gathered from, one row. `sharers` clusters
    share one DDR, which then carries the inputs and outputs of all and the constants once.
    """
    macs = operations = 0
    matrix = folds = vector = Fraction(0)
    multipliers = [core.matrix for core in machine.cores if core.matrix is not None]
    lanes = [dict(core.vector.lanes) for core in machine.cores if core.vector is not None]
    macs_per_cycle = sum(map(_peak, multipliers))
    all_lanes = sum(count[DType.FLOAT16] for count in lanes)
    for op in graph.operators:
        if op.kind in ("gather", "copy"):
            continue  # moved, not computed
        dtype = operand_dtype(op, graph)
        work = vector_operations(op, op.whole)
        macs += work if is_contraction(op) else 0
        if on_matrix_unit(op, dtype, machine):
            rates = {unit: matrix_rate(unit, dtype) for unit in multipliers}
            able = [(unit, rate) for unit, rate in rates.items() if rate is not None]
            matrix += min(work / rate for _, rate in able) / macs_per_cycle
            folds += min(_peak(unit) * least_folds(op, unit) / rate for unit, rate in able) / macs_per_cycle
        else:
            operations += work
            slowdown = min(Fraction(count[DType.FLOAT16], count.get(dtype, count[DType.FLOAT16])) for count in lanes)
            vector += work * slowdown / all_lanes
    constants, borders = _compulsory(graph)
    carried = constants + borders * iterations * sharers
    return Bounds(
        compute_cycles=_ceil(max(matrix, vector) * iterations),
        attainable_cycles=_ceil(max(folds, vector) * iterations),
        compulsory_bytes=constants + borders * iterations,
        traffic_cycles=_ceil(carried / machine.ddr.bandwidth_bytes_per_cycle),
        macs=macs * iterations,
        vector_operations=operations * iterations,
    )


def _peak(unit: MatrixUnit) -> int:
    return unit.m * unit.k * unit.n


def least_folds(op: Operator, unit: MatrixUnit) -> Fraction:
    """Fewest cycles any tiling needs on one matrix unit at rate 1: `groups * M/m * ceil(K/k) * ceil(N/n)`.

    However the K x N plane is cut into rectangles, each covers at most ceil(K'/k) * ceil(N'/n) points of the grid with
    pitch k x n, and the plane has ceil(K/k) * ceil(N/n) of them; so no cut needs fewer folds for any row of M.
    """
    shape = product_shape(op, op.whole)
    return Fraction(shape.groups * shape.m, unit.m) * ceil_div(shape.k, unit.k) * ceil_div(shape.n, unit.n)


def _compulsory(graph: Graph) -> tuple[int, int]:
    """Bytes of constants, and of the inputs and outputs of one run, that any execution must move."""
    constants = sum(_touched_bytes(graph, name) for name in graph.constants)
    inputs = sum(_touched_bytes(graph, name) for name in graph.inputs)
    return constants, inputs + sum(graph.tensors[name].size_bytes for name in graph.outputs)


def _touched_bytes(graph: Graph, name: str) -> int:
    """Bytes of the elements that one operator reads of a tensor: the operator that reads the most.

    A strided read may leave out elements; of the axis that a gather indexes, one row is certain.
    """
    tensor, most = graph.tensors[name], 0
    for op in graph.consumers.get(name, ()):
        for read in op.reads:
            if read.tensor == name:
                counts = [
                    1 if number == read.indirect_axis else _touched(op, axis, size)
                    for number, (axis, size) in enumerate(zip(read.axes, tensor.shape, strict=True))
                ]
                most = max(most, prod(counts))
    return most * tensor.dtype.size_bytes


def _touched(op: Operator, axis: Axis, size: int) -> int:
    """How many different indices of one axis an operator reads, padding left out."""
    indices = np.array([axis.offset])
    for dim, stride in axis.terms:
        indices = np.unique(indices[:, None] + stride * np.arange(op.dims[dim].extent))
    return int(np.count_nonzero((indices >= 0) & (indices < size)))


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
