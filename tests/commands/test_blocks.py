"""Plans of fused blocks as programs: they mean the network, each core makes its strip, and nothing else passes DDR."""

import json
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest

from tests.helpers.command import run
from tests.helpers.graphs import Net, conv
from tests.helpers.light_models import light_model
from tests.helpers.pairs import each_once, first
from tests.helpers.random_networks import random_machine, random_model
from tests.helpers.unweighted import unweighted
from tilestitch import api
from tilestitch.api import FusionPlan, NamedBlock
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.commands.fuse.plan_file import parse_plan
from tilestitch.commands.fuse.simulated_plan import simulated
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.program import Kind
from tilestitch.ir.schedule import BlockRun
from tilestitch.partition.blocks.model import BlockCost
from tilestitch.partition.blocks.plans import block_cost, plan_named
from tilestitch.passes import simplify
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.options import Options

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


@pytest.mark.parametrize(("network", "plan", "machine"), each_once(NETWORKS, NAMED, ["mlu100", "stcp920"]))
def test_a_plan_means_the_network(network: str, plan: str, machine: str) -> None:
    compiled(network, machine, plan)


@pytest.mark.parametrize("seed", first(1, range(2)))
@pytest.mark.parametrize("name", first(1, ["squeezenet", "shufflenet", "inception_v1", "densenet121"]))
def test_a_random_plan_of_a_light_model_means_it(name: str, seed: int) -> None:
    model, machine = light_model(name, image=64), load_machine("mlu100")
    compiled(model, machine, random_plan(cost_of(model, machine), seed, 32))


@pytest.mark.parametrize("seed", first(6, range(40)))
def test_a_random_plan_of_a_random_network_means_it(seed: int) -> None:
    """On machines with and without buffers that are shared; on the smallest of them not everything fits."""
    model = random_model(seed, rearranging=seed % 3 == 0)
    machine = load_machine("mlu100") if seed % 2 else random_machine(seed)
    if len(machine.groups) > 1 or machine.cores[0].matrix is None:
        machine = load_machine("toy")
    for number in range(3):
        compiled(model, machine, random_plan(cost_of(model, machine), 100 * seed + number, len(machine.cores)))


def chain(rows: int = 16) -> onnx.ModelProto:
    """Three 3x3 convolutions; the second's result is read by an addition behind the third as well."""
    net = Net()
    x = net.input(1, 8, rows, 8)
    first = net.op("Relu", conv(net, x, 8, 8, 3), name="r1")
    second = net.op("Relu", conv(net, first, 8, 8, 3), name="r2")
    third = conv(net, second, 8, 8, 3)
    return net.model(net.op("Add", third, second, name="sum"))


def ddr_bytes(done: Compilation, run: BlockRun) -> tuple[int, int]:
    """What a block reads from DDR, and what it writes there: payloads, a broadcast once."""
    program = done.program
    assert program is not None
    ddr = next(number for number, space in enumerate(program.spaces) if space.level is Level.DDR)
    read = written = 0
    for at in np.flatnonzero((program.kernel >= run.first) & (program.kernel <= run.last)):
        if program.kind[at] == Kind.COPY:
            source, *targets = program.operand_buffer[program.operand_offsets[at] : program.operand_offsets[at + 1]]
            read += int(program.size_bytes[at]) * (program.buffers.space[source] == ddr)
            written += sum(int(program.size_bytes[at]) * (program.buffers.space[one] == ddr) for one in targets)
    return int(read), int(written)


def blocks_by(model: onnx.ModelProto | str, machine: Accelerator, *parts: tuple[Sequence[int], int]) -> FusionPlan:
    """Layers by number, and cores."""
    layers = cost_of(model, machine).network.layers
    return FusionPlan("mine", [NamedBlock(tuple(layers[one].name for one in block), cores) for block, cores in parts])


# On 4 cores of 16 rows, three convolutions need 3 rows more on each side that has any; in GB each row arrives once.
ROWS_READ = {"mlu100": 7 + 10 + 10 + 7, "stcp920": 16}


@pytest.mark.parametrize("machine", ROWS_READ)
def test_a_block_reads_its_strips_with_halos_and_writes_what_leaves_once(machine: str) -> None:
    """By hand; a row is 128 B."""
    model, target = chain(), load_machine(machine)
    done = compiled(model, target, blocks_by(model, target, (range(4), 4)))
    assert done.schedule is not None
    weights = 3 * (8 * 8 * 9 + 8) * 2
    assert ddr_bytes(done, done.schedule.blocks[0]) == (weights + ROWS_READ[machine] * 128, 16 * 128)
    assert {home.level for home in done.schedule.homes} == {Level.LB}


