"""Mappings written for other programs say what ours say: what is written and read again is the same."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest

from tests.helpers.nest_files import DMAZERUNNER_MAPPING, SMALL_NESTS, random_mapping, spoilt
from tilestitch.base.errors import InputError
from tilestitch.formats.accelforge.written_mapping import accelforge_files
from tilestitch.formats.dmazerunner.nest import dmazerunner_mapping
from tilestitch.formats.einsum import einsum_nest
from tilestitch.formats.timeloop.machine import OWN_TARGETS, timeloop_machine
from tilestitch.formats.timeloop.mapping import timeloop_mapping
from tilestitch.formats.timeloop.nest import timeloop_problem
from tilestitch.formats.timeloop.written_mapping import timeloop_files
from tilestitch.formats.zigzag.machine import zigzag_machine
from tilestitch.formats.zigzag.mapping import zigzag_mapping
from tilestitch.formats.zigzag.nest import zigzag_layers
from tilestitch.formats.zigzag.written_mapping import zigzag_accelerator, zigzag_files
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution

MACHINE = array_of_core(load_machine("dmazerunner-256"))
CONV5_2 = convolution("conv5_2", n=4, m=512, c=512, output=(7, 7), window=SlidingWindow((3, 3)))
MAPPING = dmazerunner_mapping(DMAZERUNNER_MAPPING, CONV5_2, "mapping.txt")
WRITERS = (timeloop_files, zigzag_files, accelforge_files)


def nameless(nest: LoopNest) -> LoopNest:
    """Without names, terms by loop number, and without axes that have one index."""
    arrays = []
    for array in nest.operands:
        axes = [(tuple(sorted(axis)), size) for axis, size in zip(array.axes, array.shape, strict=True) if axis]
        arrays.append(
            replace(array, name="", axes=tuple(axis for axis, _ in axes), shape=tuple(size for _, size in axes))
        )
    loops = tuple(replace(loop, name=str(at)) for at, loop in enumerate(nest.loops))
    return LoopNest("", "", loops, tuple(arrays[:-1]), arrays[-1])


@pytest.mark.parametrize("nest", SMALL_NESTS, ids=lambda nest: nest.name)
def test_what_is_written_for_timeloop_is_read_again(nest):
    """The same nest and, for any factors and orders, the same mapping."""
    for seed in range(20):
        mapping = random_mapping(nest, seed)
        files = timeloop_files(nest, MACHINE, mapping)
        read = timeloop_problem(files["problem.yaml"], "problem.yaml")
        assert nameless(read) == nameless(nest)
        _, targets = timeloop_machine(files["arch.yaml"], "arch.yaml", MACHINE)
        assert targets == OWN_TARGETS
        assert same_runs(timeloop_mapping(files["mapping.yaml"], read, targets, "mapping.yaml"), mapping)


def same_runs(mapping: LoopMapping, other: LoopMapping) -> bool:
    """Equal but for the order of loops that run once."""

    def moving(order: tuple[int, ...], factors: tuple[int, ...]) -> list[int]:
        return [loop for loop in order if factors[loop] > 1]

    return mapping.factors == other.factors and all(
        moving(order, factors) == moving(others, factors)
        for order, others, factors in (
            (mapping.dram_order, other.dram_order, mapping.dram),
            (mapping.spm_order, other.spm_order, mapping.spm),
        )
    )


def test_a_machine_written_for_timeloop_has_its_sizes_and_rates():
    """Elements, words of memories and bytes a cycle survive; networks come back as Timeloop's one port for reading."""
    text = timeloop_files(CONV5_2, MACHINE, MAPPING)["arch.yaml"]
    machine, _ = timeloop_machine(text, "arch.yaml", replace(MACHINE, elements=1, register_bytes=1, clock_hz=1))
    assert (machine.elements, machine.register_bytes, machine.clock_hz) == (256, 512, 500_000_000)
    assert machine.scratchpad_bytes == MACHINE.scratchpad_bytes
    assert (machine.networks, machine.network_bytes_per_cycle) == (2, (4, 4, 2))
    assert float(machine.dma_cycles_per_byte) == pytest.approx(float(MACHINE.dma_cycles_per_byte))


@pytest.mark.parametrize("nest", SMALL_NESTS, ids=lambda nest: nest.name)
def test_a_layer_written_for_zigzag_is_read_again(nest):
    """The same nest; arrays are called as ZigZag calls them, which is how ours are called."""
    files = zigzag_files(nest, MACHINE, random_mapping(nest, 1))
    (read,) = zigzag_layers(files["workload.yaml"], "workload.yaml")
    assert nameless(read) == nameless(nest)
    assert read.name == nest.name


