"""Fused mappings run on arrays, tile by tile, with a buffer for every memory of every operand.

What an operator finds in a buffer was brought there, and what other operators left in a buffer that is not theirs is
gone: a loop at the wrong place finds an element missing. Every element that is moved is counted.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from math import prod

import numpy as np

from tilestitch.hardware.tree import Flow
from tilestitch.mapping.fused.mapping import FusedMapping


def execute(fused: FusedMapping, arrays):
    """The result of a chain or tree without spread, and the bits that each memory moved.

    By operator, operand, memory and flow.

    `arrays[operator]` are the reads of an operator; that of an intermediate is left out.
    """
    run = _Run(fused, arrays)
    run.block(0, len(fused.mappings) - 1, 0, ())
    for operator in run.operators:
        operator.finish()
    return run.operators[-1].results(), run.moved


@dataclass
class _Run:
    fused: FusedMapping
    arrays: list
    moved: Counter = field(default_factory=Counter)

    def __post_init__(self):
        self.homes = [{} for _ in self.fused.homes]
        self.operators = [_Operator(self, number) for number in range(len(self.fused.mappings))]

    def block(self, first, last, depth, indices):
        """Run some operators in turn, inside so many of their loops, whose iterations are known."""
        shared = self.fused.shared[first:last]
        until = min(shared, default=None)
        if until is None:
            self.operators[first].run(depth, indices)
            return
        factors = [factor for _, factor in reversed(self.fused.mappings[first].loops)][depth:until]
        for more in product(*map(range, factors)):
            ends = [link for link in range(first, last) if self.fused.shared[link] == until]
            for link in ends:
                self.homes[link].clear()
            starts = [first, *(link + 1 for link in ends)]
            for start, end in zip(starts, [*ends, last], strict=True):
                self.block(start, end, until, (*indices, *more))


class _Operator:
    def __init__(self, run, number):
        self.run_, self.number = run, number
        fused = run.fused
        self.placed = fused.chain.operators[number]
        self.mapping = fused.mappings[number]
        self.window_steps = self._window_steps()
        self.operands = [_Array(self, at) for at in range(len(self.placed.operands))]

    def _window_steps(self):
        """By how much each shared loop, from the outermost, moves the windows of this operator that overlap."""
        fused, number = self.run_.fused, self.number
        last = len(fused.mappings) - 1
        steps = {}
        inner = {}
        count = len(fused.mappings[last].loops)
        for position, (loop, factor) in enumerate(fused.mappings[last].loops):
            for thread in fused.chain.threads(number, last):
                links = [
                    next(one for one in fused.chain.crossings(link) if one.writes == thread[link - number])
                    for link in range(number, last)
                ]
                if thread[-1] == loop and any(one.halo is not None for one in links):
                    scale = prod(one.halo.step if one.halo is not None else 1 for one in links)
                    steps[count - 1 - position] = scale * inner.get(loop, 1)
            inner[loop] = inner.get(loop, 1) * factor
        return steps

    def run(self, depth, indices):
        factors = [factor for _, factor in reversed(self.mapping.loops)][depth:]
        for operand in self.operands:
            operand.enter(depth)
        for more in product(*map(range, factors)):
            now = (*indices, *more)  # of the loops from the outermost
            product_ = 1
            for operand in self.operands[:-1]:
                product_ = product_ * operand.value(now)
            self.operands[-1].add(now, product_)
        for operand in self.operands:
            operand.leave(depth)

    def finish(self):
        self.operands[-1].drain_all()

    def results(self):
        return self.operands[-1].whole


class Meeting:
    """What an operator finds at home where the results of one or more others are one to it."""

    def __init__(self, homes, is_factor):
        self.homes, self.is_factor = homes, is_factor

    def __getitem__(self, index):
        found = [home[index] for home in self.homes]
        return prod(found) if self.is_factor else sum(found)


class _Array:
    """One operand: a buffer for each memory, what each holds now, and what is outside."""

    def __init__(self, operator, at):
        self.operator, self.at = operator, at
        fused, number = operator.run_.fused, operator.number
        self.placed = operator.placed
        self.array = self.placed.operands[at]
        self.is_write = at == len(self.placed.nest.reads)
        chain, links = self.placed.chain(at), fused.chain.links
        readers = fused.chain.readers or range(1, len(fused.mappings))
        made = [link for link, one in enumerate(links) if (readers[link], one.read) == (number, at)]
        if self.is_write and number < len(links):
            made = [number]
        self.home = fused.homes[made[0]] if made else None
        names = [memory.name for memory in chain]
        self.levels = len(names) - 1 if self.home is None else names.index(self.home)
        self.names = names[: self.levels + 1]
        if self.home is not None:
            every = [operator.run_.homes[link] for link in made]
            self.outside = every[0] if self.is_write else Meeting(every, links[made[0]].is_factor)
        elif self.is_write:
            self.outside = {}
        else:
            given = operator.run_.arrays[number][at]
            self.outside = {index: given[index] for index in np.ndindex(*given.shape)}
        self.cuts = operator.mapping.cuts[at][: self.levels]
        # level -1 is the unit, then one buffer for each memory inside the outermost one
        self.buffers = [{} for _ in range(self.levels + 1)]
        self.tiles = [None] * (self.levels + 1)
        self.moving = self.array.indexed_by

    @property
    def whole(self):
        return self.outside

    def _loops(self):
        return self.operator.mapping.loops

    def _index(self, now):
        """The element of one iteration; `now` are iterations from the outermost loop."""
        count = len(self._loops())
        at = [0] * len(self.placed.nest.loops)
        inner = [1] * len(at)
        own = min(self.operator.run_.fused.own_loops(self.operator.number), default=count)
        for position, (loop, factor) in enumerate(self._loops()):
            step = self.operator.window_steps.get(count - 1 - position) if position >= own else None
            at[loop] += now[count - 1 - position] * (inner[loop] if step is None else step)
            inner[loop] *= factor
        return tuple(sum(step * at[loop] for loop, step in terms) for terms in self.array.axes)

    def _elements(self, now, cut):
        """The elements of the tile inside a cut."""
        loops, count = self._loops(), len(self._loops())
        found = {}
        for more in product(*(range(factor) for _, factor in reversed(loops[:cut]))):
            found[self._index((*now[: count - cut], *more))] = None
        return list(found)

    def _tile(self, now, cut):
        """What distinguishes a tile from others: iterations of outer loops that move it, or others run in between."""
        count = len(self._loops())
        outside = self._loops()[cut:]
        forks = [count - own for own in self.operator.run_.fused.own_loops(self.operator.number)]
        lost = now[: max((fork for fork in forks if fork <= len(outside)), default=0)]
        return lost, tuple(now[count - 1 - cut - k] for k, (loop, _) in enumerate(outside) if loop in self.moving)

    def _cut(self, buffer):
        return 0 if buffer == 0 else self.cuts[buffer - 1]

    def enter(self, depth):
        """The operator begins: what lies inside the loops around has been used by others."""
        for buffer in range(self.levels + 1):
            if len(self._loops()) - self._cut(buffer) >= depth or not self._is_resident(buffer):
                self.buffers[buffer], self.tiles[buffer] = {}, None

    def _is_resident(self, buffer):
        """Whether a buffer is kept while other operators run: its cut is further out than the loops around."""
        own = self.operator.run_.fused.own_loops(self.operator.number)
        return bool(own) and self._cut(buffer) > min(own)

    def leave(self, depth):
        if self.is_write:
            self._drain(inside=depth)

    def value(self, now):
        for buffer in range(self.levels, -1, -1):
            tile = self._tile(now, self._cut(buffer))
            if self.tiles[buffer] != tile:
                source = self.outside if buffer == self.levels else self.buffers[buffer + 1]
                wanted = self._elements(now, self._cut(buffer))
                self.buffers[buffer] = {index: source[index] for index in wanted}
                self.tiles[buffer] = tile
                self._count(buffer, len(wanted), Flow.FEED, Flow.FILL)
        return self.buffers[0][self._index(now)]

    def _count(self, buffer, elements, above, below):
        bits = elements * self.array.element_bits
        moved = self.operator.run_.moved
        key = self.operator.number, self.at
        moved[(*key, self.names[buffer], above)] += bits
        if buffer > 0:
            moved[(*key, self.names[buffer - 1], below)] += bits

    def add(self, now, value):
        """One more product: the unit takes the sum, adds and gives it back."""
        for buffer in range(self.levels, 0, -1):
            cut = self._cut(buffer)
            tile = self._tile(now, cut)
            if self.tiles[buffer] != tile:
                self._put_back(buffer)
                source = self.outside if buffer == self.levels else self.buffers[buffer + 1]
                known = {index: source[index] for index in self._elements(now, cut) if index in source}
                self.buffers[buffer], self.tiles[buffer] = dict(known), tile
                if known:
                    self._count(buffer, len(known), Flow.FEED, Flow.FILL)
        inner = self.outside if self.levels == 0 else self.buffers[1]
        index = self._index(now)
        if index in inner:
            self._count(0, 1, Flow.FEED, Flow.FILL)
        inner[index] = inner.get(index, 0) + value
        self._count(0, 1, Flow.COLLECT, Flow.DRAIN)

    def _put_back(self, buffer):
        """Everything in this buffer, and in those inside it, goes further out."""
        for inner in range(1, buffer + 1):
            if self.buffers[inner]:
                target = self.outside if inner == self.levels else self.buffers[inner + 1]
                target.update(self.buffers[inner])
                self._count(inner, len(self.buffers[inner]), Flow.COLLECT, Flow.DRAIN)
            self.buffers[inner], self.tiles[inner] = {}, None

    def _drain(self, inside):
        for buffer in range(self.levels, 0, -1):
            if not self._is_resident(buffer):
                self._put_back(buffer)
                return

    def drain_all(self):
        if self.is_write and self.levels > 0:
            self._put_back(self.levels)
