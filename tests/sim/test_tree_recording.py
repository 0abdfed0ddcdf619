"""Recordings of ports and units on trees are what the simulation counts, piece by piece."""

import random

import numpy as np

from tests.helpers.tree_draws import drawn, every_kind
from tilestitch.ir.choices import Values
from tilestitch.sim.tree.clock import COMPUTE, FROM, PORT, STREAM, TILE, UNITS, UNTIL
from tilestitch.sim.tree.recording import recorded
from tilestitch.sim.tree.simulated import causes_of, simulate_on_tree

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
        for number, stream in enumerate(found.streams.every):
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
