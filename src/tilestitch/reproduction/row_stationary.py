"""AlexNet on Eyeriss by our row-stationary search, beside measurements and dMazeRunner's estimate."""

from dataclasses import replace

from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import Objective
from tilestitch.mapping.dataflow import dataflow_limits
from tilestitch.mapping.search import search, search_space
from tilestitch.reproduction.array_layers import nest_of
from tilestitch.reproduction.published_dmazerunner import EyerissTable
from tilestitch.reproduction.rows import Row, close

FASTER = 4


def eyeriss_rows(published: EyerissTable, batch: int) -> list[Row]:
    """Cycles of the fastest mapping of each layer, exact factors, default mode; none of it must match.

    On the preset, with partial sums that go from neighbour to neighbour, and with faster inputs and DRAM besides.
    """
    preset = array_of_core(load_machine(published.machine))
    chain = replace(preset, reduction=Reduction.CHAIN)
    first, *others = chain.network_bytes_per_cycle
    wide = replace(
        chain,
        network_bytes_per_cycle=(FASTER * first, *others),
        dma_cycles_per_byte=chain.dma_cycles_per_byte / FASTER,
    )
    machines = (
        ("preset", preset, published.why),
        ("sums by neighbours", chain, published.chain_why),
        ("faster inputs and DRAM", wide, published.wide_why),
    )
    rows = []
    for layer in published.layers:
        nest = nest_of(layer.name, layer.shape, batch)
        known = layer.reported
        rows.append(close(f"{layer.name}: dMazeRunner beside the chip", published.source, known, layer.dmazerunner))
        for what, machine, why in machines:
            space = search_space(nest, machine, limits=dataflow_limits(nest, "row"))
            cycles = search(space, Objective.LATENCY).best[0].cycles
            rows.append(close(f"{layer.name}: ours, {what}", published.source, known, cycles, why))
    return rows
