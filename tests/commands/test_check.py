"""What `check` says of a network: every problem at once, or what it is made of."""

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.helpers.command import run
from tests.helpers.graphs import Net
from tests.hostile.inputs import GROUPS
from tilestitch import api
from tilestitch.commands.check.check_text import check_json, check_text
from tilestitch.commands.check.examine import examine
from tilestitch.hardware.load import load_machine

BROKEN = ("files", "external", "weights", "structure", "shapes", "attributes", "functions")


def flawed(*shape: int | str) -> onnx.ModelProto:
    """An unknown domain, an unknown operator, a shape that is computed, and what depends on the first of them."""
    net = Net()
    x = net.input(*shape, name="x")
    foreign = net.op("Whirl", x, domain="com.example")
    net.op("Relu", foreign, name="behind")
    net.op("Plus", x, x, name="plus")
    net.op("NonZero", x, name="places")
    net.op("Relu", x, name="right")
    model = net.model("behind", "plus", "places", "right")
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    return model


def sound() -> onnx.ModelProto:
    """A product, a view and a generic operator."""
    net = Net()
    x = net.op("MatMul", net.input(3, 9, 4, name="x"), net.random(4, 8))
    x = net.op("Transpose", x, perm=[0, 2, 1])
    net.op("Det", net.op("Slice", net.op("Relu", x), [0], [8], [2], name="square"), name="det")
    return net.model("det")


@pytest.mark.parametrize("batch", [None, 4])
def test_a_network_that_only_its_exported_batch_can_run_is_fine(batch: int | None) -> None:
    """As `compile` runs it in iterations of that batch; which operator forbids others is said."""
    net = Net()
    model = net.model(net.op("ReduceMean", net.input(2, 3), [0], name="mean"))
    found = examine(model, "net", load_machine("toy"), batch=batch)
    assert (found.problems, found.content is None, found.target is None) == ((), False, False)
    assert check_text(found).splitlines()[:2] == [
        "net: fine",
        "  batch                 only iterations of the batch that it was exported for: operator 'mean' (reduce_mean) "
        "mixes samples, so the batch cannot change.",
    ]
    assert "operator 'mean'" in json.loads(check_json(found))["fixed_batch"]


def test_nothing_is_said_of_the_batch_where_it_can_change() -> None:
    net = Net()
    assert examine(net.model(net.op("Relu", net.input(2, 3))), "net", None).fixed_batch == ""
    assert examine(net.model(net.op("Relu", net.input())), "net", None).fixed_batch == ""


def test_every_problem_is_said_at_once() -> None:
    """And nothing of nodes that read what a problem would have written."""
    problems = examine(flawed(2, 3), "net", None).problems
    assert [problem.split("(")[0] for problem in problems] == [
        "net: node 'whirl0' ",
        "net: node 'plus' ",
        "net: node 'places' ",
    ]
    assert "domain 'com.example' is unknown" in problems[0]
    assert "the standard domain has no operator Plus" in problems[1]


def test_dims_without_a_size_are_said_together_with_unknown_operators() -> None:
    """Each dim once, and how to bind it."""
    net_problems = examine(flawed("N", "length"), "net", None).problems
    assert "dim 1, 'length', has no size; give it: --dim length=SIZE" in net_problems[0]
    assert len(net_problems) == 3  # that of a computed shape needs the shapes of inputs
    assert len(examine(flawed("N", "length"), "net", None, dims={"length": 3}).problems) == 3


def test_types_without_a_place_in_memory_are_problems_of_inputs() -> None:
    net = Net()
    names = [net.input(2, dtype=dtype) for dtype in (TensorProto.STRING, TensorProto.COMPLEX64)]
    model = net.model(*(net.op("Identity", name) for name in names))
    assert len(examine(model, "net", None).problems) == 2


def test_what_a_network_is_made_of() -> None:
    """Counted by hand."""
    found = examine(sound(), "net", api.load_machine("toy"))
    assert not found.problems
    content, target = found.content, found.target
    assert content is not None
    assert target is not None
    assert content.inputs == (("x", "float16", (3, 9, 4)),)
    assert content.macs == 3 * 9 * 4 * 8
    assert (content.by_rule, content.views) == (2, 2)
    assert [operator for _, operator, _ in content.generic] == ["Det"]
    assert content.constant_bytes == 2 * 4 * 8
    assert {unit: operators for unit, operators, _ in target.units} == {"matrix units": 1, "vector units": 2}
    assert "value from onnxruntime, not independently verified" in check_text(found)


def test_a_machine_that_is_too_small_is_a_problem() -> None:
    """The network is fine, and said to be made of what it is."""
    machine = api.load_machine("toy")
    net = Net()
    x = net.op("Relu", net.input(1 << 14, 1 << 14))
    found = examine(net.model(x), "net", machine)
    assert len(found.problems) == 1
    assert found.content is not None
    assert found.target is None


@pytest.mark.parametrize("shape", [(2, 3), (2, "length")])
def test_the_command_ends_with_2_where_there_are_problems(tmp_path: Path, shape: tuple[int | str, ...]) -> None:
    """In text and in JSON."""
    path = tmp_path / "net.onnx"
    onnx.save_model(flawed(*shape), path)
    result = run("check", path)
    assert result.exit_code == 2
    assert result.stdout.startswith("net.onnx: 3 problems\n  1. ")
    found = json.loads(run("check", path, "--json", "-").stdout)
    assert found["format"] == "tilestitch.check"
    assert not found["fine"]
    assert len(found["problems"]) == 3


def test_the_command_ends_with_0_where_all_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save_model(sound(), path)
    result = run("check", path, "--machine", "toy", "--json", tmp_path / "found.json")
    assert result.exit_code == 0, result.output
    assert "on toy: fits" in result.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["fine"]
    assert found["target"]["machine"] == "toy"


@pytest.mark.parametrize("group", BROKEN)
def test_damaged_files_are_problems_too(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `compile` refuses, `check` says first, on stdout; it never fails."""
    for number, hostile in enumerate(GROUPS[group]):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        hostile.make()
        if not isinstance(hostile.asked, str) or not hostile.asked.startswith("compile net.onnx --machine toy"):
            continue
        compiled = run(*hostile.asked.split())
        result = run("check", *hostile.asked.split()[1:])
        assert (result.exit_code, result.stderr) == (2, ""), (hostile.name, result.output)
        expected = compiled.stderr.removeprefix("error: ").removeprefix("net.onnx: ").split("\n")[0]
        assert expected in result.stdout, hostile.name
