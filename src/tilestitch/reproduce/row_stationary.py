"""AlexNet on Eyeriss by our row-stationary search, beside measurements and dMazeRunner's estimate."""

from dataclasses import replace

from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.mapping.dataflow import dataflow_limits
from tilestitch.mapping.search import Objective, search, search_space
from tilestitch.reproduce.array_layers import nest_of
from tilestitch.reproduce.published_dmazerunner import EyerissTable
from tilestitch.reproduce.rows import Row, close


def eyeriss_rows(published: EyerissTable, batch: int) -> list[Row]:
    """Cycles of the fastest mapping of each layer, exact factors, default mode; none of it must match.

    On the preset, and with partial sums that go from neighbour to neighbour.
    """
    preset = array_of_core(load_machine(published.machine))
    chain = replace(preset, reduction=Reduction.CHAIN)
    rows = []
    for layer in published.layers:
        nest = nest_of(layer.name, layer.shape, batch)
        rows.append(
            close(f"{layer.name}: dMazeRunner beside the chip", published.source, layer.reported, layer.dmazerunner)
        )
        for what, machine, why in (
            ("preset", preset, published.why),
            ("sums by neighbours", chain, published.chain_why),
        ):
            found = search(search_space(nest, machine, limits=dataflow_limits(nest, "row")), Objective.LATENCY).best[0]
            rows.append(
                close(
                    f"{layer.name}: ours beside the chip, {what}", published.source, layer.reported, found.cycles, why
                )
            )
    return rows