@pytest.mark.parametrize("machine", ROWS_READ)
def test_a_result_that_is_read_inside_and_leaves_is_stored_once_and_not_read_back(machine: str) -> None:
    """The second convolution's: what a core makes beyond its strip, its neighbour stores."""
    model, target = chain(), load_machine(machine)
    done = compiled(model, target, blocks_by(model, target, (range(3), 4), ([3], 2)))
    assert done.schedule is not None
    weights = 3 * (8 * 8 * 9 + 8) * 2
    first, second = (ddr_bytes(done, run) for run in done.schedule.blocks)
    assert first == (weights + ROWS_READ[machine] * 128, 2 * 16 * 128)
    assert second == (2 * 16 * 128, 16 * 128)


@pytest.mark.parametrize("network", ["resnet18:small", "mobilenet-v2:small", "alexnet:small"])
@pytest.mark.parametrize("cores", first(1, [4, 1]))
def test_a_block_moves_no_more_than_the_model_says(network: str, cores: int) -> None:
    """And on one core as much, but for rows that a stride leaves out; with several the model takes a halo for all."""
    machine = load_machine("mlu100")
    cost = cost_of(network, machine)
    count = len(cost.network.layers)
    parts = [range(start, min(start + 5, count)) for start in range(0, count, 5)]
    plan = FusionPlan("fives", [NamedBlock(tuple(cost.network.layers[n].name for n in part), cores) for part in parts])
    done = compiled(network, machine, plan)
    assert done.schedule is not None
    for block in done.schedule.blocks:
        row = np.zeros((1, count), np.uint8)
        row[0, list(parts[block.number])] = 1
        traffic = cost.relaxed(capacity=False, traffic_only=True).times(row)[0, cost.model.core_counts.index(cores)]
        modelled = traffic * cost.model.bandwidth / 1e12
        moved = sum(ddr_bytes(done, block))
        assert moved <= 1.001 * modelled
        assert cores > 1 or moved >= 0.98 * modelled


def test_nothing_passes_between_the_cores_of_a_block():
    """Every copy is from DDR to cores, or from a core to DDR."""
    done = compiled("resnet18:small", "mlu100", "one-block")
    program = done.program
    assert program is not None
    for at in np.flatnonzero(program.kind == Kind.COPY):
        ends = program.operand_buffer[program.operand_offsets[at] : program.operand_offsets[at + 1]]
        levels = [program.spaces[program.buffers.space[one]].level for one in ends]
        assert (levels[0] is Level.DDR) != (Level.DDR in levels[1:])


def test_a_block_is_one_launch_and_its_times_add_up():
    """A launch waits for all before it, so that the time of a program is that of its blocks, one after another."""
    network, machine = "resnet18:small", load_machine("mlu100")
    layers = range(len(cost_of(network, machine).network.layers))
    fives = [(layers[start : start + 5], 4) for start in layers[::5]]
    done = compiled(network, machine, blocks_by(network, machine, *fives))
    assert done.schedule is not None
    assert done.program is not None
    assert int((done.program.kind == Kind.LAUNCH).sum()) == len(done.schedule.blocks) == len(fives)
    ran = simulated(done, len(done.schedule.blocks))
    assert sum(ran.blocks_ps) == ran.latency_ps
    assert min(ran.blocks_ps) > 20 * 10**6  # the launch


def test_results_beside_each_other_are_cut_at_the_same_height():
    """Of 16 and of 8 rows, on 16 cores: each needs a row of one and at most one of the other, from 4 rows of both."""
    net = Net()
    first = net.op("Relu", conv(net, net.input(1, 8, 16, 8), 8, 8, 3))
    fine, coarse = conv(net, first, 8, 8, 3), conv(net, first, 8, 8, 3, stride=2)
    model, machine = net.model(fine, coarse), load_machine("mlu100")
    done = compiled(model, machine, blocks_by(model, machine, (range(3), 16)))
    assert done.schedule is not None
    assert max(strip.extents[2] for _, strip in done.schedule.kernels[0].strips) == 4


