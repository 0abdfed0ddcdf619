"""The command: what it prints, what it writes, and how it ends."""

import errno
import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
from click.testing import CliRunner

from tests.helpers.command import names_in, run, start
from tests.helpers.graphs import Net
from tests.helpers.pairs import first
from tilestitch import api, zoo
from tilestitch.base import files
from tilestitch.base.errors import DoesNotFit, InvalidIR
from tilestitch.base.interruption import TerminatedError
from tilestitch.cli import main as cli
from tilestitch.cli import start as beginning
from tilestitch.cli.examples import EXAMPLES
from tilestitch.cli.options import STRATEGY_HELP
from tilestitch.ir.choices import BindingRule, GroupingRule, Spill, Stage
from tilestitch.ir.report import CheckRow
from tilestitch.mapping.network import MapOptions
from tilestitch.pipeline import options, stages, strategies
from tilestitch.pipeline.compilation import Compilation
from tilestitch.report.report_text import compare_text, report_text
from tilestitch.sim.chip.check import Checked

NETWORK = ("resnet18:small", "--machine", "toy")
ONE = ("--strategy", "tvm")  # where any will do: without one, the fastest of three is searched for
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


# Help


def test_help_comes_at_once():
    """Within a second on a slow machine (a twentieth on a usual one), because nothing slow is imported."""
    begin = time.perf_counter()
    process = start(
        "--help", before="import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    )
    text, modules = process.communicate(timeout=60)
    assert time.perf_counter() - begin < 1
    assert process.returncode == 0
    assert b"compile" in text
    assert {"numpy", "onnx", "pydantic", "rich", "numba", "yaml"}.isdisjoint(modules.decode().split())


@pytest.mark.quick
@pytest.mark.parametrize(
    "command",
    [
        "build",
        "compile",
        "compare",
        "machines",
        "models",
        "show",
        "show machine",
        "show graph",
        "show schedule",
        "show program",
        "contest",
        "fuse",
        "reproduce",
        "characterize",
        "explore",
        "validate",
        "check",
        "traffic",
        "why",
    ],
)
def test_every_command_has_help(command):
    """And the options that all commands have."""
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert command == "show" or {"--json", "--quiet", "--debug"} <= set(result.output.split())
    assert result.output.split("Example:")[1].split() == EXAMPLES[command][1].split()


@pytest.mark.quick
def test_the_list_of_commands_is_not_cut():
    """Each line whole on a terminal of 80 columns."""
    for group in ((), ("show",)):
        assert "..." not in run(*group, "--help").output.split("Commands:")[1]


LONG_EXAMPLES = ("compare", "compile", "explore", "simulate")  # the pages of docs/ show such runs, too


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG_EXAMPLES else [])
        for name in EXAMPLES
        if name not in ("contest", "serve", "show")
    ],
)
def test_the_example_of_a_command_works(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(EXAMPLES[command][1])
    assert program == "tilestitch"
    assert " ".join(arguments).startswith(command)
    for name in arguments[1:3] if command == "diff" else ():  # the reports that it reads
        run("compile", *NETWORK, "--strategy", name.removesuffix(".json"), "--json", name, "--quiet")
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.output


@pytest.mark.quick
def test_strategies_in_the_help_are_those_of_the_pipeline():
    """They are written out, so that the help needs no import."""
    for table in (strategies.STRATEGIES, strategies.FUSION_PLANS):
        *names, last = (strategy.name for strategy in table)
        assert f" {', '.join(names)} or {last}." in STRATEGY_HELP
    *others, last = strategies.AUTO.tries
    assert f"auto (the fastest of {', '.join(others)} and {last})" in STRATEGY_HELP


def test_what_is_taken_where_nothing_is_asked_for_is_the_first():
    """The command takes the first of each choice, and the library has defaults of its own."""
    asked, mapped = options.Options(), MapOptions()
    for taken in (asked.spill, asked.binding, asked.grouping, mapped.objective, mapped.mode):
        assert taken is next(iter(type(taken)))
    assert asked.stop_after is list(Stage)[-1]


# What is printed and written


@pytest.fixture(scope="module")
def done():
    return api.compile("resnet18:small", "toy", batch=2, verify=True)


@pytest.fixture(scope="module")
def report(done):
    return done.report


@pytest.mark.quick
def test_compile_prints_the_report(report):
    """On stdout, and nothing on stderr."""
    result = run("compile", *NETWORK, "--batch", 2, "--verify")
    assert result.exit_code == 0
    assert result.stdout == report_text(report)
    assert result.stderr == ""


def test_compile_writes_report_schedule_and_trace(tmp_path, done):
    """With -o; with --json the JSON in a file of its own, in a folder that is made."""
    result = run(
        "compile",
        *NETWORK,
        "--batch",
        2,
        "--verify",
        "-o",
        tmp_path / "a/b",
        "--json",
        tmp_path / "c/d.json",
        "--quiet",
    )
    assert result.output == ""
    assert names_in(tmp_path) == [
        "a/b/report.json",
        "a/b/report.txt",
        "a/b/schedule.txt",
        "a/b/trace.json.gz",
        "c/d.json",
    ]
    assert (tmp_path / "a/b/report.txt").read_text() == report_text(done.report)
    assert (tmp_path / "a/b/report.json").read_text() == done.to_json() == (tmp_path / "c/d.json").read_text()
    assert (tmp_path / "a/b/schedule.txt").read_text().startswith("schedule graphturbo of resnet18:small")
    assert json.loads(gzip.decompress((tmp_path / "a/b/trace.json.gz").read_bytes()))["traceEvents"]


@pytest.mark.quick
def test_compile_dumps_every_stage(tmp_path):
    """Numbered in running order; up to the stage to stop after. What can be started from is there as JSON, too."""
    run("compile", *NETWORK, *ONE, "--dump", tmp_path / "all")
    numbered = [f"{number}-{stage}.txt" for number, stage in enumerate(Stage, 1)]
    values = ["3-partition.json", "4-schedule.json", "5-lower.json"]
    assert names_in(tmp_path / "all") == sorted([*numbered, *values, "7-report.txt"])
    result = run("compile", *NETWORK, *ONE, "--dump", tmp_path / "some", "--stop-after", "partition")
    assert names_in(tmp_path / "some") == sorted([*numbered[:3], values[0]])
    assert (tmp_path / "some/3-partition.txt").read_text() == result.stdout
    assert (tmp_path / "all/3-partition.txt").read_text() == result.stdout


def test_compare_prints_the_table_and_every_report(tmp_path):
    """With -o a folder for each strategy, and with --reports each report on stdout."""
    asked = ("tvm", "stay-in-gb")
    command = ("compare", *NETWORK, "--batch", 2, *(word for name in asked for word in ("--strategy", name)))
    assert run(*command, "-o", tmp_path).stdout == (tmp_path / "compare.txt").read_text()
    result = run(*command, "--reports")
    compared = [one for one in api.compare("resnet18:small", "toy", asked, batch=2) if isinstance(one, Compilation)]
    found = [done.report for done in compared if done.report is not None]
    assert [one.strategy for one in found] == list(asked)
    assert result.stdout.startswith(compare_text(found))
    assert all(report_text(one).rstrip() in result.stdout for one in found)
    assert (tmp_path / "compare.txt").read_text() == compare_text(found)
    assert json.loads((tmp_path / "compare.json").read_text())["format"] == "tilestitch.comparison"
    for one in found:
        assert (tmp_path / one.strategy / "report.txt").read_text() == report_text(one)
    assert len(names_in(tmp_path)) == 2 + 4 * len(found)


def test_compare_compares_what_fits(tmp_path, monkeypatch):
    """A strategy that does not fit has a column and no folder; where none fits, that is the error."""

    def compiled(*arguments, **options):
        if arguments[3].name in too_large:
            raise DoesNotFit("kernel conv1: too large. Try: another machine.")
        return compile_network(*arguments, **options)

    compile_network = api.compile_network
    monkeypatch.setattr(api, "compile_network", compiled)
    too_large = {"layerwise"}
    result = run("compare", *NETWORK, "-o", tmp_path)
    assert result.exit_code == 0
    assert "strategy layerwise does not fit: kernel conv1: too large." in result.stdout
    fitting = {strategy.name for strategy in strategies.STRATEGIES} - too_large
    assert {name.split("/")[0] for name in names_in(tmp_path)} == {"compare.txt", "compare.json", *fitting}
    too_large |= fitting
    result = run("compare", *NETWORK, "-o", tmp_path / "none")
    assert result.exit_code == 2
    names = ", ".join(strategy.name for strategy in strategies.STRATEGIES)
    reason = "kernel conv1: too large. Try: another machine."
    assert result.stderr.splitlines() == [f"error: strategies {names} do not fit: {reason}"]
    assert not (tmp_path / "none").exists()


def test_compare_takes_the_strategies_that_are_named_in_their_order():
    """Each once; the first is what the others are compared with."""
    result = run(
        "compare", *NETWORK, "--strategy", "tvm", "--strategy", "layerwise", "--strategy", "tvm", "--json", "-"
    )
    assert [entry["strategy"] for entry in json.loads(result.stdout)["strategies"]] == ["tvm", "layerwise"]
    assert json.loads(result.stdout)["strategies"][0]["speed_up"] == 1


def test_json_on_stdout_takes_the_place_of_the_text():
    """Even with --quiet: it was asked for."""
    texts = [run("compile", *NETWORK, *ONE, "--json", "-", *more).stdout for more in ((), ("--quiet",))]
    assert json.loads(texts[0])["format"] == "tilestitch.report"
    assert texts[0] == texts[1]


def test_machines_and_models_are_listed():
    """As text and as JSON."""
    assert "toy " in run("machines").stdout
    machines = json.loads(run("machines", "--json", "-").stdout)["machines"]
    toy = next(machine for machine in machines if machine["name"] == "toy")
    assert {"clusters": 2, "cores_per_cluster": 2, "clock_hz": 10**9}.items() <= toy.items()
    assert "resnet50 " in run("models").stdout
    assert json.loads(run("models", "--json", "-").stdout)["models"][0]["name"] == "resnet18"
    assert run("models", "--quiet").output == ""


def test_models_writes_the_same_file_each_time(tmp_path):
    """One to a file, several to a folder; what is written compiles to the same report."""
    assert run("models", "resnet18:small", "-o", tmp_path / "net.onnx").stdout == f"{tmp_path / 'net.onnx'}\n"
    run("models", "resnet18:small", "bert-base-8:small", "--write", tmp_path / "zoo", "--quiet")
    assert names_in(tmp_path) == ["net.onnx", "zoo/bert-base-8-small.onnx", "zoo/resnet18-small.onnx"]
    assert (tmp_path / "net.onnx").read_bytes() == (tmp_path / "zoo/resnet18-small.onnx").read_bytes()
    onnx.checker.check_model(tmp_path / "net.onnx")
    from_zoo, from_file = (
        run("compile", model, "--machine", "toy", *ONE).stdout for model in (NETWORK[0], tmp_path / "net.onnx")
    )
    assert from_file.splitlines()[2:] == from_zoo.splitlines()[2:]  # but for the title


def test_models_without_names_writes_all(tmp_path, monkeypatch):
    """Where the length is free, for 128 tokens."""
    small = api.zoo_model
    monkeypatch.setattr(api, "zoo_model", lambda name: small("resnet18:small"))
    run("models", "--write", tmp_path)
    assert names_in(tmp_path) == sorted(f"{entry.name_for('128')}.onnx" for entry in zoo.ENTRIES)


def test_show_prints_values():
    """Each value as the library prints it, one after another."""
    both = run("show", "machine", "toy", "stcp920").stdout
    assert both.startswith("toy\n")
    assert "\nstcp920\n" in both
    loaded = run("show", "graph", NETWORK[0]).stdout
    assert loaded == f"{api.load_graph(NETWORK[0])}\n"
    simplified, plain = (
        run("show", "graph", NETWORK[0], "--simplified", *more).stdout for more in ((), ("--no-fold-bn",))
    )
    assert "batch_norm" not in simplified
    assert len(simplified.splitlines()) < len(plain.splitlines())
    assert run("show", "schedule", *NETWORK, "--strategy", "layerwise").stdout.startswith("schedule layerwise of ")
    program = run("show", "program", *NETWORK, "--limit", 5).stdout.splitlines()
    assert len(program) == 7
    assert program[-1].endswith(" more")


@pytest.mark.parametrize("policies", first(1, [tuple(Spill)[:2], tuple(Spill)]), ids=["two", "all"])
def test_the_policy_of_spilling_reaches_the_schedule(policies):
    """In this network every policy sends other results to GB."""
    asked = (
        "show",
        "schedule",
        "unet:small",
        "--machine",
        "toy",
        "--batch",
        16,
        "--strategy",
        "stay-in-lb",
        "--limit",
        99,
    )
    assert len({run(*asked, "--spill", spill).stdout for spill in policies}) == len(policies)


def test_the_binding_reaches_the_schedule():
    asked = ("show", "schedule", "mobilenet-v2:small", "--batch", 4, "--strategy", "stay-in-lb", "--limit", 99)
    found = {binding: run(*asked, "--binding", binding).stdout for binding in BindingRule}
    assert found[BindingRule.NEAREST] == run(*asked).stdout
    assert found[BindingRule.NEAREST] != found[BindingRule.PAPER]


def test_the_grouping_reaches_the_schedule():
    asked = ("show", "schedule", "mobilenet-v2:small", "--machine", "toy", "--batch", 32, "--batch-per-cluster", 16)
    asked = (*asked, "--strategy", "graphturbo-ordering")
    assert run(*asked).stdout != run(*asked, "--grouping", GroupingRule.EXACT).stdout


@pytest.mark.parametrize("what", ["machine", "graph", "schedule", "program"])
def test_show_writes_json(tmp_path, what):
    """One value to a file."""
    name, asked = ("toy", ()) if what == "machine" else (NETWORK[0], () if what == "graph" else ONE)
    assert run("show", what, name, *asked, "--json", tmp_path / "x.json", "--quiet").output == ""
    assert json.loads((tmp_path / "x.json").read_text())["format"] == f"tilestitch.{what}"


def test_a_graph_takes_its_dims_by_name(tmp_path):
    """--dim, as often as there are dims."""
    x, y = (onnx.helper.make_tensor_value_info(name, 1, ["N", "length"]) for name in "xy")
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", [x], [y]), opset_imports=[onnx.helper.make_opsetid("", 17)]
    )
    onnx.save_model(model, tmp_path / "dims.onnx")
    assert "[3x5]" in run("show", "graph", tmp_path / "dims.onnx", "--batch", 3, "--dim", "length=5").stdout
    assert "--dim length=SIZE" in run("show", "graph", tmp_path / "dims.onnx").stderr


