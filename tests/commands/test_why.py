"""The command why, and the function: what it lists is what the parts say, and what is selected is what is shown."""

import json
from fractions import Fraction
from functools import cache

import pytest

import tilestitch
from tests.helpers.command import run
from tilestitch.base.units import rounded
from tilestitch.commands.why.explain import idle_of
from tilestitch.ir.gap import Part
from tilestitch.pipeline.compilation import Compilation

NETWORK = ("mobilenet-v2:small", "--machine", "toy", "--strategy", "graphturbo", "--batch", 32)


@cache
def done() -> Compilation:
    return tilestitch.compile("mobilenet-v2:small", "toy", strategy="graphturbo", batch=32)


def test_the_numbers_of_the_table_add_up():
    """Whole cycles and shares in tenths, rounded so that their sums are the gap and 100 %."""
    lines = run("why", *NETWORK).stdout.splitlines()
    first = next(at for at, line in enumerate(lines) if line.split()[:2] == ["part", "cycles"])
    last = next(at for at, line in enumerate(lines) if line.split()[:1] == ["all"])
    shown = [int(_cycles(line)) for line in lines[first + 1 : last]]
    found = tilestitch.why(done())
    assert sum(shown) == int(_cycles(lines[last])) == found.gap.gap_cycles
    assert shown == sorted(shown, reverse=True)
    shares = [float(line.partition("%")[0].split()[-1]) for line in lines[first + 1 : last + 1]]
    assert sum(shares[:-1]) == pytest.approx(shares[-1], abs=1e-9)
    assert shares[-1] == 100


def _cycles(line: str) -> str:
    """The number of a line of the table, which follows the name of the part."""
    name = max((str(part) for part in (*Part, "all") if line.strip().startswith(part)), key=len)
    return line.strip().removeprefix(name).split()[0].replace(",", "")


@pytest.mark.parametrize(
    "values, total, right",
    [
        ([Fraction(1, 3)] * 3, 1, [1, 0, 0]),
        ([Fraction(7, 2), Fraction(-3, 4)], 3, [4, -1]),
        ([Fraction(5, 2), Fraction(11, 4)], 5, [2, 3]),
        ([], 0, []),
    ],
)
def test_rounded_numbers_have_the_sum_of_all(values, total, right):
    assert rounded(values, total) == right


def test_a_compilation_need_not_be_made_again():
    """What `why` says of it is what it says of the network."""
    assert str(tilestitch.why(done())) == run("why", *NETWORK).stdout


def test_a_schedule_in_a_file_need_not_be_made_again(tmp_path):
    """`--from` explains it as if it had just been found, and refuses what it was made with."""
    path = tmp_path / "schedule.json"
    assert run("compile", *NETWORK, "--stop-after", "schedule", "--json", path).exit_code == 0
    found = run("why", NETWORK[0], "--machine", "toy", "--from", path)
    assert found.stdout == run("why", *NETWORK).stdout
    refused = run("why", *NETWORK, "--from", path)
    assert refused.exit_code == 2
    assert "says with which options it was made; leave out --strategy" in refused.stderr


def test_pieces_add_up_to_their_sub_graph():
    """And the sub-graphs to the run, but for what comes after the last work."""
    schedule = done().schedule
    assert schedule is not None
    assert len(schedule.pieces) > 1
    pieces = [tilestitch.why(done(), select=f"piece={piece.name}").gap for piece in schedule.pieces]
    groups = dict.fromkeys(piece.name.rstrip("0123456789") for piece in schedule.pieces)
    graphs = [tilestitch.why(done(), select=f"sub-graph={name}").gap for name in groups]
    for gaps in (pieces, graphs):
        for gap in gaps:
            assert sum(part.cycles for part in gap.parts) == gap.gap_cycles
    assert sum(gap.latency_cycles for gap in pieces) == sum(gap.latency_cycles for gap in graphs)
    assert sum(gap.latency_cycles for gap in graphs) <= tilestitch.why(done()).gap.latency_cycles


def test_the_heaviest_are_those_of_the_parts():
    """Each large part has its operators, the heaviest first, none above the part."""
    found = tilestitch.why(done(), top=3)
    for part in found.gap.parts:
        rows = [heavy.cycles for heavy in found.heaviest if (heavy.part, heavy.kind) == (part.part, "operator")]
        assert rows == sorted(rows, reverse=True)
        assert len(rows) <= 3
        assert sum(rows) <= part.cycles
        assert bool(rows) or part.cycles < found.gap.gap_cycles / 20 or part.part is Part.ENDS


def test_the_longest_waits_are_in_the_trace():
    """Of a selection only those before its instructions; of a range only what is in it."""
    trace = done().trace
    assert trace is not None
    whole = tilestitch.why(done(), top=10).waits
    lengths = [wait.end_cycle - wait.begin_cycle for wait in whole]
    assert lengths == sorted(lengths, reverse=True)
    assert len(whole) == 10
    for wait in whole:
        assert trace.start_ticks[wait.waited_for_instruction] <= wait.begin_cycle * trace.ticks_per_cycle
        assert trace.end_ticks[wait.waited_for_instruction] >= wait.end_cycle * trace.ticks_per_cycle
    operator = whole[0].waiting
    chosen = tilestitch.why(done(), select=f"operator={operator}", top=10)
    assert chosen.waits[0] == whole[0]
    assert {wait.waiting for wait in chosen.waits} == {operator}
    inside = tilestitch.why(done(), select="cycles=100:999").waits
    assert all(100 <= wait.begin_cycle < wait.end_cycle <= 1000 for wait in inside)
    assert inside


def test_json_has_what_the_text_says():
    """And the parts add up, as far as the numbers of JSON go."""
    found = json.loads(run("why", *NETWORK, "--json", "-").stdout)
    assert (found["format"], found["version"]) == ("tilestitch.why", 1)
    assert sum(part["cycles"] for part in found["parts"]) == pytest.approx(found["gap_cycles"])
    assert found["latency_cycles"] - found["bound_cycles"] == found["gap_cycles"]
    assert [wait["unit"] for wait in found["waits"]] == [wait.unit for wait in tilestitch.why(done()).waits]


def test_idle_times_of_a_compilation_are_those_of_its_trace():
    """As many engines as the program has, each idle at some time."""
    idle = idle_of(done())
    assert set(idle.engine.tolist()) == set(range(len(idle.program.engines)))
