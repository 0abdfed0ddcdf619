"""The nine light models of the onnx package: real structure as old exporters wrote it, with weights that can tell."""

from functools import cache
from itertools import product

import onnx
import pytest

from tests.helpers.light_models import FULL, NAMES, light_model
from tests.helpers.pairs import one_each
from tests.helpers.verified import assert_sound, machine_named
from tilestitch.pipeline.compile import References, compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES, strategy_named

LARGE = ("vgg19", "densenet121", "inception_v1", "inception_v2", "resnet50")  # each takes longer than all others
STRATEGY_NAMES = [strategy.name for strategy in STRATEGIES]
REFERENCES: dict[tuple[str, int], References] = {}


@cache
def model(name: str, image: int) -> onnx.ModelProto:
    return light_model(name, image=image)


def assert_means_the_network(name: str, machine: str, strategy: str, *, image: int, batch: int) -> None:
    """Verified against onnxruntime, and no number under its lower bound; `batch` images on every cluster."""
    target = machine_named(machine)
    done = compile_network(
        model(name, image),
        name,
        target,
        strategy_named(strategy),
        Options(batch=batch * target.clusters, batch_per_cluster=batch, verify=True),
        references=REFERENCES.setdefault((name, image), {}),
    )
    assert done.report is not None
    assert_sound(done.report)


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        *one_each([name for name in NAMES if name not in LARGE], STRATEGY_NAMES),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in product(LARGE, STRATEGY_NAMES)),
    ],
)
def test_a_light_model_with_small_images_means_what_onnxruntime_computes(name: str, strategy: str) -> None:
    assert_means_the_network(name, "stcp920", strategy, image=64, batch=1)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["layerwise", "tvm", "graphturbo"])
@pytest.mark.parametrize("name", NAMES)
def test_a_light_model_means_what_onnxruntime_computes_for_two_images(name: str, strategy: str) -> None:
    """Images of the size that the models were made for; the models were exported for one at a time."""
    assert_means_the_network(name, "stcp920", strategy, image=FULL, batch=2)
