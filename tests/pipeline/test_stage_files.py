"""A run that starts at the value of any stage, printed and read back, ends as the whole run does."""

import json
from functools import cache

import onnx
import pytest

from tests.helpers.by_hand import BY_HAND, scheduled
from tests.helpers.command import run
from tests.helpers.graphs import Net, conv, cramped
from tests.helpers.pairs import first
from tests.helpers.random_networks import random_machine, random_model
from tilestitch import api
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.hardware.load import load_machine
from tilestitch.ir.by_hand import FusionPlan, NamedBlock
from tilestitch.ir.choices import Stage
from tilestitch.pipeline import batches
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.compile import resume_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import FIELDS, stage_text, started
from tilestitch.pipeline.strategies import STRATEGIES
from tilestitch.report.report_json import report_json
from tilestitch.report.report_text import report_text

NAMES = (*(strategy.name for strategy in STRATEGIES), "dlfusion")


def resumed(done: Compilation, model: onnx.ModelProto, stage: Stage) -> Compilation:
    """What a run comes to that starts with the value of a stage of another one."""
    text = stage_text(done, stage)
    found = resume_network(model, started(text, "value.json"), done.machine, Options(verify=done.options.verify))
    assert stage_text(found, stage) == text
    return found


def assert_ends_alike(done: Compilation, model: onnx.ModelProto, stages=tuple(FIELDS)) -> None:
    assert done.report is not None
    for stage in stages:
        found = resumed(done, model, stage)
        assert found.report is not None
        assert report_json(found.report) == report_json(done.report), stage
        assert report_text(found.report) == report_text(done.report), stage
        assert str(found.schedule) == str(done.schedule), stage


def random_runs_end_alike(seed: int) -> int:
    """How many strategies could run a random network on a random machine; all of them from every stage."""
    model, machine, count = random_model(seed), random_machine(seed), 0
    for strategy in NAMES:
        try:
            done = api.compile(model, machine, strategy=strategy, batch=1 + seed % 4)
        except (DoesNotFit, InputError):
            continue
        assert_ends_alike(done, model)
        count += 1
    return count


@pytest.mark.parametrize("seed", first(1, range(2)))
def test_a_run_from_any_stage_ends_as_the_whole_run_does(seed):
    assert random_runs_end_alike(seed) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 102))
def test_many_runs_from_any_stage_end_as_the_whole_run_does(seed):
    random_runs_end_alike(seed)


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("dlrm:small", "stay-in-gb"),
        pytest.param("bert-base-128:small", "graphturbo", marks=pytest.mark.slow),
        pytest.param("resnet18:small", "graphturbo-ordering", marks=pytest.mark.slow),
    ],
)
def test_networks_of_the_zoo_end_alike_too(name, strategy):
    """The second leaves its sub-graphs whole, and its instructions are reordered."""
    done = api.compile(name, "toy", strategy=strategy, batch=4)
    assert_ends_alike(done, api.open_model(name)[0])


def test_the_fastest_of_several_in_another_order_ends_alike():
    """What says which strategy it is comes before what says that instructions were reordered."""
    done = api.compile("bert-base-7:small", "toy", strategy="auto", batch=4)
    assert done.schedule is not None
    assert [note.split()[0] for note in done.schedule.notes] == ["Strategy", "Instructions"]
    assert_ends_alike(done, api.open_model("bert-base-7:small")[0], (Stage.SCHEDULE, Stage.LOWER))


def test_a_program_with_sums_in_a_buffer_ends_alike():
    """They are tensors of the program which the network does not have."""
    net = Net()
    model = net.model(conv(net, net.input(1, 32, 8, 8), 32, 32, 3))
    done = api.compile(model, cramped(api.load_machine("eyeriss"), local_bytes=6144), strategy="tvm", verify=True)
    assert done.program is not None
    assert any(name.startswith("sums of") for name in done.program.tensors)
    assert_ends_alike(done, model)


@pytest.mark.slow
def test_a_schedule_that_falls_back_says_so_from_every_stage(monkeypatch):
    simulated = batches.latency
    monkeypatch.setattr(
        batches,
        "latency",
        lambda done: simulated(done) * (9 if done.way.strategy == "graphturbo" and done.schedule.homes else 1),
    )
    done = api.compile("resnet18:small", "toy", strategy="graphturbo", batch=4)
    assert done.way.strategy == "tvm"
    assert_ends_alike(done, api.open_model("resnet18:small")[0])


