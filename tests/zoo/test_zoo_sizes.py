"""Multiply-accumulates and parameters of the zoo, counted from the ONNX graphs, beside the literature."""

from dataclasses import dataclass
from math import prod
from pathlib import Path

import onnx
import pytest
from onnx import shape_inference

from tilestitch import zoo

pytestmark = pytest.mark.quick

PAGE = Path(__file__).parent.parent.parent / "docs" / "zoo.md"
TORCHVISION = "torchvision"


@dataclass(frozen=True)
class Published:
    """A figure of the literature, and how far ours may lie from it."""

    text: str  # as the page shows it
    value: float
    source: str
    tolerance: float = 0.0  # relative: half of the last published digit, or more where the page gives a reason

    def allows(self, ours: float) -> bool:
        return abs(ours - self.value) <= self.tolerance * self.value


@dataclass(frozen=True)
class Row:
    """One line of the page; a figure that is None has not been found published."""

    name: str
    macs: Published | None
    parameters: Published | None
    reason: str = ""


def operations(billions: float) -> Published:
    """The multiply-accumulates that torchvision gives for its weights, in billions with three decimals."""
    return Published(f"{billions} G", billions * 1e9, TORCHVISION, 0.0005 / billions)


def parameters(count: int) -> Published:
    """The number of parameters that torchvision gives for its weights."""
    return Published(f"{count:,}", count, TORCHVISION)


ROWS = (
    Row("resnet18", operations(1.814), parameters(11_689_512)),
    Row(
        "resnet50",
        operations(4.089),
        parameters(25_557_032),
        "the paper has 3.8 G: its stride is on the 1x1 convolution, that of version 1.5 on the 3x3",
    ),
    Row("mobilenet-v2", operations(0.301), parameters(3_504_872), "the paper rounds to 300 M and 3.4 M"),
    Row(
        "alexnet",
        Published("724 M", 724e6, "[1]*", 0.001),
        Published("61 M", 61e6, "[1]*", 0.01),
        "torchvision's is another AlexNet: no groups, fewer channels",
    ),
    Row("vgg19", operations(19.632), parameters(143_667_240)),
    Row(
        "googlenet",
        Published("1,502 M", 1502e6, "[2]*, sum of the table", 0.06),
        Published("6.8 M", 6.8e6, "[2]*, sum of the table", 0.03),
        "the table counts the first convolution as 7x1 and 1x7, 84 M less than 7x7; it leaves out biases",
    ),
    Row("densenet121", operations(2.834), parameters(7_978_856)),
    Row("vit-b16", operations(17.564), parameters(86_567_656)),
    Row(
        "bert-base-128",
        Published("11.25 G", 11.25e9, "[3]*, half of 22.5 G operations", 0.01),
        Published("110 M", 110e6, "[4]", 0.005),
        "the operations include biases, normalisations and GELU",
    ),
    Row(
        "bert-large-384",
        None,
        Published("340 M", 340e6, "[4]", 0.015),
        "the paper rounds; the weights that it released have as many as ours",
    ),
    Row("dlrm", None, None, "tables cut to 1,000 rows each"),
    Row("conformer", None, None, "sizes are assumed"),
    Row("llama-block-prefill-128", None, Published("60,821,504", 60_821_504, "[5], a sixteenth of 16 blocks")),
    Row("llama-block-decode-128", None, Published("60,821,504", 60_821_504, "[5], the same weights")),
    Row("unet", None, Published("7,763,041", 7_763_041, "[6]*")),
)


def parameters_of(name: str) -> int:
    """Trained parameters, without the statistics of batch normalisation; no weight is drawn for this."""
    return sum(prod(weight.shape) for weight in zoo.find(name).graph().weights if ".running_" not in weight.name)


def macs_of(name: str) -> int:
    """Products that are added up, for a batch of one: convolutions, products of matrices, attention."""
    graph = shape_inference.infer_shapes(zoo.find(name).graph().structure(), strict_mode=True, data_prop=True).graph
    shapes = {value.name: shape_of(value) for value in (*graph.input, *graph.value_info, *graph.output)}
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    return sum(macs_of_node(node, shapes) for node in graph.node)


