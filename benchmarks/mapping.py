"""Seconds until the best mapping of a loop nest on a PE array is proven, and mappings priced a second.

Processor time of one core, after warm-up, on the preset dmazerunner-256, energy-delay product, exact divisors unless it
says otherwise. Beside it stand times of dMazeRunner's released code, measured on another machine: 480 mappings a second
and core; 56 to 80 s for the pruned, unproven search of ResNet-18.
"""

import json
import time
from collections.abc import Sequence

from tilestitch import api
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution
from tilestitch.mapping.dmazerunner import adapted_space
from tilestitch.mapping.json_lines import price_lines
from tilestitch.mapping.network import RepeatedNest, layers_of
from tilestitch.mapping.search import search, search_space
from tilestitch.passes import simplify

NETWORKS = ("resnet50", "mobilenet-v2", "bert-base-128")
LAYER_LIMIT, NETWORK_LIMIT = 1.0, {"resnet50": 10.0}  # seconds
PUBLISHED_RATE = 480  # mappings a second
PUBLISHED_SECONDS = (56, 80)  # of ResNet-18
LINES = 20_000
FACTORS = (2, 3, 4, 5, 6)  # of channels and of rows and columns: so many twos each
RAGGED = {  # small layers: a prime, and sizes with few divisors
    "3x3, 16 to 16 channels, 7 x 7": {"m": 16, "c": 16, "output": (7, 7), "window": SlidingWindow((3, 3))},
    "1x1, 32 to 64 channels, 14 x 14": {"m": 64, "c": 32, "output": (14, 14), "window": SlidingWindow((1, 1))},
    "1x1, 31 to 37 channels, 13 x 13": {"m": 37, "c": 31, "output": (13, 13), "window": SlidingWindow((1, 1))},
}


def main() -> None:
    """Print a line for each network, rate and size."""
    machine = array_of_core(load_machine("dmazerunner-256"))
    small = convolution("warm-up", n=1, m=4, c=4, output=(4, 4), window=SlidingWindow((3, 3)))
    for mode in CostMode:
        _proven(small, machine, mode)
        _proven(small, machine, mode, ragged=True)
    for network in NETWORKS:
        layers = _layers(network)
        for mode in CostMode:
            _network(network, layers, machine, mode)
    _pruned(machine)
    _prices(machine)
    _growth(machine)
    for name, sizes in RAGGED.items():
        nest = convolution(name, n=1, **sizes)
        exact, ragged = _proven(nest, machine, CostMode.DEFAULT), _proven(nest, machine, CostMode.DEFAULT, ragged=True)
        print(
            f"  ragged factors, {name}: {ragged[0]:.2f} s ({ragged[0] / exact[0]:.0f} x that of divisors); "
            f"pJ x cycles {ragged[1] / exact[1]:.3f} x"
        )


def _layers(network: str) -> tuple[RepeatedNest, ...]:
    return layers_of(simplify(api.load_graph(network, batch=1)))[0]


def _proven(nest: LoopNest, machine: ArrayMachine, mode: CostMode, *, ragged: bool = False) -> tuple[float, float]:
    """Seconds, and the proven least energy-delay product."""
    begin = time.process_time()
    found = search(search_space(nest, machine, mode, ragged=ragged), Objective.EDP).best[0]
    return time.process_time() - begin, found.edp


def _network(network: str, layers: Sequence[RepeatedNest], machine: ArrayMachine, mode: CostMode) -> None:
    times = {layer.nest.name: _proven(layer.nest, machine, mode)[0] for layer in layers}
    slowest = max(times, key=lambda name: times[name])
    total = sum(times.values())
    limit = NETWORK_LIMIT.get(network)
    whole = "" if limit is None else f", limit {limit:.0f} s {_kept(total, limit)}"
    print(
        f"  {network}, {mode}: {len(times)} different layers proven in {total:.2f} s{whole}; slowest {slowest} in "
        f"{times[slowest]:.2f} s, limit {LAYER_LIMIT:.0f} s {_kept(times[slowest], LAYER_LIMIT)}"
    )


def _pruned(machine: ArrayMachine) -> None:
    """dMazeRunner's adaptive search and the proof, on the same layers."""
    layers = _layers("resnet18")
    begin = time.process_time()
    for layer in layers:
        search(adapted_space(layer.nest, machine, CostMode.PUBLISHED)[0], Objective.EDP)
    pruned = time.process_time() - begin
    proven = sum(_proven(layer.nest, machine, CostMode.PUBLISHED)[0] for layer in layers)
    low, high = PUBLISHED_SECONDS
    print(
        f"  resnet18, published: proven in {proven:.2f} s, dMazeRunner's rules {pruned:.2f} s; the released code took "
        f"{low} to {high} s for its rules, {low / proven:.0f} to {high / proven:.0f} x the proof"
    )


def _prices(machine: ArrayMachine) -> None:
    """Lines of JSON, each with a mapping of another tiling."""
    nest = convolution("conv4_2", n=4, m=256, c=256, output=(14, 14), window=SlidingWindow((3, 3)))
    for mode in CostMode:
        space = search_space(nest, machine, mode)
        lines = [_line(nest, found.mapping, mode) for found in search(space, Objective.EDP, keep=200).best]
        begin = time.process_time()
        priced = sum('"valid": true' in line for line in price_lines(lines * (LINES // len(lines)), machine))
        rate = priced / (time.process_time() - begin)
        print(
            f"  lines of JSON, {mode}: {rate:,.0f} mappings a second; {rate / PUBLISHED_RATE:.0f} x the released code"
        )


def _line(nest: LoopNest, mapping: LoopMapping, mode: CostMode) -> str:
    names = [loop.name for loop in nest.loops]
    factors = {level: dict(zip(names, row, strict=True)) for level, row in mapping.factors.items()}
    orders = {"dram": mapping.dram_order, "spm": mapping.spm_order}
    return json.dumps(
        {
            "nest": {"kind": "conv", "extents": dict(zip(names, nest.extents, strict=True)), "stride": 1},
            "factors": factors,
            "orders": {level: [names[at] for at in order] for level, order in orders.items()},
            "mode": mode,
        }
    )


def _growth(machine: ArrayMachine) -> None:
    """3 x 3 convolutions whose channels, rows and columns are powers of two."""
    before = None
    for twos in FACTORS:
        size = 2**twos
        nest = convolution("growth", n=1, m=4 * size, c=4 * size, output=(size, size), window=SlidingWindow((3, 3)))
        tilings = search_space(nest, machine).tilings()
        seconds = _proven(nest, machine, CostMode.DEFAULT)[0]
        growth = "" if before is None else f"; tilings {tilings / before[0]:.1f} x, time {seconds / before[1]:.1f} x"
        print(f"  {4 * twos + 6} prime factors: {tilings:,} tilings, proven in {seconds:.3f} s{growth}")
        before = tilings, seconds


def _kept(seconds: float, limit: float) -> str:
    return "kept" if seconds <= limit else "BROKEN"
