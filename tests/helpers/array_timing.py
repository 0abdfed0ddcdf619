"""Latency of a mapping on an array, pass by pass and tile by tile: what the closed form of the mapper is compared with.

Slow, and written without a look at the closed form. Operands move where their tiles differ; results come back if their
tile was there before. docs/mapping.md#the-model says the rules.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import ceil, prod

from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, LoopOperand


def array_cycles(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> int:
    """Of a mapping with exact factors."""
    layer = Layer(nest, machine, mapping)
    tiles, slots, result = layer.tiles, layer.slots(), layer.result
    loads, stores = [0] * len(tiles), [0] * len(tiles)
    for number in range(1, len(tiles)):
        for at in range(len(nest.operands)):
            if tiles[number][at] == tiles[number - 1][at]:
                continue
            if at < result or tiles[number][at] in [tile[at] for tile in tiles[:number]]:
                loads[number - 1] += layer.moved[at]
            if at == result:  # those of the tile before
                stores[number] += layer.moved[at]
    each = len(slots) // len(tiles)
    fill = layer.slot(0, list(range(result)), 0, leaves=False, comes=False)
    cycles = max(machine.configuration_cycles, sum(layer.moved[:result]))
    if layer.double[result]:
        cycles += fill
        for number in range(len(tiles)):
            own = sum(slots[number * each : (number + 1) * each])
            cycles += max(loads[number] + stores[number], own)
        cycles += layer.drain + layer.sums + layer.words_cycles[result]
    else:
        cycles += sum(turns(layer, [fill, *slots], each, loads, stores)) + slots[-1]
    return cycles + machine.micro.network_latency_cycles + 1 + layer.moved[result]


def turns(
    layer: "Layer", slots: Sequence[int], each: int, loads: Sequence[int], stores: Sequence[int]
) -> Iterator[int]:
    """Cycles from the slot that brings the first pass of a tile to that of the next, tile by tile."""
    tiles = layer.tiles
    pairs = [[one == other for one, other in zip(*two, strict=True)] for two in pairwise(tiles)]
    stays = any(same[layer.result] for same in pairs)
    # Then a store that begins when its results have gone, and not before, may go on in the next turn.
    goes_on = stays and layer.late == 0 and not any(any(same[: layer.result]) for same in pairs)
    late = 0
    for number, (load, store) in enumerate(zip(loads, stores, strict=True)):
        own = slots[number * each : (number + 1) * each]
        if not goes_on:
            yield max(sum(own), load + store)
            continue
        turn = max(sum(own), late + load)
        late = 0
        if store:
            gone = own[0] + layer.machine.micro.network_latency_cycles + 1
            late = max(0, max(gone, load) + store - turn)
        yield turn


class Layer:
    """One mapping on one machine, with what every operand takes on its network and by DMA."""

    def __init__(self, nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> None:
        self.nest, self.machine, self.mapping = nest, machine, mapping
        self.result = len(nest.reads)
        self.roles = [2 if one is nest.write else min(at, 1) for at, one in enumerate(nest.operands)]
        bits = [one.element_bits for one in nest.operands]
        if machine.operand_bits is not None:
            bits = [machine.operand_bits[role] for role in self.roles]
        self.double = [machine.micro.double_buffered[role] for role in self.roles]
        self.drain = 4 + machine.micro.multiplier_stages + machine.micro.adder_stages - 1
        self.late = max(0, machine.micro.network_latency_cycles - 2)
        self.network = [{3: role, 2: max(role, 1), 1: 0}[machine.networks] for role in self.roles]
        self.words_cycles = [
            ceil(Fraction(words * bits[at], 8) / machine.network_bytes_per_cycle[self.network[at]])
            for at, words in enumerate(self._network_words())
        ]
        self.moved = [self._transfer(one, bits[at]) for at, one in enumerate(nest.operands)]
        self.sums = self._sums(bits[self.result])
        own = words_of(nest.write, mapping.rf)
        self.compute = prod(mapping.rf) // own * max(own, machine.micro.adder_stages)
        self.tiles = [self._tiles(outer) for outer in walked(mapping.dram, mapping.dram_order)]
        self.passes = [
            [(outer, inner) for outer, inner in zip(tile, self._tiles(index), strict=True)]
            for tile in self.tiles
            for index in walked(mapping.spm, mapping.spm_order)
        ]

    def _tiles(self, index: Sequence[int]) -> list[tuple[int, ...]]:
        """The indices that move each operand."""
        return [tuple(index[loop] for loop in sorted(one.indexed_by)) for one in self.nest.operands]

    def _network_words(self) -> Iterator[int]:
        mapping = self.mapping
        for one in self.nest.operands:
            if self.machine.multicast or one is self.nest.write:
                yield words_of(one, mapping.pass_tile)
            else:
                yield words_of(one, mapping.rf) * prod(mapping.spatial)

    def _transfer(self, operand: LoopOperand, bits: int) -> int:
        machine = self.machine
        words = runs = 1
        contiguous = True
        for extent, full in zip(
            reversed(operand.extents(self.mapping.scratchpad_tile)), reversed(operand.shape), strict=True
        ):
            if contiguous:
                words *= extent
                contiguous = extent == full
            else:
                runs *= extent
        size = ceil(Fraction(words * bits, 8))
        return ceil(Fraction(runs, machine.dma_channels)) * ceil(
            machine.dma_setup_cycles + machine.dma_cycles_per_byte * size
        )

    def _sums(self, bits: int) -> int:
        """Partial sums from element to element, each hop an addition at least."""
        nest, machine, mapping = self.nest, self.machine, self.mapping
        together = prod(mapping.spatial[loop] for loop in range(len(nest.loops)) if loop not in nest.write.indexed_by)
        apart = prod(mapping.spatial) // together
        own = words_of(nest.write, mapping.rf)
        hops = together - 1 if machine.reduction is not Reduction.TREE else (together - 1).bit_length()
        words = own * apart if machine.reduction is Reduction.SERIAL else own
        word = Fraction(bits, 8) / machine.reduction_bytes_per_cycle
        return ceil(hops * max(words * word, machine.micro.adder_stages))

    def slots(self) -> list[int]:
        """Cycles of the slot of every pass, but for what results with two buffers take after the last."""
        passes, result = self.passes, self.result
        found, last = [], len(passes) - 1
        for at, one in enumerate(passes):
            moves, changed, back = [], True, False
            if at < last:
                moves = [k for k in range(result) if passes[at + 1][k] != one[k]]
                changed = passes[at + 1][result] != one[result]
                back = changed and passes[at + 1][result] in [before[result] for before in passes[:at]]
            leaves = changed
            if self.double[result]:
                leaves = at > 0 and passes[at - 1][result] != one[result]
            found.append(self.slot(self.compute, moves, self.sums, leaves=leaves, comes=back))
        return found

    def slot(self, compute: int, moves: Sequence[int], sums: int, *, leaves: bool, comes: bool) -> int:
        """A pass is computed while inputs of the next come, and results go or come back."""
        end = compute
        for network in range(3):
            mine = [at for at in moves if self.network[at] == network]
            now = sum(self.words_cycles[at] for at in mine if self.double[at])
            waiting = [at for at in mine if not self.double[at]]
            if waiting:
                now = max(now, compute) + sum(self.words_cycles[at] for at in waiting)
            if mine:
                end = max(end, now + self.late)
            if self.network[self.result] == network and (leaves or comes):
                release = 0
                if leaves:
                    release = self.drain + sums + (0 if self.double[self.result] else compute)
                now = max(now, release) + self.words_cycles[self.result]
                end = max(end, now + (self.late if comes else 0))
        return end


def walked(factors: Sequence[int], order: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Indices of all loops of a level, the last of the order turning fastest."""
    for at in product(*(range(factors[loop]) for loop in order)):
        index = dict(zip(order, at, strict=True))
        yield tuple(index[loop] for loop in range(len(factors)))


def words_of(operand: LoopOperand, tile: Sequence[int]) -> int:
    return prod(operand.extents(tile))
