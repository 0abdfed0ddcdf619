"""Simulated mappings: energy as the model has it, values as numpy has them and in the order of the array's sums."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from tests.nests import random_machine, random_nest, splits
from tilestitch.errors import DoesNotFit, InvalidIR
from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir import loop_nest
from tilestitch.ir.loop_nest import Loop, LoopMapping, LoopNest, LoopOperand
from tilestitch.mapping.evaluate import price
from tilestitch.sim.array import simulated
from tilestitch.sim.array.runner import ArrayRun, run_mapping
from tilestitch.sim.array.simulated import simulate_mapping
from tilestitch.sim.array.values import Values, computed, random_operands, rounding_bound

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
