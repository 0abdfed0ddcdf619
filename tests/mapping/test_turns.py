"""Turns of a mapping, one after another, take what the whole mapping takes."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from random import Random

import pytest

from tilestitch.hardware.array_machine import ArrayMachine, array_alone
from tilestitch.hardware.load import load_machine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution
from tilestitch.ir.loop_nest import product as matrix_product
from tilestitch.mapping.evaluate import price
from tilestitch.mapping.turns import turns_of


def random_mapping(rng: Random, nest: LoopNest) -> LoopMapping:
    """Exact factors at all levels, in any order."""
    rows = []
    for extent in nest.extents:
        row = []
        for _ in range(3):
            row.append(rng.choice([one for one in range(1, extent + 1) if extent % one == 0]))
            extent //= row[-1]
        rows.append((extent, *row))
    dram, spm, rf, spatial = zip(*rows, strict=True)
    loops = range(len(nest.loops))
    return LoopMapping(
        dram, spm, rf, spatial, tuple(rng.sample(loops, len(loops))), tuple(rng.sample(loops, len(loops)))
    )


def tiles(nest: LoopNest, mapping: LoopMapping) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Which tile of every operand each turn has."""
    for at in product(*(range(mapping.dram[loop]) for loop in mapping.dram_order)):
        place = dict(zip(mapping.dram_order, at, strict=True))
        yield tuple(tuple(place[loop] for loop in sorted(operand.indexed_by)) for operand in nest.operands)


def cycles_of_turns(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> int:
    turns, found, seen = turns_of(nest, machine, mapping), list(tiles(nest, mapping)), set()
    changes = [sum((a != b) << at for at, (a, b) in enumerate(zip(*pair, strict=True))) for pair in pairwise(found)]
    total = 0
    for number, tile in enumerate(found):
        fresh = tile[-1] not in seen
        seen.add(tile[-1])
        last = number + 1 == len(found)
        total += turns.cycles(
            fresh=fresh,
            before=changes[number - 1] if number else None,
            after=None if last else changes[number],
            next_is_fresh=not last and found[number + 1][-1] not in seen,
        )
    return total


@pytest.mark.parametrize("seed", range(40))
def test_turns_add_up_to_the_mapping(seed: int) -> None:
    """Where transfers cost nothing and results have one buffer; spilled sums, shared networks, late words included."""
    rng = Random(seed)
    unit = load_machine("eyeriss").cores[0].array
    assert unit is not None
    window = SlidingWindow((rng.choice([1, 3]), 1))
    nest = convolution("conv", n=1, m=rng.choice([2, 6]), c=rng.choice([1, 4]), output=(2, 4), window=window)
    if seed % 2:
        nest = matrix_product("gemm", m=rng.choice([4, 6]), n=4, k=6)
    micro = replace(unit.micro, double_buffered=(True, seed % 3 > 0, False), network_latency_cycles=rng.choice([2, 4]))
    machine = array_alone(replace(unit, micro=micro, networks=rng.choice([1, 2, 3])))
    mapping = random_mapping(rng, nest)
    assert cycles_of_turns(nest, machine, mapping) == price(nest, machine, mapping).cycles
