"""The page of a run without a browser: one file, the same each time, with the report, the program and the trace."""

import json
import re
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilestitch
from tests.helpers.graphs import Net
from tests.helpers.pages import embedded
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.commands.why.explain import idle_of
from tilestitch.ir.choices import Stage
from tilestitch.ir.idle import CAUSES
from tilestitch.ir.program import EngineKind, Kind
from tilestitch.pipeline.options import Options
from tilestitch.report.html.contents import contents
from tilestitch.report.html.packing import packed, unpacked
from tilestitch.report.work import bytes_at, occupied_cycles, operators_served, transfers

STRATEGIES = ("tvm", "graphturbo", "dlfusion")
BATCHES = 2


@pytest.fixture(scope="module")
def compiled():
    """Two batches of a small network by three strategies that decide in different forms: groups, pieces, blocks."""
    options = Options(batches=BATCHES, batch_per_cluster=1)
    return {name: api.compile("resnet18:small", "toy", strategy=name, batch=4, options=options) for name in STRATEGIES}


def summary_of(page: str):
    """What a page says of all its runs."""
    found = re.search(r'<script type="application/json" id="summary">(.*?)</script>', page)
    assert found is not None
    return json.loads(found.group(1))


@pytest.mark.quick
def test_a_page_is_one_file_that_asks_nobody_for_anything(compiled):
    """No address is in it, and the policy that it states forbids requests; two runs give the same bytes."""
    page = compiled["graphturbo"].to_html()
    assert page == compiled["graphturbo"].to_html()
    own = re.sub(r'<script type="(text/plain|application/json)".*?</script>', "", page, flags=re.DOTALL)
    assert not re.findall(r"https?:|//[a-z]|\bimport\(|\bfetch\(|XMLHttpRequest|WebSocket|\bsrc=|\bhref=|url\(", own)
    assert "default-src 'none'" in page


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_page_holds_the_report(compiled, name):
    """What the verdict shows is the JSON of the report, number by number."""
    done = compiled[name]
    header, _ = embedded(done.to_html())
    report = json.loads(done.report.to_json())
    assert header["report"] == {key: value for key, value in report.items() if key not in ("format", "version")}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_page_holds_the_program_and_its_trace(compiled, name):
    """Every column that the page draws from is the program's or the trace's."""
    done = compiled[name]
    header, columns = embedded(done.to_html())
    program, trace = done.program, done.trace
    ticks = trace.ticks_per_cycle
    assert (columns["start"] * ticks == trace.start_ticks).all()
    assert ((columns["start"] + columns["cycles"]) * ticks == trace.end_ticks).all()
    for name, column in (
        ("engine", program.engine),
        ("kind", program.kind),
        ("kernel", program.kernel),
        ("iteration", program.iteration),
        ("box", program.box),
        ("own_cycles", program.cycles),
        ("size_bytes", program.size_bytes),
        ("path", program.path),
        ("operand_buffer", program.operand_buffer),
        ("operand_region", program.operand_region),
        ("operand_mode", program.operand_mode),
        ("buffer_space", program.buffers.space),
        ("buffer_address", program.buffers.address),
        ("buffer_bytes", program.buffers.size_bytes),
        ("buffer_tensor", program.buffers.tensor),
        ("buffer_region", program.buffers.region),
    ):
        assert (columns[name] == column).all(), name
    assert (np.cumsum(columns["operands"]) == program.operand_offsets[1:]).all()
    assert (np.cumsum(columns["wait_count"]) == program.wait_offsets[1:]).all()
    waiting = np.repeat(np.arange(len(program)), columns["wait_count"])
    assert (waiting - columns["waits_back"] == program.waits).all()
    assert columns["region_bounds"].tolist() == [b for region in program.regions for part in region for b in part]
    operators, tensors = header["graph"]["operators"], header["graph"]["tensors"]
    assert tuple(one["name"] for one in operators)[: len(program.operators)] == program.operators
    assert tuple(one["name"] for one in tensors)[: len(program.tensors)] == program.tensors
    for one in operators:
        op = program.graph.by_name[one["name"]]
        assert tuple(tensors[number]["name"] for number in one["reads"]) == op.inputs


