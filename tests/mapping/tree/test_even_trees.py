"""Latency on a tree of the fixed hierarchy's shape, beside that of the array's model."""

import random
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import NamedTuple

import pytest

from tests.helpers.array_timing import Layer
from tests.helpers.nests import random_mapping
from tests.helpers.pairs import first
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.tree import Axis, Flow, MachineTree, Port, TreeMemory
from tilestitch.ir.loop_nest import product
from tilestitch.mapping.evaluate import price as array_price
from tilestitch.mapping.tree.chain import TreeMapping, latency_cycles
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled

WIDE = 2**24  # bits: no transfer takes more than a cycle
OPERANDS = ("A", "B", "C")


class Work(NamedTuple):
    """Cycles of one pass, how many passes a tile has, and cycles of all transfers of one of either.

    On a tree what comes first goes on through the memories as it arrives, and so does what leaves last; on an array one
    memory follows the other: so much later.
    """

    compute: int
    passes: int
    words: int
    dma: int
    together: int


REGISTERS = 3  # cycles, one for each operand, that the registers take beside everything else before and after all steps


def plain_array(network_bytes, dma_bytes, *, double):
    """An array with one network, and without pipeline and set-up, which trees do not know."""
    machine = array_of_core(load_machine("dmazerunner-256"))
    micro = replace(
        machine.micro,
        multiplier_stages=-4,  # so that sums are in the registers in the cycle of their last addition
        double_buffered=(double,) * 3,
        network_latency_cycles=2,
        configuration_words=0,
        dram_latency_cycles=0,
    )
    return replace(
        machine,
        networks=1,
        network_bytes_per_cycle=(Fraction(network_bytes),) * 3,
        dma_setup_cycles=Fraction(0),
        dma_cycles_per_byte=Fraction(1, dma_bytes),
        dma_channels=1,
        operand_bits=None,
        micro=micro,
    )


def plain_tree(network_bytes, dma_bytes, *, double):
    """Register files, a scratchpad with two buffers and DRAM: the network and DMA are ports."""
    free = [(operand, flow) for operand in OPERANDS for flow in Flow]
    network = [("A", Flow.FEED), ("B", Flow.FEED), ("C", Flow.COLLECT)]
    others = [one for one in free if one not in network]
    memories = [
        TreeMemory(
            f"rf_{operand}",
            2**40,
            (operand,),
            tuple(Port(flow, WIDE, 1, ((operand, flow),)) for flow in Flow),
            1.0,
            1.0,
            (),
            2 if double else 1,
        )
        for operand in OPERANDS
    ]
    pad = (
        Port("network", 8 * network_bytes, 1, tuple(network)),
        *(Port(f"{one[0]}{one[1]}", WIDE, 1, (one,)) for one in others),
    )
    dram = (Port("dma", 8 * dma_bytes, 1, tuple(free)),)
    memories.append(TreeMemory("pad", 2**40, OPERANDS, pad, 1.0, 1.0, ("D",), 2))
    memories.append(TreeMemory("dram", 2**50, OPERANDS, dram, 1.0, 1.0, ("D",)))
    return MachineTree("plain", (Axis("D", 2**20),), tuple(memories), 1.0)


def on_tree(nest, mapping, tree):
    """The same loops and places, with the innermost loops first."""
    spread = tuple(Unrolled("D", loop, Fraction(n)) for loop, n in enumerate(mapping.spatial) if n > 1)
    loops, ends = [], []
    for factors, order in (
        (mapping.rf, range(len(mapping.rf))),
        (mapping.spm, reversed(mapping.spm_order)),
        (mapping.dram, reversed(mapping.dram_order)),
    ):
        loops += [(loop, factors[loop]) for loop in order if factors[loop] > 1]
        ends.append(len(loops))
    placed = PlacedNest(nest, nest.write.element_bits, OPERANDS, spread, tree)
    return placed, TreeMapping(tuple(loops), (tuple(ends),) * 3)


def both(seed, network_bytes, dma_bytes, *, double):
    """Cycles of a random mapping of a product, whose sums are complete in the scratchpad, on both machines."""
    while True:
        extents = {name: seed.choice((2, 3, 4, 6, 8, 12)) for name in ("batch", "m", "n", "k")}
        nest = product("product", **extents)
        mapping = random_mapping(nest, seed, ragged=False)
        if mapping.dram[3] == 1 and mapping.spatial[3] == 1:
            break
    array = array_price(nest, plain_array(network_bytes, dma_bytes, double=double), mapping).cycles
    tree = latency_cycles(*on_tree(nest, mapping, plain_tree(network_bytes, dma_bytes, double=double)))
    layer = Layer(nest, plain_array(network_bytes, dma_bytes, double=double), mapping)
    words, moved = layer.words_cycles, layer.moved
    together = min(sum(words[:2]), sum(moved[:2])) + min(words[2], moved[2]) + REGISTERS
    return array, tree, Work(layer.compute, prod(mapping.spm), sum(words), sum(moved), together)


@pytest.mark.parametrize("double", [True, False])
def test_an_even_tree_takes_what_the_array_takes_where_transfers_hide(double):
    """But for both ends equal to the cycle, if DMA and (with two buffers) networks take less than arithmetic."""
    seed = random.Random(f"hidden {double}")
    compared = 0
    for _ in range(150):
        array, tree, work = both(seed, seed.choice((2, 4, 64)), 2, double=double)
        # of tiles of a single pass the array also waits for the second load at the start
        if work.passes > 1 and work.dma <= work.passes * work.compute and (not double or work.words <= work.compute):
            assert tree + work.together == array
            compared += 1
    assert compared >= 8


@pytest.mark.parametrize("double", first(1, [False, True]))
def test_an_even_tree_takes_at_most_an_exchange_longer_at_each_memory(double):
    """But for both ends; what stays longer than a pass, or comes while the units stop, may make it faster."""
    seed = random.Random(f"starved {double}")
    faster = 0
    for _ in range(150):
        array, tree, work = both(seed, seed.choice((1, 4, 64)), seed.choice((1, 2)), double=double)
        assert tree + work.together - array <= min(work.compute, work.words) + work.dma
        faster += tree + work.together < array
    assert faster > 5
