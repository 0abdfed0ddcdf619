"""Cycles a second of the array simulator, with every value moved and computed, and seconds of whole networks.

Processor time of one core, after warm-up. Beside it stand ticks a second of DiRAC's released code, measured on another
machine by a broadcast sum with long passes of the register files: 68 thousand at 256 elements, 263 thousand at 64,
1.5 to 4.3 million at 9.
"""

import time
from dataclasses import replace

import numpy as np

from tilestitch import api
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import Objective
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution, product
from tilestitch.mapping.network import layers_of
from tilestitch.mapping.search import search, search_space
from tilestitch.passes import simplify
from tilestitch.sim.array.runner import run_mapping

PUBLISHED = {256: 68e3, 64: 263e3, 9: 1.5e6}  # ticks a second, by elements
LEAST, AIM = 10, 100  # times the published rate, at 256 elements
NETWORK = "resnet50"


def main() -> None:
    """Print a line for each array, a real layer, and a network."""
    machine = array_of_core(load_machine("dmazerunner-256"))
    _rate(product("warm-up", m=4, n=4, k=4), machine, LoopMapping((1,) * 3, (1,) * 3, (4,) * 3, (1,) * 3, *ORDERS))
    for side in (16, 8, 3):
        rows = 8 * side
        nest = product("long passes", m=rows, n=rows, k=1024)
        mapping = LoopMapping((1, 1, 32), (1, 1, 4), (8, 8, 8), (side, side, 1), *ORDERS)
        wide = replace(machine, elements=side * side, register_bytes=1024)
        _say(f"{side * side} elements, passes of 512 cycles", _rate(nest, wide, mapping), PUBLISHED[side * side])
    layer = convolution("conv5_2", n=1, m=512, c=512, output=(7, 7), window=SlidingWindow((3, 3)))
    best = search(search_space(layer, machine), Objective.EDP).best[0].mapping
    _say("conv5_2 of ResNet, its best mapping, 256 elements", _rate(layer, machine, best), PUBLISHED[256])
    _network(machine)


ORDERS = ((0, 1, 2), (0, 1, 2))


def _rate(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> float:
    """Cycles a second, every slot with its values."""
    rng = np.random.default_rng(0)
    operands = [rng.integers(-8, 8, operand.shape).astype(np.int32) for operand in nest.reads]
    begin = time.process_time()
    run = run_mapping(nest, machine, mapping, operands)
    return run.cycles / (time.process_time() - begin)


def _say(what: str, rate: float, published: float) -> None:
    kept = "" if published > PUBLISHED[256] else f"; at least {LEAST} x, aim {AIM} x"
    print(f"  {what}: {rate / 1e6:.2f} million cycles a second, {rate / published:.0f} x DiRAC's{kept}")


def _network(machine: ArrayMachine) -> None:
    """Every different layer in its best mapping, once with its values and once without slots that repeat."""
    layers = layers_of(simplify(api.load_graph(NETWORK, batch=1)))[0]
    best = [search(search_space(layer.nest, machine), Objective.EDP).best[0].mapping for layer in layers]
    begin = time.process_time()
    cycles = [
        run_mapping(layer.nest, machine, mapping, every_slot=False).cycles
        for layer, mapping in zip(layers, best, strict=True)
    ]
    seconds = time.process_time() - begin
    print(f"  {NETWORK}: {len(layers)} different layers, {sum(cycles):,} cycles, repeats left out: {seconds:.2f} s")


if __name__ == "__main__":
    main()
