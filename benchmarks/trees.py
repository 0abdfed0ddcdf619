"""Seconds until the best mapping of every layer on machine trees is proven, with everything free to be spread.

Processor time of one core after warm-up, for the least energy, latency and EDP: every different layer of ResNet-50
with batch 1, on a machine of five levels (registers of each operand, two shared memories and DRAM; 16 x 16 units) and
on presets of two, three and four axes; and every different layer of ResNet-18 on presets of five axes. Beside it, on a
few choices, the time of the search that makes tables of the whole lattice for each of them, and how long the checker
takes to judge proofs.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from tilestitch.base.errors import DoesNotFit, TooLarge
from tilestitch.commands.map.networks import open_network
from tilestitch.commands.map.sources import network_nests
from tilestitch.commands.map.tree_sources import TreeLayer, as_wide_as_on, bound_nest, layers_of_nests
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.tree_load import load_tree, parse_tree
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.bound import wired
from tilestitch.mapping.tree.choices import SpatialSpace, choices_of
from tilestitch.mapping.tree.free_certificate import free_certificate_of
from tilestitch.mapping.tree.free_checking import check_free_certificate
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping
from tilestitch.mapping.tree.spatial import Opener, best_spread, placement
from tilestitch.mapping.tree.spread_task import task_of
from tilestitch.mapping.tree.tables import Sums

FIVE_LEVELS = """
name: five-levels
mac_pj: 0.04
axes: [{name: D1, size: 16}, {name: D2, size: 16}]
memories:
  - {name: rf_W, size: 64, operands: [W], read_pj: 0.1, write_pj: 0.1, serves: [], ports: [{width_bits: 16}]}
  - {name: rf_I, size: 64, operands: [I], read_pj: 0.1, write_pj: 0.1, serves: [], ports: [{width_bits: 16}]}
  - {name: rf_O, size: 64, operands: [O], read_pj: 0.1, write_pj: 0.1, serves: [], ports: [{width_bits: 16}]}
  - name: L1
    size: 64 KiB
    operands: [I, W, O]
    read_pj: 10
    write_pj: 12
    serves: [D1, D2]
    ports: [{width_bits: 256, granule_bits: 16}]
  - name: L2
    size: 1 MiB
    operands: [I, W, O]
    read_pj: 40
    write_pj: 45
    serves: [D1, D2]
    ports: [{width_bits: 512, granule_bits: 16}]
  - {name: dram, size: 4 GiB, operands: [I, W, O], read_pj: 700, write_pj: 750, serves: [D1, D2],
     ports: [{width_bits: 64}]}
"""  # assumed: sizes and energies of the usual order, so that registers, memories and DRAM all matter
CONV5_2, CONV5_2_LIMIT = "layer4.1.conv2", 0.3  # seconds
LIMITS = {2: 1.0, 3: 5.0, 4: 5.0}  # seconds for a layer, by axes
OBJECTIVES = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)
CHECKED, CHECKED_WITHIN = "eyeriss-like", 10.0  # times of the search
PRESETS = ("eyeriss-like", "tpu-like", "tesla-npu-like", "edge-tpu-like", "meta-prototype", "ascend-like")
FIVE_AXES = ("simba", "h200")
COMPARED = 25  # choices that both searches open


def main() -> None:
    """Print a line for each machine, and the ratio of the two searches of one choice."""
    nests = network_nests(open_network("resnet50", batch=1, dims={}))
    layers = layers_of_nests(nests)[0]
    five = parse_tree(FIVE_LEVELS, "five-levels.yaml")
    conv5_2 = next(layer for layer in layers if layer.nest.name == CONV5_2)
    for objective in OBJECTIVES:
        _seconds(conv5_2, five, objective)  # compiles
        seconds = _seconds(conv5_2, five, objective)
        kept = _kept(seconds, CONV5_2_LIMIT)
        print(f"  conv5_2, five levels, {objective}: {seconds:.2f} s, limit {CONV5_2_LIMIT} s {kept}")
        _machine(layers, five, objective)
        for name in PRESETS:
            _machine([_narrow(layer) for layer in layers], load_tree(name), objective)
        _checks([conv5_2], five, objective)
        _checks([_narrow(layer) for layer in layers], load_tree(CHECKED), objective)
    _searches(conv5_2, five)
    small = layers_of_nests(network_nests(open_network("resnet18", batch=1, dims={})))[0]
    for name in FIVE_AXES:
        tree = load_tree(name)
        for objective in OBJECTIVES:
            _machine(as_wide_as_on(tree, small, ())[0], tree, objective)


def _narrow(layer: TreeLayer) -> TreeLayer:
    """The layer with the widths that ZigZag's machines are made for: 8 bits, and 16 of partial sums."""
    reads = tuple(replace(one, element_bits=8) for one in layer.nest.reads)
    write = replace(layer.nest.write, element_bits=16)
    return replace(layer, nest=replace(layer.nest, reads=reads, write=write), final_bits=8)


