"""Networks compiled for trees of memories, without units in their files: verified, and never under their bounds."""

from itertools import product

import pytest

from tests.helpers.five_levels import FIVE_LEVELS
from tests.helpers.verified import REFERENCES, assert_sound, model
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.load import load_machine, parse_machine
from tilestitch.ir.report import Report
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named

MACHINES = ("gemmini", "nvdla", "simba", "tpu-v4i", "h200", "five-levels")
STRATEGIES = ("tvm", "graphturbo", "stay-in-lb")
NETWORKS = ("resnet18", "mobilenet-v2", "bert-base-16", "vit-b16", "densenet121", "unet")
FAST = [
    ("gemmini", "graphturbo", "resnet18"),
    ("nvdla", "tvm", "bert-base-16"),
    ("five-levels", "stay-in-lb", "resnet18"),
]


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
    [
        pytest.param(*case, marks=[] if case in FAST else [pytest.mark.slow])
        for case in dict.fromkeys([*FAST, *product(MACHINES, STRATEGIES, NETWORKS)])
    ],
)
def test_a_network_runs_on_a_tree(machine: str, strategy: str, name: str) -> None:
    """Without DMA engines, of which no file says any."""
    report = compiled(name, machine, strategy)
    assert_sound(report)
    assert sum(one.instructions for one in report.engines if one.kind.startswith("dma")) == 0
