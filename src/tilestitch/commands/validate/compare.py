"""Mappings of layers, priced by the analytical model and simulated cycle by cycle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from random import Random

import numpy as np

from tilestitch.base.errors import DoesNotFit
from tilestitch.base.progress import Progress
from tilestitch.base.shown import Brief
from tilestitch.commands.validate.draw import Draw
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.mapping.evaluate import Priced, Pricer
from tilestitch.mapping.network import RepeatedNest
from tilestitch.sim.array.energy import energy_of
from tilestitch.sim.array.runner import run_mapping

MOST_PASSES = 200_000  # of a mapping that is simulated
MOST_CYCLES = 2_000_000  # of one whose every cycle has to be
MOST_DRAWN = 2_000  # without one that is short enough


@dataclass(frozen=True, slots=True, repr=False)
class Compared(Brief):
    """One mapping, by both."""

    nest: LoopNest
    mapping: LoopMapping
    estimated_cycles: int
    simulated_cycles: int
    counts: np.ndarray  # of the simulation, by `sim.array.tally`
    estimated_pj: Mapping[str, float]  # by component
    simulated_pj: Mapping[str, float]

    @property
    def difference(self) -> int:
        """Cycles that the model has too many."""
        return self.estimated_cycles - self.simulated_cycles

    @property
    def error(self) -> float:
        """The difference, as a part of what was simulated."""
        return self.difference / self.simulated_cycles

    @property
    def energy_errors(self) -> dict[str, float]:
        """Likewise of every component of the energy."""
        return {
            name: (self.estimated_pj[name] - simulated) / simulated
            if simulated > 0
            else float(self.estimated_pj[name] > 0)
            for name, simulated in self.simulated_pj.items()
        }


@dataclass(frozen=True, slots=True, repr=False)
class LayerCompared(Brief):
    """The mappings of one layer, and how many were drawn for them."""

    layer: RepeatedNest
    found: tuple[Compared, ...]
    drawn: int
    misfits: int  # larger than the machine
    too_long: int  # to simulate


def compare_layers(
    layers: Sequence[RepeatedNest],
    machine: ArrayMachine,
    mappings: int,
    *,
    seed: int,
    ragged: bool,
    progress: Progress,
) -> tuple[LayerCompared, ...]:
    """So many mappings, in equal parts over the layers, the first of which get what is left."""
    found, done = [], 0
    for number, layer in enumerate(layers):
        share = mappings // len(layers) + (number < mappings % len(layers))
        one = _compared(layer, machine, share, Random(f"{seed} {number}"), ragged, done, mappings, progress)
        found.append(one)
        done += len(one.found)
    return tuple(found)


def compare(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> Compared:
    """One mapping by both. Raises DoesNotFit and InputError for what the simulator does not run."""
    return _simulated(nest, machine, mapping, Pricer(nest, machine)(mapping))


def _compared(
    layer: RepeatedNest,
    machine: ArrayMachine,
    share: int,
    rng: Random,
    ragged: bool,
    done: int,
    total: int,
    progress: Progress,
) -> LayerCompared:
    nest = layer.nest
    pricer = Pricer(nest, machine)
    found: list[Compared] = []
    drawn = misfits = too_long = in_vain = 0
    draws = Draw.of(nest, machine, ragged=ragged).mappings(rng)
    while len(found) < share:
        if in_vain == MOST_DRAWN:
            raise DoesNotFit(
                f"layer {nest.name!r} on {machine.name}: of {MOST_DRAWN:,} mappings in a row none can be simulated: "
                f"{misfits:,} do not fit, {too_long:,} have more than {MOST_PASSES:,} passes of the register files or "
                "too many cycles; choose smaller layers (--layer), or a machine with more elements"
            )
        mapping = next(draws)
        drawn, in_vain = drawn + 1, in_vain + 1
        priced = pricer(mapping)
        if priced.misfit:
            misfits += 1
            continue
        if prod(mapping.dram) * prod(mapping.spm) > MOST_PASSES or (
            priced.cycles > MOST_CYCLES and _every_cycle(nest, machine)
        ):
            too_long += 1
            continue
        try:
            found.append(_simulated(nest, machine, mapping, priced))
        except DoesNotFit:  # a limit that a price has not, such as instructions of an element
            misfits += 1
            continue
        in_vain = 0
        progress(f"simulate {nest.name}", done + len(found), total)
    return LayerCompared(layer, tuple(found), drawn, misfits, too_long)


def _simulated(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping, priced: Priced) -> Compared:
    run = run_mapping(nest, machine, mapping, every_slot=False)
    energy = energy_of(run, machine)
    return Compared(nest, mapping, priced.cycles, run.cycles, run.counts, priced.components, energy.components)


def _every_cycle(nest: LoopNest, machine: ArrayMachine) -> bool:
    """Whether no slot is like another, as words may meet in a bank or wait in a FIFO."""
    micro = machine.micro
    bits = [operand.element_bits for operand in nest.operands]
    bits = bits if machine.operand_bits is None else list(machine.operand_bits)
    return (
        micro.scratchpad_ports == 1
        or micro.register_writes_per_cycle is not None
        or max(bits) > 8 * micro.scratchpad_port_bytes
        or 8 * max(machine.network_bytes_per_cycle) > min(bits)
    )
