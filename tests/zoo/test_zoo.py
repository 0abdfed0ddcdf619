"""The zoo builds valid, deterministic, well-behaved networks of the published sizes, and inputs that fit them."""

import hashlib
import os
import subprocess
import sys
import threading
from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, shape_inference

from tilestitch import zoo
from tilestitch.base.errors import InputError
from tilestitch.base.storage import STORAGE
from tilestitch.zoo import builder
from tilestitch.zoo.bert import BertForm
from tilestitch.zoo.builder import Normal, Uniform, Weight, draw

NETWORKS = tuple(entry.name_for("24") for entry in zoo.ENTRIES)
IMAGES = ("resnet18", "resnet50", "mobilenet-v2", "alexnet", "vgg19", "googlenet", "densenet121", "unet")
BERTS = ("bert-base-24", "bert-base-24-decomposed", "bert-base-24-attention")


def run(model: onnx.ModelProto, inputs: dict[str, np.ndarray], *, everything: bool = False) -> dict[str, np.ndarray]:
    """Run without optimisations; `everything` returns each node's output as well."""
    if everything:
        outputs = {value.name for value in model.graph.output}
        extended = onnx.ModelProto()
        extended.CopyFrom(model)
        for node in model.graph.node:
            extended.graph.output.extend(onnx.ValueInfoProto(name=x) for x in node.output if x not in outputs)
        model = extended
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return {name: np.asarray(array) for name, array in zip(names, session.run(None, inputs), strict=True)}