def test_strips_of_two_results_may_begin_in_more_places_than_there_are_cores(tmp_path):
    """One is cut along its first axis, the other one, transposed, along its second: 8 and 10 places on 18 cores."""
    net = Net()
    made = net.op("MatMul", net.input(3, 8, 14, 8), net.random(8, 96))
    turned = net.op("Transpose", net.op("Add", made, net.random(96)), perm=[0, 2, 1, 3])
    model = net.model(turned, made)
    done = api.compile(model, "mlu100", strategy="one-block", verify=True)
    assert done.schedule is not None
    assert done.report is not None
    tilings = [kernel.tiling for kernel in done.schedule.kernels]
    assert any(prod(one.splits) > 32 for one in tilings)
    assert done.report.verified
    onnx.save(model, tmp_path / "net.onnx")
    given = [tmp_path / "net.onnx", "--machine", "mlu100"]
    kept = run(
        "compile", *given, "--strategy", "one-block", "--stop-after", "schedule", "--json", tmp_path / "plan.json"
    )
    assert kept.exit_code == 0
    again = run("compile", tmp_path / "net.onnx", "--from", tmp_path / "plan.json")
    assert again.exit_code == 0
    assert f"{done.report.latency_cycles:,} cycles" in again.output


def small(lb_bytes: int) -> Accelerator:
    """The MLU100 with less in each core."""
    machine = load_machine("mlu100")
    memories = (replace(one, size_bytes=lb_bytes) if one.level is Level.LB else one for one in machine.memories)
    return replace(machine, memories=tuple(memories))


@pytest.mark.slow
def test_what_finds_no_room_is_spilled_and_still_right():
    """All in one block; where not all strips fit in a core, some pass DDR."""
    model = chain(256)
    spilled = [
        len(done.schedule.kernels) - 1 - len(done.schedule.homes)
        for lb_bytes in (2**21, 2**11)
        if (done := compiled(model, small(lb_bytes), "one-block")).schedule
    ]
    assert spilled[0] == 0 < spilled[1]


def test_a_block_that_cannot_run_is_refused_by_number():
    """Not even one row of one tile fits."""
    with pytest.raises(DoesNotFit, match=r"^block 0: kernel .* its smallest tile needs"):
        api.compile(chain(64), small(2**8), strategy="one-block")
    with pytest.raises(DoesNotFit, match=r"mine: blocks\[0\]: 4 layers on 1 cores do not fit"):
        api.compile(chain(64), small(2**12), strategy=blocks_by(chain(64), small(2**12), (range(4), 1)))


def test_blocks_out_of_order_are_refused():
    model, machine = chain(), load_machine("mlu100")
    with pytest.raises(InputError, match=r"mine: blocks\[0\]: layer 'sum' reads"):
        api.compile(model, machine, strategy=blocks_by(model, machine, ([3], 1), (range(3), 1)))


def test_unlike_cores_are_refused():
    """Each core of a block runs all of its operators."""
    machine = load_machine("mlu100")
    odd = replace(machine.cores[0], vector=replace(machine.cores[0].vector, name="other"))  # pyright: ignore
    with pytest.raises(InputError, match="cores that are not alike"):
        api.compile(chain(), replace(machine, cores=(*machine.cores[:-1], odd)), strategy="dlfusion")


def test_a_plan_file_gives_the_same_program_to_the_byte(tmp_path):
    """Written, read back, compiled: as the plan by its name."""
    path = tmp_path / "plan.json"
    assert run("fuse", "resnet18:small", "--plan", "dlfusion", "-o", path).exit_code == 0
    plan = FusionPlan("plan.json", parse_plan(path.read_text(), "plan.json"))
    programs = [
        str(api.compile("resnet18:small", "mlu100", strategy=one, options=Options(stop_after="lower")).program.text())  # pyright: ignore
        for one in ("dlfusion", plan)
    ]
    assert programs[0] == programs[1]


def test_the_command_shows_simulated_times_beside_estimated_ones(tmp_path):
    """As text and JSON, verified; a plan's file is a strategy for compare and show too."""
    path = tmp_path / "plan.json"
    result = run("fuse", "resnet18:small", "--plan", "dynamic-cores", "--simulate", "--verify", "-o", path)
    assert result.exit_code == 0, result.stderr
    assert "the program equals onnxruntime: float32 error" in result.stdout
    assert "est. / sim." in result.stdout
    value = json.loads(run("fuse", "resnet18:small", "--plan", path, "--simulate", "--json", "-").stdout)
    assert value["simulated"]["latency_ps"] == sum(block["simulated_ps"] for block in value["blocks"])
    assert value["simulated"]["verified"] is None
    compared = run("compare", "resnet18:small", "--machine", "mlu100", "--strategy", "tvm", "--strategy", path).stdout
    assert f"{value['simulated']['latency_cycles'] / 1000:.3f} us" in compared
    shown = run("show", "schedule", "resnet18:small", "--machine", "mlu100", "--strategy", path).stdout
    assert "31 fused blocks, one launch each" in shown


