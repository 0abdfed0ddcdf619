"""A remedy is in a message only where it works: each is tried here."""

import re
from dataclasses import replace

import onnx
import pytest
from onnx import helper

import tilestitch
from tests.helpers.graphs import Net
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import Stage
from tilestitch.lower import limits
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text


def symbolic(net: Net, *outputs: str) -> onnx.ModelProto:
    """The network with a batch that is for the user to say."""
    model = net.model(*outputs)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    return model


def with_ddr(size_bytes: int) -> Accelerator:
    toy = load_machine("toy")
    memories = (replace(one, size_bytes=size_bytes) if one.level is Level.DDR else one for one in toy.memories)
    return replace(toy, memories=tuple(memories))


def dense() -> Net:
    net = Net()
    net.op("MatMul", net.input(1, 64), net.random(64, 64), name="end")
    return net


def misfit(model: onnx.ModelProto, machine: Accelerator, **options) -> str:
    with pytest.raises(DoesNotFit) as caught:
        tilestitch.compile(model, machine, strategy="layerwise", options=Options(**options))
    return str(caught.value)


def test_a_smaller_batch_is_advised_where_it_helps():
    """Weights of 8 KiB and samples of 256 B: 4 samples of a cluster are too many for 8.5 KiB of DDR, one is not."""
    model, machine = symbolic(dense(), "end"), with_ddr(8 * 1024 + 512)
    assert misfit(model, machine, batch=8).endswith("Try: a smaller --batch.")
    assert tilestitch.compile(model, machine, strategy="layerwise", batch=1).report is not None


@pytest.mark.parametrize("batch", [1, 8])
def test_a_smaller_batch_is_not_advised_where_the_weights_alone_are_too_large(batch):
    assert "Try" not in misfit(symbolic(dense(), "end"), with_ddr(4 * 1024), batch=batch)


def test_a_smaller_batch_is_not_advised_where_the_network_has_one():
    """It is exported for eight samples, and takes no fewer."""
    net = Net()
    net.op("MatMul", net.input(8, 64), net.random(64, 64), name="end")
    assert "Try" not in misfit(net.model("end"), with_ddr(8 * 1024 + 512), batch=8)


def mixing() -> Net:
    net = Net()
    net.op("Softmax", net.input(1, 8), name="end", axis=0)
    return net


def test_a_fixed_batch_is_advised_where_samples_are_mixed():
    model = symbolic(mixing(), "end")
    with pytest.raises(InputError, match="Export the network with its batch fixed at 4"):
        tilestitch.compile(model, "toy", batch=4)
    dim = model.graph.input[0].type.tensor_type.shape.dim[0]
    dim.Clear()
    dim.dim_value = 4
    report = tilestitch.compile(model, "toy", batch=4, verify=True).report
    assert report is not None
    assert report.verified


def unknown_operator() -> onnx.ModelProto:
    net = Net()
    net.op("Unheard", net.input(1, 8), name="end")
    return symbolic(net, "end")


def own_domain() -> onnx.ModelProto:
    net = Net()
    net.op("Relu", net.input(1, 8), name="end", domain="own.domain")
    model = symbolic(net, "end")
    model.opset_import.append(helper.make_opsetid("own.domain", 1))
    return model


def shapes_that_do_not_match() -> onnx.ModelProto:
    net = Net()
    net.op("Add", net.input(1, 8), net.random(3, 8), name="end")
    return symbolic(net, "end")


@pytest.mark.parametrize("made", [unknown_operator, own_domain, shapes_that_do_not_match])
def test_a_fixed_batch_is_not_advised_where_something_else_is_wrong(made):
    with pytest.raises(InputError) as caught:
        tilestitch.compile(made(), "toy", batch=2)
    assert "batch fixed" not in str(caught.value)


def test_fewer_batches_are_advised_where_there_are_several(monkeypatch):
    """Of one iteration a batch of so many steps only one may be run: no other division of the samples has fewer."""
    model, options = symbolic(dense(), "end"), {"batch": 2, "batches": 8}
    monkeypatch.setattr(limits, "MAX_UNROLLED_STEPS", 0)
    found = misfit(model, load_machine("toy"), **options)
    assert "Try" not in found
    steps = re.search(r"8 iterations of ([\d,]+) step", found)
    assert steps is not None
    monkeypatch.setattr(limits, "MAX_UNROLLED_STEPS", int(steps[1].replace(",", "")))
    assert misfit(model, load_machine("toy"), **options).endswith("Try: fewer --batches.")
    one = Options(batch=2, batches=1)
    assert tilestitch.compile(model, "toy", strategy="layerwise", options=one).report is not None


def test_fewer_batches_are_advised_where_their_results_are_too_large():
    model, machine = symbolic(dense(), "end"), with_ddr(8 * 1024 + 512)
    assert misfit(model, machine, batch=2, batches=8).endswith("Try: fewer --batches.")
    assert tilestitch.compile(model, machine, strategy="layerwise", batch=2).report is not None


def test_remedies_are_tried_in_iterations_of_the_exported_batch():
    """Of a network that can be read for no other, as it was tried itself."""
    net = Net()
    x = net.op("ReduceMean", net.input(1, 1024), [0])
    model, machine = net.model(x), with_ddr(10 * 1024)
    assert misfit(model, machine, batch=4, batches=8).endswith("Try: fewer --batches.")
    assert tilestitch.compile(model, machine, strategy="layerwise", batch=4).report is not None


def test_a_run_from_a_file_is_not_advised_other_options(tmp_path):
    """They are in the file: here that of a partition, for a machine of the same name with less memory."""
    model, file = symbolic(dense(), "end"), tmp_path / "partition.json"
    done = tilestitch.compile(model, "toy", options=Options(batch=8, stop_after=Stage.PARTITION))
    file.write_text(stage_text(done, Stage.PARTITION))
    with pytest.raises(DoesNotFit) as caught:
        tilestitch.compile(model, with_ddr(8 * 1024 + 512), start=file)
    assert "Try" not in str(caught.value)