@pytest.mark.parametrize("name", STRATEGIES)
def test_work_adds_up_to_the_report(compiled, name):
    """However it is divided, by operator, sub-graph or instance, the work is that of the report's kernels."""
    done = compiled[name]
    report = done.report
    header, _ = embedded(done.to_html())
    for rows in header["work"].values():
        assert sum(row["macs"] for row in rows) == sum(kernel.macs for kernel in report.kernels)
        assert sum(row["vector_operations"] for row in rows) == sum(k.vector_operations for k in report.kernels)
        assert sum(row["ddr_bytes"] for row in rows) == report.ddr_bytes
        launches = int((done.program.kind[done.program.iteration < report.iterations] == Kind.LAUNCH).sum())
        assert sum(row["instructions"] for row in rows) in (report.instructions, report.instructions - launches)


def test_an_instance_that_is_one_kernel_has_its_numbers(compiled):
    """By tvm every kernel is an instance: its work, traffic, cores and span are those of the report's row."""
    done = compiled["tvm"]
    header, _ = embedded(done.to_html())
    for row, kernel in zip(header["work"]["instances"], done.report.kernels, strict=True):
        assert row["macs"] == kernel.macs
        assert row["ddr_bytes"] == kernel.ddr_read_bytes + kernel.ddr_written_bytes
        assert row["cores"] == kernel.cores
        assert 0 < row["occupied_cycles"] <= kernel.span_cycles


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_point_is_above_its_roof(compiled, name):
    """Operations a cycle stay below the peak of the units, and bytes a cycle below the bandwidth of the port."""
    header, _ = embedded(compiled[name].to_html())
    ceilings = header["ceilings"]
    peaks = {peak["name"]: peak["operations_per_cycle"] for peak in ceilings["peaks"]}
    matrix = max(rate for kind, rate in peaks.items() if kind != "vector units")
    ports = {port["level"]: port["bytes_per_cycle"] for port in ceilings["ports"]}
    assert ports
    seen = 0
    for rows in header["work"].values():
        for row in rows:
            cycles = row["occupied_cycles"]
            assert 2 * row["matrix_macs"] <= matrix * cycles
            assert row["ddr_bytes"] <= ports["ddr"] * cycles
            assert row["gb_bytes"] <= ports.get("gb", 0) * cycles
            if row["matrix_macs"] == 0:
                assert row["vector_operations"] <= peaks["vector units"] * cycles
            seen += cycles > 0
    assert seen


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_transfer_serves_an_operator_that_uses_its_tensor(compiled, name):
    """Computes keep their operator, launches have none, and copies serve one that reads or writes what is copied."""
    done = compiled[name]
    program = done.program
    served = operators_served(program, [kernel.operators for kernel in done.schedule.kernels])
    copies = 0
    for instruction in program:
        number = int(served[instruction.number])
        if instruction.kind is Kind.LAUNCH:
            assert number == -1
        elif instruction.operator is not None:
            assert program.operators[number] == instruction.operator
        else:
            copies += 1
            op = program.graph.by_name[program.operators[number]]
            tensor = program.tensors[program.buffers.tensor[instruction.operands[0].buffer]]
            assert tensor in (*op.inputs, *op.outputs)
    assert copies


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(-1, 3)), max_size=25))
def test_occupied_cycles_are_those_with_an_open_interval(intervals):
    """However intervals overlap, each cycle of a label counts once."""
    start, length, label = (np.array([one[at] for one in intervals], np.int64) for at in range(3))
    found = occupied_cycles(start, start + length, label, 4)
    for number in range(4):
        cycles = {cycle for s, n, own in intervals if own == number for cycle in range(s, s + n)}
        assert found[number] == len(cycles)


@given(
    st.lists(st.integers(-(2**53) + 1, 2**53 - 1), max_size=20),
    st.lists(st.integers(0, 300), max_size=20),
    st.text(max_size=10),
)
def test_packed_columns_come_out_as_they_were(large, small, text):
    """Whatever type holds them."""
    columns = {"large": np.array(large, np.int64), "small": np.array(small, np.int64)}
    header, found = unpacked(packed({"text": text}, columns))
    assert header == {"text": text}
    assert {name: column.tolist() for name, column in found.items()} == {"large": large, "small": small}


def test_names_never_become_markup():
    """A network, an operator and a tensor may be called what ends a script."""
    evil = "</script><script>alert(1)</script>"
    net = Net()
    x = net.input(1, 8)
    model = net.model(net.op("Relu", net.op("MatMul", x, net.random(8, 8))))
    model.graph.name = evil
    for node in model.graph.node:
        node.name = f"{evil}{node.op_type}"
    page = api.compile(model, "toy", strategy="tvm").to_html(f"tilestitch compile '{evil}'")
    assert "alert(1)" not in re.sub(r"&lt;script&gt;alert|\\u003cscript>alert", "", page)
    assert page.count("</script>") == 3  # the summary, the run, the code
    assert evil in summary_of(page)["command"]
    assert any(evil in one["name"] for one in embedded(page)[0]["graph"]["operators"])