ALIKE = ("--strategy", "graphturbo", "--strategy", "dlfusion")


@pytest.mark.parametrize("asked", [ALIKE, pytest.param((), marks=pytest.mark.slow)], ids=["two", "all"])
def test_two_runs_write_the_same_bytes(tmp_path, asked):
    """Whatever the order of sets and dicts of strings is in one of them."""
    for seed in ("0", "7"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        with start(
            *("compare", "llama-block-decode-4:small", "--machine", "toy", "--batch", 3, "--batches", 2, *asked),
            *("--verify", "-o", tmp_path / seed),
            stdout=(tmp_path / f"{seed}.txt").open("wb"),
            env=environment,
        ) as process:
            process.communicate(timeout=300)
        assert process.returncode == 0
    assert (tmp_path / "0.txt").read_bytes() == (tmp_path / "7.txt").read_bytes()
    assert names_in(tmp_path / "0") == names_in(tmp_path / "7")
    for name in names_in(tmp_path / "0"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "7" / name).read_bytes(), name


# Errors


MISTAKES = (
    "why resnet18:small --machine toy --strategy tvm --batches 2",
    "why resnet18:small --machine toy --strategy tvm --select conv1",
    "why resnet18:small --machine toy --strategy tvm --select operator=conv11",
    "why resnet18:small --machine toy --strategy tvm --select piece=a1",
    "why resnet18:small --machine toy --strategy tvm --select cycles=5:99999999",
    "compile resnet19",
    "compile bert-base-9999",
    "compile missing/resnet18.onnx",
    "compile folder",
    "compile empty.onnx",
    "compile text.onnx",
    "compile resnet18:small --machine tay",
    "compile resnet18:small --strategy tvn",
    "compile resnet18:small --machine toy --batch 8 --batch-per-cluster 3",
    "compile resnet18:small --machine toy --batch-per-cluster all",
    "compile resnet18:small --dim length",
    "compile resnet18:small --dim length=4 --dim length=5",
    "compile resnet18:small --dim length=4",
    "compile resnet18:small --stop-after lower --verify",
    "compile resnet18:small --stop-after load -o out",
    "compile resnet18:small -o text.onnx",
    "compile resnet18:small -o text.onnx/out",
    "compile resnet18:small --json folder",
    "compile resnet18 --machine toy --batch 512",
    "compare resnet18:small --strategy tvm --strategy tvn",
    "models resnet18",
    "models resnet19 --write out",
    "models -o net.onnx",
    "models --write out --json models.json",
    "show machine toy stcp920 --json machines.json",
    "show graph resnet18:small folder",
)


@pytest.mark.parametrize(
    "arguments",
    [
        "compile",
        "frobnicate",
        "compile resnet18 --frobnicate",
        "compile resnet18 --batch 0",
        "compile resnet18 --stop-after frob",
        "compile resnet18 --binding frob",
        "compile resnet18 --grouping frob",
        "show frob x",
        "show machine",
    ],
)
def test_what_is_no_command_is_one_line(arguments):
    """In click's words, with the way to the help."""
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.endswith(" --help)\n")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.quick
def test_messages(tmp_path, monkeypatch, golden):
    """Each mistake is an error with exit code 2: where, what was found, what would be right. Nothing is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "text.onnx").write_text("this is no model")
    lines = []
    for mistake in MISTAKES:
        result = run(*mistake.split())
        assert result.exit_code == 2, mistake
        assert result.stdout == "", mistake
        lines.append(f"$ tilestitch {mistake}\n{result.stderr}".replace(str(tmp_path), "..."))
    assert names_in(tmp_path) == ["empty.onnx", "text.onnx"]
    golden("cli-messages.txt", "\n".join(lines))


def test_the_command_alone_prints_its_help():
    """As an error: nothing was asked for."""
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


def test_wrong_outputs_exit_with_1_and_the_report_is_printed(tmp_path, monkeypatch):
    """And written; --quiet leaves the line on stderr."""
    rows = (CheckRow("float32", 0.5, 1e-5, "logits"), CheckRow("float16", 1e-3, 4e-3, "logits"))
    monkeypatch.setattr("tilestitch.sim.chip.check.checked", lambda *arguments, **options: Checked(rows, (), ()))
    result = run("compile", *NETWORK, "--verify", "-o", tmp_path)
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert (tmp_path / "report.txt").read_text() == result.stdout
    expected = (
        "error: resnet18:small by strategy graphturbo: verification FAILED: "
        "float32 error 5.00e-01 of output 'logits' is above 1.00e-05\n"
    )
    assert result.stderr == expected
    result = run("compare", *NETWORK, "--strategy", "tvm", "--strategy", "layerwise", "--verify", "--quiet")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    "error, code, message",
    [
        (InvalidIR("graph g: x"), 1, "error: graph g: x\nthis is a bug of Tilestitch; please report it"),
        (ZeroDivisionError("by zero"), 1, "error: ZeroDivisionError: by zero (tests/cli/test_cli.py:"),
        (ZeroDivisionError("by zero"), 1, ", called by tilestitch/pipeline/"),
        (ZeroDivisionError("by zero"), 1, ")\nthis is a bug of Tilestitch; please report it"),
        (MemoryError(), 2, "error: out of memory"),
        (MemoryError("Unable to allocate 9.54e+02 PiB for an array"), 2, "error: out of memory: "),
        (MemoryError("Unable to allocate 16.0 EiB for an array"), 2, "memory: 16.00 EiB were asked for, and "),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 2, "try a smaller network, or a computer with more"),
        (RuntimeError("can't start new thread"), 2, "error: out of memory"),
        (RuntimeError("no memory of that"), 1, "error: RuntimeError: no memory of that"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
        (BrokenPipeError(), 141, ""),
        (OSError(errno.EIO, "Input/output error", "weights.bin"), 2, "error: weights.bin: Input/output error"),
    ],
)
def test_whatever_happens_ends_in_one_line_and_a_code(monkeypatch, error, code, message):
    """No traceback, unless --debug asks for it."""

    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(stages, "lower", fail)
    result = run("compile", *NETWORK, *ONE)
    assert result.exit_code == code
    assert result.stdout == ""
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in run("compile", *NETWORK, *ONE, "--debug").stderr


def test_a_command_that_is_out_of_memory_says_what_would_take_less(monkeypatch):
    """As far as the command was given it."""

    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(stages, "lower", fail)
    result = run("compile", *NETWORK, "--batch", "4", "--verify")
    assert result.exit_code == 2
    assert re.fullmatch(
        r"error: out of memory(: [\d.]+ \wiB are available.*)?; try a smaller --batch, no --verify, or a computer with "
        r"more\n",
        result.stderr,
    )


@pytest.mark.slow
def test_a_limit_of_address_space_is_named(tmp_path):
    """A real one: the inputs of 64 Mi elements alone do not fit."""
    resource = pytest.importorskip("resource")
    net = Net()
    onnx.save(net.model(net.op("Relu", net.input(1, 64 * 2**20))), tmp_path / "large.onnx")
    limit = 1400 * 2**20
    command = [sys.executable, "-m", "tilestitch", "compile", str(tmp_path / "large.onnx"), "--verify", "--quiet"]
    found = subprocess.run(
        [*command, "--machine", "stcp920", "--strategy", "tvm"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        check=False,
    )
    assert found.returncode == 2
    assert re.fullmatch(
        r"error: out of memory: .*this process may take 1.37 GiB: ulimit -v\); try no --verify, or a computer with "
        r"more\n",
        found.stderr,
    )


# Files


def test_a_full_disk_leaves_no_part_of_a_file(tmp_path, monkeypatch):
    """Neither the first file nor the second is written, what was there before stays, and the message names the file."""
    (tmp_path / "report.txt").write_text("before")
    synced = []

    def full(number):
        synced.append(number)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    result = run("compile", *NETWORK, "-o", tmp_path)
    assert result.exit_code == 2
    assert f"error: {tmp_path / 'report.json'}: cannot be written (No space left on device);" in result.stderr
    assert names_in(tmp_path) == ["report.txt"]
    assert (tmp_path / "report.txt").read_text() == "before"


@pytest.mark.skipif(AS_ROOT, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    """The compiler is not even called."""
    tmp_path.chmod(0o500)
    monkeypatch.setattr(api, "compile", None)
    result = run("compile", *NETWORK, "-o", tmp_path / "out")
    tmp_path.chmod(0o700)
    assert result.exit_code == 2
    assert "no permission to write" in result.stderr


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch):
    """As above, where the test runs as root."""
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    result = run("compile", *NETWORK, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert f"no permission to write in {tmp_path}" in result.stderr
    assert names_in(tmp_path) == []


def test_an_interruption_right_behind_a_new_folder_leaves_none(tmp_path, monkeypatch):
    """Before anything else could be noted of it."""
    make = Path.mkdir

    def interrupted(folder, *arguments, **options):
        make(folder, *arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_files([(tmp_path / "new" / "file", b"content")])
    assert not (tmp_path / "new").exists()


def test_links_are_written_through_and_devices_not_replaced(tmp_path):
    """A rename would put a file in their place."""
    (tmp_path / "link.json").symlink_to(tmp_path / "target.json")
    (tmp_path / "target.json").write_text("before")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write_files([(tmp_path / "link.json", b"after"), (tmp_path / "pipe", b"piped")])
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "target.json").read_bytes() == b"after"
    assert (tmp_path / "pipe").is_fifo()
    assert os.read(reader, 10) == b"piped"
    os.close(reader)


# Ends from outside


STAGE_SIGNAL = """
import os, signal
import tilestitch.pipeline.networks, tilestitch.pipeline.stages, tilestitch.sim.chip.check
from tilestitch.base import files

def interrupting(function, number=signal.{signal}):
    def wrapped(*arguments, **options):
        os.kill(os.getpid(), number)
        return function(*arguments, **options)
    return wrapped

{place} = interrupting({place})
"""


PLACES = (
    "tilestitch.pipeline.networks.read_onnx",
    "tilestitch.pipeline.stages.plan",
    "tilestitch.pipeline.stages.lower",
    "tilestitch.pipeline.stages.simulate",
    "tilestitch.sim.chip.check.checked",
    "files.os.fsync",
)
CODES = {"SIGINT": 130, "SIGTERM": 143}
INTERRUPTED = ((PLACES[0], "SIGTERM"), (PLACES[-1], "SIGINT"))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        pytest.param(place, name, marks=[] if (place, name) in INTERRUPTED else [pytest.mark.slow])
        for place, name in product(PLACES, CODES)
    ],
)
def test_an_interrupted_run_leaves_no_partial_file(tmp_path, place, name):
    """At whatever stage Ctrl-C comes, or the order to end: the exit code says so, one line says so."""
    process = start(
        *("compile", *NETWORK, *ONE, "--verify", "-o", tmp_path / "out"),
        before=STAGE_SIGNAL.format(signal=name, place=place),
    )
    text, complaint = process.communicate(timeout=300)
    assert process.returncode == CODES[name]
    assert text == b""
    assert complaint.strip() in (b"error: interrupted", b"error: terminated")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("name", first(1, tuple(CODES)))
def test_an_interruption_waits_until_every_finished_file_is_in_its_place(tmp_path, name):
    """Some of the files that belong together would be worse than all of them."""
    before = STAGE_SIGNAL.format(signal=name, place="files.os.replace")
    process = start("compile", *NETWORK, *ONE, "--verify", "-o", tmp_path / "out", before=before)
    process.communicate(timeout=300)
    assert process.returncode == CODES[name]
    assert names_in(tmp_path) == [
        f"out/{file}" for file in ("report.json", "report.txt", "schedule.txt", "trace.json.gz")
    ]


LOST = """
import sys, time
from tilestitch.cli import main, start

class Callback:
    def __del__(self):
        raise KeyboardInterrupt

def command(**arguments):
    callback = Callback()
    del callback
    time.sleep(60)

main.main = command
start.main()
"""


def test_an_interrupt_where_nothing_can_be_raised_comes_again():
    """As in a callback of the compiler, where Python only prints it."""
    found = subprocess.run([sys.executable, "-c", LOST], capture_output=True, timeout=50, check=False)
    assert (found.returncode, found.stderr) == (130, b"error: interrupted\n")


SAY_GO = """
from tilestitch.cli.application import Application

def going(self, ctx, invoke=Application.invoke):
    print("go", flush=True)
    return invoke(self, ctx)

Application.invoke = going
"""


@pytest.mark.parametrize("seconds", first(2, [0.0, 0.3, 0.1, 0.6, 1.0]))
def test_an_interrupt_at_any_time_is_an_exit_with_130(tmp_path, seconds):
    """While modules are imported, too. A run that was faster has written everything."""
    process = start("compile", *NETWORK, "--verify", "-o", tmp_path / "out", before=SAY_GO)
    assert process.stdout is not None
    assert process.stdout.readline() == b"go\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=300)
    assert b"Traceback" not in complaint
    if process.returncode == 130:
        assert names_in(tmp_path) == []
    else:
        assert process.returncode in (0, -signal.SIGINT)  # done; the interpreter may be on its way out
        assert len(names_in(tmp_path)) == 4


def test_a_reader_that_stops_is_no_error():
    """As in `tilestitch show program ... | head`."""
    process = start("show", "program", *NETWORK, *ONE, "--limit", 10**6)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(timeout=300) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_stdout_is_one_error():
    """Not two, the second from the interpreter's own end."""
    with Path("/dev/full").open("wb") as full:
        process = start("machines", stdout=full)
        _, complaint = process.communicate(timeout=300)
    assert process.returncode == 2
    assert complaint == b"error: standard output: No space left on device\n"


def test_a_closed_stdout_is_no_error():
    """As in `tilestitch machines >&-`."""
    process = start("machines", before="import sys\nsys.stdout = None")
    _, complaint = process.communicate(timeout=300)
    assert process.returncode == 0
    assert complaint == b""


def _drain(terminal: int, pieces: list[bytes]) -> None:
    """Collect what is written to the other end of a pseudo-terminal, until that end is closed."""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            return
        if not piece:
            return
        pieces.append(piece)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("quiet", first(1, (False, True)))
def test_progress_is_for_terminals(quiet):
    """A bar on stderr where that is a terminal, gone in the end; nothing with --quiet."""
    ours, theirs = os.openpty()
    process = start("compile", *NETWORK, *ONE, *(["--quiet"] if quiet else []), stderr=theirs)
    os.close(theirs)
    pieces: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(ours, pieces))  # a terminal that nobody reads blocks its writer
    reader.start()
    text, _ = process.communicate(timeout=300)
    reader.join(timeout=60)
    os.close(ours)
    drawn = b"".join(pieces)
    assert process.returncode == 0
    assert (drawn == b"") == quiet
    assert (text == b"") == quiet
    assert b"\x1b" not in text


