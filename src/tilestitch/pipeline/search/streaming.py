"""Attention block by block of its keys, where whole rows of scores do not fit, or where it is faster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.rewriting import Stream
from tilestitch.ir.tile_rule import KernelRule, TileRoom, TileRule
from tilestitch.ir.tiles import kernels_of
from tilestitch.kernels.runnable import by_units
from tilestitch.ops.contraction import roles
from tilestitch.ops.streaming import STATE_COLUMNS
from tilestitch.ops.work import on_matrix_unit, operand_dtype
from tilestitch.passes.streamed import Attention, attention_of, ends_of_blocks, with_streams
from tilestitch.pipeline.search.candidate import Candidate, Cut

PASSING_SHARE = 0.5  # of what a core has for operands and results, at most for what passes with each tile
TAKEN_SHARE = 0.9  # of it, for what passes, and the state and the queries of the rows of a piece
STATE_BYTES = 4  # of a number in the state
FEW_ROWS = 16  # of a tile, where no unit says how many it takes to load its next weights meanwhile


@dataclass(frozen=True, slots=True)
class _Way:
    """How one attention runs: its blocks, the pieces of its results, and the tiles of a core."""

    found: Attention
    stream: Stream
    axis: int
    pieces: int
    tiles: int


def streamed(candidate: Candidate, graph: Graph, machine: Accelerator) -> list[Candidate]:
    """Ways to have all attention of a candidate block by block, the one with the largest blocks first.

    Each attention is a sub-graph of its own, or several where the states of all of its rows have no room.
    """
    if candidate.streams or candidate.joined or candidate.apart:
        return []
    around = [found for op in graph.operators if (found := attention_of(graph, op)) is not None]
    chosen: dict[tuple[Stream, ...], Candidate] = {}
    for share in (1, 2, 4):
        ways = [_way(found, graph, machine, share) for found in around]
        streams = tuple(way.stream for way in ways)
        if streams and streams not in chosen:
            chosen[streams] = _with(candidate, graph, machine, ways)
    return list(chosen.values())


def _way(found: Attention, graph: Graph, machine: Accelerator, share: int) -> _Way:
    """Blocks as large as the memories of a core allow, or a share of that, and pieces whose states have room."""
    core, cores = machine.cores[0], len(machine.cores)
    keys, rows, columns = found.extents(graph)
    scores = found.chain[0]
    size = graph.tensors[found.softmax.inputs[0]].dtype.size_bytes
    depth = prod(scores.dims[dim].extent for dim in roles(scores).k)
    unit = core.matrix
    tile = min(FEW_ROWS if unit is None or unit.mapped else unit.k, rows)
    home = machine.memory(machine.home(core))
    assert home is not None
    matrix = on_matrix_unit(scores, operand_dtype(scores, graph), machine)
    weights, sums = (machine.local(core, one) if matrix else None for one in (Level.WEIGHTS, Level.ACCUMULATORS))
    room = home.size_bytes // (1 if home.level is Level.LB else cores)
    # Two blocks of keys and values, the scores and weights of two tiles, the sums of two.
    limits = [weights.size_bytes // (2 * (depth + columns) * size)] if weights is not None else []
    limits += [sums.size_bytes // (2 * tile * STATE_BYTES)] if sums is not None else []
    passing = 0 if weights is not None else 2 * (depth + columns) * size
    limits.append(int(PASSING_SHARE * room) // (4 * tile * size + passing))
    block = max(1, min(*limits, keys) // share)
    if unit is not None and block > unit.n:
        block -= block % unit.n
    row_bytes = (columns + STATE_COLUMNS) * STATE_BYTES + depth * size
    left = int(TAKEN_SHARE * room) - block * (4 * tile * size + passing) - 2 * tile * columns * STATE_BYTES
    most = left * cores // row_bytes  # rows of a piece, over all cores
    axis, parts = _axis(found)
    every = prod(graph.tensors[found.softmax.inputs[0]].shape) // keys
    pieces = next((p for p in range(1, parts + 1) if parts % p == 0 and every // p <= most), parts)
    span = rows
    while span > 1 and every // pieces // rows * span > most:
        span = ceil_div(span, 2)
    tiles = max(1, every // pieces // rows * span // cores // tile)
    return _Way(found, Stream(found.softmax.name, block, span), axis, pieces, tiles)


def _axis(found: Attention) -> tuple[int, int]:
    """The axis of the results that the longest loop over both products moves, as samples or heads, and its extent."""
    context = found.context
    batch = {dim: context.dims[dim].extent for dim in roles(context).batch}
    axes = [
        (batch[axis.terms[0][0]], -at)
        for at, axis in enumerate(context.writes[0].axes)
        if axis.terms and axis.terms[0][0] in batch
    ]
    extent, at = max(axes, default=(1, 0))
    return -at, extent


def _with(candidate: Candidate, graph: Graph, machine: Accelerator, ways: Sequence[_Way]) -> Candidate:
    """The candidate of the network in which attention runs that way."""
    streams = tuple(way.stream for way in ways)
    after, now = with_streams(graph, streams)
    way_of = {name: way for way in ways for name in now[way.found.context.name]}
    members = [[name for name in kernel for name in now[name] if name not in way_of] for kernel in candidate.kernels]
    members += [list(now[way.found.context.name]) for way in ways]
    kernels: list[tuple[str, ...]] = []
    closed = ends_of_blocks(after)
    for names in members:
        for own in kernels_of(
            after, [after.by_name[name] for name in sorted(names, key=after.position.__getitem__)], closed
        ):
            kernels += [tuple(op.name for op in piece) for piece in by_units(after, own, machine)]
    kernels.sort(key=lambda kernel: after.position[kernel[-1]])
    left = {kernel[-1] for kernel in kernels}
    rules = [rule for rule in candidate.rules if rule.sink in left and rule.sink not in way_of]
    for kernel in kernels:
        if kernel[-1] in way_of and len(kernel) > 1:
            least = way_of[kernel[-1]].tiles
            rules.append(KernelRule(kernel[-1], TileRule(columns=True, room=TileRoom.WHOLE, least=least)))
    cuts = _own_cuts(candidate, after, now, way_of)
    return replace(candidate, kernels=tuple(kernels), cuts=cuts, rules=tuple(rules), streams=streams)


def _own_cuts(
    candidate: Candidate, graph: Graph, now: Mapping[str, tuple[str, ...]], way_of: Mapping[str, _Way]
) -> tuple[Cut, ...]:
    """A sub-graph for each range of rows of an attention; the others are divided where one lies between."""
    cut_of = {name: cut for cut in candidate.cuts for old in cut.operators for name in now[old]}
    found: list[Cut] = []
    last: object = None
    for op in graph.operators:
        way = way_of.get(op.name)
        cut = cut_of[op.name] if way is None else Cut((), way.axis, way.pieces)
        key = id(cut) if way is None else way.stream
        if key == last:
            found[-1] = replace(found[-1], operators=(*found[-1].operators, op.name))
        else:
            found.append(replace(cut, operators=(op.name,)))
        ends = way is not None and op.outputs == way.found.context.outputs  # of some rows
        last = None if ends else key
    return tuple(found)
