"""Points by mapping every layer on the array of a machine; estimated."""

import json
import pickle
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from tilestitch.exploration.evaluator import Metric, NamedNetwork, Origin, Packed
from tilestitch.exploration.identity import digest_of
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.mapping.network import MapOptions, MappedLayer, RepeatedNest, map_layers, totals_of


def packed_layers(layers: Sequence[RepeatedNest], name: str) -> Packed:
    """The different layers of a network, for `Mapped`."""
    content = pickle.dumps(tuple(layers))
    text = json.dumps([asdict(layer) for layer in layers])
    return NamedNetwork(name, digest_of(text.encode())), np.frombuffer(content, np.uint8)


@dataclass(frozen=True)
class Mapped:
    """Map each different layer on one array, and count it as often as the network runs it."""

    options: MapOptions

    @property
    def identity(self) -> str:
        return json.dumps({"evaluator": "mapped", **asdict(self)}, sort_keys=True)

    @property
    def description(self) -> str:
        options = self.options
        search = "by dMazeRunner's rules" if options.pruned else "best of all"
        dataflow = f", dataflow {options.dataflow}" if options.dataflow else ""
        ragged = ", ragged factors" if options.ragged else ""
        return f"mapped layer by layer on one array: least {options.objective}, {search}{dataflow}{ragged}"

    def prepared(self, content: bytes) -> tuple[RepeatedNest, ...]:
        """The layers; the bytes come from `packed_layers`, in this process or the one that sent them."""
        return pickle.loads(content)

    def __call__(self, machine: Accelerator, prepared: tuple[RepeatedNest, ...], name: str) -> tuple[Metric, ...]:
        array = array_of_core(machine)
        mapped = map_layers(prepared, array, self.options)
        totals = totals_of(mapped)
        metric = partial(Metric, origin=Origin.ESTIMATED)
        return (
            metric("cycles", totals.cycles, "cycles"),
            metric("latency", totals.cycles / array.clock_hz, "s"),
            metric("energy", totals.energy_pj, "pJ"),
            metric("traffic", sum(_dram_bytes(one, array) for one in mapped), "B"),
        )


def _dram_bytes(mapped: MappedLayer, array: ArrayMachine) -> int:
    """What the best mapping of a layer moves between DRAM and scratchpad, each time that the network runs it."""
    bits = 0.0
    nest = mapped.layer.nest
    for number, (operand, accesses) in enumerate(zip(nest.operands, mapped.prices[0].accesses, strict=True)):
        role = 2 if operand is nest.write else min(number, 1)
        width = operand.element_bits if array.operand_bits is None else array.operand_bits[role]
        bits += (accesses.dram_load_words + accesses.dram_store_words) * width
    return round(mapped.layer.times * bits / 8)
