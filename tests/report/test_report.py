"""Reports: what is counted, how it reads, and what other programs get of it."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.helpers.graphs import Net
from tilestitch import api
from tilestitch.base.errors import InvalidIR
from tilestitch.hardware.accelerator import Level, Sharing
from tilestitch.hardware.describe import describe
from tilestitch.ir.program import EngineKind, Kind
from tilestitch.ir.report import CheckRow, Misfit, Report
from tilestitch.ir.searched import Searched, SearchStep
from tilestitch.ops import is_contraction
from tilestitch.ops.contraction import product_shape
from tilestitch.ops.work import vector_operations
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES
from tilestitch.report.report_json import compare_json, report_json, value_json
from tilestitch.report.report_text import compare_text, report_text, trace_text
from tilestitch.report.trace_json import _microseconds, chrome_trace

NAMES = [strategy.name for strategy in STRATEGIES]
DOCUMENTED = (Path(__file__).parent.parent.parent / "docs" / "report.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compiled():
    """Three samples of a small network on two clusters, by every strategy."""
    return {
        name: api.compile("resnet18:small", "toy", strategy=name, batch=3, options=Options(batch_per_cluster=1))
        for name in NAMES
    }


CHECKS = (
    CheckRow("float32", 4e-7, 1e-5, "logits", 0.0, 0.2, 8000, 8000),
    CheckRow("float16", 8e-4, 3.2e-3, "logits", 0.0, 0.3, 8000, 7950),
)


def reported(done) -> Report:
    """The report of what was simulated."""
    assert done.report is not None
    return done.report


@pytest.mark.quick
def test_an_occupied_array_is_not_one_that_multiplies():
    """One row of Eyeriss's array works on a product of one row, and the whole array is occupied by it."""
    net = Net()
    done = api.compile(net.model(net.op("MatMul", net.input(1, 64), net.random(64, 64))), "eyeriss", strategy="tvm")
    (kernel,) = reported(done).kernels
    assert kernel.macs == 64 * 64
    assert kernel.matrix_peak_cycles == pytest.approx(64 * 64 / (12 * 14))
    assert kernel.matrix_busy_cycles > 10 * kernel.matrix_peak_cycles


def test_no_unit_does_more_than_it_is_occupied(compiled):
    for done in compiled.values():
        for kernel in reported(done).kernels:
            assert 0 <= kernel.matrix_peak_cycles <= kernel.matrix_busy_cycles
        assert any(kernel.matrix_peak_cycles for kernel in reported(done).kernels)


@pytest.fixture(scope="module")
def verified():
    """The same network by two strategies, verified; the errors, whose last digits are the processor's, replaced."""
    strategies = ("layerwise", "tvm")
    done = api.compare("resnet18:small", "toy", strategies=strategies, batch=4, verify=True)
    found = [reported(one) for one in done]
    assert all(report.verified for report in found)
    return [replace(report, checks=CHECKS) for report in found]


@pytest.fixture(scope="module")
def report(verified):
    return verified[-1]


# What is counted


@pytest.mark.parametrize("name", NAMES)
def test_kernels_add_up_to_the_whole(compiled, name):
    """Each adds to the latency what it ends after the others; launched ones begin when the one before has ended.

    Stitched kernels overlap, so that their spans are longer.
    """
    found = compiled[name].report
    assert sum(kernel.cycles for kernel in found.kernels) == found.latency_cycles
    spans = [kernel.span_cycles for kernel in found.kernels]
    if all(kernel.launches for kernel in compiled[name].schedule.kernels):
        assert sum(spans) == found.latency_cycles
    else:
        assert max(spans) <= found.latency_cycles < sum(spans)
        assert any("overlap" in note for note in found.notes)
    assert sum(kernel.ddr_read_bytes + kernel.ddr_written_bytes for kernel in found.kernels) == found.ddr_bytes
    busy = {row.kind: row.busy_cycles for row in found.engines}
    assert sum(kernel.matrix_busy_cycles for kernel in found.kernels) == pytest.approx(busy["matrix"])
    assert sum(kernel.vector_busy_cycles for kernel in found.kernels) == pytest.approx(busy["vector"])
    assert sum(row.instructions for row in found.engines) == found.instructions == len(compiled[name].program)
    assert sum(value for _, value in found.energy_pj) == found.total_energy_pj