def exactly_for(nest: LoopNest, mapping: LoopMapping) -> ArrayMachine:
    """A machine whose memories hold the tiles of a mapping and not an element more."""

    def size(tile: tuple[int, ...]) -> int:
        return sum(2 * prod(array.extents(tile)) for array in nest.operands)

    return replace(MACHINE, register_bytes=size(mapping.rf), banks=size(mapping.scratchpad_tile), bank_bytes=1)


@pytest.mark.parametrize("nest", SMALL_NESTS, ids=lambda nest: nest.name)
def test_a_mapping_written_for_zigzag_is_read_again(nest):
    """On a machine that is as large as the tiles the loops go where they were, whatever the factors and orders."""
    for seed in range(20):
        mapping = random_mapping(nest, seed)
        machine = exactly_for(nest, mapping)
        files = zigzag_files(nest, machine, mapping)
        (read,) = zigzag_layers(files["workload.yaml"], "workload.yaml")
        assert same_runs(zigzag_mapping(files["mapping.yaml"], read, machine, "mapping.yaml"), mapping)


def test_a_machine_written_for_zigzag_has_its_prices_and_rates():
    """Sizes are those of the tiles; prices of a byte, rates and elements are the machine's, DMA to a whole bit."""
    text = zigzag_files(CONV5_2, MACHINE, MAPPING)["accelerator.yaml"]
    machine, notes = zigzag_machine(text, "accelerator.yaml", replace(MACHINE, mac_pj=0.0, networks=1))
    tiles = exactly_for(CONV5_2, MAPPING)
    kept = replace(machine, register_bytes=512, banks=32, bank_bytes=2048, dma_cycles_per_byte=Fraction(3, 80))
    assert kept == MACHINE
    assert (machine.register_bytes, machine.scratchpad_bytes) == (tiles.register_bytes, tiles.scratchpad_bytes)
    assert machine.dma_cycles_per_byte == Fraction(8, 213)
    assert notes == (
        "registers: registers_I, registers_W, registers_O are one memory for all arrays here",
        "scratchpad: scratchpad_I, scratchpad_W, scratchpad_O are one memory for all arrays here",
    )


def test_an_accelerator_written_for_a_search_by_zigzag_is_the_machine():
    """Memories of all arrays with their own sizes; the price of the network has no place in it."""
    machine, notes = zigzag_machine(zigzag_accelerator(MACHINE, (16, 16, 16)), "accelerator.yaml", MACHINE)
    assert notes == ()
    assert (machine.register_bytes, machine.scratchpad_bytes, machine.networks) == (512, 65536, 3)
    assert machine.network_pj_per_byte == MACHINE.register_pj_per_byte
    assert machine.scratchpad_pj_per_byte == MACHINE.scratchpad_pj_per_byte


def test_written_files_are_as_shown(golden):
    """The text for each program, of the mapping that the ICASSP paper on dMazeRunner shows."""
    text = ""
    for writer in WRITERS:
        for name, content in writer(CONV5_2, MACHINE, MAPPING).items():
            text += f"== {writer.__name__.removesuffix('_files')} {name}\n{content}\n"
    golden("nest-written.txt", text)


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
def test_ragged_tiles_are_refused(writer):
    """None of the programs has words for a last tile that is smaller."""
    ragged = replace(MAPPING, spatial=(1, 4, 1, 4, 7, 1, 1), dram=(1, 8, 64, 2, 1, 1, 1))
    with pytest.raises(InputError, match="factors divide"):
        writer(CONV5_2, MACHINE, ragged)


def test_what_a_program_has_no_words_for_is_refused():
    """Several sizes of words for Timeloop; three factors, one element or long sums for ZigZag."""
    mapping = random_mapping(SMALL_NESTS[3], 0)
    with pytest.raises(InputError, match="one word size, found arrays of 8, 16 bits"):
        timeloop_files(SMALL_NESTS[3], replace(MACHINE, operand_bits=(8, 8, 16)), mapping)
    three = einsum_nest("D[i] += A[i]*B[i]*C[i]; i=4")
    with pytest.raises(InputError, match="multiplies two arrays, found 3"):
        zigzag_files(three, MACHINE, random_mapping(three, 0))
    for text in ("D[i] += A[i+j+k]*B[j]; i=4 j=2 k=2", "D[i] += A[2*i]*B[i]; i=4", "D[i] += A[i-j]*B[j]; i=4 j=2"):
        nest = einsum_nest(text)
        with pytest.raises(InputError, match="a sum of two"):
            zigzag_files(nest, MACHINE, random_mapping(nest, 0))
    scalar = einsum_nest("D[] += A[i]*B[i]; i=4")
    for writer in (zigzag_files, accelforge_files):
        with pytest.raises(InputError, match="of one element"):
            writer(scalar, MACHINE, random_mapping(scalar, 0))


