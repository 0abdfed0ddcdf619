"""Depthwise convolutions as banded products on matrix units that have less to do: a move of the search."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from tilestitch.base.units import ceil_div
from tilestitch.cost.bounds import operator_bounds
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.units import matrix_rate, matrix_tile_cycles
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.rewriting import Band
from tilestitch.ops.depthwise import Sizes, Way, plain_on_matrix, sizes_of, ways
from tilestitch.ops.work import operand_dtype
from tilestitch.pipeline.search.candidate import Candidate
from tilestitch.pipeline.search.scene import Scene

WAYS = 3  # of each convolution that are tried, by estimate


@dataclass(frozen=True, slots=True)
class _Depthwise:
    """A depthwise convolution, what it takes of all units of a class, and the ways to have it banded."""

    name: str
    sizes: Sizes
    on_vector: bool  # as it is
    plain_cycles: Fraction
    ways: tuple[tuple[Fraction, Way], ...]  # the best, with what they take of the matrix units and the port of DDR


def band(scene: Scene) -> Iterator[Candidate]:
    """As many convolutions as make the busier class of units end earliest, all, and those that are alike each way.

    None where vector units have less to do anyway, and nothing is banded.
    """
    found = _found(scene.graph, scene.machine)
    balancing = _balancing(scene.graph, scene.machine, found)
    if not balancing and not scene.candidate.bands:
        return
    now: dict[str, Way] = {one.operator: (one.channels, one.neighbours) for one in scene.candidate.bands}
    chosen = [{one.name: one.ways[0][1] for one in some} for some in (balancing, found)]
    alike: dict[Sizes, list[_Depthwise]] = {}
    for one in found:
        alike.setdefault(one.sizes, []).append(one)
    for group in sorted(alike.values(), key=lambda group: -sum(one.plain_cycles for one in group)):
        own = {one.name for one in group}
        chosen += [{**now, **dict.fromkeys(own, way)} for _, way in group[0].ways]
        chosen.append({name: way for name, way in now.items() if name not in own})
    for bands in chosen:
        candidate = _with(scene.candidate, scene.graph, bands)
        if candidate != scene.candidate:
            yield candidate


def with_bands(candidate: Candidate, graph: Graph, machine: Accelerator) -> Candidate:
    """The candidate with as many convolutions banded as make the busier class of units end earliest."""
    balancing = _balancing(graph, machine, _found(graph, machine))
    return _with(candidate, graph, {one.name: one.ways[0][1] for one in balancing})


def _with(candidate: Candidate, graph: Graph, chosen: dict[str, Way]) -> Candidate:
    order = [op.name for op in graph.operators if op.name in chosen]
    return replace(candidate, bands=tuple(Band(name, *chosen[name]) for name in order))


def _found(graph: Graph, machine: Accelerator) -> list[_Depthwise]:
    """All that some unit of folds can multiply."""
    found = []
    for op in graph.operators:
        sizes = sizes_of(op, graph)
        if sizes is not None and (one := _ways_of(op, sizes, graph, machine)) is not None:
            found.append(one)
    return found


def _ways_of(op: Operator, sizes: Sizes, graph: Graph, machine: Accelerator) -> _Depthwise | None:
    """With its best ways, on the first units that can multiply it."""
    dtype = operand_dtype(op, graph)
    units = [one.matrix for one in machine.cores if one.matrix is not None and not one.matrix.mapped]
    units = [unit for unit in units if matrix_rate(unit, dtype) is not None]
    if not units:
        return None
    unit, results = units[0], graph.tensors[op.writes[0].tensor].size_bytes // dtype.size_bytes

    def cycles(way: Way) -> Fraction:
        """The rows of every core pass all weights, which come from DDR."""
        channels, neighbours = way
        groups, columns, depth = sizes.channels // channels, channels * prod(neighbours), sizes.depth(*way)
        rows = ceil_div(results // (groups * columns), len(units))
        taken = matrix_tile_cycles(unit, dtype, m=rows, k=depth, n=columns, groups=groups)
        size_bytes = groups * columns * depth * dtype.size_bytes
        return taken + Fraction(size_bytes) / machine.ddr.bandwidth_bytes_per_cycle

    ranked = sorted((cycles(way), way) for way in ways(sizes, unit.k, unit.n))
    on_matrix, plain = plain_on_matrix(sizes, results, dtype, machine)
    return _Depthwise(op.name, sizes, not on_matrix, plain, tuple(ranked[:WAYS]))


def _balancing(graph: Graph, machine: Accelerator, found: list[_Depthwise]) -> list[_Depthwise]:
    """Those with which the class of units that has more to do has least, first those that gain most there."""
    if not found:
        return []
    names = {one.name for one in found}
    matrix = vector = Fraction(0)
    for row in operator_bounds(graph, machine):
        if row.operator not in names:
            matrix, vector = matrix + row.matrix * row.least_cycles, vector + (not row.matrix) * row.least_cycles
    chosen = [one for one in found if not one.on_vector and one.ways[0][0] < one.plain_cycles]
    either = [one for one in found if one.on_vector]
    matrix += sum(one.ways[0][0] for one in chosen)
    matrix += sum(one.plain_cycles for one in found if not one.on_vector and one not in chosen)
    vector += sum(one.plain_cycles for one in either)
    for one in sorted(either, key=lambda one: one.ways[0][0] / one.plain_cycles):
        more, less = matrix + one.ways[0][0], vector - one.plain_cycles
        if max(more, less) < max(matrix, vector):
            matrix, vector = more, less
            chosen.append(one)
    return chosen
