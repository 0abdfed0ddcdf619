"""The array simulator does what a nest means, whatever the mapping and the machine, in as many cycles either way."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest

from tests.helpers.nests import random_details, random_machine, random_mapping, random_nest
from tests.helpers.pairs import first
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.sim.array.runner import run_mapping
from tilestitch.sim.array.tally import COUNTS, REPEATED

SEEDS = 8
CASES = 40  # of each seed


@dataclass(frozen=True)
class Case:
    """One nest on one machine in one way; it fits."""

    nest: LoopNest
    machine: ArrayMachine
    mapping: LoopMapping
    operands: tuple[np.ndarray, ...]


def cases(seed: int, count: int) -> Iterator[Case]:
    """Random ones, exact and ragged in turn."""
    rng = Random(seed)
    found = 0
    while found < count:
        nest, machine = random_nest(rng), random_machine(rng)
        if rng.choice((True, False)):  # else slots that repeat are left out
            machine = replace(machine, micro=random_details(rng, machine.micro))
        values = np.random.default_rng(rng.getrandbits(32))
        operands = tuple(values.integers(-99, 100, operand.shape, np.int32) for operand in nest.reads)
        for _ in range(50):
            mapping = random_mapping(nest, rng, ragged=found % 2 == 1)
            try:
                run_mapping(nest, machine, mapping, every_slot=False)
            except (DoesNotFit, InputError):
                continue
            yield Case(nest, machine, mapping, operands)
            found += 1
            break


def meaning(nest: LoopNest, operands: tuple[np.ndarray, ...]) -> np.ndarray:
    """What the nest computes: all iterations at once, each product added where it belongs."""
    loops = np.indices(nest.extents).reshape(len(nest.loops), -1)
    products = np.ones(loops.shape[1], np.int32)
    for operand, array in zip(nest.reads, operands, strict=True):
        products *= array[index_of(operand.axes, loops)]
    found = np.zeros(nest.write.shape, np.int32)
    np.add.at(found, index_of(nest.write.axes, loops), products)
    return found


def index_of(axes: tuple[tuple[tuple[int, int], ...], ...], loops: np.ndarray) -> tuple[np.ndarray, ...]:
    """The index along every axis in every iteration."""
    none = np.zeros(loops.shape[1], np.int64)
    return tuple(sum((step * loops[loop] for loop, step in terms), start=none) for terms in axes)


def faults(case: Case) -> list[str]:
    """What is wrong with the simulation of a case."""
    nest, machine, mapping = case.nest, case.machine, case.mapping
    whole = run_mapping(nest, machine, mapping, case.operands)
    timed = run_mapping(nest, machine, mapping)
    short = run_mapping(nest, machine, mapping, every_slot=False)
    found = []
    if whole.result is None or not np.array_equal(whole.result, meaning(nest, case.operands)):
        found.append("other values than the nest")
    if whole.busy.sum() != nest.macs:
        found.append(f"{whole.busy.sum()} multiply-accumulates of {nest.macs}")
    alike = np.arange(COUNTS) != REPEATED
    for name, other in (("without values", timed), ("without slots that repeat", short)):
        if other.cycles != whole.cycles:
            found.append(f"{other.cycles} cycles {name}, {whole.cycles} with all")
        if not np.array_equal(other.counts[alike], whole.counts[alike]):
            where = np.flatnonzero((other.counts != whole.counts) & alike)
            found.append(f"{name} the counts {where} are {other.counts[where]}, not {whole.counts[where]}")
        if not np.array_equal(other.passes, whole.passes):
            found.append(f"{name} other passes")
    return found


def check(seed: int, count: int) -> None:
    """Fail with the first case that has a fault."""
    for number, case in enumerate(cases(seed, count)):
        found = faults(case)
        assert not found, f"case {number} of seed {seed}: {found}\n{case.nest}\n{case.machine}\n{case.mapping}"


@pytest.mark.parametrize("seed", first(4, range(SEEDS)))
def test_any_mapping_gives_what_the_nest_means_in_as_many_cycles_with_and_without_repeated_slots(seed: int) -> None:
    """Values are those of numpy; cycles and counts do not depend on values, or on what is left out."""
    check(seed, CASES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_thousands_of_mappings_give_what_their_nests_mean(seed: int) -> None:
    """The same of 5,000 more."""
    check(seed, 500)
