"""Why model and simulation differ: mechanisms taken out of a machine, one at a time, and both asked again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.commands.validate.compare import Compared, compare
from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.microarchitecture import Controller
from tilestitch.ir.loop_nest import Loop, LoopMapping, LoopNest, LoopOperand

DMA = "waits for DMA"
WIDE = 2**16  # bytes: more than all words of a cycle

Without = Callable[[LoopNest, LoopMapping, ArrayMachine], tuple[LoopNest, ArrayMachine]]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Something that an array does, and the same case without it; the same again where it does not do it."""

    name: str
    without: Without


@dataclass(frozen=True, slots=True)
class Trial:
    """How far model and simulation are from each other without a mechanism."""

    mechanism: str
    difference: int  # cycles
    error: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the model misses in one case, by what is left of the difference without it.

    Several mechanisms are named where as much is left without any of them: the difference needs all of them. None is
    where no mechanism takes half of the difference along, in cycles and as a part of what is simulated: a model that
    is off in proportion differs by fewer cycles wherever there are fewer.
    """

    mechanisms: tuple[str, ...]
    left: int  # cycles of difference without any of them
    trials: tuple[Trial, ...]  # of every mechanism that the case has


def explain(case: Compared, machine: ArrayMachine) -> Explanation:
    """Ask model and simulator again without each mechanism that the case has."""
    trials = []
    for mechanism in MECHANISMS:
        nest, other = mechanism.without(case.nest, case.mapping, machine)
        if (nest, other) == (case.nest, machine):
            continue
        try:
            again = compare(nest, other, case.mapping)
        except (DoesNotFit, InputError):  # without it the case is none that the simulator runs
            continue
        trials.append(Trial(mechanism.name, again.difference, again.error))
    better = [trial for trial in trials if case.difference != 0 and _takes_half(case, trial)]
    if not better:
        return Explanation((), case.difference, tuple(trials))
    least = min(better, key=lambda trial: abs(trial.difference)).difference
    names = tuple(trial.mechanism for trial in better if abs(trial.difference) == abs(least))
    return Explanation(names, least, tuple(trials))


def _takes_half(case: Compared, trial: Trial) -> bool:
    return 2 * abs(trial.difference) <= abs(case.difference) and 2 * abs(trial.error) <= abs(case.error)


def _whole(nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine) -> tuple[LoopNest, ArrayMachine]:
    """Every loop as long as its factors multiply to."""
    tiles = zip(mapping.dram, mapping.scratchpad_tile, strict=True)
    loops = tuple(Loop(loop.name, dram * tile) for loop, (dram, tile) in zip(nest.loops, tiles, strict=True))
    extents = tuple(loop.extent for loop in loops)

    def longer(operand: LoopOperand) -> LoopOperand:
        now, then = operand.extents(nest.extents), operand.extents(extents)
        shape = tuple(size + more - less for size, less, more in zip(operand.shape, now, then, strict=True))
        return replace(operand, shape=shape)

    return replace(nest, loops=loops, reads=tuple(map(longer, nest.reads)), write=longer(nest.write)), machine


def _micro(**changes: object) -> Without:
    def without(nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine) -> tuple[LoopNest, ArrayMachine]:
        return nest, replace(machine, micro=replace(machine.micro, **changes))

    return without


def _late(nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine) -> tuple[LoopNest, ArrayMachine]:
    latency = min(machine.micro.network_latency_cycles, 2)  # words are there when an instruction reads them
    return nest, replace(machine, micro=replace(machine.micro, network_latency_cycles=latency))


def _drain(nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine) -> tuple[LoopNest, ArrayMachine]:
    stages = machine.micro.multiplier_stages - machine.micro.drain_cycles  # results are there at once
    return nest, replace(machine, micro=replace(machine.micro, multiplier_stages=stages))


def _dma(nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine) -> tuple[LoopNest, ArrayMachine]:
    free, micro = Fraction(0), replace(machine.micro, dram_latency_cycles=0)
    return nest, replace(machine, dma_setup_cycles=free, dma_cycles_per_byte=free, micro=micro)


def _channels(nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine) -> tuple[LoopNest, ArrayMachine]:
    return nest, replace(machine, dma_channels=1)


def _shared(nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine) -> tuple[LoopNest, ArrayMachine]:
    return nest, replace(machine, networks=3)


def _sums(nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine) -> tuple[LoopNest, ArrayMachine]:
    return nest, replace(machine, reduction=Reduction.TREE, reduction_bytes_per_cycle=Fraction(WIDE))


MECHANISMS = (
    Mechanism("smaller tiles at the edges", _whole),
    Mechanism("conflicts of banks", _micro(scratchpad_ports=2, scratchpad_port_bytes=WIDE)),
    Mechanism("full FIFOs", _micro(register_writes_per_cycle=None)),
    Mechanism("networks that operands share", _shared),
    Mechanism("partial sums over elements", _sums),
    Mechanism("dependent additions", _micro(adder_stages=1)),
    Mechanism("buffers of registers other than dMazeRunner's", _micro(double_buffered=(True, True, False))),
    Mechanism("latency of the networks", _late),
    Mechanism("drain of the pipeline", _drain),
    Mechanism("several DMA channels", _channels),
    Mechanism(DMA, _dma),
    Mechanism("configuration", _micro(configuration_words=0)),
    Mechanism("another controller", _micro(controller=Controller.OVERLAPPED)),
)
