"""The layers of a network that are loop nests of products, each once, and the best mapping of every one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tilestitch.base.errors import DoesNotFit, InvalidIR
from tilestitch.base.progress import Progress
from tilestitch.base.shown import Brief
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.graph import Access, Axis, Graph, Operator
from tilestitch.ir.loop_nest import Loop, LoopMapping, LoopNest, LoopOperand
from tilestitch.ir.verify_mapping import verify_mapping
from tilestitch.mapping.certificate import Certificate, certificate_of
from tilestitch.mapping.dataflow import dataflow_limits
from tilestitch.mapping.dmazerunner import Attempt, adapted_space
from tilestitch.mapping.evaluate import Priced, Pricer
from tilestitch.mapping.factors import Limits
from tilestitch.mapping.search import Found, SearchResult, SearchSpace, search, search_space
from tilestitch.ops import is_contraction

# In the order in which dMazeRunner (TECS 2019) has the loops.
_NAMES = {"n": "N", "g": "G", "m": "M", "c": "C", "oh": "Ox", "ow": "Oy", "kh": "Fx", "kw": "Fy"}
_PRODUCT_NAMES = {"i": "M", "j": "N", "k": "K"}


@dataclass(frozen=True, slots=True, repr=False)
class RepeatedNest(Brief):
    """A loop nest and the operators that it stands for, which differ in nothing that a mapping sees."""

    nest: LoopNest
    operators: tuple[str, ...]
    runs: int = 1  # of the network

    @property
    def times(self) -> int:
        """How often it runs."""
        return self.runs * len(self.operators)


@dataclass(frozen=True, slots=True)
class MapOptions:
    """How the mappings of layers are chosen."""

    objective: Objective = Objective.EDP
    mode: CostMode = CostMode.DEFAULT
    pruned: bool = False  # by dMazeRunner's rules instead of by proof
    ragged: bool = False
    dataflow: str = ""
    top: int = 1
    certify: bool = False  # of exact searches without a dataflow, for one objective


@dataclass(frozen=True, slots=True, repr=False)
class MappedLayer(Brief):
    """A layer with its best mappings, best first, what each costs, and what became of the search space."""

    layer: RepeatedNest
    found: tuple[Found, ...]
    prices: tuple[Priced, ...]
    outcome: SearchResult
    attempts: tuple[Attempt, ...]  # of dMazeRunner's adaptive search
    certificate: Certificate | None


def layers_of(graph: Graph) -> tuple[tuple[RepeatedNest, ...], tuple[Operator, ...]]:
    """Every different contraction of a network in the order of first use, and the operators that are none."""
    found: dict[LoopNest, tuple[str, list[str]]] = {}
    others = []
    for op in graph.operators:
        if is_contraction(op):
            nest = nest_of_operator(graph, op)
            found.setdefault(replace(nest, name=""), (nest.name, []))[1].append(op.name)
        else:
            others.append(op)
    layers = tuple(RepeatedNest(replace(nest, name=name), tuple(names)) for nest, (name, names) in found.items())
    return layers, tuple(others)


def nest_of_operator(graph: Graph, op: Operator) -> LoopNest:
    """A contraction as a loop nest. Its inputs lie in memory with the padding that is read."""
    return _nest(graph, op, tuple(dim.extent for dim in op.dims), dense=False)


def nest_of_tile(graph: Graph, op: Operator, extents: tuple[int, ...]) -> LoopNest:
    """So many iterations of each dim of a contraction, on operands that hold what they need and no more."""
    return replace(_nest(graph, op, extents, dense=True), name="")


def nest_of_part(graph: Graph, op: Operator, extents: tuple[int, ...]) -> LoopNest:
    """So many iterations of each dim of a contraction, on operands that lie in memory as a whole."""
    return replace(_nest(graph, op, extents, dense=False), name="")


def loop_dims(op: Operator) -> tuple[int, ...]:
    """Per loop of the nest of a contraction, the dim of the operator that it is."""
    ranks = {name: rank for rank, name in enumerate(_names(op))}
    return tuple(sorted(range(len(op.dims)), key=lambda at: ranks.get(op.dims[at].name, -1)))


def iterations_of(op: Operator, mapping: LoopMapping) -> tuple[int, ...]:
    """Iterations of each dim of an operator that a mapping of it runs."""
    found = [0] * len(op.dims)
    for loop, dim in enumerate(loop_dims(op)):
        found[dim] = mapping.dram[loop] * mapping.scratchpad_tile[loop]
    return tuple(found)


def _names(op: Operator) -> Mapping[str, str]:
    names = _PRODUCT_NAMES if op.kind == "matmul" else _NAMES
    if op.kind == "conv" and not any(dim.name in ("m", "c") for dim in op.dims):
        names = {**_NAMES, "g": "C"}  # depthwise, in dMazeRunner's words
    return names


def _nest(graph: Graph, op: Operator, extents: tuple[int, ...], *, dense: bool) -> LoopNest:
    names, order = _names(op), loop_dims(op)
    loops = tuple(Loop(names.get(op.dims[at].name, op.dims[at].name.upper()), extents[at]) for at in order)
    place = {at: number for number, at in enumerate(order)}
    kind = "gemm" if op.kind == "matmul" else "dwconv" if names.get("g") == "C" else "conv"
    labels = ("A", "B", "C") if kind == "gemm" else ("I", "W", "O")
    operands = [
        _operand(graph, op, place, label, access)
        for label, access in zip(labels, (*op.reads[:2], op.writes[0]), strict=True)
    ]
    if dense:
        tile = tuple(loop.extent for loop in loops)
        operands = [replace(one, shape=one.extents(tile)) for one in operands]
    first, second, result = operands
    return LoopNest(op.name, kind, loops, (first, second), result)


def _operand(graph: Graph, op: Operator, place: Mapping[int, int], label: str, access: Access) -> LoopOperand:
    """An operand, its axes in the order in which memory has them; `place` has the loop of every dim."""
    tensor = graph.tensors[access.tensor]
    hull = access.hull(op.whole)
    axes: list[tuple[tuple[int, int], ...]] = []
    shape = []
    for at in tensor.layout:
        axis: Axis = access.axes[at]
        axes.append(tuple((place[dim], step) for dim, step in axis.terms))
        shape.append(max(hull.stop[at], tensor.shape[at]) - min(hull.start[at], 0) if axis.terms else 1)
    return LoopOperand(label, tuple(axes), tuple(shape), 8 * tensor.dtype.size_bytes)


def map_layers(
    layers: Sequence[RepeatedNest], machine: ArrayMachine, options: MapOptions, progress: Progress | None = None
) -> tuple[MappedLayer, ...]:
    """The best mappings of every layer; raises DoesNotFit for one that has none."""
    mapped = []
    for number, layer in enumerate(layers):
        if progress is not None:
            progress(layer.nest.name, number, len(layers))
        mapped.append(map_layer(layer, machine, options, progress))
    return tuple(mapped)


def map_layer(
    layer: RepeatedNest, machine: ArrayMachine, options: MapOptions, progress: Progress | None = None
) -> MappedLayer:
    """The best mappings of one layer."""
    nest, attempts = layer.nest, ()
    within = None if progress is None else partial(progress, nest.name)
    if options.pruned:
        space, attempts = adapted_space(nest, machine, options.mode)
    else:
        limits = dataflow_limits(nest, options.dataflow) if options.dataflow else Limits()
        space = search_space(nest, machine, options.mode, ragged=options.ragged, limits=limits)
    outcome = search(space, options.objective, keep=options.top, progress=within)
    if not outcome.best:
        raise DoesNotFit(_why_nothing_fits(space))
    pricer = Pricer(nest, machine, options.mode)
    prices = tuple(pricer(found.mapping) for found in outcome.best)
    for found, priced in zip(outcome.best, prices, strict=True):
        verify_mapping(found.mapping, nest, ragged=options.ragged)
        if priced.misfit:
            raise InvalidIR(f"mapping of {nest.name!r}: does not fit {machine.name}: {priced.misfit}")
    proof = certificate_of(space, outcome, options.mode, options.objective) if options.certify else None
    return MappedLayer(layer, outcome.best, prices, outcome, attempts, proof)


def _why_nothing_fits(space: SearchSpace) -> str:
    nest, machine = space.nest, space.machine
    least = sum(-(-operand.element_bits // 8) for operand in nest.operands)
    where = f"nest {nest.name!r} on {machine.name}"
    if machine.register_bytes < least:
        return (
            f"{where}: one word of each operand takes {least} B, a register file holds {machine.register_bytes} B; "
            f"give register_bytes of at least {least}"
        )
    if machine.banks < len(nest.operands):
        return (
            f"{where}: {len(nest.operands)} operands need a bank each, half of the scratchpad has {machine.banks}; "
            f"give at least {2 * len(nest.operands)} banks"
        )
    return (
        f"{where}: no mapping fits within {machine.elements} elements of {machine.register_bytes} B and a scratchpad "
        f"of {machine.scratchpad_bytes:,} B for the tile in use, with the dataflow asked for; try another dataflow, "
        "ragged factors, or a larger scratchpad"
    )


@dataclass(frozen=True, slots=True)
class Totals:
    """All layers one after another, each as often as the network runs it; estimated."""

    cycles: int
    energy_pj: float
    macs: int

    @property
    def edp(self) -> float:
        return self.cycles * self.energy_pj


def totals_of(mapped: Iterable[MappedLayer]) -> Totals:
    """The network's latency and energy, of the first mapping of every layer."""
    cycles, energy, macs = 0, 0.0, 0
    for one in mapped:
        cycles += one.layer.times * one.prices[0].cycles
        energy += one.layer.times * one.prices[0].energy_pj
        macs += one.layer.times * prod(one.layer.nest.extents)
    return Totals(cycles, energy, macs)
