"""The rules of the simulator of trees once more, cycle after cycle: slow, and without anything that is skipped.

What crosses where, and for how many cycles of which port, is taken from the streams; when it does is worked out here,
from the iterations that each tile is of. Where loops have ends, what crosses with each tile is counted anew.
"""

from functools import cache, cached_property
from math import prod

from tests.helpers.tree_amounts import kind_at
from tilestitch.sim.tree.chain import ChainRun, Moment
from tilestitch.sim.tree.chain_plan import pass_of
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.streams import streams_of


class _Tiles:
    """The tiles of one stream: how many have ended, and how long the ports have to work for the one on its way."""

    def __init__(self, run, stream):
        self.run, self.stream = run, stream
        self.ended, self.left = 0, None
        self.by_key = {}
        self.kind_of = cache(lambda tile: kind_at(run, stream, tile) if len(stream.crossed.kinds) > 1 else 0)

    @property
    def key(self):
        return self.stream.operand, self.stream.crossing, self.stream.is_up

    @property
    def is_over(self):
        return self.ended == self.stream.count

    @property
    def begin(self):
        """The first iteration of the tile that is next, or on its way."""
        return self.ended * self.stream.tile

    @property
    def needed(self):
        """The iteration before which it has to end."""
        return self.needed_for(self.begin)

    def needed_for(self, begin):
        """The same of the tile that begins with an iteration.

        The first results that come to its place later have to leave the memory inside, where nothing is brought in.
        """
        operand, crossing, is_up = self.key
        if not is_up:
            return begin
        later = begin + self.stream.buffers * self.stream.tile
        inner = self.by_key.get((operand, crossing - 1, True))
        is_filled = any((operand, one, False) in self.by_key for one in (crossing, crossing - 1))
        return later if crossing < 2 or is_filled else inner.needed_for(later)

    @cached_property
    def rank(self):
        """What is served first of tiles that are needed at one time: results that have to leave with larger ones."""
        operand, crossing, is_up = self.key
        outside = [
            one for key, one in self.by_key.items() if is_up and key[0] == operand and key[1] > crossing and key[2]
        ]
        leaves_early = [one.needed_for(0) < self.needed_for(one.stream.tile - self.stream.tile) for one in outside]
        return 0 if any(leaves_early) else 1

    def has(self, iterations):
        """Whether all tiles of so many iterations have ended."""
        return self.ended * self.stream.tile >= iterations

    def is_ending(self, iterations):
        """Whether they have, or the last of them is on its way."""
        return self.has(iterations) or (self.left is not None and (self.ended + 1) * self.stream.tile >= iterations)

    def is_new(self):
        """Whether the sums of the tile begin: nothing was added to them in an iteration before."""
        run, number = self.run, self.ended
        moved = run.operands[run.written].indexed_by
        for loop, factor in run.loops[self.stream.place :]:
            if loop not in moved and number % factor:
                return False
            number //= factor
        return True


def _known(tiles):
    """All tiles of an operator by key, which each of them knows then."""
    found = {one.key: one for one in tiles}
    for one in tiles:
        one.by_key = found
    return found


def cycles_of(run: TreeRun) -> int:
    """The latency, one cycle after another."""
    tiles = [_Tiles(run, stream) for stream in streams_of(run).every]
    by_key = _known(tiles)
    total = prod(factor for _, factor in run.loops)
    now = steps = 0

    def turn(one):
        return one.needed, one.rank

    while True:
        is_stepping = False
        while True:
            changed = [one.key for one in tiles if _end(one, by_key)]
            changed += [one.key for one in tiles if _start(one, by_key, steps)]
            if not is_stepping and steps < total and _may_step(tiles, by_key, steps):
                is_stepping = True
                changed.append("units")
            if not changed:
                break
        serving = {}
        for one in tiles:
            for port, cycles in (one.left or {}).items():
                if cycles > 0 and (port not in serving or turn(one) < turn(serving[port])):
                    serving[port] = one
        if not serving and not is_stepping:
            assert steps == total, "the units wait for ever"
            assert all(one.is_over for one in tiles), "nothing moves any more"
            return now
        for port, one in serving.items():
            one.left[port] -= 1
        now, steps = now + 1, steps + is_stepping


def _start(one, by_key, steps):
    if one.left is not None or one.is_over or not _may_start(one, by_key, steps):
        return False
    is_free = one.stream.first_free and one.is_new()
    kind = one.kind_of(one.ended)
    one.left = {use.port: 0 if is_free else use.cycles[kind] for use in one.stream.uses}
    return True


