"""Recordings of ports and units on trees are what the simulation counts, piece by piece."""

import random

import numpy as np
import pytest

import tilestitch
from tests.helpers.tree_draws import drawn, every_kind
from tilestitch.base.progress import quiet
from tilestitch.commands.simulate.fused_layers import simulate_fused
from tilestitch.ir.choices import Objective, Values
from tilestitch.sim.tree.clock import COMPUTE, FROM, PORT, STREAM, TILE, UNITS, UNTIL
from tilestitch.sim.tree.recording import recorded, recorded_chain
from tilestitch.sim.tree.simulated import causes_of, simulate_on_tree
from tilestitch.sim.tree.streams import streams_of

PLENTY = 100_000  # notes


def cycles_by(notes, column):
    """Cycles of notes by what stands in a column."""
    lengths = notes[:, UNTIL] - notes[:, FROM]
    return {int(one): int(lengths[notes[:, column] == one].sum()) for one in np.unique(notes[:, column])}


def test_a_recording_of_all_cycles_has_what_is_counted():
    """Of every port its busy cycles, of the units each cause; nothing overlaps, and each tile is there."""
    for placed, _, run in drawn(random.Random("recordings"), 25, 5, every_kind):
        found, whole = recorded(run, 0, PLENTY), simulate_on_tree(run, values=Values.NONE)
        assert (found.begin, found.end) == (0, whole.cycles), placed
        units = found.notes[found.notes[:, PORT] == UNITS]
        causes = cycles_by(units, STREAM)
        assert {name: causes.get(at, 0) for name, at in causes_of(run).items()} == whole.cycles_by_cause
        served = found.notes[found.notes[:, PORT] != UNITS]
        busy = cycles_by(served, PORT)
        assert {port.port: busy.get(at, 0) for at, port in enumerate(whole.ports)} == {
            port.port: port.cycles for port in whole.ports
        }
        for lane in np.unique(found.notes[:, PORT]):
            own = found.notes[found.notes[:, PORT] == lane]
            assert (own[1:, FROM] >= own[:-1, UNTIL]).all()
        for number, stream in enumerate(streams_of(run).every):
            tiles = set(served[served[:, STREAM] == number, TILE].tolist())
            assert tiles <= set(range(stream.count))
            if stream.uses and not stream.first_free and len(stream.crossed.kinds) == 1:
                assert len(tiles) == stream.count


def test_a_recording_from_the_middle_is_a_part_of_all():
    """It begins where the units have done so many steps, and has the same notes from there on."""
    compared = 0
    for _, _, run in drawn(random.Random("middles"), 25, 6, every_kind):
        step = run.iterations // 2
        part, whole = recorded(run, step, PLENTY), recorded(run, 0, PLENTY)
        assert part.end == whole.end
        units = whole.notes[whole.notes[:, PORT] == UNITS]
        work = units[units[:, STREAM] == COMPUTE]
        before = np.clip(part.begin - work[:, FROM], 0, work[:, UNTIL] - work[:, FROM]).sum()
        assert before == step
        later = whole.notes[whole.notes[:, UNTIL] > part.begin].copy()
        later[:, FROM] = np.maximum(later[:, FROM], part.begin)
        assert cycles_by(part.notes, PORT) == cycles_by(later, PORT)
        compared += part.begin > 0
    assert compared > 15


def test_a_recording_ends_where_its_notes_are_full():
    """Whole pieces of time alone, so that no lane goes further than another."""
    [(_, _, run)] = drawn(random.Random("short"), 1, 7)
    found = recorded(run, 0, 40)
    assert 0 < found.end < recorded(run, 0, PLENTY).end
    assert found.notes[:, UNTIL].max() == found.end


CHAINS = (
    "S[m,n] += Q[m,d] * K[n,d]; O[m,e] += softmax(S[m,n]) * V[n,e]; m=16 n=16 d=8 e=8",
    "A[m,k] += X[m,c] * U[k,c]; B[m,e] += A[m,k] * V[e,k]; m=64 c=16 k=32 e=16",
)


@pytest.mark.parametrize("line", CHAINS)
def test_a_recording_of_operators_together_has_what_is_counted(line):
    """Of every port its busy cycles, of the units each cause, passes between operators included; or as many as fit."""
    mapped = tilestitch.map_fused(line, "tpu-v4i", tilestitch.FuseOptions(2, objective=Objective.ENERGY))
    [chain] = simulate_fused(mapped, Values.NONE, quiet)
    [group] = chain.groups
    whole = group.simulated
    found = recorded_chain(whole.run, PLENTY)
    assert (found.begin, found.end) == (0, whole.cycles)
    causes = cycles_by(found.notes[found.notes[:, PORT] == UNITS], STREAM)
    assert {name: causes.get(at, 0) for name, at in found.causes.items()} == whole.cycles_by_cause
    busy = cycles_by(found.notes[found.notes[:, PORT] != UNITS], PORT)
    assert {name: busy.get(at, 0) for at, name in enumerate(found.ports)} == {
        port.port: port.cycles for port in whole.ports
    }
    assert len(found.ways) > found.notes[found.notes[:, PORT] != UNITS, STREAM].max()
    assert len(found.operands) > max(way.operand for way in found.ways)
    short = recorded_chain(whole.run, 60)
    assert 0 < short.end < found.end
    assert short.notes[:, UNTIL].max() == short.end
