"""Random small networks on random small machines: verified, or a clear refusal; and laws that always hold."""

import os

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.random_networks import random_machine, random_model
from tests.helpers.random_tensors import random_tensor_model
from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.load import load_machine
from tilestitch.ops import generic
from tilestitch.pipeline.compile import References, compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES, Strategy
from tilestitch.sim.chip.check import Reference, checked

EXAMPLES = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "slow" else 6


@settings(max_examples=EXAMPLES)
@given(network=st.integers(0, 10**6), machine=st.integers(0, 10**6), batch=st.integers(1, 5))
def test_random_network_on_random_machine_is_verified_or_does_not_fit(network: int, machine: int, batch: int) -> None:
    assert_verified_or_misfit(random_model(network), network, machine, batch)


@settings(max_examples=EXAMPLES // 2)
@given(network=st.integers(0, 10**6), machine=st.integers(0, 10**6), batch=st.integers(1, 3))
def test_random_rearrangements_are_verified_or_do_not_fit(network: int, machine: int, batch: int) -> None:
    assert_verified_or_misfit(random_model(network, rearranging=True), network, machine, batch)


def assert_verified_or_misfit(model: onnx.ModelProto, network: int, machine: int, batch: int) -> None:
    hardware = random_machine(machine)
    references: References = {}
    misfits: list[str] = []
    for strategy in STRATEGIES:
        try:
            options = Options(batch=batch, verify=True, batch_per_cluster="auto" if network % 3 == 0 else "rule")
            done = compile_network(model, f"random{network}", hardware, strategy, options, references=references)
        except DoesNotFit as error:
            misfits.append(str(error))
            continue
        report = done.report
        assert report is not None
        assert report.verified, report.checks
        assert report.latency_cycles >= report.bound_cycles
        assert report.ddr_bytes >= report.compulsory_bytes
    assert all("Try:" in misfit and (" holds " in misfit or " has " in misfit) for misfit in misfits)


@settings(max_examples=EXAMPLES // 3)
@given(network=st.integers(0, 10**6), machine=st.integers(0, 10**6))
def test_random_tensor_operators_mean_what_onnxruntime_computes(network: int, machine: int) -> None:
    """Executed at both widths, by rules of our own, and nothing is under its bound."""
    model, inputs = random_tensor_model(network)
    hardware = load_machine("toy") if machine % 2 else random_machine(machine)
    for strategy in STRATEGIES:
        try:
            done = compile_network(model, f"tensors{network}", hardware, strategy, Options())
        except DoesNotFit:
            continue
        assert done.schedule is not None
        assert done.trace is not None
        assert done.report is not None
        assert all(op.kind != generic.KIND for op in done.schedule.graph.operators)
        checks = checked(done.trace, Reference(model, done.schedule.graph, [inputs])).rows
        assert any(row.passed for row in checks), checks
        assert not any(row.failed for row in checks), checks
        assert done.report.latency_cycles >= done.report.bound_cycles
        assert done.report.ddr_bytes >= done.report.compulsory_bytes


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_two_runs_give_the_same_instructions(strategy: Strategy) -> None:
    texts = set()
    for _ in range(2):
        done = compile_network(random_model(3), "random3", random_machine(4), strategy, Options(batch=2))
        assert done.program is not None
        texts.add(done.program.text())
    assert len(texts) == 1
