"""Every machine that comes along runs networks: verified, and never under its bounds."""

from itertools import product

import pytest

from tests.helpers.pairs import covering, each_once
from tests.helpers.verified import RUNNING, assert_sound, compiled, machine_named
from tilestitch.base.dtypes import DType
from tilestitch.pipeline.strategies import STRATEGIES

EVERYWHERE = ("resnet18", "bert-base-7")

# Tera operations a second of all matrix units: name, element type, published.
PEAKS = [
    ("stcp920", DType.FLOAT16, 128),  # vendor's data
    ("stcp920", DType.INT8, 256),
    ("ascend910", DType.FLOAT16, 256),  # Liao et al., Hot Chips 31, 2019
    ("ascend910", DType.INT8, 512),
    ("mlu100", DType.FLOAT16, 64),  # WikiChip
    ("mlu100", DType.INT8, 128),
    ("ipu-mk1", DType.FLOAT16, 124.5),  # Jia et al., 2019
    ("tpu-v1", DType.INT8, 92),  # Jouppi et al., ISCA 2017, table 2
]


@pytest.mark.parametrize(("name", "dtype", "published"), PEAKS)
def test_a_machine_has_its_published_peak(name: str, dtype: DType, published: float) -> None:
    """Within 3 %: 131 TFLOPS are sold as 128."""
    machine = machine_named(name)
    units = [core.matrix for core in machine.cores if core.matrix is not None]
    macs = sum(unit.m * unit.k * unit.n * dict(unit.rates)[dtype] for unit in units) * machine.clusters
    assert float(2 * macs * machine.clock_hz) / 1e12 == pytest.approx(published, rel=0.03)


MANY_CORES = "ipu-mk1"  # takes as long as all others together
STRATEGY_NAMES = [strategy.name for strategy in STRATEGIES]


@pytest.mark.parametrize(
    ("machine", "strategy", "name"),
    [
        *each_once([name for name in RUNNING if name != MANY_CORES], STRATEGY_NAMES, EVERYWHERE),
        *(pytest.param(MANY_CORES, *pair, marks=pytest.mark.slow) for pair in product(STRATEGY_NAMES, EVERYWHERE)),
    ],
)
def test_a_network_runs_on_every_preset(machine: str, strategy: str, name: str) -> None:
    """One sample a cluster, so that a machine of many clusters takes no longer than others."""
    assert_sound(compiled(name, machine, strategy, machine_named(machine).clusters))


LARGE = [name for name in RUNNING if name != "toy"]  # whose DDR of 64 MiB holds neither network


# In pieces ResNet-50 takes some millions of instructions on as many cores, which take hours to execute on arrays.
WHOLE = {(MANY_CORES, "graphturbo", "resnet50"): (MANY_CORES, "layerwise", "resnet50")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "strategy", "name"),
    [
        WHOLE.get(case, case)
        for case in covering(LARGE, ["layerwise", "tvm", "graphturbo"], ["resnet50", "bert-base-128"])
    ],
)
def test_a_network_of_its_real_size_runs_on_every_preset(name: str, machine: str, strategy: str) -> None:
    assert_sound(compiled(name, machine, strategy, machine_named(machine).clusters, small=False))