@pytest.mark.quick
@pytest.mark.parametrize("machine", first(1, ["toy", "eyeriss"]))
def test_without_a_strategy_the_fastest_is_taken_and_named(machine):
    """It is what that strategy gives alone, but for the note."""
    found = [
        one for one in api.compare("resnet18:small", machine, strategies.AUTO.tries) if isinstance(one, Compilation)
    ]
    least = min(done.report.latency_cycles for done in found if done.report is not None)
    done = api.compile("resnet18:small", machine)
    assert done.report is not None
    assert done.report.latency_cycles == least
    assert done.report.strategy in strategies.AUTO.tries
    alone = api.compile("resnet18:small", machine, strategy=done.report.strategy).report
    assert alone is not None
    assert done.report.kernels == alone.kernels
    assert set(done.report.notes) - set(alone.notes) == {
        f"Strategy {done.report.strategy} is the fastest of graphturbo, astitch and stay-in-lb."
    }


@pytest.mark.quick
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("compile mobile", ["mobilenet-v2", "mobilenet-v2:small"]),
        ("compile --machine st", ["stcp920", "stcp920-paper"]),
        ("compare resnet18 --strategy graph", ["graphturbo-ordering", "graphturbo"]),
        ("show machine ey", ["eyeriss", "eyeriss-like"]),
        ("compile --machine ey", ["eyeriss"]),  # and no tree without a clock, which compile does not take
        ("compile --machine n", ["nvdla"]),  # a tree
        ("map resnet18 --machine ey", ["eyeriss", "eyeriss-like"]),
        ("map resnet18 --machine dma", ["dmazerunner-256"]),
    ],
)
def test_a_shell_completes_names(words, expected, monkeypatch):
    monkeypatch.setenv("_TILESTITCH_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"tilestitch {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    lines = CliRunner().invoke(cli.main, [], prog_name="tilestitch").output.split()
    assert [line.removeprefix("plain,") for line in lines if line.startswith("plain,")] == expected


@pytest.mark.quick
@pytest.mark.parametrize(
    ("error", "number"), [(KeyboardInterrupt(), signal.SIGINT), (TerminatedError(), signal.SIGTERM)]
)
def test_a_signal_that_came_where_nothing_can_be_raised_comes_again(error, number, monkeypatch, capfd):
    """In a callback, of which Python prints the traceback and forgets it."""
    again = []
    monkeypatch.setattr(beginning, "come_again", again.append)
    beginning._again(SimpleNamespace(exc_value=error))
    assert again == [number]
    assert capfd.readouterr().err == ""
