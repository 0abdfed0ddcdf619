"""Executing the program on arrays gives what the network gives, on every machine, by every strategy."""

from itertools import product

import pytest

from tests.helpers.pairs import covering, each_once, one_each
from tests.helpers.verified import ZOO, assert_sound, compiled, machine_named, model
from tilestitch import zoo
from tilestitch.ir.choices import Stage
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES, strategy_named

SMALL = (
    "resnet18",
    "resnet50",
    "bert-base-16",
    "bert-base-16-decomposed",
    "bert-base-16-attention",
    "bert-base-7",
)
STRATEGY_NAMES = [strategy.name for strategy in STRATEGIES]
REPORTED = [("resnet18", 64), ("resnet50", 64), ("bert-base-128", 32)]


@pytest.mark.parametrize(
    ("name", "strategy", "machine"),
    each_once(SMALL, STRATEGY_NAMES, ["toy", "stcp920", "stcp920-paper"]),
)
def test_program_means_the_network(name: str, strategy: str, machine: str) -> None:
    clusters = machine_named(machine).clusters
    assert_sound(compiled(name, machine, strategy, 2 * clusters, batch_per_cluster=1))


LONGEST = ("densenet121", "googlenet")


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        *each_once([name for name in ZOO if name not in (*SMALL, *LONGEST)], STRATEGY_NAMES),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in product(LONGEST, STRATEGY_NAMES)),
    ],
)
def test_every_network_of_the_zoo_means_itself(name: str, strategy: str) -> None:
    assert_sound(compiled(name, "toy", strategy, 2))


@pytest.mark.parametrize(("batch", "strategy"), one_each([1, 3, 8], STRATEGY_NAMES))
def test_any_batch_is_divided_over_clusters_and_iterations(batch: int, strategy: str) -> None:
    report = compiled("resnet18", "toy", strategy, batch)
    assert_sound(report)
    assert report.clusters == min(2, batch)
    assert report.batch_per_cluster == -(-batch // report.clusters)
    assert report.iterations * report.batch_per_iteration == report.batch_per_cluster


def test_batch_norm_may_stay_an_operator() -> None:
    assert_sound(compiled("resnet18", "toy", "tvm", 2, fold_bn=False))


def test_the_searched_batch_is_never_slower_than_the_rule() -> None:
    ruled = compiled("resnet18", "toy", "tvm", 8)
    searched = compiled("resnet18", "toy", "tvm", 8, batch_per_cluster="auto")
    assert_sound(searched)
    assert searched.latency_cycles <= ruled.latency_cycles


@pytest.mark.quick
def test_batches_back_to_back_take_no_longer_each_than_the_first() -> None:
    report = compiled("resnet18", "toy", "tvm", 4, batches=3)
    assert_sound(report)
    assert report.sustained_cycles_per_batch <= report.latency_cycles


@pytest.mark.quick
def test_all_forms_of_a_network_give_one_schedule() -> None:
    """GELU, layer norm, softmax and attention, native or decomposed: the same kernels, tilings and cycles."""
    machine, found = machine_named("toy"), []
    for form in ("", "-decomposed", "-attention"):
        name = f"bert-base-16{form}"
        done = compile_network(model(name, True), name, machine, strategy_named("tvm"), Options(batch=2))
        assert done.schedule is not None
        assert done.trace is not None
        kernels = [(len(k.operators), k.tiling.splits, k.tiling.tile, k.tiling.order) for k in done.schedule.kernels]
        found.append((kernels, done.trace.latency_cycles))
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "machine", "strategy"), covering(REPORTED, ["stcp920", "stcp920-paper"], STRATEGY_NAMES)
)
def test_program_means_the_network_at_the_reported_size(network: tuple[str, int], machine: str, strategy: str) -> None:
    """ResNet-50 at 16 images a cluster, BERT-base-128 at 8 sentences a cluster; small ones run in every combination."""
    name, batch = network
    assert_sound(compiled(name, machine, strategy, batch, small=False))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "strategy"),
    covering([entry.name_for("384" if "large" in entry.name else "128") for entry in zoo.ENTRIES], STRATEGY_NAMES),
)
def test_every_network_of_the_zoo_means_itself_at_its_own_size(name: str, strategy: str) -> None:
    """A sample on one cluster of a real chip."""
    assert_sound(compiled(name, "stcp920", strategy, 1, small=False))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "batch", "expected"),
    [
        ("resnet50", 64, 2),
        ("bert-base-128", 32, 4),
        ("bert-base-256", 16, 2),
        ("bert-large-384", 8, 1),
        ("bert-base-512", 8, 1),
        ("mobilenet-v2", 128, 2),
        ("conformer", 12, 1),
    ],
)
def test_rule_gives_the_published_batch_per_cluster(name: str, batch: int, expected: int) -> None:
    """Zhao et al., OSDI'23, Table 2: TVM's per-cluster batches on the STCP920.

    Three rows of that table differ: the rule gives 2 for ViT and DenseNet (published: 4) and 256 for DLRM (64).
    """
    options = Options(batch=batch, stop_after=Stage.SCHEDULE)
    machine = machine_named("stcp920")
    done = compile_network(model(name, False), name, machine, strategy_named("tvm"), options)
    assert done.schedule is not None
    assert done.schedule.batch == expected


@pytest.mark.slow
def test_tvm_moves_82_megabytes_an_image_of_resnet50() -> None:
    """At two images an iteration; derived from FuseOps's groups with every tensor through DDR."""
    report = compiled("resnet50", "stcp920", "tvm", 64, small=False)
    assert report.batch_per_iteration == 2
    assert report.ddr_bytes / report.batch_per_cluster == pytest.approx(82e6, rel=0.02)