def two_blocks() -> FusionPlan:
    """A plan of somebody's own: the first layer on one core, all others on two."""
    cost = api.compile("resnet18:small", "toy", strategy="baseline", batch=4).partition
    names = [block.operators[0] for block in cost.blocks]  # pyright: ignore[reportAttributeAccessIssue]
    return FusionPlan("mine", (NamedBlock((names[0],), 1), NamedBlock(tuple(names[1:]), 2)))


def test_what_somebody_wrote_starts_from_the_partition_on():
    """Before that stage only its name is known, which is none of a strategy."""
    model, _ = api.open_model("resnet18:small")
    done = api.compile("resnet18:small", "toy", strategy=two_blocks(), batch=4)
    assert_ends_alike(done, model, (Stage.PARTITION, Stage.SCHEDULE, Stage.LOWER))
    with pytest.raises(InputError, match="strategy 'mine' is not known"):
        resumed(done, model, Stage.SIMPLIFY)


@pytest.mark.slow
def test_a_schedule_by_hand_ends_alike():
    done = scheduled(BY_HAND, stop_after="simulate")
    assert_ends_alike(done, api.open_model("resnet18:small")[0], (Stage.PARTITION, Stage.SCHEDULE, Stage.LOWER))


def test_the_partition_says_what_was_decided():
    texts = {
        name: str(
            api.compile("resnet18:small", "toy", strategy=name, batch=8, options=Options(stop_after=Stage.PARTITION))
        )
        for name in ("tvm", "graphturbo", "dlfusion")
    }
    assert texts["tvm"].splitlines()[:2] == ["23 groups", "  g0: conv1 + relu"]
    assert texts["graphturbo"].startswith(
        "1 sub-graph in 1 piece\n  g0: uncut, 40.00 KiB of results at once if uncut: 48 operators, conv1"
    )
    assert texts["dlfusion"].startswith("1 fused block\n  b0: 2 cores: 48 operators, conv1 to ")


@pytest.mark.parametrize("stage", first(1, ["schedule", "load", "partition", "lower"]))
def test_the_command_line_goes_on_from_a_file(tmp_path, stage):
    """The value of a stage with --json, the run from there with --from: the same report to the byte."""
    whole = run("compile", "resnet18:small", "--machine", "toy", "--batch", "4", "--strategy", "graphturbo", "--verify")
    file = tmp_path / f"{stage}.json"
    asked = ("--machine", "toy", "--batch", "4", "--strategy", "graphturbo", "--stop-after", stage)
    assert run("compile", "resnet18:small", *asked, "--json", file, "--quiet").exit_code == 0
    assert stage != "schedule" or json.loads(file.read_text())["kernels"]
    again = run("compile", "resnet18:small", "--from", file, "--verify")
    assert again.exit_code == 0, again.stderr
    assert again.stdout == whole.stdout


def test_a_dump_can_be_started_from(tmp_path):
    asked = ("--machine", "toy", "--batch", "4", "--dump", tmp_path)
    whole = run("compile", "resnet18:small", *asked)
    for name in ("3-partition.json", "4-schedule.json", "5-lower.json"):
        again = run("compile", "resnet18:small", "--from", tmp_path / name)
        assert again.stdout == whole.stdout


def schedule_file() -> dict:
    """A schedule of a small network, as the tree that its file says."""
    return json.loads(schedule_text())


@cache
def schedule_text() -> str:
    return stage_text(api.compile("resnet18:small", "toy", strategy="stay-in-lb", batch=4), Stage.SCHEDULE)


def kernel(tree: dict, **fields: object) -> None:
    tree["kernels"][1].update(fields)


def tiling(tree: dict, **fields: object) -> None:
    tree["kernels"][0]["tiling"].update(fields)


def home(tree: dict, **fields: object) -> None:
    tree["homes"][0].update(fields)