FILES = timeloop_files(CONV5_2, MACHINE, MAPPING)
ARCH, TIMELOOP = FILES["arch.yaml"], FILES["mapping.yaml"]
ZIGZAG = zigzag_files(CONV5_2, MACHINE, MAPPING)
ACCELERATOR, ORDERING = ZIGZAG["accelerator.yaml"], ZIGZAG["mapping.yaml"]
PROBLEM = timeloop_problem(FILES["problem.yaml"], "problem.yaml")
(LAYER,) = zigzag_layers(ZIGZAG["workload.yaml"], "workload.yaml")

WRONG_ARCHITECTURES = (
    "architecture: {}",
    "mapping: []",
    ARCH.replace("version: 0.4", "version: 0.3"),
    ARCH.replace("nodes:", "subtree:"),
    ARCH.replace("- !Component\n    name: DRAM", "- name: DRAM"),
    ARCH.replace("- !Component\n    name: mac", "- !Multiplier\n    name: mac"),
    ARCH.replace("class: SRAM", "class: SRAM\n    constraints: {dataspace: {bypass: [Weights]}}"),
    ARCH.replace("class: SRAM", "class: cache"),
    ARCH.replace("class: SRAM", "class: SRAM\n    spatial: {meshX: 2}"),
    ARCH.replace("meshX", "meshZ"),
    ARCH.replace("depth: 32768", "depth: many"),
    ARCH.replace("      depth: 32768\n", ""),
    ARCH.replace("      depth: 32768\n", "      sizeKB: 64\n"),
    ARCH.replace("      datawidth: 16\n", "      datawidth: 8\n"),
    ARCH.replace("      write_bandwidth: 1\n", ""),
    ARCH.replace("depth: 256,", "depth: 256, read_bandwidth: 2,"),
    ARCH.replace("write_bandwidth: 13.333333333333334", "write_bandwidth: 10"),
    ARCH.replace("  - !Container\n    name: PE", "  - !Parallel\n    nodes: []\n  - !Container\n    name: PE"),
    ARCH + "  - !Component {name: after, class: intmac}\n",
    ARCH.replace(
        "  - !Component\n    name: mac", "  - !Component {name: more, class: regfile}\n  - !Component\n    name: mac"
    ),
    ARCH.replace("  - !Component\n    name: DRAM\n    class: DRAM", "  - !Container\n    name: DRAM"),
)

WRONG_DIRECTIVES = (
    "mapping: []",
    "problem: {}",
    TIMELOOP.replace("target: PE", "target: PEs"),
    TIMELOOP.replace("type: spatial", "type: space"),
    TIMELOOP.replace("target: registers", "target: scratchpad"),
    TIMELOOP.replace("- target: registers\n  type: temporal", "- target: PE\n  type: spatial"),
    TIMELOOP.replace("C=64", "K=64"),
    TIMELOOP.replace("C=64", "C=64 C=1"),
    TIMELOOP.replace("C=64", "C=6,4"),
    TIMELOOP.replace("C=64", "C"),
    TIMELOOP.replace("C=64", "C=32"),
    TIMELOOP.replace("C=64", "C=0").replace("C=8", "C=0"),
    TIMELOOP.replace("C=64", "C=0").replace("C=8", "C=7"),
    TIMELOOP.replace("CSRQPMN", "CSRQPN", 1),
    TIMELOOP.replace("CSRQPMN", "CCSRQPMN", 1),
    TIMELOOP + "- {target: scratchpad, type: dataspace, keep: [Inputs], bypass: [Weights]}\n",
)

