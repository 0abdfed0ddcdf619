"""Clusters on one DDR: each runs its own copy of the program, on its own data."""

import pytest

from tilestitch import api
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.program import Program
from tilestitch.lower.clusters import share_ddr
from tilestitch.pipeline.options import Options


@pytest.fixture(scope="module")
def program() -> Program:
    found = api.compile("resnet18:small", "toy", batch=2, options=Options(stop_after="lower")).program
    assert found is not None
    return found


def test_a_cluster_waits_for_none_of_another(program):
    """The second's instructions are the first's, on engines of its own, and wait for its own."""
    length, both = len(program), share_ddr(program, 2)
    assert len(both) == 2 * length
    for number, one in enumerate(program):
        other = both[length + number]
        assert both[number].waits == one.waits
        assert other.waits == tuple(length + wait for wait in one.waits)
        assert (other.engine, other.kind, other.box) == (f"{one.engine}.1", one.kind, one.box)


def test_clusters_share_constants_and_nothing_else(program):
    """Their other buffers lie apart, in DDR and in memories of their own."""
    count, both = len(program.buffers), share_ddr(program, 2)
    constants = {buffer for _, buffer in program.constants}
    spans = []
    for buffer in range(count):
        first, second = (
            (both.spaces[both.buffers.space[at]].name, int(both.buffers.address[at])) for at in (buffer, count + buffer)
        )
        assert (first == second) == (buffer in constants)
        if program.spaces[program.buffers.space[buffer]].level is Level.DDR and buffer not in constants:
            spans.append((first[1], second[1], int(program.buffers.size_bytes[buffer])))
    assert max(first + size for first, _, size in spans) <= min(second for _, second, _ in spans)
