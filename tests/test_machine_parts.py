"""What a machine may have or lack, followed by hand on kernels small enough for that."""

from dataclasses import replace

import pytest

from tests.graphs import Net
from tests.test_kernels import EXACT, error, product, resolved, run, spans, toy
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.program import Kind


def with_channels(machine: Accelerator, channels: int) -> Accelerator:
    memories = (replace(m, channels=channels) if m.level is Level.DDR else m for m in machine.memories)
    return replace(machine, memories=tuple(memories))


# ---- channels of DDR


@pytest.mark.parametrize("gb", [{}, {"gb": 0}])
def test_a_kernel_on_one_core_draws_from_one_channel(gb):
    """A quarter of the 8 bytes a cycle: every transfer to or from DDR takes its set-up and 1 cycle for 2 bytes."""
    found = run(product(32, 16, 8), with_channels(toy(1, **gb), 4))
    setup = 20 if gb else 100
    for one, (start, end) in zip(found.program, spans(found), strict=True):
        if Level.DDR in found.levels(one.number):
            assert end - start == setup + one.size_bytes // 2
    assert error(found.trace) < EXACT


def test_a_kernel_on_several_cores_draws_from_all_channels():
    """So it takes what it takes where there is but one."""
    traces = [
        run(product(32, 16, 8), with_channels(toy(2), channels), splits=(2, 1, 1), tile=(16, 8, 16)).trace
        for channels in (1, 4)
    ]
    assert traces[0].end_ticks.tolist() == traces[1].end_ticks.tolist()
    assert traces[1].program.resources[-1].name == "channel"
    assert traces[1].resource_bytes[-1] == 0


def test_the_search_knows_that_one_core_has_one_channel():
    """The estimate of a kernel that waits for DDR alone is near the simulation, on one core and on two."""
    for cores in (1, 2):
        machine = with_channels(toy(cores), 8)
        found = run(product(256, 256, 256), machine, splits=(cores, 1, 1))
        (kernel,) = found.schedule.kernels
        assert 0.8 < found.trace.latency_cycles / kernel.estimated_cycles < 1.4


def test_rows_are_gathered_by_one_channel_too():
    """Whatever moves between DDR and a single core passes its channel."""
    net = Net()
    graph = resolved(net.graph(net.op("Gather", net.random(100, 6), net.input(3, dtype=7))))
    found = run(graph, with_channels(toy(1), 4))
    moved = sum(one.size_bytes for one in found.program if Level.DDR in found.levels(one.number))
    assert any(one.kind is Kind.GATHER for one in found.program)
    assert found.trace.resource_bytes[-1] >= moved
