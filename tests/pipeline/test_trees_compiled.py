"""Networks compiled for trees of memories, without units in their files: verified, and never under their bounds."""

import numpy as np
import pytest

from tests.helpers.five_levels import FIVE_LEVELS
from tests.helpers.graphs import Net, conv
from tests.helpers.verified import REFERENCES, assert_sound, model
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.load import load_machine, parse_machine
from tilestitch.hardware.preset_files import preset_text
from tilestitch.ir.choices import Stage
from tilestitch.ir.report import Report
from tilestitch.pipeline.compile import compile_network, resume_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import FIELDS, stage_text, started
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.report.report_json import report_json
from tilestitch.report.summarise import NARROW

MACHINES = ("gemmini", "nvdla", "simba", "tpu-v4i", "h200", "five-levels")
STRATEGIES = ("tvm", "graphturbo", "stay-in-lb")
NETWORKS = (
    "resnet18",
    "mobilenet-v2",
    "alexnet",
    "vgg19",
    "googlenet",
    "densenet121",
    "vit-b16",
    "bert-base-16",
    "dlrm",
    "conformer",
    "llama-block-prefill-16",
    "llama-block-decode-16",
    "unet",
)
CASES = {  # and whether it is fast: of each network on each machine one strategy in turn; on 132 cores of every fourth
    (machine, STRATEGIES[turn], name): (row + column) % 3 == turn and (machine != "h200" or column % 4 == 0)
    for row, machine in enumerate(MACHINES)
    for column, name in enumerate(NETWORKS)
    for turn in range(3)
}


def machine_of(name: str) -> Accelerator:
    return parse_machine(FIVE_LEVELS, "five.yaml") if name == "five-levels" else load_machine(name)


@pytest.mark.slow
def test_every_chiplet_has_a_part_of_one_sample() -> None:
    """Each kernel with a product runs on all 36 of them."""
    done = compile_network(
        model("resnet18", False), "resnet18", load_machine("simba"), strategy_named("tvm"), Options(batch=1)
    )
    assert done.report is not None
    assert {row.cores for row in done.report.kernels if row.macs} == {36}


def compiled(name: str, machine: str, strategy: str) -> Report:
    done = compile_network(
        model(name, True),
        name,
        machine_of(machine),
        strategy_named(strategy),
        Options(batch=1, verify=True),
        references=REFERENCES.setdefault(name, {}),
    )
    assert done.report is not None
    return done.report


@pytest.mark.parametrize(
    ("machine", "strategy", "name"),
    [pytest.param(*case, marks=[] if is_fast else [pytest.mark.slow]) for case, is_fast in CASES.items()],
)
def test_a_network_runs_on_a_tree(machine: str, strategy: str, name: str) -> None:
    """Without DMA engines, of which no file says any."""
    report = compiled(name, machine, strategy)
    assert_sound(report)
    assert sum(one.instructions for one in report.engines if one.kind.startswith("dma")) == 0


@pytest.mark.parametrize(
    ("dma", "carrier"),
    [
        ("", "no DMA engine carries transfers, cores do"),
        ("local, buffer", "no DMA engine carries transfers, cores do"),
        ("shared, local", "each core has DMA engines of its own: link (shared, local)"),
        ("dram, shared", ""),
    ],
)
def test_a_report_says_what_carries_transfers(dma: str, carrier: str) -> None:
    """Engines inside LB are those of its tiles."""
    entry = f"  - {{name: link, joins: [{dma}], count: 2, setup_cycles: 9, bandwidth: 16 B/cycle}}\n"
    machine = parse_machine(FIVE_LEVELS + ("dma:\n" + entry if dma else ""), "five.yaml")
    done = compile_network(model("resnet18", True), "resnet18", machine, strategy_named("tvm"), Options(batch=1))
    assert done.report is not None
    (note,) = (one for one in done.report.notes if one.startswith("A tile of a product takes"))
    assert ("; " in note) == bool(carrier)
    assert carrier in note


def test_a_network_runs_on_a_chip_with_memories_inside_its_local_buffers() -> None:
    """Tiles take what the mapper finds there: behind a slower scratchpad they take longer."""
    text = preset_text("toy").replace("int8: 2}  # assumed", "int8: 1}")
    local = text[text.index("  - name: lb") : text.index("  - name: gb")]
    found = []
    for rate in ("128", "2"):
        inner = local.replace("name: lb", "name: inner").replace("cycle: 128", f"cycle: {rate}")
        done = compile_network(
            model("resnet18", True),
            "resnet18",
            parse_machine(text.replace(local, inner + local), "deep.yaml"),
            strategy_named("graphturbo"),
            Options(batch=2, verify=True),
        )
        assert done.report is not None
        assert_sound(done.report)
        found.append(done.report.latency_cycles)
    assert found[0] < found[1]


@pytest.mark.parametrize(("bits", "expected"), [("bits: 8 ", 1), ("bits: 16", 2)])
def test_floats_are_as_wide_as_the_machine_says(bits: str, expected: int) -> None:
    """Of a product of 8 x 16 by 16 x 4 nothing is moved twice, and its sums in parts are still those of float32."""
    text = preset_text("nvdla").replace("bits: 8 ", bits, 1)
    net = Net()
    weight = net.constant(np.ones((16, 4), np.float32))
    product = net.model(net.op("MatMul", net.input(8, 16, name="x"), weight))
    done = compile_network(
        product, "product", parse_machine(text, "one.yaml"), strategy_named("tvm"), Options(verify=True)
    )
    assert done.report is not None
    assert done.report.verified
    assert done.report.ddr_bytes == expected * (8 * 16 + 16 * 4 + 8 * 4)
    assert any(note == NARROW for note in done.report.notes) == (expected == 1)


@pytest.mark.parametrize("stage", FIELDS, ids=str)
def test_a_run_that_starts_at_any_stage_has_floats_of_the_same_width(stage: Stage) -> None:
    """Before and after the pass that makes them as wide as the machine's."""
    network, machine = model("resnet18", True), load_machine("nvdla")
    done = compile_network(network, "resnet18", machine, strategy_named("tvm"), Options(batch=1))
    found = resume_network(network, started(stage_text(done, stage), "value.json"), machine, Options(batch=1))
    assert done.report is not None
    assert found.report is not None
    assert report_json(found.report) == report_json(done.report)


@pytest.mark.parametrize("machine", ["gemmini", "simba"])
def test_an_index_of_three_loops_runs_on_a_tree(machine: str) -> None:
    """A transposed convolution whose windows overlap reads pixels by steps, phases and taps together."""
    net = Net(18)
    x = net.op("Relu", net.input(1, 8, 6, 6))
    y = net.op("ConvTranspose", x, net.random(8, 12, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1])
    options = Options(verify=True)
    done = compile_network(net.model(y), "net", load_machine(machine), strategy_named("tvm"), options)
    assert done.report is not None
    assert done.report.verified
    assert done.report.latency_cycles >= done.report.bound_cycles


def test_a_tile_between_both_borders_has_no_padding() -> None:
    """Rows of a block overlap over the cores: those in the middle read a row more on each side than those at an end."""
    net = Net()
    x = net.input(4, 64, 14, 14, name="x")
    for _ in range(4):
        x = net.op("Relu", conv(net, x, 64, 64, 3))
    done = compile_network(
        net.model(x), "four", load_machine("h200"), strategy_named("one-block"), Options(verify=True)
    )
    assert done.report is not None
    assert done.report.verified
