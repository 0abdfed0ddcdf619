"""DiRAC's bundled tests take as many ticks here as there."""

from dataclasses import replace

import pytest

from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.formats.einsum import einsum_nest
from tilestitch.reproduction import reproduce
from tilestitch.reproduction.dirac import machine_of, mapping_of
from tilestitch.reproduction.published import read
from tilestitch.reproduction.published_dirac import PublishedDirac
from tilestitch.sim.array.runner import run_mapping

PUBLISHED = read(PublishedDirac, "dirac")
CONVOLUTION = PUBLISHED.tests[0]
NEST = einsum_nest(CONVOLUTION.nest, "conv")
MACHINE, MAPPING = machine_of(CONVOLUTION, PUBLISHED), mapping_of(CONVOLUTION, NEST)


def test_every_row_matches():
    rows = reproduce("dirac", networks=(), machines=(), must_match=True, jobs=1, progress=lambda *_: None)
    assert len(rows) == 22
    assert [row.what for row in rows if not row.ok] == []
    assert [row.ours for row in rows if row.what == "ticks"] == [1788, 206]


def test_an_unknown_test_is_refused():
    with pytest.raises(InputError, match="convolution, vector sum"):
        reproduce("dirac", networks=("pooling",), machines=(), must_match=True, jobs=1, progress=lambda *_: None)


@pytest.mark.parametrize(
    ("changes", "ticks"),
    [
        ({"configuration_words": 0}, 1788 - 48),  # 3 + 9 controllers
        ({"dram_latency_cycles": 10}, 1788 + 2 * 10 + 2 * 10),  # the first two loads and the last two stores show
        ({"multiplier_stages": 3}, 1788),  # results arrive a cycle later, which passes of 54 cycles hide
    ],
    ids=lambda value: str(value),
)
def test_ticks_follow_the_parameters(changes, ticks):
    machine = replace(MACHINE, micro=replace(MACHINE.micro, **changes))
    assert run_mapping(NEST, machine, MAPPING, every_slot=False).cycles == ticks


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        (replace(MACHINE, micro=replace(MACHINE.micro, double_buffered=(True, True, False))), "result_double_buffered"),
        (replace(MACHINE, dma_channels=2), "dma_channels 2"),
    ],
    ids=["buffers", "channels"],
)
def test_a_machine_that_contradicts_its_controller_is_refused(machine, found):
    with pytest.raises(InputError, match=found):
        run_mapping(NEST, machine, MAPPING)


def test_what_dirac_cannot_do_is_refused():
    """Its instructions name 256 registers, its memory for them has 512, and its elements add up nothing together."""
    spread = replace(MAPPING, rf=(1, 2, 1, 1, 1, 3, 3), spatial=(1, 1, 3, 3, 1, 1, 1), spm=(2, 2, 1, 1, 3, 1, 1))
    with pytest.raises(DoesNotFit, match="DiRAC accepts but does not perform"):
        run_mapping(NEST, MACHINE, spread)
    few = replace(MACHINE, micro=replace(MACHINE.micro, instruction_words=53))
    with pytest.raises(DoesNotFit, match="54 instructions"):
        run_mapping(NEST, few, MAPPING)
