"""Every network on every machine, on each by every strategy: what is built in works together, at quick sizes."""

from functools import lru_cache

import onnx
import pytest

from tests.helpers.light_models import NAMES, light_model
from tests.helpers.pairs import by_pairs
from tests.helpers.verified import RUNNING, ZOO, assert_sound, machine_named
from tilestitch import zoo
from tilestitch.ir.report import Report
from tilestitch.pipeline.compile import References, compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES, strategy_named

REFERENCES: dict[str, References] = {}


@lru_cache(maxsize=1)
def model(name: str) -> onnx.ModelProto:
    """A small network of the zoo, or a light model with images of 64 x 64."""
    light = name.removeprefix("light-")
    return zoo.build(name, small=True) if light == name else light_model(light, image=64)


def compiled(name: str, machine: str, strategy: str) -> Report:
    """The report of a verified compilation of one sample."""
    done = compile_network(
        model(name),
        name,
        machine_named(machine),
        strategy_named(strategy),
        Options(batch=1, verify=True),
        references=REFERENCES.setdefault(name, {}),
    )
    assert done.report is not None
    return done.report


@pytest.mark.slow
@pytest.mark.parametrize(("name", "machine", "strategy"), by_pairs(ZOO, RUNNING, [one.name for one in STRATEGIES]))
def test_every_network_means_itself_on_every_machine(name: str, machine: str, strategy: str) -> None:
    """Verified against onnxruntime, and no number under its lower bound."""
    assert_sound(compiled(name, machine, strategy))


@pytest.mark.slow
@pytest.mark.parametrize("machine", RUNNING)
@pytest.mark.parametrize("name", [f"light-{name}" for name in NAMES])
def test_every_light_model_means_itself_on_every_machine(name: str, machine: str) -> None:
    """By the strategies that differ most; tests/pipeline/test_light.py has the others."""
    layerwise, tvm, graphturbo = (compiled(name, machine, one) for one in ("layerwise", "tvm", "graphturbo"))
    for report in (layerwise, tvm, graphturbo):
        assert_sound(report)
    assert graphturbo.latency_cycles <= tvm.latency_cycles