def test_a_comparison_has_every_strategy_on_one_page():
    """Those that fit with their data, in their order; the others with the reason."""
    found = api.compare("resnet18:small", "toy", ["tvm", "layerwise"], batch=2)
    page = found.to_html()
    summary = summary_of(page)
    assert [one["strategy"] for one in summary["strategies"]] == ["tvm", "layerwise"]
    for number, report in enumerate(found.reports):
        assert embedded(page, number)[0]["report"]["what"]["strategy"] == report.strategy
        assert summary["compared"][number]["latency_cycles"] == report.latency_cycles
        assert summary["compared"][number]["speed_up"] == found.reports[0].latency_cycles / report.latency_cycles
    assert summary["command"] == "tilestitch.compare('resnet18:small', 'toy', ['tvm', 'layerwise'], batch=2).to_html()"


def test_what_was_not_simulated_has_no_page():
    """It says what to do instead."""
    done = api.compile("resnet18:small", "toy", options=Options(stop_after=Stage.SCHEDULE))
    with pytest.raises(InputError, match="was not simulated, so it has no page"):
        done.to_html()


def test_the_python_call_on_a_page_makes_it_again(compiled):
    """Options that are not the default are in it."""
    command = summary_of(compiled["tvm"].to_html())["command"]
    assert command.startswith("tilestitch.compile('resnet18:small', 'toy', strategy='tvm', batch=4, options=")
    again = eval(command.removesuffix(".to_html()"), {"tilestitch": tilestitch})
    assert again.to_html() == compiled["tvm"].to_html()


def test_instances_are_pieces_of_sub_graphs(compiled):
    """GraphTurbo's names: piece a2 is of sub-graph a; every kernel has one of each."""
    header, _ = embedded(compiled["graphturbo"].to_html())
    pieces = {piece.name for piece in compiled["graphturbo"].schedule.pieces}
    assert pieces <= set(header["instances"])
    for kernel in header["program"]["kernels"]:
        name = header["instances"][kernel["instance"]]
        if name in pieces:
            assert name.startswith(header["sub_graphs"][kernel["sub_graph"]])


def test_lanes_never_overlap(compiled):
    """An engine does one thing at a time: what the page draws in a lane is in the order of the program."""
    _, columns = embedded(compiled["graphturbo"].to_html())
    for engine in range(int(columns["engine"].max()) + 1):
        own = columns["engine"] == engine
        start, end = columns["start"][own], (columns["start"] + columns["cycles"])[own]
        assert (start[1:] >= end[:-1]).all()


def test_the_bundle_is_in_the_package():
    """The page's code and style come with the package, without Node."""
    for name in ("page.js", "page.css", "page.html"):
        assert files("tilestitch.report.html").joinpath(name).is_file()


def test_every_kind_of_engine_has_a_lane(compiled):
    """The header names the engines as the program has them."""
    header, _ = embedded(compiled["tvm"].to_html())
    program = compiled["tvm"].program
    assert [one["name"] for one in header["program"]["engines"]] == [engine.name for engine in program.engines]
    assert {one["kind"] for one in header["program"]["engines"]} <= {kind.name.lower() for kind in EngineKind}
    assert contents(compiled["tvm"].simulated_run())[0]["program"] == header["program"]