ONES = [1] * 7
ORDER = list(range(7))
MAPPING = {"dram": ONES, "spm": ONES, "rf": ONES, "spatial": ONES, "dram_order": ORDER, "spm_order": ORDER}
TAMPERED = {
    "a core that is not there": lambda tree: kernel(tree, cores=[0, 7]),
    "a core twice": lambda tree: kernel(tree, cores=[1, 1]),
    "no core": lambda tree: kernel(tree, cores=[]),
    "an operator that is not there": lambda tree: kernel(tree, operators=["frob"]),
    "no operators": lambda tree: kernel(tree, operators=[]),
    "an operator left out": lambda tree: tree["kernels"].pop(),
    "tiles of nothing": lambda tree: tiling(tree, tile=[0, 8, 4, 16]),
    "too few tiles": lambda tree: tiling(tree, tile=[1, 8]),
    "an order that is none": lambda tree: tiling(tree, order=[0, 0, 1, 2]),
    "more splits than cores": lambda tree: tiling(tree, splits=[4, 8, 1, 1]),
    "steps that are not the operators'": lambda tree: tiling(tree, steps=[3, 1, 1, 1]),
    "a reduction that is not cut": lambda tree: tiling(tree, reduction=[1, 1, 1, 1, 3, 7, 7]),
    "an anchor of another kernel": lambda tree: kernel(tree, anchor="conv1"),
    "a mapping without an array": lambda tree: kernel(tree, mapping=MAPPING),
    "a home beyond its memory": lambda tree: home(tree, address=2**30),
    "a home until after the end": lambda tree: home(tree, last=10**6),
    "a home of no tensor": lambda tree: home(tree, tensor="frob"),
    "a home that is made elsewhere": lambda tree: home(tree, first=tree["homes"][0]["last"]),
    "a home in no memory": lambda tree: home(tree, level="weights"),
    "a batch that does not divide": lambda tree: tree["run"].update(batch=3),
    "more clusters than there are": lambda tree: tree["run"].update(clusters=7),
    "another network": lambda tree: tree.update(graph_sha256="0" * 64),
    "another machine": lambda tree: tree.update(machine="stcp920"),
    "an unknown field": lambda tree: kernel(tree, frob=1),
    "a missing field": lambda tree: tree["kernels"][0].pop("cores"),
    "text for a number": lambda tree: tiling(tree, tile=["1", 8, 4, 16]),
    "an unknown stage": lambda tree: tree.update(stage="tea"),
    "another version": lambda tree: tree.update(version=2),
    "no partition": lambda tree: tree.pop("partition"),
    "an unknown kind of partition": lambda tree: tree["partition"].update(kind="tea"),
    "a kernel of two ends": lambda tree: tree["partition"]["kernels"].insert(0, ["conv1", "layer1.0.conv1"]),
}


def test_what_no_schedule_can_be_is_refused(golden):
    """Each with one line that says where and what; nothing is made of it."""
    lines = []
    for name, change in TAMPERED.items():
        tree = schedule_file()
        change(tree)
        text = json.dumps(tree)
        with pytest.raises(InputError) as error:
            resume_network(
                api.open_model("resnet18:small")[0], started(text, "schedule.json"), load_machine("toy"), Options()
            )
        lines.append(f"{name}\n  {str(error.value).splitlines()[0]}\n")
    golden("stage_files.txt", "".join(lines))


def test_what_no_network_or_program_can_be_is_refused():
    """An operator of a kind that nobody knows, and a program for memories that the machine does not have."""
    done = api.compile("resnet18:small", "toy", batch=4)
    model = api.open_model("resnet18:small")[0]
    graph, program = (json.loads(stage_text(done, stage)) for stage in (Stage.SIMPLIFY, Stage.LOWER))
    graph["graph"]["operators"][1]["kind"] = "frob"
    program["program"]["spaces"][0]["size_bytes"] += 1
    for tree, said in ((graph, "unknown kind"), (program, "program.spaces: are not those of toy")):
        with pytest.raises(InputError, match=said):
            resume_network(model, started(json.dumps(tree), "value.json"), load_machine("toy"), Options())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--strategy", "tvm"], "says with which options it was made; leave out --strategy"),
        (["--batch", "4"], "leave out --batch"),
        (["--dim", "N=3"], "leave out --dim"),
        (["--machine", "stcp920"], "is for the machine toy, found stcp920; give --machine toy"),
        (["--stop-after", "simplify"], "is the value of schedule, which comes after simplify"),
    ],
)
def test_what_contradicts_the_file_is_refused(tmp_path, options, said):
    file = tmp_path / "schedule.json"
    file.write_text(schedule_text(), encoding="utf-8")
    result = run("compile", "resnet18:small", "--from", file, *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
