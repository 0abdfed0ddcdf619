"""What cannot be planned: machines that are refused with every reason, and pieces that wait for each other."""

from dataclasses import replace

import pytest

from tests.helpers.random_networks import random_model
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.hardware.accelerator import Accelerator, Level, Sharing
from tilestitch.hardware.load import load_machine
from tilestitch.ir.instance import Instance, InstanceGraph
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES
from tilestitch.schedule.orders import can_run, depth_first


def without(machine: Accelerator, *levels: Level) -> Accelerator:
    """The machine with some memories taken away."""
    return replace(machine, memories=tuple(m for m in machine.memories if m.level not in levels))


def chip_wide_gb(machine: Accelerator) -> Accelerator:
    """The machine with DDR and GB shared by all clusters."""
    shared = (Level.DDR, Level.GB)
    memories = tuple(replace(m, sharing=Sharing.CHIP) if m.level in shared else m for m in machine.memories)
    return replace(machine, memories=memories)


TOY = load_machine("toy")
WITHOUT_LB = replace(TOY.cores[0], levels=(Level.ACCUMULATORS,))


@pytest.mark.parametrize(
    ("machine", "reasons"),
    [
        (without(TOY, Level.GB, Level.LB), ["cores with neither a local buffer"]),
        (replace(without(TOY, Level.GB), cores=(TOY.cores[0], WITHOUT_LB)), ["cores with neither a local buffer"]),
        (replace(TOY, cores=(replace(TOY.cores[0], vector=None),) * 2), ["none of its cores has a vector unit"]),
        (chip_wide_gb(TOY), ["clusters share one global buffer"]),
        (
            replace(chip_wide_gb(TOY), cores=(replace(TOY.cores[0], vector=None),) * 2),
            ["none of its cores has a vector unit", "clusters share one global buffer"],
        ),
    ],
)
def test_what_cannot_be_compiled_for_yet_is_refused_with_every_reason(machine: Accelerator, reasons: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        compile_network(random_model(3), "random3", machine, STRATEGIES[0], Options(batch=2))
    for reason in reasons:
        assert reason in str(caught.value)


def test_sub_graphs_that_wait_for_each_other_are_not_run():
    """As operators that move with their kernel may leave them: each piece reads what the other makes."""
    none = Instance(0, "g0[0]", 0, (), {}, {}, {})
    assert not can_run(InstanceGraph((none, none), ((1,), (0,))))
    assert can_run(InstanceGraph((none, none), ((), (0,))))
    with pytest.raises(InputError, match="reads what runs after it"):
        depth_first(InstanceGraph((none, none, none), ((), (0, 2), (1,))))


def test_a_network_whose_kernels_cross_its_sub_graphs_is_compiled():
    done = api.compile("llama-block-prefill-128:small", "dmazerunner-256", strategy="graphturbo", batch=2)
    assert done.report is not None
