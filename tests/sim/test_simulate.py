"""Simulated mappings: energy as the model has it, values as numpy has them and in the order of the array's sums."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.helpers.nests import DMAZERUNNER, random_machine, random_mapping, random_nest
from tilestitch.base.errors import InvalidIR
from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.microarchitecture import Microarchitecture
from tilestitch.ir.choices import Values
from tilestitch.ir.loop_nest import Loop, LoopMapping, LoopNest, LoopOperand, SlidingWindow, convolution
from tilestitch.ir.loop_nest import product as matrix_product
from tilestitch.mapping.evaluate import price
from tilestitch.sim.array import simulated, values
from tilestitch.sim.array.runner import run_mapping
from tilestitch.sim.array.simulated import simulate_mapping
from tilestitch.sim.array.values import computed, random_operands, rounding_bound

Case = tuple[LoopNest, ArrayMachine, LoopMapping]


def random_cases(seed: int, count: int, *, ragged: bool) -> Iterator[Case]:
    """Mappings that fit."""
    rng = Random(seed)
    while count > 0:
        nest, machine = random_nest(rng), random_machine(rng)
        mapping = random_mapping(nest, rng, ragged=ragged)
        if not price(nest, machine, mapping).misfit:
            count -= 1
            yield nest, machine, mapping


def test_counted_events_take_the_energy_of_the_model() -> None:
    """In every component, and every operand moves as many words."""
    for nest, machine, mapping in random_cases(1, 300, ragged=False):
        estimated = price(nest, machine, mapping)
        found = simulate_mapping(nest, machine, mapping, values=Values.NONE)
        for use, accesses in zip(found.operands, estimated.accesses, strict=True):
            assert use.delivered_words + use.collected_words == accesses.network_words, (nest, machine, mapping)
            assert use.read_words + use.written_words == accesses.scratchpad_words, (nest, machine, mapping)
            assert use.loaded_words == accesses.dram_load_words, (nest, machine, mapping)
            assert use.stored_words == accesses.dram_store_words, (nest, machine, mapping)
        assert found.energy.components == pytest.approx(estimated.components, rel=1e-12), (nest, machine, mapping)
        assert round(found.energy.total_pj, 3) == pytest.approx(estimated.energy_pj, abs=1.5e-3)


def test_ragged_mappings_move_as_many_words_of_dram_as_the_model_says() -> None:
    """What goes over the networks is an average over passes there, and may differ: docs/array-simulator.md says how."""
    for nest, machine, mapping in random_cases(1, 120, ragged=True):
        found = simulate_mapping(nest, machine, mapping, values=Values.NONE)
        estimated = price(nest, machine, mapping)
        assert found.run.macs == nest.macs
        assert found.energy.dram_pj == pytest.approx(estimated.dram_pj, rel=1e-12), (nest, machine, mapping)


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
        micro = Microarchitecture(
            adder_stages=machine.micro.adder_stages, double_buffered=machine.micro.double_buffered
        )
        machine = replace(machine, micro=micro)
        operands = random_operands(nest, Values.FLOATS)
        found = run_mapping(nest, machine, mapping, operands).result
        assert found is not None
        expected = sums_in_order(nest, machine, mapping, operands)
        np.testing.assert_array_equal(found, expected, str((nest, machine, mapping)))


def test_numpy_computes_what_the_nest_says() -> None:
    """Whatever the nest: with gaps and overlaps, loops that no operand has, more memory than is used."""
    rng = Random(3)
    for nest in [random_nest(rng) for _ in range(60)] + [NOWHERE, LARGER]:
        small = random_operands(nest, Values.INTEGERS)
        large = [one * np.int64(2 ** (50 // len(small))) + 1 for one in small]  # their sums are beyond float64
        for operands in (small, large):
            expected = np.zeros(nest.write.shape, np.int64)
            for iteration in np.ndindex(*nest.extents):
                pairs = zip(nest.reads, operands, strict=True)
                factors = [int(array[index_of(read, list(iteration))]) for read, array in pairs]
                expected[index_of(nest.write, list(iteration))] += prod(factors)
            np.testing.assert_array_equal(computed(nest, operands), expected)


NOWHERE = LoopNest(
    "nowhere",
    "einsum",
    (Loop("i", 2), Loop("j", 3), Loop("k", 2)),
    (LoopOperand("A", (((0, 1),),), (2,)), LoopOperand("B", (((0, 1),),), (2,))),
    LoopOperand("O", (((1, 1),),), (3,)),
)
LARGER = LoopNest(
    "larger",
    "einsum",
    (Loop("i", 2), Loop("j", 3)),
    (LoopOperand("A", (((0, 2), (1, 1)),), (9,)), LoopOperand("B", (((0, 1),), ((1, 1),)), (2, 4))),
    LoopOperand("O", (((0, 1),), ()), (3, 1)),
)


def test_large_operands_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same result."""
    nest = convolution("conv", n=2, m=3, c=2, output=(5, 4), window=SlidingWindow((3, 3)))
    operands = random_operands(nest, Values.INTEGERS)
    whole = computed(nest, operands)
    monkeypatch.setattr(values, "_MOST_WORDS", 100)
    assert values._parts(nest, 3) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    np.testing.assert_array_equal(computed(nest, operands), whole)