def published() -> list[list[str]]:
    """The rows of the table in docs/dlfusion.md."""
    text = (Path(__file__).parent.parent.parent / "docs" / "dlfusion.md").read_text(encoding="utf-8")
    table = text[text.index("| est. / sim. |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def by_layer(cost: BlockCost, block: Sequence[int], cores: int) -> float:
    """Picoseconds of a block in which only the transfers of a layer hide behind its arithmetic.

    A layer's transfers are its weights, the operands that it is the first to read, and its result if it leaves.
    """
    network, model, count = cost.network, cost.model, len(cost.network.layers)
    extents = [(layer.rows, layer.result_bytes) for layer in network.layers] + list(network.inputs)
    leaving = set(block) & network.outputs
    leaving |= {read.tensor for n in range(count) if n not in block for read in network.layers[n].reads} & set(block)
    need: dict[int, int] = {}
    strips: dict[int, int] = {}
    for n in reversed(block):
        rows = network.layers[n].rows
        need[n] = min(rows, max(need.get(n, 0), -(-rows // cores) if n in leaving else 0))
        for read in network.layers[n].reads:
            most = extents[read.tensor][0]
            wanted = most if read.whole else min(most, (need[n] - 1) * read.stride + read.kernel)
            need[read.tensor] = max(need.get(read.tensor, 0), wanted)
            strips[read.tensor] = max(strips.get(read.tensor, 0), min(cores, rows))
    time, seen = float(model.launch_ps + model.sync_ps * cores), set(block)
    for n in block:
        layer = network.layers[n]
        arithmetic = layer.operations / (model.core_flops * layer.utilization) * 1e12 * need[n] / layer.rows
        size = layer.weight_bytes + layer.result_bytes * (n in leaving)
        for tensor in {read.tensor for read in layer.reads} - seen:
            size += extents[tensor][1] * strips[tensor] * need[tensor] / extents[tensor][0]
            seen.add(tensor)
        transfers = size / min(model.bandwidth, model.channel_bandwidth * cores) * 1e12
        time += max(arithmetic + model.layer_ps, transfers)
    return time


def test_the_compiled_model_by_layer_is_that_of_the_formula():
    """Of stretches of layers, on every number of cores, up to rounding; never below the model of whole blocks."""
    random, cost = Random(0), cost_of("googlenet", load_machine("mlu100"))
    layered = replace(cost.relaxed(capacity=False), model=replace(cost.model, by_layer=True))
    for _ in range(40):
        start = random.randrange(len(cost.network.layers))
        block = range(start, min(len(cost.network.layers), start + random.choice((1, 3, 9))))
        row = np.zeros((1, len(cost.network.layers)), np.uint8)
        row[0, list(block)] = 1
        for cores, time, whole in zip(
            cost.model.core_counts, layered.times(row)[0], cost.relaxed(capacity=False).times(row)[0], strict=True
        ):
            assert abs(time - by_layer(cost, block, cores)) <= 1 + 1e-9 * time
            assert time >= whole - 1


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.slow] * (row[:2] != ["alexnet", "exact-by-layer"])) for row in published()],
    ids=lambda row: "-".join(row[:2]),
)
def test_estimate_and_simulation_are_as_published(row: list[str]) -> None:
    """To the last digit of the table."""
    network, plan, *_ = row
    model, machine = unweighted(network), load_machine("mlu100")
    cost = cost_of(model, machine)
    found = plan_named(cost, plan)
    ran = simulated(api.compile(model, machine, strategy=plan), len(found.blocks))
    ratios = [cost / time for cost, time in zip(found.costs, ran.blocks_ps, strict=True)]
    layered = sum(by_layer(cost, block, cores) for block, cores in zip(found.blocks, found.choices, strict=True))
    assert row[2:] == [
        f"{len(found.blocks)}",
        f"{found.cost / 1e9:.3f}",
        f"{ran.latency_ps / 1e9:.3f}",
        f"{found.cost / ran.latency_ps:.2f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        f"{layered / ran.latency_ps:.2f}",
    ]
