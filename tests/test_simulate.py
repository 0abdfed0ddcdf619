"""Simulated mappings: energy as the model has it, values as numpy has them and in the order of the array's sums."""

from collections.abc import Iterator
from itertools import product
from random import Random

import numpy as np
import pytest

from tests.nests import random_machine, random_nest, splits
from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, LoopOperand
from tilestitch.mapping.evaluate import price
from tilestitch.sim.array.runner import run_mapping
from tilestitch.sim.array.simulated import simulate_mapping
from tilestitch.sim.array.values import Values, random_operands

Case = tuple[LoopNest, ArrayMachine, LoopMapping]


def random_mapping(rng: Random, nest: LoopNest, *, ragged: bool) -> LoopMapping:
    """Any split of every loop, in any orders."""
    chosen = [rng.choice(splits(extent, ragged=ragged)) for extent in nest.extents]
    dram, spm, rf, spatial = zip(*chosen, strict=True)
    orders = [tuple(rng.sample(range(len(nest.loops)), len(nest.loops))) for _ in range(2)]
    return LoopMapping(dram, spm, rf, spatial, orders[0], orders[1])


def random_cases(seed: int, count: int, *, ragged: bool) -> Iterator[Case]:
    """Mappings that fit."""
    rng = Random(seed)
    while count > 0:
        nest, machine = random_nest(rng), random_machine(rng)
        if machine.operand_bits is not None and machine.networks == 1:
            continue
        mapping = random_mapping(rng, nest, ragged=ragged)
        if not price(nest, machine, mapping).misfit:
            count -= 1
            yield nest, machine, mapping


@pytest.mark.parametrize("ragged", [False, True])
def test_counted_events_take_the_energy_of_the_model(ragged: bool) -> None:
    """In every component, and every operand moves as many words."""
    for nest, machine, mapping in random_cases(1, 300, ragged=ragged):
        estimated = price(nest, machine, mapping)
        found = simulate_mapping(nest, machine, mapping, values=Values.NONE)
        for use, accesses in zip(found.operands, estimated.accesses, strict=True):
            words = (
                use.delivered_words + use.collected_words,
                use.read_words + use.written_words,
                use.loaded_words,
                use.stored_words,
            )
            known = (
                accesses.network_words,
                accesses.scratchpad_words,
                accesses.dram_load_words,
                accesses.dram_store_words,
            )
            assert words == pytest.approx(known, rel=1e-12), (nest, machine, mapping, use)
        assert found.energy.components == pytest.approx(estimated.components, rel=1e-12), (nest, machine, mapping)


def sums_in_order(
    nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping, operands: list[np.ndarray]
) -> np.ndarray:
    """What the array computes, a float32 addition at a time, in the order in which it is to add.

    While a tile of results is in the register files each element adds up its own products; the first of those that
    work on the same results begins with what was stored of them, the others with zero. Then they add up what they have
    from the last to the first or in pairs, and the sum is stored.
    """
    loops = range(len(nest.loops))
    result = np.zeros(nest.write.shape, np.float32)
    own: dict[tuple[int, ...], dict[tuple[int, ...], np.float32]] = {}  # by result and by the element's place
    held: tuple[int, ...] | None = None

    def first_of(place: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(at if loop in nest.write.indexed_by else 0 for loop, at in enumerate(place))

    def store() -> None:
        for index, sums in own.items():
            elements = sorted(sums)
            apart = 1
            if machine.reduction is Reduction.TREE:
                while apart < len(elements):
                    for at in range(0, len(elements) - apart, 2 * apart):
                        sums[elements[at]] += sums[elements[at + apart]]
                    apart *= 2
            else:
                for at in range(len(elements) - 1, 0, -1):
                    sums[elements[at - 1]] += sums[elements[at]]
            result[index] = sums[elements[0]]
        own.clear()

    for tile in walked(mapping.dram, mapping.dram_order):
        for turn in walked(mapping.spm, mapping.spm_order):
            begin = [tile[at] * mapping.scratchpad_tile[at] + turn[at] * mapping.pass_tile[at] for at in loops]
            if any(begin[at] >= nest.extents[at] for at in loops):
                continue
            visited = tuple(begin[at] for at in sorted(nest.write.indexed_by))
            if visited != held:
                store()
                held = visited
            for place in walked(mapping.spatial, tuple(loops)):
                for inner in walked(mapping.rf, tuple(loops)):
                    at = [begin[n] + place[n] * mapping.rf[n] + inner[n] for n in loops]
                    end = [min(begin[n] + mapping.pass_tile[n], nest.extents[n]) for n in loops]
                    if any(at[n] >= end[n] for n in loops):
                        continue
                    index = index_of(nest.write, at)
                    old = result[index] if place == first_of(place) else np.float32(0)
                    sums = own.setdefault(index, {})
                    term = operands[0][index_of(nest.reads[0], at)]
                    for operand, array in zip(nest.reads[1:], operands[1:], strict=True):
                        term = term * array[index_of(operand, at)]
                    sums[place] = sums.get(place, old) + term
    store()
    return result


def walked(factors: tuple[int, ...], order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All iterations of loops in an order."""
    for found in product(*(range(factors[loop]) for loop in order)):
        yield tuple(found[order.index(loop)] for loop in range(len(factors)))


def index_of(operand: LoopOperand, iteration: list[int]) -> tuple[int, ...]:
    return tuple(sum(step * iteration[loop] for loop, step in terms) for terms in operand.axes)


@pytest.mark.parametrize("ragged", [False, True])
def test_floats_are_added_in_the_order_of_the_array(ragged: bool) -> None:
    """To the bit."""
    for nest, machine, mapping in random_cases(2, 60, ragged=ragged):
        operands = random_operands(nest, Values.FLOATS)
        found = run_mapping(nest, machine, mapping, operands).result
        assert found is not None
        expected = sums_in_order(nest, machine, mapping, operands)
        np.testing.assert_array_equal(found, expected, str((nest, machine, mapping)))