def shape_of(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """Symbolic dims are the batch of one."""
    return tuple(dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim)


def macs_of_node(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> int:
    operands = [shapes[name] if name else () for name in node.input]
    match node.op_type:
        case "Conv":
            return prod(shapes[node.output[0]]) * prod(operands[1][1:])
        case "ConvTranspose":
            return prod(operands[0]) * prod(operands[1][1:])
        case "MatMul" | "Gemm":
            return prod(shapes[node.output[0]]) * operands[0][-1]
        case "Attention":
            keys = operands[1][-2] + (operands[4][-2] if len(operands) > 4 else 0)
            return 2 * prod(operands[0]) * keys  # each element of a query meets every key, and every value
    return 0


def test_every_family_is_on_the_page() -> None:
    """Variants of a network have its sizes."""
    families = {
        entry.name for entry in zoo.ENTRIES if not entry.name.endswith(("-decomposed", "-attention", "-native"))
    }
    assert [row.name for row in ROWS] == [
        entry.name_for("384" if "large" in entry.name else "128") for entry in zoo.ENTRIES if entry.name in families
    ]


@pytest.mark.parametrize(
    ("name", "variants"),
    [
        ("bert-base-128", ("-decomposed", "-attention")),
        ("llama-block-prefill-128", ("-native",)),
        ("llama-block-decode-128", ("-native",)),
    ],
)
def test_forms_of_a_network_have_the_same_sizes(name: str, variants: tuple[str, ...]) -> None:
    """Which operators say it changes neither count."""
    for variant in variants:
        assert macs_of(name + variant) == macs_of(name)
        assert parameters_of(name + variant) == parameters_of(name)


@pytest.mark.parametrize(
    ("name", "macs", "parameters"),
    [
        (
            "bert-large-384",  # projections, feed-forward, scores and contexts of 24 layers; the pooler
            24 * (4 * 384 * 1024**2 + 2 * 384 * 1024 * 4096 + 2 * 384**2 * 1024) + 1024**2,
            (30522 + 2 + 512 + 2) * 1024 + 24 * (12 * 1024**2 + 9 * 1024 + 4096) + 1024**2 + 1024,
        ),
        (
            "dlrm",  # bottom, 27 x 27 inner products of width 128, top on 128 + 27 * 26 / 2
            13 * 512 + 512 * 256 + 256 * 128 + 27 * 27 * 128 + 479 * 1024 + 1024**2 + 1024 * 512 + 512 * 256 + 256,
            (14 * 512 + 513 * 256 + 257 * 128)
            + (480 * 1024 + 1025 * 1024 + 1025 * 512 + 513 * 256 + 257)
            + 26_000 * 128,
        ),
        (
            "conformer",  # 1,000 x 80 become 499 x 39 and 249 x 19; two feed-forwards, attention, convolution a layer
            9 * 256 * 499 * 39
            + 9 * 256**2 * 249 * 19
            + 249 * 19 * 256**2
            + 12 * 249 * (4 * 256 * 2048 + 5 * 256**2 + 3 * 249 * 256 + 3 * 256**2 + 15 * 256),
            (10 * 256 + 2305 * 256 + (19 * 256 + 1) * 256)
            + 12 * (2 * (2 * 256 * 2048 + 2048 + 256) + 5 * 256**2 + 4 * 256 + 2 * 256)
            + 12 * (3 * 256**2 + 3 * 256 + 16 * 256 + 2 * 256 + 5 * 2 * 256),
        ),
        (
            "llama-block-prefill-128",  # four projections and scores, then three products of the gated layers
            128 * (2 * 2048**2 + 2 * 2048 * 512 + 2 * 128 * 2048 + 3 * 2048 * 8192),
            (1_235_814_400 - 128_256 * 2048 - 2048) // 16,  # all of Llama 3.2 1B without embedding and last norm
        ),
        (
            "llama-block-decode-128",
            2 * 2048**2 + 2 * 2048 * 512 + 2 * 129 * 2048 + 3 * 2048 * 8192,
            (1_235_814_400 - 128_256 * 2048 - 2048) // 16,
        ),
    ],
)
def test_sizes_agree_with_a_count_by_hand(name: str, macs: int, parameters: int) -> None:
    """Where nothing is published, and for the block of a published whole."""
    assert macs_of(name) == macs
    assert parameters_of(name) == parameters


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_networks_have_the_published_sizes(row: Row) -> None:
    """Within the tolerance of the row."""
    if row.macs is not None:
        assert row.macs.allows(macs_of(row.name))
    if row.parameters is not None:
        assert row.parameters.allows(parameters_of(row.name))


def test_the_page_shows_what_is_counted() -> None:
    """Each row of the table in docs/zoo.md, with both counts to the last digit."""
    lines = [
        "| network | MACs | published | parameters | published | reason for a difference |",
        "| --- | ---: | --- | ---: | --- | --- |",
    ]
    for row in ROWS:
        macs, parameters = ("" if x is None else f"{x.text}, {x.source}" for x in (row.macs, row.parameters))
        ours = f"{macs_of(row.name):,} | {macs} | {parameters_of(row.name):,} | {parameters}"
        lines.append(f"| {row.name} | {ours} | {row.reason} |")
    table = "\n".join(lines)
    assert table in PAGE.read_text(encoding="utf-8"), f"the table should be\n{table}"