def test_operators_alone_do_the_work_of_the_network_and_no_more(compiled):
    """Without fusion no tile overlaps another, so what was executed is what the bounds count."""
    found = compiled["layerwise"].report
    assert sum(kernel.macs for kernel in found.kernels) == found.macs
    assert sum(kernel.vector_operations for kernel in found.kernels) == found.vector_operations


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_nothing_beats_its_bound(compiled, name):
    """Latency, traffic and work are at or above what no schedule can beat, and nothing is occupied all the time."""
    found = compiled[name].report
    assert found.latency_cycles >= found.bound_cycles
    assert found.ddr_bytes >= found.compulsory_bytes
    assert sum(kernel.macs for kernel in found.kernels) >= found.macs
    assert all(row.busy_cycles <= found.latency_cycles for row in (*found.engines, *found.traffic))
    assert found.ddr_bytes <= next(row.size_bytes for row in found.traffic if row.level == "ddr")


def test_a_network_without_products_has_no_ratio_of_multiply_accumulates():
    """None of none is no number of times, and the sentence says so without one."""
    net = Net()
    done = api.compile(net.model(net.op("Relu", net.input(1, 8))), "toy", strategy="tvm")
    assert "MACs of a cluster: 0 (simulated), the 0 of the network (bound)." in report_text(done.report)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_what_counting_one_instruction_after_another_gives(compiled, name):
    """The columns of a program, taken together, say the same as its instructions, one by one."""
    done = compiled[name]
    program, trace, cores = done.program, done.trace, len(done.machine.cores)
    rows = [
        {"read": 0, "written": 0, "macs": 0, "operations": 0, "matrix": 0, "vector": 0, "cores": set()}
        for _ in program.kernels
    ]
    kinds = {engine.name: engine.kind for engine in program.engines}
    core = {engine.name: engine.core for engine in program.engines}
    for one in program:
        row, kind = rows[one.kernel], kinds[one.engine]
        ticks = int(trace.end_ticks[one.number] - trace.start_ticks[one.number])
        if kind in (EngineKind.MATRIX, EngineKind.VECTOR):
            row[kind.name.lower()] += ticks
        if one.kind in (Kind.COPY, Kind.GATHER):
            first, last = (program.spaces[program.buffers.space[one.operands[i].buffer]] for i in (0, -1))
            row["read"] += one.size_bytes if first.level is Level.DDR else 0
            row["written"] += one.size_bytes if last.level is Level.DDR else 0
        if one.kind is Kind.COMPUTE:
            op = program.graph.by_name[one.operator]
            row["macs"] += product_shape(op, one.box).macs if is_contraction(op) else 0
            row["operations"] += vector_operations(op, one.box) if kind is EngineKind.VECTOR else 0
        if one.kind in (Kind.COMPUTE, Kind.GATHER):
            row["cores"].add(core[one.engine])
    for row, kernel in zip(rows, done.report.kernels, strict=True):
        assert kernel.ddr_read_bytes == row["read"]
        assert kernel.ddr_written_bytes == row["written"]
        assert kernel.macs == row["macs"]
        assert kernel.vector_operations == row["operations"]
        assert kernel.matrix_busy_cycles == row["matrix"] / trace.ticks_per_cycle / cores
        assert kernel.vector_busy_cycles == row["vector"] / trace.ticks_per_cycle / cores
        assert kernel.cores == len(row["cores"])


def test_more_batches_change_nothing_but_the_sustained_throughput(compiled):
    """A report is about one batch, however many the program runs back to back."""
    once = compiled["tvm"].report
    twice = reported(
        api.compile("resnet18:small", "toy", batch=3, options=Options(batch_per_cluster=1, batches=2), strategy="tvm")
    )
    assert twice.sustained_cycles_per_batch <= once.latency_cycles
    same = replace(
        twice,
        batches=1,
        sustained_cycles_per_batch=once.sustained_cycles_per_batch,
        energy_pj=once.energy_pj,
        traffic=once.traffic,
    )
    assert same == once
    assert dict(twice.energy_pj) == pytest.approx(dict(once.energy_pj))
    assert [row.size_bytes for row in twice.traffic] == [row.size_bytes for row in once.traffic]
    assert [row.busy_cycles for row in twice.traffic] == pytest.approx([row.busy_cycles for row in once.traffic])