def dims(value: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    return tuple(dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim)


def one_input(
    element_type: onnx.TensorProto.DataType, shape: tuple[int | str | None, ...], *, name: str = "x"
) -> onnx.ModelProto:
    value = helper.make_tensor_value_info(name, element_type, shape)
    return helper.make_model(helper.make_graph([], "net", [value], [value]))


@pytest.mark.parametrize("name", NETWORKS)
def test_model_is_valid_and_only_the_batch_is_symbolic(name: str) -> None:
    """The checker accepts the model, and every tensor has known dims, of which at most the first is N."""
    model = zoo.build(name, small=True)
    onnx.checker.check_model(model, full_check=True)
    inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    values = [*inferred.input, *inferred.output, *inferred.value_info]
    assert {output for node in inferred.node for output in node.output} <= {value.name for value in values}
    batched = {value.name for value in inferred.input}
    for node in inferred.node:
        if node.op_type != "Shape" and not batched.isdisjoint(node.input):
            batched.update(node.output)
    for value in values:
        if value.name in batched:
            assert dims(value)[0] == "N", value.name
            assert all(isinstance(dim, int) and dim > 0 for dim in dims(value)[1:]), value.name


def test_building_twice_gives_the_same_bytes() -> None:
    """Nothing in a model depends on the process, its hash seed, or what was built before."""
    script = (
        "import hashlib; from tilestitch import zoo\n"
        f"for name in {NETWORKS!r}:\n"
        "    print(hashlib.sha256(zoo.build(name, small=True).SerializeToString()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    for name, digest in zip(NETWORKS, other.stdout.split(), strict=True):
        for _ in range(2):
            assert hashlib.sha256(zoo.build(name, small=True).SerializeToString()).hexdigest() == digest, name


@pytest.mark.parametrize("name", NETWORKS)
def test_activations_keep_a_natural_size(name: str) -> None:
    """No value is too large for float16, none vanishes, and different inputs give different outputs."""
    model = zoo.build(name, small=True)
    values = run(model, zoo.sample_inputs(model, batch=4), everything=True)
    for tensor, array in values.items():
        assert np.isfinite(array).all(), tensor
        masked = "mask" in tensor or tensor.endswith("softmax.shifted")
        assert np.abs(array).max() < (10_100 if masked else 100), tensor
    for output in model.graph.output:
        array = values[output.name]
        assert 0.1 < array.std() < 2.0, output.name
        assert array.std(axis=0).mean() > 0.05, output.name
    dead = {tensor: np.mean(array <= 0) for tensor, array in values.items() if "relu" in tensor}
    assert all(share < 0.98 for share in dead.values())  # one of few channels may be lost, but not all
    assert np.mean([0.5, *dead.values()]) < 0.6


def test_attention_prefers_some_tokens() -> None:
    """Attention weights are neither uniform nor all on one key, and masked keys get none."""
    model = zoo.build("bert-base-24", small=True)
    inputs = zoo.sample_inputs(model, batch=4)
    values = run(model, inputs, everything=True)
    for layer in range(2):
        weights = values[f"encoder.layer.{layer}.attention.self.softmax"]
        assert 4 / 24 < weights.max(axis=-1).mean() < 0.8
        assert weights[np.broadcast_to(inputs["attention_mask"][:, None, None] == 0, weights.shape)].max() == 0


@pytest.mark.parametrize("form", ("decomposed", "attention"))
@pytest.mark.parametrize("length", (1, 24))
def test_forms_of_bert_mean_the_same(form: str, length: int) -> None:
    """The same inputs give the same outputs, whichever operators say the arithmetic."""
    native = zoo.build(f"bert-base-{length}", small=True)
    inputs = zoo.sample_inputs(native, batch=3)
    expected = run(native, inputs)
    found = run(zoo.build(f"bert-base-{length}-{form}", small=True), inputs)
    for name, array in expected.items():
        assert np.abs(found[name] - array).max() <= 1e-5 * np.abs(array).max(), name


def test_forms_of_bert_use_different_operators() -> None:
    """Each form has the operators that it is named after, and the attention form needs opset 23."""
    models = {form: zoo.build(name, small=True) for form, name in zip(BertForm, BERTS, strict=True)}
    operators = {form: {node.op_type for node in model.graph.node} for form, model in models.items()}
    compact = {"Softmax", "LayerNormalization", "Gelu"}
    assert compact <= operators[BertForm.NATIVE]
    assert not compact & operators[BertForm.DECOMPOSED]
    assert {"Erf", "Exp", "ReduceMean", "ReduceMax", "ReduceSum", "Pow", "Sqrt"} <= operators[BertForm.DECOMPOSED]
    assert "Attention" in operators[BertForm.ATTENTION]
    assert "Softmax" not in operators[BertForm.ATTENTION]
    assert {form: model.opset_import[0].version for form, model in models.items()} == {
        BertForm.NATIVE: 20,
        BertForm.DECOMPOSED: 20,
        BertForm.ATTENTION: 23,
    }


def test_weights_of_bert_depend_on_neither_form_nor_length() -> None:
    """A weight has the same values in every graph of one network."""

    def weights(name: str) -> dict[str, np.ndarray]:
        graph = zoo.build(name, small=True).graph
        return {x.name: numpy_helper.to_array(x) for x in graph.initializer if len(x.dims) == 2 and x.data_type == 1}

    reference = weights("bert-base-24")
    for name in ("bert-base-24-decomposed", "bert-base-24-attention", "bert-base-7"):
        others = weights(name)
        assert others.keys() == reference.keys()
        assert all(np.array_equal(others[key], reference[key]) for key in reference)


def test_each_weight_has_its_own_values() -> None:
    """Values follow the names of the network and of the tensor, and have the distribution that was asked for."""
    weight = Weight("a", (200, 200), Normal(1.0, 0.5))
    array = draw(weight, "net")
    assert array.dtype == np.float32
    assert np.array_equal(array, draw(weight, "net"))
    assert abs(np.corrcoef(array.ravel(), draw(weight, "net-small").ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(array.ravel(), draw(replace(weight, name="b"), "net").ravel())[0, 1]) < 0.03
    assert (array.mean(), array.std()) == (pytest.approx(1.0, abs=0.02), pytest.approx(0.5, abs=0.02))
    uniform = draw(Weight("a", (10_000,), Uniform(0.5, 1.5)), "net")
    assert uniform.min() >= 0.5
    assert uniform.max() <= 1.5
    assert uniform.mean() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("name", NETWORKS)
def test_batch_elements_are_independent(name: str) -> None:
    """The batch dim is free, and an element's result is its result in a batch of one."""
    model = zoo.build(name, small=True)
    inputs = zoo.sample_inputs(model, batch=3)
    together = run(model, inputs)
    alone = run(model, {key: array[1:2] for key, array in inputs.items()})
    for key, array in together.items():
        assert np.allclose(array[1:2], alone[key], rtol=1e-4, atol=1e-5), key


@pytest.mark.parametrize("name", NETWORKS)
def test_small_networks_keep_the_structure(name: str) -> None:
    """The same operators; on images the same nodes, and only sizes differ."""
    small, full = (options.graph().structure().graph for options in (zoo.find(name).reduced(), zoo.find(name)))
    if name in IMAGES:
        assert [(node.op_type, node.name) for node in small.node] == [(node.op_type, node.name) for node in full.node]
    assert {node.op_type for node in small.node} == {node.op_type for node in full.node}
    assert [(value.name, len(dims(value))) for value in small.output] == [
        (value.name, len(dims(value))) for value in full.output
    ]


@pytest.mark.parametrize("form", ("prefill", "decode"))
def test_forms_of_a_llama_block_mean_the_same(form: str) -> None:
    """RMS normalisation, rotary embedding and grouped attention, spelled out and as one operator each."""
    model, native = (zoo.build(f"llama-block-{form}-24{suffix}", small=True) for suffix in ("", "-native"))
    inputs = zoo.sample_inputs(model, batch=3)
    expected, found = run(model, inputs), run(native, inputs)
    for name, array in expected.items():
        assert np.abs(found[name] - array).max() <= 1e-5 * np.abs(array).max(), name
    operators = [{node.op_type for node in graph.graph.node} for graph in (model, native)]
    assert {"RMSNormalization", "RotaryEmbedding", "Attention"} <= operators[1]
    assert operators[0].isdisjoint({"RMSNormalization", "RotaryEmbedding", "Attention"})


def test_decoding_continues_what_prefilling_began() -> None:
    """The last token of a prompt gives the same whether it comes with the others or behind their cache."""
    whole, shorter = (zoo.build(f"llama-block-prefill-{length}", small=True) for length in (9, 8))
    tokens = zoo.sample_inputs(whole, batch=2)["hidden_states"]
    expected, cache = run(whole, {"hidden_states": tokens}), run(shorter, {"hidden_states": tokens[:, :8]})
    inputs = {"hidden_states": tokens[:, 8:], "past_key": cache["present_key"], "past_value": cache["present_value"]}
    found = run(zoo.build("llama-block-decode-8", small=True), inputs)
    assert np.allclose(found["output"], expected["output"][:, 8:], atol=1e-5)
    for name in ("present_key", "present_value"):
        assert np.allclose(found[name], expected[name], atol=1e-5), name


def test_centred_weights_have_a_part_of_their_mean_left() -> None:
    """Per output; the deviation stays what was asked for."""
    plain, centred = (draw(Weight("a", (64, 8, 5, 5), Normal(0.0, 0.5, share)), "net") for share in (0.0, 0.25))
    axes = (1, 2, 3)
    assert np.allclose(centred.mean(axis=axes), 0.75 * plain.mean(axis=axes), atol=1e-6)
    assert centred.std() == pytest.approx(0.5, abs=0.02)


def test_names_lists_every_entry() -> None:
    """Each name in the list builds, once a length stands in it."""
    assert zoo.names() == (
        "resnet18",
        "resnet50",
        "mobilenet-v2",
        "alexnet",
        "vgg19",
        "googlenet",
        "densenet121",
        "vit-b16",
        "bert-base-<L>",
        "bert-base-<L>-decomposed",
        "bert-base-<L>-attention",
        "bert-large-<L>",
        "dlrm",
        "conformer",
        "llama-block-prefill-<L>",
        "llama-block-prefill-<L>-native",
        "llama-block-decode-<L>",
        "llama-block-decode-<L>-native",
        "unet",
    )
    for name in zoo.names():
        model = zoo.build(name.replace("<L>", "5"), small=True)
        assert model.graph.name.replace("-small", "") == name.replace("<L>", "5")


KNOWN = f"Known: {', '.join(zoo.names())} (<L>: a sequence length)."


@pytest.mark.parametrize(
    ("name", "message"),
    (
        ("resnet-50", f"zoo: unknown network 'resnet-50'. Did you mean 'resnet50'? {KNOWN}"),
        ("bert-base", f"zoo: unknown network 'bert-base'. Did you mean 'bert-base-128'? {KNOWN}"),
        (
            "bert-base-64-decomp",
            f"zoo: unknown network 'bert-base-64-decomp'. Did you mean 'bert-base-64-decomposed'? {KNOWN}",
        ),
        ("bert-base-<L>", f"zoo: unknown network 'bert-base-<L>'. Did you mean 'bert-base-128'? {KNOWN}"),
        ("vgg", f"zoo: unknown network 'vgg'. Did you mean 'vgg19'? {KNOWN}"),
        ("efficientnet", f"zoo: unknown network 'efficientnet'. {KNOWN}"),
        (
            "bert-large-600-native",
            f"zoo: unknown network 'bert-large-600-native'. Did you mean 'bert-large-128'? {KNOWN}",
        ),
        (
            "llama-block-decode-5000",
            "zoo network 'llama-block-decode-5000': expected a sequence length from 1 to 4096, found 5000; write, for "
            "example, llama-block-decode-128.",
        ),
        *(
            (
                f"bert-base-{length}-attention",
                f"zoo network 'bert-base-{length}-attention': expected a sequence length from 1 to 512, found "
                f"{length}; write, for example, bert-base-128-attention.",
            )
            for length in ("0", "513", "0128", "9" * 5000)
        ),
    ),
    ids=lambda text: text[:24],
)
def test_a_name_that_is_not_in_the_zoo_is_refused(name: str, message: str) -> None:
    """The message names the closest network, all of them, or the range of lengths."""
    with pytest.raises(InputError) as error:
        zoo.build(name)
    assert str(error.value) == message


def test_sample_inputs_are_reproducible_and_follow_the_seed() -> None:
    """The same batch and seed give the same arrays; another seed gives others."""
    model = zoo.build("bert-base-64", small=True)
    first, again, other = (zoo.sample_inputs(model, batch=2, seed=seed) for seed in (0, 0, 1))
    assert first.keys() == {"input_ids", "attention_mask", "token_type_ids"}
    for name, array in first.items():
        assert (array.shape, array.dtype) == ((2, 64), np.int64)
        assert np.array_equal(array, again[name])
        assert not np.array_equal(array, other[name]), name


def test_sample_indices_stay_inside_their_tables() -> None:
    """Token ids use the whole vocabulary, from either end, and never exceed it; so do the two token types."""
    inputs = zoo.sample_inputs(zoo.build("bert-base-512", small=True), batch=8)
    assert set(np.unique(inputs["input_ids"])) == set(range(-100, 100))
    assert set(np.unique(inputs["token_type_ids"])) == {-2, -1, 0, 1}


def test_sample_masks_end_in_a_few_zeros() -> None:
    """Each row is ones, then at least one zero and at most an eighth; a row of one stays one."""
    mask = zoo.sample_inputs(zoo.build("bert-base-64", small=True), batch=8)["attention_mask"]
    zeros = (mask == 0).sum(axis=1)
    assert np.array_equal(mask, np.sort(mask, axis=1)[:, ::-1])
    assert zeros.min() >= 1
    assert zeros.max() <= 8
    assert len(set(zeros)) > 1
    assert zoo.sample_inputs(zoo.build("bert-base-1", small=True), batch=1)["attention_mask"].tolist() == [[1]]


@pytest.mark.parametrize("dtype", (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE))
def test_sample_floats_are_standard_normal(dtype: onnx.TensorProto.DataType) -> None:
    """Floats have the element type of the input, mean 0 and deviation 1; a fixed dim 0 stays as it is."""
    array = zoo.sample_inputs(one_input(dtype, (100, 100)), batch=3)["x"]
    assert array.shape == (100, 100)
    assert array.dtype == helper.tensor_dtype_to_np_dtype(dtype)
    assert array.mean(dtype=np.float64) == pytest.approx(0.0, abs=0.05)
    assert array.std(dtype=np.float64) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_inputs_of_every_stored_type_are_drawn(dtype: np.dtype) -> None:
    """Integers of at most 16 bits take values over their whole range; nothing is NaN, and nothing is all the same."""
    array = zoo.sample_inputs(one_input(helper.np_dtype_to_tensor_dtype(dtype), (100, 100)), batch=1)["x"]
    values = array.astype(np.float64)
    assert array.dtype == dtype
    assert np.isfinite(values).all()
    if STORAGE[dtype].is_float or dtype == np.bool_ or dtype.itemsize > 2:
        assert values.min() < values.max()
        return
    limits = ml_dtypes.iinfo(dtype)
    spread = 0.01 * (float(limits.max) - float(limits.min))
    assert values.min() <= float(limits.min) + spread
    assert values.max() >= float(limits.max) - spread


def test_sample_indices_find_their_table_through_other_nodes() -> None:
    """A table behind a DequantizeLinear bounds an index behind a Cast; the smallest of several tables decides."""
    nodes = [
        helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64),
        helper.make_node("DequantizeLinear", ["bytes", "scale"], ["table"]),
        helper.make_node("Gather", ["table", "wide"], ["rows"]),
        helper.make_node("Gather", ["short", "ids"], ["columns"], axis=1),
        helper.make_node("Add", ["rows", "columns"], ["sum"]),
    ]
    tables = [
        numpy_helper.from_array(np.zeros((9, 2), np.int8), "bytes"),
        numpy_helper.from_array(np.ones((), np.float32), "scale"),
        numpy_helper.from_array(np.zeros((2, 5), np.float32), "short"),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, ("N", 40)) for name in ("ids", "flags")]
    outputs = [helper.make_tensor_value_info("sum", TensorProto.FLOAT, None)]
    model = helper.make_model(helper.make_graph(nodes, "net", inputs, outputs, tables))
    arrays = zoo.sample_inputs(model, batch=10)
    assert set(np.unique(arrays["ids"])) == set(range(-5, 5))
    assert {-(2**31), -1, 0, 1, 2**31 - 1} <= set(np.unique(arrays["flags"]))
    assert arrays["ids"].dtype == np.int32


@pytest.mark.parametrize(
    ("model", "message"),
    (
        (
            one_input(TensorProto.FLOAT, ("N", "length", 3)),
            "network 'net': input 'x': dim 1 is 'length' and has no size; only dim 0, the batch, may be symbolic. "
            "Export the network with a fixed size there.",
        ),
        (
            one_input(TensorProto.FLOAT, (1, None)),
            "network 'net': input 'x': dim 1 is 'unnamed' and has no size; only dim 0, the batch, may be symbolic. "
            "Export the network with a fixed size there.",
        ),
        (
            one_input(TensorProto.STRING, ("N", 3)),
            "network 'net': input 'x' has elements of type STRING; expected numbers or booleans.",
        ),
    ),
    ids=("symbolic", "unnamed", "type"),
)
def test_inputs_that_cannot_be_sampled_are_refused(model: onnx.ModelProto, message: str) -> None:
    """The message names the input, what is wrong with it and what would be right."""
    with pytest.raises(InputError) as error:
        zoo.sample_inputs(model, batch=1)
    assert str(error.value) == message


def test_a_batch_below_one_is_refused() -> None:
    """No network has an empty batch."""
    with pytest.raises(InputError, match=r"^batch: expected at least 1, found 0\.$"):
        zoo.sample_inputs(one_input(TensorProto.FLOAT, ("N",)), batch=0)


def test_few_weights_are_drawn_ahead_in_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself: so the values are those of drawing one after another, and there is room for them."""
    weights, drawn, threads = [Weight(f"w{number}", (3,), Uniform(0.0, 1.0)) for number in range(20)], [], set()

    def noted(weight: Weight, network: str) -> np.ndarray:
        drawn.append(weight.name)
        threads.add(threading.get_ident())
        return draw(weight, network)

    monkeypatch.setattr(builder, "draw", noted)
    for number, values in enumerate(builder._drawn(weights, "net")):
        assert np.array_equal(values, draw(weights[number], "net"))
        assert len(drawn) <= number + 1 + builder.AHEAD
    assert sorted(drawn) == sorted(weight.name for weight in weights)
    assert threading.get_ident() not in threads
