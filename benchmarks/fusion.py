"""Seconds for the proven best plan of fused blocks, and for a plan with its gap of a graph with too many ideals.

Reading the network is left out, and so is what has to be done once on a machine. The limits are of one core.
"""

import random
import time
from dataclasses import replace

from tilestitch import api
from tilestitch.commands.fuse.fuse import fuse_blocks
from tilestitch.hardware.load import load_machine
from tilestitch.partition.blocks.layers import layers_of
from tilestitch.partition.blocks.model import BlockCost, FusionLayer, FusionNetwork, Read, block_model
from tilestitch.partition.ideals import exact
from tilestitch.passes import simplify

LIMITS = {  # seconds
    "alexnet": 2.0,
    "vgg19": 2.0,
    "resnet18": 2.0,
    "resnet50": 2.0,
    "mobilenet-v2": 2.0,
    "densenet121": 2.0,
    "googlenet": 2.0,
    "bert-base-128": 5.0,
}
WIRED = (1_000, 60.0)  # layers, and seconds


def wired(count: int, seed: int = 0, *, stages: int = 5) -> FusionNetwork:
    """Randomly wired stages of separable convolutions: rings with shortcuts, directed from the first to the last.

    The rule for wiring is that of Watts and Strogatz, 4 neighbours of which three quarters are random, as in Xie et
    al., Exploring Randomly Wired Neural Networks, ICCV 2019. Sums ride with the convolution that reads them.
    """
    chosen = random.Random(seed)
    outside = -1  # the input of the network, a number after the layers as soon as these are counted
    layers: list[FusionLayer] = []
    size, rows, channels, entry = count // stages, 112, 32, outside
    for stage in range(stages):
        first, rows, channels = len(layers), rows // 2, channels * 2
        number = size if stage < stages - 1 else count - first
        elements = channels * rows * rows
        edges = {(min(a, b), max(a, b)) for a in range(number) for b in _neighbours(a, number, chosen) if a != b}
        for node in range(number):
            sources = [first + a for a, b in sorted(edges) if b == node]
            reads = tuple(Read(source, 3, 1) for source in sources) or (Read(entry, 3, 2),)
            layers.append(
                FusionLayer(
                    f"stage{stage}.{node}",
                    (f"stage{stage}.{node}",),
                    2 * (9 + channels) * elements,
                    1.0,
                    channels,
                    rows,
                    2 * elements,
                    2 * (9 + channels) * channels,
                    reads,
                )
            )
        ends = set(range(first, len(layers))) - {read.tensor for layer in layers for read in layer.reads}
        reads = tuple(Read(source) for source in sorted(ends))
        if len(reads) > 1:  # their mean leaves the stage
            last = layers[-1]
            layers.append(
                FusionLayer(
                    f"stage{stage}.out", (), len(reads) * elements, 1 / 32, channels, rows, last.result_bytes, 0, reads
                )
            )
        entry = len(layers) - 1
    layers = [
        replace(
            layer, reads=tuple(read if read.tensor >= 0 else replace(read, tensor=len(layers)) for read in layer.reads)
        )
        for layer in layers
    ]
    return FusionNetwork(f"wired{count}", tuple(layers), ((112, 2 * 32 * 112 * 112),), frozenset([entry]))


def _neighbours(node: int, number: int, chosen: random.Random) -> list[int]:
    """Of a ring, two to the right, each replaced by any other with a probability of three quarters."""
    ring = [(node + step) % number for step in (1, 2)]
    return [chosen.randrange(number) if chosen.random() < 0.75 else other for other in ring]


def main() -> None:
    """Print one line for each network."""
    machine = load_machine("mlu100")
    model = block_model(machine)
    for warm in (True, False):
        for name, limit in LIMITS.items():
            cost = BlockCost(layers_of(simplify(api.load_graph(name, batch=1)), granule=model.granule), model)
            begin = time.process_time()
            proof = exact(cost.network.before(), cost.price)
            seconds = time.process_time() - begin
            assert proof is not None
            if not warm:
                kept = "kept" if seconds <= limit else "BROKEN"
                print(
                    f"  {name}: {len(cost.network.layers)} layers, {len(proof.potentials)} ideals, {proof.pairs:,} "
                    f"blocks in {seconds:.2f} s; limit {limit:.0f} s {kept}"
                )
    count, limit = WIRED
    cost = BlockCost(wired(count), model)
    begin = time.process_time()
    found = fuse_blocks(cost, machine.name, "exact", "exact")
    seconds = time.process_time() - begin
    gap = found.best.cost / found.least - 1
    kept = "kept" if seconds <= limit else "BROKEN"
    print(
        f"  {len(cost.network.layers)} layers wired at random: {found.best.cost / 1e9:.3f} ms, {gap:.0%} above the "
        f"largest lower bound, in {seconds:.1f} s; limit {limit:.0f} s {kept}"
    )