def test_several_batches_have_no_gap(compiled):
    """The bound is that of one, so there is nothing to take apart, as with why."""
    assert embedded(compiled["tvm"].to_html())[0]["gaps"] is None


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_gaps_of_a_page_are_those_of_why(name):
    """Of the run, and of operators, sub-graphs and instances, number by number."""
    done = api.compile("resnet18:small", "toy", strategy=name, batch=4)
    header, _ = embedded(done.to_html())
    gaps = header["gaps"]
    assert as_why(gaps, gaps["run"]) == gap_of_why(done)
    program, pieces = done.program, {piece.name for piece in done.schedule.pieces}
    asked = [(f"operator={program.operators[at]}", gaps["operators"][at]) for at in (0, len(program.operators) // 2)]
    instance = header["instances"][-1]
    kind = "piece" if instance in pieces else "kernel"
    if kind == "piece" or len(header["instances"]) == len(program.kernels):
        asked.append((f"{kind}={instance if kind == 'piece' else program.kernels[-1]}", gaps["instances"][-1]))
    if kind == "piece":
        asked.append((f"sub-graph={header['sub_graphs'][-1]}", gaps["sub_graphs"][-1]))
    for select, gap in asked:
        assert as_why(gaps, gap) == gap_of_why(done, select), select
    for gap in (gaps["run"], *gaps["operators"], *gaps["sub_graphs"], *gaps["instances"]):
        assert sum(part[1] for part in gap["parts"]) == pytest.approx(gap["gap_cycles"], abs=1e-6)


def gap_of_why(done, select=""):
    """What the JSON of why says of a gap."""
    found = json.loads(tilestitch.why(done, select=select).to_json())
    kept = ("unit", "latency_cycles", "bound_cycles", "gap_cycles", "parts", "ends")
    return {key: found[key] for key in kept} | {"lanes": len(found["lanes"])}


def as_why(gaps, gap):
    """A gap of a page in the form of that JSON."""
    columns = ("cycles", "setup_cycles", "sharing_cycles", "room_cycles")
    parts = [
        {"part": gaps["parts"][part], **dict(zip(columns, values, strict=True)), "meaning": gaps["meanings"][part]}
        for part, *values in gap["parts"]
    ]
    ends = {gaps["parts"][part]: cycles for part, cycles in gap["ends"]}
    return {**gap, "parts": parts, "ends": ends, "unit": gaps["unit"], "lanes": gaps["lanes"]}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_page_holds_every_idle_time(compiled, name):
    """With its cause and what was waited for; with the work of the engine it fills the run."""
    done = compiled[name]
    header, columns = embedded(done.to_html())
    idle, ticks = idle_of(done), done.trace.ticks_per_cycle
    assert (columns["idle_engine"] == idle.engine).all()
    assert (columns["idle_start"] * ticks == idle.begin_ticks).all()
    assert ((columns["idle_start"] + columns["idle_cycles"]) * ticks == idle.end_ticks).all()
    assert (columns["idle_next"] == idle.waiting).all()
    assert (np.maximum(columns["idle_next"], 0) - columns["idle_back"] == idle.waited_for).all()
    assert [header["causes"][cause] for cause in columns["idle_cause"]] == [CAUSES[cause] for cause in idle.cause]
    for engine in range(len(done.program.engines)):
        busy = int(columns["cycles"][columns["engine"] == engine].sum())
        idle_cycles = int(columns["idle_cycles"][columns["idle_engine"] == engine].sum())
        assert busy + idle_cycles == done.trace.latency_cycles


def test_a_transfer_inside_a_kernel_is_a_load_of_the_reader_and_a_store_of_the_writer():
    """Where a kernel has both, what goes away from the units is of the writer, and what comes of the reader."""
    net = Net()
    y = net.op("MatMul", net.input(1, 64), net.random(64, 64))
    done = api.compile(net.model(y, net.op("Relu", y)), "toy", strategy="tvm")
    program = done.program
    served = operators_served(program, [program.operators] * len(program.kernels))
    assert program.operators == ("matmul0", "relu1")
    found = {
        (program.engines[program.engine[i.number]].kind, program.operators[served[i.number]])
        for i in program
        if i.kind is Kind.COPY and program.tensors[program.buffers.tensor[i.operands[0].buffer]] == y
    }
    assert (EngineKind.DMA_OUT, "matmul0") in found
    assert (EngineKind.DMA_IN, "relu1") in found
    assert (EngineKind.DMA_OUT, "relu1") not in found
    assert (EngineKind.DMA_IN, "matmul0") not in found


def test_what_streams_past_a_core_counts_once():
    """A stream has one end in a memory; the bytes of all operators are still those of the report."""
    net = Net(20)
    y = net.op("Det", net.op("Reshape", net.op("Relu", net.input(64, 64, 24)), [24 * 16, 16, 16]))
    done = api.compile(net.model(y), "toy", strategy="tvm")
    assert Kind.STREAM in set(done.program.kind.tolist())
    header, _ = embedded(done.to_html())
    for rows in header["work"].values():
        assert sum(row["ddr_bytes"] for row in rows) == done.report.ddr_bytes
    moves = transfers(done.program, np.arange(len(done.program)))
    levels = [space.level for space in done.program.spaces]
    one_end = (moves.source < 0) | (moves.target < 0)
    assert one_end.any()
    everywhere = sum(bytes_at(done.program, moves, level) for level in set(levels))
    assert (everywhere[one_end] == done.program.size_bytes[moves.number][one_end]).all()
