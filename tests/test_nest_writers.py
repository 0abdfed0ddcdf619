"""Mappings written for other programs say what ours say: what is written and read again is the same."""

from dataclasses import replace

import pytest

from tests.nest_files import DMAZERUNNER_MAPPING, SMALL_NESTS, random_mapping, spoilt
from tilestitch.emit.accelforge_mapping import accelforge_files
from tilestitch.emit.timeloop_mapping import timeloop_files
from tilestitch.emit.zigzag_mapping import zigzag_files
from tilestitch.errors import InputError
from tilestitch.frontend.nests.dmazerunner import dmazerunner_mapping
from tilestitch.frontend.nests.einsum import einsum_nest
from tilestitch.frontend.nests.timeloop import timeloop_problem
from tilestitch.frontend.nests.timeloop_mapping import timeloop_mapping
from tilestitch.frontend.nests.zigzag import zigzag_layers
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.timeloop_yaml import TimeloopTargets, timeloop_machine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, convolution

MACHINE = array_of_core(load_machine("dmazerunner-256"))
CONV5_2 = convolution("conv5_2", n=4, m=512, c=512, ox=7, oy=7, fx=3, fy=3)
MAPPING = dmazerunner_mapping(DMAZERUNNER_MAPPING, CONV5_2, "mapping.txt")
TARGETS = TimeloopTargets("DRAM", "scratchpad", "registers", ("PE",))
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
        assert targets == TARGETS
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
    with pytest.raises(InputError, match="one size of word, found arrays of 8, 16 bits"):
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


def test_spoilt_files_of_timeloop_are_read_or_refused():
    """Whatever stands in an architecture or a mapping, the answer is a value or an InputError."""
    files = timeloop_files(CONV5_2, MACHINE, MAPPING)
    nest = timeloop_problem(files["problem.yaml"], "problem.yaml")
    refused = 0
    for seed in range(400):
        try:
            timeloop_machine(spoilt(files["arch.yaml"], seed), "arch.yaml", MACHINE)
            timeloop_mapping(spoilt(files["mapping.yaml"], seed), nest, TARGETS, "mapping.yaml")
        except InputError:
            refused += 1
    assert refused > 100
