"""What PyTorch's exporters write, the old and the new one, compiles and means what onnxruntime computes.

The files are made by tests/fixtures/pytorch/export.py, and are small enough to look at.
"""

from itertools import product
from pathlib import Path

import onnx
import pytest

from tests.helpers.pairs import each_once
from tests.helpers.verified import machine_named
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES

FOLDER = Path(__file__).parent.parent / "fixtures" / "pytorch"
DIMS = {"length": 5}  # symbolic dims other than the batch
REFUSED = {
    "conv-1d-same-old": "onnxruntime does not follow the standard there",
}
FILES = tuple(sorted(path.stem for path in FOLDER.glob("*.onnx")))
NETWORKS = tuple(name for name in FILES if name.startswith("net-"))
# each runs on the toy by one strategy anyway
RUN_BY_ALL = {("net-mamba-new", "toy"), ("net-llama-step-new", "stcp920"), ("net-gru-new", "eyeriss")}


@pytest.mark.parametrize(
    ("name", "strategy"),
    each_once([name for name in FILES if name not in REFUSED], [strategy.name for strategy in STRATEGIES]),
)
def test_an_exported_module_means_what_it_meant(name: str, strategy: str) -> None:
    """Executed at both widths; nothing is under its bound."""
    path = FOLDER / f"{name}.onnx"
    model = onnx.load_model(path, load_external_data=False)
    symbols = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim}
    dims = {symbol: size for symbol, size in DIMS.items() if symbol in symbols}
    report = api.compile(path, machine_named("toy"), strategy=strategy, options=Options(dims=dims), verify=True).report
    assert report is not None
    assert report.verified, report.checks
    assert not report.generic_operators  # each by a rule of its own
    assert report.latency_cycles >= report.bound_cycles
    assert report.ddr_bytes >= report.compulsory_bytes


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        pytest.param(name, machine, marks=[] if (name, machine) in RUN_BY_ALL else [pytest.mark.slow])
        for name, machine in product(NETWORKS, ["toy", "stcp920", "eyeriss"])
    ],
)
def test_whole_networks_run_on_machines_of_each_kind(name: str, machine: str) -> None:
    """Matrix units with local memories, and an array; every operator by a rule of its own."""
    report = api.compile(FOLDER / f"{name}.onnx", machine_named(machine), verify=True).report
    assert report is not None
    assert report.verified, report.checks
    assert not report.generic_operators


def test_whole_networks_have_what_they_are_for() -> None:
    """As the exporter wrote them; a network that lost these would prove nothing."""
    kinds = {name: {node.op_type for node in onnx.load_model(FOLDER / f"{name}.onnx").graph.node} for name in NETWORKS}
    assert {"Conv", "LayerNormalization", "Gelu", "Transpose"} <= kinds["net-convnext-new"]
    assert "GRU" in kinds["net-gru-new"]
    assert {"Softplus", "Exp", "Conv"} <= kinds["net-mamba-new"]
    assert {"Expand", "Concat", "Softmax"} <= kinds["net-llama-step-new"]
    assert {"Attention", "RMSNormalization"} <= kinds["net-llama-step-opset23-new"]
    assert {"TopK", "Einsum"} <= kinds["net-mixture-new"]
    assert {"MaxPool", "Resize", "Split"} <= kinds["net-detector-new"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused(name: str) -> None:
    """With the reason."""
    with pytest.raises(InputError) as error:
        api.compile(FOLDER / f"{name}.onnx", "toy")
    assert REFUSED[name] in str(error.value)


def test_files_stay_small_and_say_nothing_of_their_machine() -> None:
    """Each under 200 kB, all under 1 MB, no paths."""
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir() if path.is_file()}
    assert max(sizes.values()) < 200_000
    assert sum(sizes.values()) < 1_000_000
    for path in FOLDER.glob("*.onnx"):
        assert b"site-packages" not in path.read_bytes(), path.name
        assert b".py" not in path.read_bytes(), path.name


@pytest.mark.parametrize("exporter", ["old", "new"])
def test_each_exporter_has_its_own_forms(exporter: str) -> None:
    """The fixtures show what they are for: a file that loses its operators would prove nothing."""
    operators = {
        node.op_type for path in FOLDER.glob(f"*-{exporter}.onnx") for node in onnx.load_model(path).graph.node
    }
    assert {"IsNaN", "Where", "Expand", "Equal", "Shape", "Gather", "Split", "HardSwish", "HardSigmoid"} <= operators
    assert {"ConvTranspose", "Resize", "Pad", "DepthToSpace", "InstanceNormalization", "ScatterND"} <= operators
    assert ("GatherND" in operators) == (exporter == "new")