def _room_outside(one, by_key, begin, *, is_empty=True):
    """Sums that begin in the memory outside need its place empty: the tile that was there has left, or is leaving."""
    operand, crossing, _ = one.key
    outside = by_key.get((operand, crossing + 1, True))
    if outside is None or (operand, crossing + 1, False) in by_key:
        return True
    tile = outside.stream.tile
    iterations = (begin // tile - outside.stream.buffers + 1) * tile
    return outside.has(iterations) if is_empty else outside.is_ending(iterations)


def _may_start(one, by_key, steps):
    operand, crossing, is_up = one.key
    end = one.begin + one.stream.tile
    if is_up:
        inner = by_key.get((operand, crossing - 1, True))
        is_made = steps >= end if inner is None else inner.is_ending(end)
        return is_made and _room_outside(one, by_key, one.begin, is_empty=False)
    outside, leaving = by_key.get((operand, crossing + 1, False)), by_key.get((operand, crossing, True))
    if outside is not None:
        if not outside.is_ending(one.begin + 1):
            return False
    elif operand == one.run.written and not _room_outside(one, by_key, one.begin, is_empty=False):
        return False
    free = end - one.stream.buffers * one.stream.tile
    if not (steps >= free if leaving is None else leaving.is_ending(free)):
        return False
    even = one.stream.even
    return even == 0 or steps >= (one.begin // even - one.stream.buffers + 1) * even


def _end(one, by_key):
    if one.left is None or any(one.left.values()):
        return False
    operand, crossing, is_up = one.key
    end = one.begin + one.stream.tile
    if operand == one.run.written and not _room_outside(one, by_key, one.begin):
        return False
    if is_up:
        inner = by_key.get((operand, crossing - 1, True))
        may = inner is None or inner.has(end)
    else:
        outside, leaving = by_key.get((operand, crossing + 1, False)), by_key.get((operand, crossing, True))
        may = outside is None or outside.has(one.begin + 1)
        may = may and (leaving is None or leaving.has(end - one.stream.buffers * one.stream.tile))
    if may:
        one.ended, one.left = one.ended + 1, None
    return may


def _may_step(tiles, by_key, steps):
    for one in tiles:
        if one.stream.crossing == 0:
            if one.stream.is_up:
                if not one.is_ending(steps - 1) or not _room_outside(one, by_key, steps):
                    return False
            elif not one.has(steps + 1):
                return False
    return True


def chain_cycles(run: ChainRun) -> int:
    """The latency of operators that run together, one cycle after another."""
    operators = [[_Tiles(one, stream) for stream in streams_of(one).every] for one in run.runs]
    by_key = [_known(tiles) for tiles in operators]
    visits = {}  # of each stream the block whose visits open it, and the iterations of its operator in one
    order = [[] for _ in run.runs]  # of each operator the steps of all units that are its own
    for number, (one, tiles) in enumerate(zip(run.runs, operators, strict=True)):
        for tile in tiles:
            block = run.around(number, tile.stream.place)
            visits[id(tile)] = block, prod(factor for _, factor in one.loops[: len(one.loops) - block.outside])
    events = list(run.events())
    for moment, block in events:
        if moment is Moment.STEPS:
            one = run.runs[block.first]
            done = sum(map(len, order))
            inside = prod(factor for _, factor in one.loops[: len(one.loops) - block.outside])
            order[block.first] += range(done, done + inside)

    def needed(number, tile):
        steps, at = order[number], tile.needed
        return (steps[at] if at < len(steps) else steps[-1] + at - len(steps) + 1), tile.rank

    begun, steps, now, left = {}, [0] * len(run.runs), 0, {}

    def is_open(tile):
        block, inside = visits[id(tile)]
        return begun.get(block, 0) > tile.begin // inside

    def has_ended(block):
        return all(
            tile.has(begun[block] * inside)
            for tiles in operators
            for tile in tiles
            for own, inside in [visits[id(tile)]]
            if own == block
        )

    for moment, block in events:
        number, until = block.first, 0
        if moment is Moment.BEGIN:
            begun[block] = begun.get(block, 0) + 1
            continue
        if moment is Moment.STEPS:
            one = run.runs[number]
            until = steps[number] + prod(factor for _, factor in one.loops[: len(one.loops) - block.outside])
        elif moment is Moment.PASS:
            left = dict(pass_of(run, block.last).cycles)
        while True:
            is_stepping = False
            changed = True
            while changed:
                changed = False
                for which, tiles in enumerate(operators):
                    for one in tiles:
                        changed |= _end(one, by_key[which])
                        changed |= is_open(one) and _start(one, by_key[which], steps[which])
                if moment is Moment.STEPS and not is_stepping and steps[number] < until:
                    is_stepping = _may_step(operators[number], by_key[number], steps[number])
                    changed |= is_stepping
            over = {Moment.STEPS: steps[number] == until, Moment.PASS: not any(left.values())}.get(moment, True)
            if over and not is_stepping and (moment is Moment.PASS or has_ended(block)):
                break
            serving = {}
            for which, tiles in enumerate(operators):
                for one in tiles:
                    for port, cycles in (one.left or {}).items():
                        if cycles > 0 and (port not in serving or needed(which, one) < serving[port][0]):
                            serving[port] = needed(which, one), one.left
            if moment is Moment.PASS:
                serving |= {port: ((0, 0), left) for port, cycles in left.items() if cycles > 0}
            assert serving or is_stepping, "nothing moves any more"
            for port, (_, of_tile) in serving.items():
                of_tile[port] -= 1
            now += 1
            steps[number] += is_stepping
    return now