WRONG_ACCELERATORS = (
    "name: a",
    ACCELERATOR.replace("\n  dimensions: [D1]", "\n  dimensions: [D1]\n  is_imc: true"),
    ACCELERATOR.replace("\n  dimensions: [D1]", "\n  dimensions: [D1]\n  systolic_dimensions: [D1]"),
    ACCELERATOR.replace("sizes: [256]", "sizes: [16, 16]"),
    ACCELERATOR.replace("operands: [I1]", "operands: [I3]", 1),
    ACCELERATOR.replace("operands: [I1]", "operands: [I2]", 1),
    ACCELERATOR.replace("served_dimensions: []", "served_dimensions: [D1]", 1),
    ACCELERATOR.replace("served_dimensions: []", "served_dimensions: [D2]", 1),
    ACCELERATOR.replace("latency: 1", "auto_cost_extraction: true\n    latency: 1", 1),
    ACCELERATOR.replace("I1, tl", "I1, th", 1),
    ACCELERATOR.replace("I1, tl", "I1, down", 1),
    ACCELERATOR.replace("r_cost: 0.96", "r_cost: -1", 1),
    ACCELERATOR + "dataflows: {D1: [K, 4]}\n",
)

WRONG_ORDERINGS = (
    "[]",
    "- {name: other, spatial_mapping: {}, temporal_ordering: []}",
    ORDERING.replace("K, 4", "K: 4"),
    ORDERING.replace("K, 4", "Z, 4"),
    ORDERING.replace("[C, 64]", "[C, 32]"),
    ORDERING.replace("[C, 64]", "[C, '*']"),
    ORDERING.replace("[C, 64]", "[C]"),
    ORDERING.replace("[C, 64]", "[C, 2]\n    - [K, 2]\n    - [C, 32]").replace("[K, 8]", "[K, 4]"),
    ORDERING.replace("W: I2, I: I1", "W: I1, I: I2"),
    ORDERING.replace("temporal_ordering", "spatial_mapping_hint"),
)


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(InputError) as error:
        read()
    return str(error.value)


def test_a_machine_or_a_mapping_that_is_not_understood_is_refused_by_name(golden):
    """What an array machine or a mapping of three memories cannot say has one clear message with its place."""
    lines = [refusal(lambda text=text: timeloop_machine(text, "arch.yaml", MACHINE)) for text in WRONG_ARCHITECTURES]
    lines += [
        refusal(lambda text=text: timeloop_mapping(text, PROBLEM, OWN_TARGETS, "map.yaml")) for text in WRONG_DIRECTIVES
    ]
    lines += [refusal(lambda text=text: zigzag_machine(text, "zigzag.yaml", MACHINE)) for text in WRONG_ACCELERATORS]
    lines += [refusal(lambda text=text: zigzag_mapping(text, LAYER, MACHINE, "map.yaml")) for text in WRONG_ORDERINGS]
    golden("nest-machine-messages.txt", "".join(f"{line}\n" for line in lines))


def test_a_remainder_and_several_meshes_are_understood():
    """0 is what the other factors leave; elements may be spread over two nodes, by their names or Timeloop's own."""
    text = TIMELOOP.replace("C=64", "C=0")
    assert timeloop_mapping(text, PROBLEM, OWN_TARGETS, "map.yaml") == MAPPING
    arch = ARCH.replace(
        "    spatial: {meshX: 256}", "    spatial: {meshX: 16}\n  - !Container\n    name: row\n    spatial: {meshY: 16}"
    )
    machine, targets = timeloop_machine(arch, "arch.yaml", MACHINE)
    assert (machine.elements, targets.elements) == (256, ("PE", "row"))
    factors = "factors: N=1 M=4 C=1 P=7 Q=7 R=1 S=1"
    split = TIMELOOP.replace(factors, "factors: M4 P7")
    split += "- {target: inter_row_spatial, type: spatial, factors: [Q=7]}\n"
    split += "- {target: inter_row_spatial, type: bypass, bypass: [Weights]}\n"
    assert timeloop_mapping(split, PROBLEM, targets, "map.yaml") == MAPPING


def test_spoilt_files_of_zigzag_are_read_or_refused():
    """Whatever stands in an accelerator or a mapping, the answer is a value or an InputError."""
    refused = 0
    for seed in range(150):
        try:
            zigzag_machine(spoilt(ACCELERATOR, seed), "accelerator.yaml", MACHINE)
            zigzag_mapping(spoilt(ORDERING, seed), LAYER, MACHINE, "mapping.yaml")
        except InputError:
            refused += 1
    assert refused > 40


def test_spoilt_files_of_timeloop_are_read_or_refused():
    """Whatever stands in an architecture or a mapping, the answer is a value or an InputError."""
    refused = 0
    for seed in range(150):
        try:
            timeloop_machine(spoilt(ARCH, seed), "arch.yaml", MACHINE)
            timeloop_mapping(spoilt(TIMELOOP, seed), PROBLEM, OWN_TARGETS, "mapping.yaml")
        except InputError:
            refused += 1
    assert refused > 40