def test_a_program_that_is_no_whole_number_of_batches_is_refused(compiled):
    """A trace that cannot be divided into batches is a bug, not a number."""
    from tilestitch.report.summarise import Workload, summarise

    done = compiled["tvm"]
    with pytest.raises(InvalidIR, match=r"2 iterations.*3 batches"):
        summarise(
            done.schedule,
            done.trace,
            done.machine,
            Workload(batch=3, share=2, batches=3),
            limits=None,  # pyright: ignore[reportArgumentType]  (it is refused before)
            energy_pj=(),
            checks=(),
        )


# For people


@pytest.mark.quick
def test_report_reads_as_the_golden_page(report, golden):
    """The page of one report, to the byte."""
    golden("report-tvm.txt", report_text(report, top=5))


@pytest.mark.quick
def test_comparison_reads_as_the_golden_table(verified, golden):
    """Strategies side by side, to the byte."""
    golden("report-compare.txt", compare_text(verified))


def test_a_strategy_that_does_not_fit_is_compared_with_the_others(report, golden):
    """Its column says so, and a line below says why; it has no numbers."""
    results = [Misfit("layerwise", "kernel conv1: its smallest tile needs 3 B in lb, which holds 1 B."), report]
    golden("report-misfit.txt", compare_text(results))
    strategies = json.loads(compare_json(results))["strategies"]
    assert strategies[0] == {"strategy": "layerwise", "speed_up": None, "does_not_fit": results[0].reason}
    assert strategies[1] == {"strategy": "tvm", "speed_up": 1.0}


def test_reports_machines_and_programs_print_themselves(report, compiled):
    """For people, in a notebook."""
    assert str(report).startswith(f"{report.network} on toy, strategy tvm, batch 4\n  latency ")
    assert "verification passed" in str(report)
    assert "verification not done" in str(replace(report, checks=()))
    assert str(compiled["tvm"].machine) == "toy: A small machine to try things on: 2 clusters of 2 cores"
    assert describe(compiled["tvm"].machine).startswith("toy\n")
    assert str(compiled["tvm"].program).splitlines()[-1].endswith(" more")
    assert len(str(compiled["tvm"].program).splitlines()) == 102


def test_every_section_says_where_its_numbers_come_from(report):
    """Each title names an origin, but for the verification, whose numbers are differences."""
    lines = report_text(report).splitlines()
    titles = [above for above, line in pairwise(lines) if re.fullmatch("-{4,}", line)]
    assert len(titles) == 9
    for title in titles:
        assert re.search(r"\((simulated|bound|decided)", title) or title.startswith("Verification"), title


def test_page_fits_its_width_and_is_plain(report):
    """Lines of at most 120 characters, ASCII, no escape sequences, no spaces at their ends."""
    for line in (report_text(report) + compare_text([report, report])).splitlines():
        assert len(line) <= 120
        assert line.isascii()
        assert line.isprintable()
        assert line == line.rstrip()