def test_no_sum_of_integers_leaves_32_bits() -> None:
    """Also where many are added."""
    nest = matrix_product("long", m=1, n=1, k=2**24)
    most = [int(np.abs(one).max()) for one in random_operands(nest, Values.INTEGERS)]
    assert most[0] * most[1] * 2**24 < 2**31
    assert most == [8, 8]


SMALL = matrix_product("small", m=4, n=4, k=4)
WHOLE = LoopMapping((1, 1, 1), (1, 1, 1), (2, 2, 4), (2, 2, 1), (0, 1, 2), (0, 1, 2))


def test_float_sums_stay_within_their_rounding() -> None:
    """Of sums in the order of the array, which are not numpy's; and not within a thousandth of that."""
    nest = matrix_product("long", m=2, n=2, k=64)
    mapping = LoopMapping((1, 1, 2), (1, 1, 2), (2, 2, 4), (1, 1, 4), (0, 1, 2), (0, 1, 2))
    operands = random_operands(nest, Values.FLOATS)
    found = run_mapping(nest, DMAZERUNNER, mapping, operands).result
    assert found is not None
    error = np.abs(found - computed(nest, operands))
    assert (error <= rounding_bound(nest, operands)).all()
    assert (error > rounding_bound(nest, operands) / 1000).any()


@pytest.mark.parametrize("chosen", [Values.INTEGERS, Values.FLOATS])
def test_a_wrong_result_names_the_nest_and_its_mapping(chosen: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    """One word that is off by a little is found."""

    def spoilt(*arguments: Any, **options: Any) -> Any:
        run = run_mapping(*arguments, **options)
        assert run.result is not None
        run.result[1, 2] += 1 if chosen is Values.INTEGERS else 1e-5
        return run

    assert simulate_mapping(SMALL, DMAZERUNNER, WHOLE, values=chosen).values is chosen
    monkeypatch.setattr(simulated, "run_mapping", spoilt)
    with pytest.raises(InvalidIR, match=r"nest 'small' on dmazerunner-256.*C\[1, 2\].*1 of 16.*M=2 N=2"):
        simulate_mapping(SMALL, DMAZERUNNER, WHOLE, values=chosen)


def test_a_result_that_is_no_number_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it is not further off than anything."""

    def spoilt(*arguments: Any, **options: Any) -> Any:
        run = run_mapping(*arguments, **options)
        assert run.result is not None
        run.result[0, 0] = np.nan
        return run

    monkeypatch.setattr(simulated, "run_mapping", spoilt)
    with pytest.raises(InvalidIR, match="nan"):
        simulate_mapping(SMALL, DMAZERUNNER, WHOLE, values=Values.FLOATS)


def test_statistics_add_up() -> None:
    """Causes to all cycles, busy cycles of the elements to multiply-accumulates, requests and words to the operands."""
    for nest, machine, mapping in random_cases(5, 60, ragged=True):
        found = simulate_mapping(nest, machine, mapping, values=Values.NONE)
        assert sum(found.cycles_by_cause.values()) == found.cycles
        assert found.element_busy_cycles.sum() == nest.macs
        assert (found.element_rest_cycles >= 0).all()
        through = sum(use.read_words + use.written_words for use in found.operands)
        assert sum(use.words for use in found.networks) == through
        assert 0 < found.dma_occupancy <= 1
        assert all(use.busy_cycles <= found.cycles for use in found.networks)


def test_leaving_out_passes_that_repeat_changes_nothing_but_how_many_are_left_out() -> None:
    """Neither cycles nor energy nor any statistic; and some are left out."""
    left_out = 0
    for nest, machine, mapping in random_cases(6, 40, ragged=True):
        every = simulate_mapping(nest, machine, mapping, values=Values.NONE)
        some = simulate_mapping(nest, machine, mapping, extrapolate=True)
        assert (some.cycles, some.energy, some.operands) == (every.cycles, every.energy, every.operands)
        assert some.cycles_by_cause == every.cycles_by_cause
        assert some.networks == every.networks
        assert some.values is Values.NONE
        left_out += some.repeated_slots
    assert left_out > 20
