"""Neighbours of a candidate, by the kind of move; of each kind those first that touch what loses most cycles."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.by_hand import BREADTH_FIRST, DEPTH_FIRST
from tilestitch.ir.choices import BindingRule, Spill
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.tile_rule import BY_ESTIMATE, KernelRule, Once, TileRoom, TileRule
from tilestitch.pipeline.search.again import again
from tilestitch.pipeline.search.banding import band
from tilestitch.pipeline.search.borders import borders
from tilestitch.pipeline.search.candidate import Candidate, Cut
from tilestitch.pipeline.search.columns import columns
from tilestitch.pipeline.search.dividing import across
from tilestitch.pipeline.search.fusing import fuse, unfuse
from tilestitch.pipeline.search.halving import halves
from tilestitch.pipeline.search.parting import join, pack, part
from tilestitch.pipeline.search.places import Place, extent, fits, narrow_places, recounted
from tilestitch.pipeline.search.scene import Cuts, Scene, Signature, signature
from tilestitch.schedule.pieces import KernelIndex
from tilestitch.schedule.splits import most_pieces, possible_splits
from tilestitch.schedule.tasks import is_small_table

TOGETHER_KINDS = 4  # kinds of kernels of which it is tried whether larger transfers help, those that lose most
SPLITS = 6  # places at which a sub-graph is divided, the narrowest
WHOLE_ROOM = TileRule(columns=True, room=TileRoom.WHOLE, parts=True)
TILE_RULES = (
    TileRule(columns=True),
    TileRule(columns=True, room=TileRoom.WHOLE),
    WHOLE_ROOM,
    TileRule(room=TileRoom.BETTER),
    TileRule(least=2),
    TileRule(columns=True, least=2),
    TileRule(columns=True, least=4),
    BY_ESTIMATE,
)
LAGS = 4, 16, 2, 8, 0  # kernels by which the second of two pieces in flight may be late
PARKING = (Level.GB, Level.DDR, Level.LB)
SCOPES = (None, Level.GB, Level.DDR)


def pieces(scene: Scene) -> Iterator[Candidate]:
    """A sub-graph in twice or half as many pieces, or whole; also all sub-graphs alike."""
    yield from scene.recut(1, lambda at: [[cut] for cut in _recut(scene.graph, scene.candidate.cuts[at])])
    for factor in ((1, 2), (2, 1)):
        cuts = tuple(recounted(scene.graph, cut, *factor) for cut in scene.candidate.cuts)
        if cuts != scene.candidate.cuts:
            yield replace(scene.candidate, cuts=cuts)


def axes(scene: Scene) -> Iterator[Candidate]:
    """A sub-graph cut along another axis, into as many pieces, four or two."""
    yield from scene.recut(1, lambda at: [[cut] for cut in _along_others(scene.graph, scene.candidate.cuts[at])])


def grid(scene: Scene) -> Iterator[Candidate]:
    """A sub-graph cut along two axes, in as many pieces as before, or in two or four times as many; or along one."""
    yield from scene.recut(1, lambda at: [[cut] for cut in _in_grids(scene.graph, scene.candidate.cuts[at])])


def merge(scene: Scene) -> Iterator[Candidate]:
    """Two neighbouring sub-graphs as one, in the pieces of either."""
    cuts, position = scene.candidate.cuts, scene.graph.position

    def merged(at: int) -> list[Cuts | None]:
        names = sorted((*cuts[at].operators, *cuts[at + 1].operators), key=position.__getitem__)
        found = [Cut(tuple(names)).cut_along(*like) for like in dict.fromkeys(cut.along for cut in cuts[at : at + 2])]
        return [[one] if fits(scene.graph, one) else None for one in found]

    yield from scene.recut(2, merged)


def split(scene: Scene) -> Iterator[Candidate]:
    """A sub-graph as two, of which one is in other pieces; or divided at all of its narrowest places."""
    index, cuts = KernelIndex(scene.graph, scene.candidate.kernels), scene.candidate.cuts
    for run in scene.runs():
        own = [cuts[at] for at in run]
        # By the place, and of each of the cuts.
        places = list(zip(*(narrow_places(scene.graph, index, cut) for cut in own), strict=True))
        least = [place for place in places if place[0].crossing_bytes == places[0][0].crossing_bytes]
        if len(least) > 1:
            ordered = sorted(least, key=lambda place: len(place[0].before))
            divided = zip(own, zip(*ordered, strict=True), strict=True)
            yield scene.with_cuts(run, 1, [_divided(scene.graph, cut, one) for cut, one in divided])
        uneven = sorted(places, key=lambda place: -abs(_unevenness(scene, own, place)))
        for place in dict.fromkeys(one for pair in zip(uneven[:SPLITS], places[:SPLITS], strict=True) for one in pair):
            parted = [_parted(scene.graph, cut, one) for cut, one in zip(own, place, strict=True)]
            begins = [[[one, second] for one in _cut_otherwise(scene.graph, first)] for first, second in parted]
            ends = [[[first, one] for one in _cut_otherwise(scene.graph, second)] for first, second in parted]
            for ways in (begins, ends) if _unevenness(scene, own, place) > 0 else (ends, begins):
                yield from (scene.with_cuts(run, 1, several) for several in zip(*ways, strict=True))


def tiles(scene: Scene) -> Iterator[Candidate]:
    """The tiles of all kernels, then of kernels that are alike, by another rule."""
    candidate = scene.candidate
    for rule in TILE_RULES:
        yield with_rules(candidate, candidate.sinks, tiles=rule)
    for sinks in scene.alike:
        for rule in TILE_RULES:
            yield with_rules(candidate, sinks, tiles=rule)


def bring(scene: Scene) -> Iterator[Candidate]:
    """Constants and inputs brought once or part by part; rows picked in GB, where what they are of can be there."""
    graph, candidate = scene.graph, scene.candidate
    picking = _picked(graph)
    if set(picking.values()) & set(graph.producers):
        yield replace(candidate, picks=not candidate.picks)
    repeated = _brought_again(scene)
    alike = sorted(scene.alike, key=lambda sinks: -sum(map(repeated.__getitem__, sinks)))
    all_once = {one.sink for one in candidate.rules if one.once is Once.ALL}
    others = tuple(sink for sink in candidate.sinks if sink not in all_once)
    several: list[Sequence[str]] = [sinks for sinks in alike if any(map(repeated.__getitem__, sinks))]
    # As a whole they come far ahead, so that tiles need not be small for the next ones to come.
    asked: list[tuple[Sequence[str], Once, TileRule | None]] = [(sinks, Once.ALL, None) for sinks in several[:1]]
    asked += [(others, Once.KERNEL, WHOLE_ROOM), (others, Once.KERNEL, None), (others, Once.SMALL, None)]
    asked += [(candidate.sinks, once, None) for once in (Once.ALL, Once.NONE)]
    yield from _brought(candidate, asked)
    yield from _small_tables_in_gb(candidate, graph, picking)
    ways = (Once.ALL, Once.KERNEL, Once.SMALL, Once.NONE)
    yield from _brought(candidate, [(sinks, once, None) for sinks in alike for once in ways])


def pick(scene: Scene) -> Iterator[Candidate]:
    """Rows of small tables picked in GB, where the tables come once; and indices come once as well."""
    graph, candidate = scene.graph, scene.candidate
    picking = _picked(graph)
    for one in _small_tables_in_gb(candidate, graph, picking):
        yield one
        yield with_rules(one, [kernel[-1] for kernel in one.kernels if picking.keys() & set(kernel)], once=Once.SMALL)


def _picked(graph: Graph) -> dict[str, str]:
    """What rows are picked of, by the operator that picks them."""
    return {op.name: read.tensor for op in graph.operators for read in op.reads if read.indirect_axis is not None}


def _small_tables_in_gb(candidate: Candidate, graph: Graph, picking: Mapping[str, str]) -> Iterator[Candidate]:
    small = {name for name, table in picking.items() if table not in graph.producers and is_small_table(graph, table)}
    if small and not candidate.picks:
        sinks = [kernel[-1] for kernel in candidate.kernels if small & set(kernel)]
        yield replace(with_rules(candidate, sinks, once=Once.SMALL), picks=True)


def _brought(candidate: Candidate, asked: Sequence[tuple[Sequence[str], Once, TileRule | None]]) -> Iterator[Candidate]:
    """With constants and inputs that some kernels read brought otherwise, and other tiles where that is said."""
    found = (with_rules(candidate, sinks, once=once, tiles=tiles) for sinks, once, tiles in asked)
    yield from (one for one in found if one != candidate)


def _brought_again(scene: Scene) -> dict[str, int]:
    """By the last operator of a kernel: bytes of constants that come again for every piece but the first."""
    graph, candidate = scene.graph, scene.candidate
    pieces_of = {name: cut.count for cut in candidate.cuts for name in cut.operators}
    kept = {one.sink for one in candidate.rules if one.once is Once.ALL}
    found = {}
    for kernel in candidate.kernels:
        names = constants_of(kernel, graph)
        once_bytes = 0 if kernel[-1] in kept else sum(graph.tensors[name].size_bytes for name in names)
        found[kernel[-1]] = (pieces_of[kernel[-1]] - 1) * once_bytes
    return found


def constants_of(kernel: Sequence[str], graph: Graph) -> set[str]:
    """The constants that a kernel reads."""
    return {name for op in kernel for name in graph.by_name[op].inputs if name in graph.constants}


def divide(scene: Scene) -> Iterator[Candidate]:
    """Kernels that are alike divided among all cores along other dims, along few first, or as the estimate says.

    Those on fewer cores first go to twice as many, and to half as many.
    """
    graph, candidate, cores = scene.graph, scene.candidate, len(scene.machine.cores)
    asked = {one.sink: one.splits for one in candidate.rules}
    for sinks in scene.alike:
        ways, now = divisions(graph.by_name[sinks[0]], cores), asked.get(sinks[0], ())
        used = divisions_among(ways, cores)
        if now and prod(now) < prod(used[0]):
            for most in (2 * prod(now), prod(now) // 2):
                yield from (with_rules(candidate, sinks, splits=one) for one in divisions_among(ways, most)[:1])
        for splits in (*used, ()):
            if splits != now:
                yield with_rules(candidate, sinks, splits=splits)


def divisions(op: Operator, cores: int) -> list[tuple[int, ...]]:
    """Every way to divide an operator among cores or some of them."""
    return possible_splits(most_pieces(op), cores)


def divisions_among(ways: Sequence[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """Those on the most cores up to so many, first those along few dims; none where `most` is 0."""
    able = [splits for splits in ways if prod(splits) <= most]
    used = max(map(prod, able), default=0)
    return sorted((one for one in able if prod(one) == used), key=lambda splits: sum(part > 1 for part in splits))


def with_fewer_cores(candidate: Candidate, graph: Graph, cores: int, most: int) -> Candidate:
    """The candidate with every kernel divided among `most` of the cores, or as many fewer as it can have."""
    for sink in candidate.sinks:
        ways = divisions(graph.by_name[sink], cores)
        candidate = with_rules(candidate, [sink], splits=divisions_among(ways, most)[0])
    return candidate


def park(scene: Scene) -> Iterator[Candidate]:
    """The results of kernels that are alike, and read alike, in GB, in DDR or where they find room."""
    graph, candidate = scene.graph, scene.candidate
    like = {kernel[-1]: signature(graph, [graph.by_name[name] for name in kernel]) for kernel in candidate.kernels}
    sink_of = {name: kernel[-1] for kernel in candidate.kernels for name in kernel}
    alike: dict[Signature, list[str]] = {}
    waits: dict[Signature, int] = {}  # what their readers lose
    for kernel in candidate.kernels:
        tensors = graph.leaving([graph.by_name[name] for name in kernel])
        uses = {
            (sink_of[reader.name], graph.by_name[reader.name].inputs.index(tensor))
            for tensor in tensors
            for reader in graph.consumers.get(tensor, ())
        }
        key = like[kernel[-1]], tuple(sorted({(like[sink], place) for sink, place in uses}, key=repr))
        alike.setdefault(key, []).append(kernel[-1])
        waits[key] = waits.get(key, 0) + scene.lost(tuple({sink for sink, _ in uses}))
    rules = {one.sink: one for one in candidate.rules}
    for sinks in (alike[key] for key in sorted(alike, key=lambda key: -waits[key])):
        now = rules[sinks[0]].scope if sinks[0] in rules else Level.LB
        yield from (with_rules(candidate, sinks, scope=level) for level in PARKING if level is not now)


def with_rules(
    candidate: Candidate,
    sinks: Sequence[str],
    *,
    tiles: TileRule | None = None,
    scope: Level | None = None,
    once: Once | None = None,
    splits: tuple[int, ...] | None = None,
    together: bool | None = None,
) -> Candidate:
    """The candidate with something else asked of kernels that end with some operators; what is in halves stays so."""
    rules = {one.sink: one for one in candidate.rules}
    for sink in sinks:
        rule = rules.get(sink, KernelRule(sink))
        now = rule.tiles
        asked = replace(tiles or now, first_cycles=now.first_cycles, last_cycles=now.last_cycles)
        rule = replace(rule, tiles=asked, scope=scope or rule.scope, once=once or rule.once)
        splits_asked = rule.splits if splits is None else splits
        rules[sink] = replace(rule, splits=splits_asked, together=rule.together if together is None else together)
    kept = [rules[kernel[-1]] for kernel in candidate.kernels if kernel[-1] in rules]
    return replace(candidate, rules=tuple(one for one in kept if one != KernelRule(one.sink)))


def order(scene: Scene) -> Iterator[Candidate]:
    """Pieces breadth first instead of depth first, or the other way round; and two in flight, also of what is whole."""
    if any(cut.pieces > 1 for cut in scene.candidate.cuts):
        other = BREADTH_FIRST if scene.candidate.order == DEPTH_FIRST else DEPTH_FIRST
        yield replace(scene.candidate, order=other)

    def in_flight(at: int, lag: int) -> list[Cuts]:
        cut = scene.candidate.cuts[at]
        twice = recounted(scene.graph, cut, 2) if cut.pieces == 1 else cut
        return [[replace(twice, lag=lag)]] if twice.pieces > 1 and lag != cut.lag else []

    for lag in LAGS:
        yield from scene.recut(1, partial(in_flight, lag=lag))


def places(scene: Scene) -> Iterator[Candidate]:
    """The results of a sub-graph elsewhere: in GB, in DDR, or where the rule has them."""

    def elsewhere(at: int) -> list[Cuts | None]:
        cut = scene.candidate.cuts[at]
        leaving = scene.graph.leaving([scene.graph.by_name[name] for name in cut.operators])
        free = not set(leaving) <= set(scene.graph.outputs)
        return [[replace(cut, scope=scope)] if free else None for scope in SCOPES if scope is not cut.scope]

    yield from scene.recut(1, elsewhere)


def rules(scene: Scene) -> Iterator[Candidate]:
    """Another rule for where tiles and sums lie, who gives way for room, and how kernels are divided among cores."""
    candidate = scene.candidate
    yield replace(candidate, behind=not candidate.behind)
    yield replace(candidate, ring=not candidate.ring)
    for spill in Spill:
        if spill is not candidate.spill:
            yield replace(candidate, spill=spill)
    yield from (one for one in binding(scene) if one.binding is not BindingRule.EVEN)


def together(scene: Scene) -> Iterator[Candidate]:
    """More with each transfer to GB, or what each tile needs, in all kernels and in those that are alike."""
    candidate = scene.candidate
    now = set(candidate.together)
    if len(now) < len(candidate.sinks):
        yield with_rules(candidate, candidate.sinks, together=True)
    for sinks in scene.alike[:TOGETHER_KINDS]:
        yield with_rules(candidate, sinks, together=not now >= set(sinks))


def compact(scene: Scene) -> Iterator[Candidate]:
    """Results in LB move out of the way of others, or stay where they are."""
    yield replace(scene.candidate, compact=not scene.candidate.compact)


def refine(scene: Scene) -> Iterator[Candidate]:
    """The order of instructions is made better by its own simulation."""
    if not scene.candidate.refined:
        yield replace(scene.candidate, refined=True)


def binding(scene: Scene) -> Iterator[Candidate]:
    """Another rule for how kernels are divided among cores."""
    for rule in (BindingRule.EVEN, BindingRule.NEAREST, BindingRule.PAPER):
        if rule is not scene.candidate.binding:
            yield replace(scene.candidate, binding=rule)


def batches(scene: Scene) -> Iterator[Candidate]:
    """More or fewer samples an iteration, the pieces along the first axis being as large as before."""
    batch = scene.candidate.batch
    for other in sorted(scene.batches, key=lambda other: (max(other, batch) / min(other, batch), other)):
        if other != batch:
            yield scene.candidate.at(other)


MOVES: Mapping[str, Callable[[Scene], Iterator[Candidate]]] = {
    "join": join,
    "park": park,
    "tiles": tiles,
    "halves": halves,
    "pieces": pieces,
    "split": split,
    "borders": borders,
    "fuse": fuse,
    "columns": columns,
    "bring": bring,
    "divide": divide,
    "across": across,
    "again": again,
    "part": part,
    "merge": merge,
    "axis": axes,
    "grid": grid,
    "order": order,
    "rules": rules,
    "places": places,
    "batch": batches,
    "unfuse": unfuse,
    "band": band,
    "binding": binding,
    "together": together,
    "pick": pick,
    "pack": pack,
    "compact": compact,
    "refine": refine,
}


def _parted(graph: Graph, cut: Cut, place: Place) -> tuple[Cut, Cut]:
    """A sub-graph as two, as far as its pieces allow it in as many pieces each."""
    parts = (
        tuple(name for name in cut.operators if name in place.before),
        tuple(name for name in cut.operators if name not in place.before),
    )
    found = [replace(cut, operators=names) for names in parts]
    first, second = (one if fits(graph, one) else one.cut_along((0, 1)) for one in found)
    return first, second


def _recut(graph: Graph, cut: Cut) -> list[Cut]:
    """In twice or half as many pieces, or whole."""
    most = extent(graph, cut, cut.axis)
    counts = (cut.pieces * 2, cut.pieces // 2, 1)
    return [cut.in_pieces(count) for count in dict.fromkeys(counts) if 1 <= count <= most and count != cut.pieces]


def _along_others(graph: Graph, cut: Cut) -> list[Cut]:
    """Cut along another axis, or at all, into as many pieces, four or two."""
    return [
        cut.cut_along((axis, count))
        for axis in range(_rank(graph, cut))
        for count in dict.fromkeys((cut.pieces, 4, 2))
        if (axis != cut.axis or cut.pieces == 1) and 1 < count <= extent(graph, cut, axis)
    ]


def _in_grids(graph: Graph, cut: Cut) -> list[Cut]:
    """Each piece cut again along another axis, also where it then is as large as before; samples come first."""
    if cut.further:
        return [cut.cut_along(one) for one in cut.along]
    found = []
    for axis in range(_rank(graph, cut) if cut.pieces > 1 else 0):
        for first, second in ((cut.pieces // 2, 2), (cut.pieces // 4, 4), (cut.pieces, 2), (cut.pieces, 4)):
            if axis != cut.axis and first > 1:
                found.append(cut.cut_along(*sorted(((cut.axis, first), (axis, second)))))
    return [one for one in dict.fromkeys(found) if fits(graph, one)]


def _cut_otherwise(graph: Graph, cut: Cut) -> list[Cut]:
    return list(dict.fromkeys([*_recut(graph, cut), *_along_others(graph, cut)]))


def _divided(graph: Graph, cut: Cut, places: Sequence[Place]) -> list[Cut]:
    """A sub-graph divided at several places, from the first on."""
    parts, left = [], cut
    for place in places:
        first, left = _parted(graph, left, place)
        parts.append(first)
    return [*parts, left]


def _unevenness(scene: Scene, cuts: Sequence[Cut], place: Sequence[Place]) -> float:
    """By how much the share of the lost cycles before a place of each cut exceeds its share of the operators."""
    lost = sum(scene.lost(cut.operators) for cut in cuts)
    before = sum(scene.lost(tuple(one.before)) for one in place)
    return (before / lost if lost else 0.0) - len(place[0].before) / len(cuts[0].operators)


def _rank(graph: Graph, cut: Cut) -> int:
    leaving = graph.leaving([graph.by_name[name] for name in cut.operators])
    return min((len(graph.tensors[name].shape) for name in leaving), default=0)