@pytest.mark.parametrize(
    "variables", [{"COLUMNS": "40"}, {"FORCE_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}]
)
def test_page_does_not_depend_on_the_terminal(report, monkeypatch, variables):
    """What rich would read from the environment changes nothing."""
    known = report_text(report)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert report_text(report) == known


def test_failed_checks_are_shown_and_hostile_names_do_no_harm(report):
    """An error of NaN fails; control characters and markup in a name are printed as they are."""
    failed = replace(
        report,
        network="net\x1b[31m\n[bold]x[/bold]",
        checks=(CheckRow("float32", float("nan"), 1e-5, "y\tz"), CheckRow("float16", 1e-3, 4e-3, "y")),
    )
    text = report_text(failed)
    assert "\x1b" not in text
    assert "net\\u001b[31m\\u000a[bold]x[/bold] on toy" in text
    assert re.search(
        r"float32 +error nan +allowed 1\.00e-05 +FAILED +1 of 1 values decided +worst output: y\\u0009z", text
    )
    assert "PASSED" in text
    assert "FAILED" in compare_text([failed])
    assert "not verified" in report_text(replace(report, checks=()))
    assert json.loads(report_json(failed))["verification"]["checks"][0]["relative_error"] is None
    assert json.loads(report_json(failed))["verification"]["result"] == "failed"


def test_kernels_beyond_the_slowest_share_a_line(report):
    """The lines of the table add up, however many are shown."""
    assert f"{len(report.kernels) - 3} more " in report_text(report, top=3)
    assert " more " not in report_text(report, top=len(report.kernels)).split("By kinds")[0].split("Where the time")[1]


def test_clusters_that_share_no_batch_evenly_are_said(compiled):
    """Three samples on two clusters: the busiest takes two, and the page says so."""
    text = report_text(compiled["tvm"].report)
    assert "batch 3: 2 clusters, 2 iterations each, 1 sample an iteration" in text
    assert "1 cluster simulated, which stands for all of them." in text
    assert "3 samples do not divide evenly; a cluster takes up to 2." in text


def test_clusters_of_one_ddr_are_all_simulated():
    """They contend for it, so none can stand for the others, and the page does not say so."""
    toy = api.load_machine("toy")
    memories = (replace(m, sharing=Sharing.CHIP) if m.level is Level.DDR else m for m in toy.memories)
    alone = reported(api.compile("resnet18:small", toy, batch=2, strategy="tvm"))
    shared = reported(api.compile("resnet18:small", replace(toy, memories=tuple(memories)), batch=2, strategy="tvm"))
    assert (alone.clusters_simulated, shared.clusters_simulated) == (1, 2)
    assert shared.latency_cycles > alone.latency_cycles
    assert shared.latency_cycles >= shared.bound_cycles
    assert sum(kernel.cycles for kernel in shared.kernels) == shared.latency_cycles
    assert "stands for" not in report_text(shared)


def test_values_print_themselves(compiled):
    """A compilation prints its report, or the last value that was reached."""
    assert str(compiled["tvm"]) + "\n" == report_text(compiled["tvm"].report)
    stopped = api.compile("resnet18:small", "toy", options=Options(stop_after="schedule"), strategy="tvm")
    assert str(stopped) == str(stopped.schedule)
    assert str(api.compile("resnet18:small", "toy", options=Options(stop_after="lower"), strategy="tvm")).startswith(
        "program of "
    )
    assert (
        str(api.compile("resnet18:small", "toy", options=Options(stop_after="partition"), strategy="tvm")).splitlines()[
            1
        ]
        == "  g0: conv1 + relu"
    )


def test_trace_text_is_limited(compiled):
    """At most so many instructions, and how many are left."""
    done = compiled["tvm"]
    lines = trace_text(done.trace, limit=2).splitlines()
    assert len(lines) == 4
    assert lines[-1] == f"  ... {len(done.program) - 2:,} more"
    assert len(trace_text(done.trace).splitlines()) == len(done.program) + 1


# For programs


def keys(tree) -> set[str]:
    if isinstance(tree, list):
        return set().union(*map(keys, tree))
    return set(tree).union(*map(keys, tree.values())) if isinstance(tree, dict) else set()


def test_json_holds_what_is_documented(report):
    """Every field stands in docs/report.md."""
    tree = json.loads(report_json(report))
    assert list(tree) == ["format", "version", "what", "simulated", "bounds", "verification", "kernels"]
    parts = dict(report.energy_pj)
    for name in sorted(keys(tree) - set(parts)):
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", DOCUMENTED), f"docs/report.md does not explain {name}"


def test_a_search_is_shown_as_its_curve(report):
    """A row for 0, for round numbers of candidates at which another schedule is the fastest, and for all of them."""
    bound = report.bound_cycles
    steps = [(0, 4, "graphturbo"), (1, 3, "start"), (3, 2, "tiles"), (40, 1, "fuse")]
    steps = tuple(SearchStep(number, times * bound, by) for number, times, by in steps)
    searched = replace(report, searched=Searched(77, steps))
    lines = report_text(searched).split("\n\n")
    lines = next(one for one in lines if one.startswith("Search")).splitlines()[3:]
    rows = [(int(cells[0]), int(cells[1].replace(",", "")), cells[-1]) for cells in map(str.split, lines)]
    expected = [(0, 4, "graphturbo"), (1, 3, "start"), (5, 2, "tiles"), (50, 1, "fuse"), (77, 1, "fuse")]
    assert rows == [(number, times * bound, by) for number, times, by in expected]
    assert ["4.00 x" in line for line in lines] == [True, False, False, False, False]
    assert " x " not in report_text(replace(searched, batches=2)).split("\nSearch")[1].split("\n\n")[0]  # no bound
    tree = json.loads(report_json(searched))
    found = tree["simulated"]["search"]
    assert found["evaluations"] == 77
    assert found["steps"][1] == {"evaluations": 1, "latency_cycles": 3 * bound, "by": "start"}
    for name in keys(found):
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", DOCUMENTED), f"docs/report.md does not explain {name}"
    assert report_text(replace(report, searched=Searched(0, steps[:1]))).count("graphturbo\n") == 1
    late = Searched(9, (*steps[2:3], SearchStep(9, bound, "fuse"), SearchStep(9, bound, "astitch")))
    rows = report_text(replace(report, searched=late)).split("\nSearch")[1].split("\n\n")[0].splitlines()[3:]
    assert [(row.split()[0], row.split()[-1]) for row in rows] == [("5", "tiles"), ("9", "astitch")]


def test_json_holds_what_was_decided_for_each_operator():
    """Behind the report; every field stands in docs/report.md, and the work of operators adds up to the report's."""
    done = api.compile("resnet18:small", "toy", strategy="graphturbo", batch=4, options=Options(batch_per_cluster=1))
    tree = json.loads(done.to_json())
    assert json.loads(report_json(done.report)).items() <= tree.items()
    operators, decisions = tree["operators"], tree["decisions"]
    for name in sorted(keys([operators, decisions])):
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", DOCUMENTED), f"docs/report.md does not explain {name}"
    assert sum(one["simulated"]["ddr_bytes"] for one in operators) == done.report.ddr_bytes
    assert sum(one["simulated"]["macs"] for one in operators) == tree["simulated"]["macs"]
    assert [one["name"] for one in operators if one["decided"]["sub_graph"] == "a"] == [
        name for one in decisions["sub_graphs"] if one["name"] == "a" for name in one["operators"]
    ]
    assert [name for name in decisions["order"] if name[0] == "a"] == [piece.name for piece in done.schedule.pieces]
    assert sum(home["count"] for home in decisions["homes"]) == sum(row.count for row in done.report.places)
    assert sum(home["size_bytes"] for home in decisions["homes"]) == sum(row.size_bytes for row in done.report.places)


@pytest.mark.quick
def test_json_holds_the_numbers_of_the_report(verified):
    """Spot checks of every group, and the ratio that a comparison adds."""
    report = verified[1]
    tree = json.loads(report_json(report))
    assert tree["simulated"]["latency_cycles"] == report.latency_cycles
    assert tree["simulated"]["energy_pj"] == report.total_energy_pj
    assert tree["bounds"]["largest_cycles"] == report.bound_cycles
    assert tree["bounds"]["latency_to_largest_ratio"] >= 1
    assert tree["verification"]["result"] == "passed"
    assert [kernel["simulated"]["cycles"] for kernel in tree["kernels"]] == [row.cycles for row in report.kernels]
    both = json.loads(compare_json(verified))
    assert both["reports"][1] == {key: value for key, value in tree.items() if key not in ("format", "version")}
    assert both["strategies"][1]["speed_up"] == verified[0].latency_cycles / report.latency_cycles


def test_every_value_has_a_json_form(compiled):
    """Machines, graphs, schedules and programs; ratios and infinities as text, arrays without elements."""
    done = compiled["tvm"]
    machine = json.loads(value_json("machine", done.machine))["machine"]
    assert machine["link"]["bandwidth_bytes_per_cycle"] == "64"
    graph = json.loads(value_json("graph", done.loaded))["graph"]
    assert graph["constants"]["conv1.weight"] == {"dtype": "float32", "shape": [8, 3, 7, 7]}
    assert any(read["pad_value"] == "-inf" for op in graph["operators"] for read in op["reads"])
    assert len(json.loads(value_json("schedule", done.schedule))["schedule"]["kernels"]) == len(done.schedule.kernels)
    program = json.loads(value_json("program", done.program, limit=3))
    assert program["instructions_in_all"] == len(done.program)
    assert [one["kind"] for one in program["instructions"]] == ["launch", "copy", "copy"]


def as_viewers_read(microseconds: float) -> int:
    """Nanoseconds: viewers multiply and cut off."""
    return int(microseconds * 1000)


@pytest.mark.parametrize("clock_hz", [10**9, 940_000_000, 7 * 10**9, 1_400_000_007])
def test_events_of_one_engine_never_overlap(compiled, clock_hz):
    """Read as viewers read them, each event of a track begins at or after the end of the one before."""
    done = compiled["tvm"]
    tree = json.loads(chrome_trace(done.trace, clock_hz=clock_hz))
    tracks: dict[tuple[int, int], int] = {}
    seen = 0
    for event in tree["traceEvents"]:
        if event["ph"] != "X":
            continue
        seen += 1
        track = event["pid"], event["tid"]
        begin, length = as_viewers_read(event["ts"]), as_viewers_read(event["dur"])
        assert length >= 0
        assert begin >= tracks.get(track, 0)
        tracks[track] = begin + length
    lengths = done.trace.end_ticks - done.trace.start_ticks
    assert seen == np.count_nonzero(lengths) or clock_hz > 10**9
    assert max(tracks.values()) <= done.trace.latency_cycles * 10**9 / clock_hz
    assert max(tracks.values()) > 0.999 * done.trace.latency_cycles * 10**9 / clock_hz


def test_tracks_of_a_trace_are_the_engines(compiled):
    """A process per core, one for the cluster, a thread per engine; events say which instruction they are."""
    done = compiled["tvm"]
    tree = json.loads(chrome_trace(done.trace, clock_hz=done.machine.clock_hz, limit=50))
    named = [event for event in tree["traceEvents"] if event["name"] == "thread_name"]
    assert [event["args"]["name"] for event in named] == [engine.name for engine in done.program.engines]
    assert {event["pid"] for event in named} == {1, 2, 3}
    assert len({event["tid"] for event in named}) == len(named)
    assert tree["otherData"]["instructions_shown"] == 50
    events = [event for event in tree["traceEvents"] if event["ph"] == "X"]
    assert [event["args"]["instruction"] for event in events] == sorted(
        event["args"]["instruction"] for event in events
    )
    for event in events:
        one = done.program[event["args"]["instruction"]]
        assert event["cat"] == one.kind.name.lower()
        assert event["name"] == (
            one.operator or (done.program.kernels[one.kernel] if one.kind is Kind.LAUNCH else event["name"])
        )


@given(st.integers(0, 10**14))
def test_microseconds_are_read_as_the_same_nanoseconds(nanoseconds):
    """Whatever a binary fraction does to thousandths."""
    assert as_viewers_read(float(_microseconds(nanoseconds))) == nanoseconds


def test_constants_that_float16_cannot_hold_are_told():
    """A mask of the lowest float32 is clamped in the float16 check, verified all the same, and mentioned."""
    lowest = numpy_helper.from_array(np.full((1, 4), np.finfo(np.float32).min, np.float32), "lowest")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "lowest"], ["s"]), helper.make_node("Softmax", ["s"], ["y"], axis=1)],
        "masked",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [lowest],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    report = api.compile(model, "toy", verify=True, strategy="tvm").report
    assert report is not None
    assert report.notes == (
        "Constants beyond the range of float16 are clamped to +-65,504 in the float16 check: lowest.",
        "All values of y are the same, so that errors in what leads to them may not show.",
    )
    assert report.notes[0] in report_text(report)
