"""Small nests and machines by the dozen, and the brute force that searches are compared with."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from random import Random

from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.microarchitecture import Microarchitecture, ScratchpadLayout
from tilestitch.ir import loop_nest
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import Loop, LoopMapping, LoopNest, LoopOperand
from tilestitch.mapping.evaluate import Pricer

DMAZERUNNER = array_of_core(load_machine("dmazerunner-256"))

CONV5_2 = loop_nest.convolution("conv5_2", n=4, m=512, c=512, output=(7, 7), window=loop_nest.SlidingWindow((3, 3)))
# Of every kind of layer that dMazeRunner has.
NESTS = (
    CONV5_2,
    loop_nest.convolution(
        "strided", n=2, m=8, c=6, output=(8, 8), window=loop_nest.SlidingWindow((3, 3), stride=(2, 2)), padded=(18, 18)
    ),
    loop_nest.convolution(
        "first", n=1, m=16, c=3, output=(16, 16), window=loop_nest.SlidingWindow((7, 7), stride=(2, 2)), padded=(38, 38)
    ),
    loop_nest.convolution("point", n=4, m=24, c=36, output=(14, 14), window=loop_nest.SlidingWindow((1, 1))),
    loop_nest.depthwise("depthwise", n=2, c=12, output=(14, 14), window=loop_nest.SlidingWindow((3, 3))),
    loop_nest.depthwise(
        "depthwise strided",
        n=1,
        c=12,
        output=(7, 7),
        window=loop_nest.SlidingWindow((3, 3), stride=(2, 2)),
        padded=(16, 16),
    ),
    loop_nest.product("gemm", m=48, n=36, k=60),
    loop_nest.product("gemv", m=1, n=100, k=64),
)

Split = tuple[int, int, int, int]


def random_nest(rng: Random) -> LoopNest:
    """Of every kind that the representation has, small enough for brute force."""
    pick = rng.choice
    match pick(("conv", "strided", "grouped", "depthwise", "product", "batched", "two stay", "three reads")):
        case "conv":
            return loop_nest.convolution(
                "conv",
                n=pick((1, 2)),
                m=pick((1, 2, 4)),
                c=pick((1, 2, 3)),
                output=(pick((2, 4)), pick((1, 2))),
                window=loop_nest.SlidingWindow((1, pick((1, 3)))),
            )
        case "strided":
            read = pick((0, 1, 2)), pick((0, 1))
            ox, oy, fx = pick((2, 4)), pick((2, 3)), pick((1, 3))
            padded = 2 * (ox - 1) + fx + read[0], 2 * (oy - 1) + 1 + read[1]
            return loop_nest.convolution(
                "strided",
                n=1,
                m=pick((1, 2, 4)),
                c=pick((1, 2)),
                output=(ox, oy),
                window=loop_nest.SlidingWindow((fx, 1), stride=(2, 2)),
                padded=padded,
            )
        case "grouped":
            return loop_nest.convolution(
                "grouped",
                n=1,
                m=2,
                c=pick((1, 2)),
                output=(pick((2, 3)), 1),
                window=loop_nest.SlidingWindow((pick((1, 2)), 1), dilation=(2, 1)),
                groups=2,
            )
        case "depthwise":
            return loop_nest.depthwise(
                "depthwise",
                n=pick((1, 2)),
                c=pick((2, 4, 6)),
                output=(pick((2, 4)), 2),
                window=loop_nest.SlidingWindow((pick((1, 3)), 1)),
            )
        case "product":
            return loop_nest.product("product", m=pick((2, 4, 6)), n=pick((2, 3, 4)), k=pick((2, 4, 6)))
        case "batched":
            return loop_nest.product("batched", m=pick((2, 4)), n=pick((2, 3)), k=pick((2, 4)), batch=pick((2, 3)))
        case "two stay":  # while j runs neither A nor O moves
            loops = (Loop("i", pick((2, 4))), Loop("j", pick((2, 3))), Loop("k", pick((2, 4))))
            reads = (LoopOperand("A", (((0, 1),),), (4,)), LoopOperand("B", (((1, 1),), ((2, 1),)), (4, 4)))
            return LoopNest("two stay", "einsum", loops, reads, LoopOperand("O", (((0, 1),),), (4,)))
        case _:
            loops = (Loop("i", pick((2, 4))), Loop("j", pick((2, 3))), Loop("k", pick((2, 4))))
            reads = tuple(
                LoopOperand(name, axes, (4,) * len(axes))
                for name, axes in (("A", (((0, 1),), ((1, 1),))), ("B", (((1, 1),),)), ("D", (((2, 1),),)))
            )
            write = LoopOperand("O", (((0, 1),), ((2, 1),)), (4, 4))
            return LoopNest("three reads", "einsum", loops, reads, write)


def random_machine(rng: Random) -> ArrayMachine:
    """Small, with every parameter moved."""
    pick = rng.choice
    return replace(
        DMAZERUNNER,
        elements=pick((2, 4, 8, 16)),
        register_bytes=pick((12, 24, 48, 96)),
        banks=pick((4, 6, 12)),
        bank_bytes=pick((16, 32, 64)),
        dma_setup_cycles=pick((Fraction(1), Fraction(5), Fraction(1455, 32))),
        dma_cycles_per_byte=pick((Fraction(3, 80), Fraction(1), Fraction(4))),
        networks=pick((3, 3, 2, 1)),
        multicast=pick((True, True, False)),
        reduction=pick(tuple(Reduction)),
        network_bytes_per_cycle=(Fraction(pick((1, 2, 4))), Fraction(2), Fraction(pick((2, 8)))),
        dma_channels=pick((1, 1, 2)),
        operand_bits=pick((None, None, (8, 8, 32))),
        micro=random_microarchitecture(rng),
    )


def random_microarchitecture(rng: Random) -> Microarchitecture:
    """With every parameter moved that a price depends on."""
    pick = rng.choice
    return Microarchitecture(
        multiplier_stages=pick((1, 2, 5)),
        adder_stages=pick((1, 1, 3)),
        double_buffered=(pick((True, True, False)), pick((True, True, False)), pick((False, False, True))),
        network_latency_cycles=pick((1, 2, 2, 7)),
        configuration_words=pick((0, 4)),
    )


def random_details(rng: Random, micro: Microarchitecture) -> Microarchitecture:
    """With the others moved, that cycles depend on and prices do not."""
    pick = rng.choice
    return replace(
        micro,
        fifo_words=pick((1, 2, 8)),
        register_writes_per_cycle=pick((None, 1, 2)),
        scratchpad_ports=pick((1, 2)),
        scratchpad_port_bytes=pick((1, 2, 8)),
        scratchpad_layout=pick(tuple(ScratchpadLayout)),
        dram_latency_cycles=pick((0, 0, 7)),
    )


def random_mapping(nest: LoopNest, rng: Random, *, ragged: bool) -> LoopMapping:
    """Any split of every loop, in any order; it may not fit."""
    loops = range(len(nest.loops))
    dram, spm, rf, spatial = zip(*(rng.choice(splits(extent, ragged=ragged)) for extent in nest.extents), strict=True)
    orders = tuple(rng.sample(loops, len(loops))), tuple(rng.sample(loops, len(loops)))
    return LoopMapping(dram, spm, rf, spatial, *orders)


def splits(extent: int, *, ragged: bool) -> list[Split]:
    """Every way to split a loop over DRAM, scratchpad, registers and space."""
    found = []
    for spatial, rf in product(range(1, extent + 1), repeat=2):
        passes = ceil_div(extent, spatial * rf)
        if (spatial - 1) * rf >= extent or not (ragged or extent % (spatial * rf) == 0):
            continue
        for spm in range(1, passes + 1):
            if ragged or passes % spm == 0:
                found.append((ceil_div(passes, spm), spm, rf, spatial))
    return found


def every_mapping(nest: LoopNest, *, ragged: bool) -> Iterator[LoopMapping]:
    """Every tiling in every order of the loops that have more than one iteration at a level."""
    loops = range(len(nest.loops))
    for tiling in product(*(splits(extent, ragged=ragged) for extent in nest.extents)):
        dram, spm, rf, spatial = zip(*tiling, strict=True)
        for outer in permutations([at for at in loops if dram[at] > 1]):
            for inner in permutations([at for at in loops if spm[at] > 1]):
                orders = [(*(at for at in loops if at not in one), *one) for one in (outer, inner)]
                yield LoopMapping(dram, spm, rf, spatial, orders[0], orders[1])


def all_prices(
    nest: LoopNest, machine: ArrayMachine, mode: CostMode, *, ragged: bool
) -> tuple[list[tuple[int, float]], int]:
    """Cycles and energies of every mapping that fits, and how many tilings that are."""
    pricer = Pricer(nest, machine, mode)
    found, tilings = [], set()
    for mapping in every_mapping(nest, ragged=ragged):
        priced = pricer(mapping)
        if not priced.misfit:
            found.append((priced.cycles, priced.energy_pj))
            tilings.add((mapping.dram, mapping.spm, mapping.rf, mapping.spatial))
    return found, len(tilings)


def size_of_space(nest: LoopNest, *, ragged: bool) -> int:
    """Tilings, whether they fit or not."""
    found = 1
    for extent in nest.extents:
        found *= len(splits(extent, ragged=ragged))
    return found
