"""Plans of fused blocks as programs: they mean the network, each core makes its strip, and nothing else passes DDR."""

from random import Random

import onnx
import pytest

from tests.light_models import light_model
from tests.random_networks import random_machine, random_model
from tilestitch import api
from tilestitch.api import FusionPlan, NamedBlock
from tilestitch.compilation import Compilation
from tilestitch.cost.fused import BlockCost
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.load import load_machine
from tilestitch.partition.plans import block_cost
from tilestitch.passes import simplify

NAMED = ("dynamic-cores", "fixed-fusion", "dlfusion", "exact", "one-block")
NETWORKS = ("resnet18:small", "mobilenet-v2:small", "googlenet:small", "bert-base-128:small", "conformer:small")


def cost_of(model: onnx.ModelProto | str, machine: Accelerator) -> BlockCost:
    return block_cost(simplify(api.load_graph(model)), machine)


def random_plan(cost: BlockCost, seed: int, most: int) -> FusionPlan:
    """Layers in a random order in which they can run, cut at random places, on random numbers of cores."""
    random, before = Random(seed), cost.network.before()
    left, order = list(range(len(before))), []
    while left:
        ready = [number for number in left if all(one in order for one in before[number])]
        order.append(random.choice(ready))
        left.remove(order[-1])
    share = random.choice((0.1, 0.4, 0.8))
    blocks: list[list[str]] = []
    for number in order:
        if not blocks or random.random() < share:
            blocks.append([])
        blocks[-1].append(cost.network.layers[number].name)
    return FusionPlan("random", [NamedBlock(tuple(block), random.randint(1, most)) for block in blocks])


def compiled(model: onnx.ModelProto | str, machine: Accelerator | str, plan: FusionPlan | str) -> Compilation:
    """Verified, and not under its bound."""
    done = api.compile(model, machine, strategy=plan, verify=True)
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert done.report.latency_cycles >= done.report.bound_cycles
    return done


@pytest.mark.parametrize("machine", ["mlu100", "stcp920"])
@pytest.mark.parametrize("plan", NAMED)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_plan_means_the_network(network: str, plan: str, machine: str) -> None:
    compiled(network, machine, plan)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v1", "densenet121"])
@pytest.mark.parametrize("seed", range(2))
def test_a_random_plan_of_a_light_model_means_it(name: str, seed: int) -> None:
    model, machine = light_model(name, image=64), load_machine("mlu100")
    compiled(model, machine, random_plan(cost_of(model, machine), seed, 32))


@pytest.mark.parametrize("seed", range(40))
def test_a_random_plan_of_a_random_network_means_it(seed: int) -> None:
    """On machines with and without buffers that are shared; on the smallest of them not everything fits."""
    model = random_model(seed, rearranging=seed % 3 == 0)
    machine = load_machine("mlu100") if seed % 2 else random_machine(seed)
    if len(machine.groups) > 1 or machine.cores[0].matrix is None:
        machine = load_machine("toy")
    for number in range(3):
        compiled(model, machine, random_plan(cost_of(model, machine), 100 * seed + number, len(machine.cores)))