def _seconds(layer: TreeLayer, tree: MachineTree, objective: Objective) -> float:
    bare = bound_nest(layer, tree)
    begin = time.process_time()
    best_spread(bare, wired(bare, SpatialSpace()), objective=objective)
    return time.process_time() - begin


def _machine(layers: Sequence[TreeLayer], tree: MachineTree, objective: Objective) -> None:
    times: dict[str, float] = {}
    for layer in layers:
        try:
            times[layer.nest.name] = _seconds(layer, tree, objective)
        except (DoesNotFit, TooLarge):
            continue
    if not times:
        print(f"  {tree.name}: no layer fits")
        return
    slowest = max(times, key=lambda name: times[name])
    said = (
        f"  {tree.name}, {len(tree.axes)} axes, {objective}: {len(times)} of {len(layers)} different layers proven in "
    )
    said += f"{sum(times.values()):.1f} s; slowest {slowest} in {times[slowest]:.2f} s"
    if len(tree.axes) in LIMITS:
        limit = LIMITS[len(tree.axes)]
        late = sum(seconds > limit for seconds in times.values())
        said += f", limit {limit:.0f} s {_kept(times[slowest], limit)}{f' by {late} layers' if late else ''}"
    print(said)


def _checks(layers: Sequence[TreeLayer], tree: MachineTree, objective: Objective) -> None:
    """How often the time of a search its proof takes to judge, in all and at most."""
    ratios: dict[str, float] = {}
    searching = checking = 0.0
    for layer in layers:
        bare = bound_nest(layer, tree)
        space = wired(bare, SpatialSpace())
        begin = time.process_time()
        found = best_spread(bare, space, objective=objective).found
        searched = time.process_time() - begin
        proof = free_certificate_of(bare, space, found, objective)
        if not ratios:
            check_free_certificate(proof, bare, space, Sums.FULL, objective)  # compiles
        begin = time.process_time()
        check_free_certificate(proof, bare, space, Sums.FULL, objective)
        checked = time.process_time() - begin
        ratios[layer.nest.name] = checked / searched
        searching, checking = searching + searched, checking + checked
    slowest = max(ratios, key=lambda name: ratios[name])
    print(
        f"  {tree.name}, {objective}: {len(ratios)} proofs checked in {checking:.2f} s, {checking / searching:.1f} x "
        f"the search; most of {slowest}, {ratios[slowest]:.1f} x, limit {CHECKED_WITHIN:.0f} x "
        f"{_kept(ratios[slowest], CHECKED_WITHIN)}"
    )


def _searches(layer: TreeLayer, tree: MachineTree) -> None:
    """The same choices by both searches, each to the end."""
    bare = bound_nest(layer, tree)
    choices, task = choices_of(bare), task_of(bare, Sums.FULL)
    opener = Opener(task, choices)
    numbers = range(0, len(choices), -(-len(choices) // COMPARED))
    placements = [placement(bare, choices, number) for number in numbers]
    begin = time.process_time()
    for number in numbers:
        opener.least(number, MOST_LABELS, NEVER)
    middle = time.process_time()
    for placed in placements:
        best_mapping(placed)
    ratio = (time.process_time() - middle) / (middle - begin)
    print(f"  conv5_2, five levels, {len(numbers)} choices one by one: with tables of the lattice {ratio:.1f} x")


def _kept(seconds: float, limit: float) -> str:
    return "kept" if seconds <= limit else "BROKEN"
