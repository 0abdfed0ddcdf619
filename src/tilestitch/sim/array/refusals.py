"""What the array simulator does not run, refused with the reason."""

from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.base.units import ceil_div
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.microarchitecture import Controller
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.sim.array.geometry import Geometry

MAX_DELIVERIES = 2**27  # words to register files that one kind of pass brings, all of which are listed
DIRAC_REGISTERS = 256  # its instructions have 8 bits for each register
DIRAC_PASSES = 255  # its loop counters have 8 bits


def refuse_unsupported(nest: LoopNest, mapping: LoopMapping) -> None:
    """Raises InputError for accesses and mappings that have no schedule here."""
    if not mapping.covers(nest):
        raise InputError(
            f"nest {nest.name!r}: the factors of its mapping do not cover its loops; every loop needs dram x spm x "
            "rf x spatial of at least its extent, and no tile without iterations"
        )
    for operand in nest.operands:
        if any(step < 0 for terms in operand.axes for _, step in terms):
            raise InputError(
                f"nest {nest.name!r}: operand {operand.name} goes backwards through memory; the "
                "simulator runs accesses with positive steps: reverse the loop"
            )
    for terms in nest.write.axes:
        if len(terms) > 1 or any(step != 1 for _, step in terms):
            raise InputError(
                f"nest {nest.name!r}: results {nest.write.name} are indexed by a sum or with a step; the simulator "
                "runs nests in which every loop moves results by one along an axis of its own, or not at all"
            )
    moved = [loop for terms in nest.write.axes for loop, _ in terms]
    if len(moved) != len(set(moved)):
        raise InputError(
            f"nest {nest.name!r}: results {nest.write.name} use a loop twice; the simulator supports each loop once"
        )


def refuse_contradiction(machine: ArrayMachine) -> None:
    """Raises InputError for a machine that says what DiRAC's controller does not do."""
    if machine.micro.controller is not Controller.DIRAC:
        return
    if not all(machine.micro.double_buffered):
        raise InputError(
            f"machine {machine.name!r}: controller dirac gives every operand two buffers of registers; write "
            "first_double_buffered, second_double_buffered and result_double_buffered: true, or controller: overlapped"
        )
    if machine.dma_channels > 1:
        raise InputError(
            f"machine {machine.name!r}: controller dirac has one DMA channel, found dma_channels "
            f"{machine.dma_channels}; write 1, or controller: overlapped"
        )


def refuse_misfit(geometry: Geometry, machine: ArrayMachine) -> None:
    """Raises DoesNotFit where elements, registers, banks or instructions are too few."""
    name = geometry.nest.name
    needs = [
        (geometry.elements, machine.elements, "elements"),
        (geometry.register_bytes, machine.register_bytes, "bytes of a register file"),
        (
            sum(ceil_div(size, machine.bank_bytes) for size in geometry.tile_bytes),
            machine.banks,
            "banks of the scratchpad, each of one operand",
        ),
    ]
    listed = sum(geometry.register_words) * geometry.elements << len(geometry.ragged)
    needs.append((listed, MAX_DELIVERIES, "words in the registers of all kinds of passes, which are listed"))
    micro = machine.micro
    instructions = geometry.most_instructions
    if micro.instruction_words is not None:
        needs.append((instructions, micro.instruction_words, "instructions of an element"))
    if micro.controller is Controller.DIRAC:
        needs.append((sum(geometry.register_words), DIRAC_REGISTERS, "registers that DiRAC's instructions can name"))
        needs.append((geometry.passes_per_tile, DIRAC_PASSES, "passes of the register files that DiRAC counts"))
        if geometry.reduces:
            raise DoesNotFit(
                f"nest {name!r}: its mapping sums over elements, which DiRAC accepts but does not perform; give "
                "reduction loops a spatial factor of 1"
            )
    for need, room, what in needs:
        if need > room:
            raise DoesNotFit(
                f"nest {name!r} on {machine.name}: its mapping needs {need:,} {what}, and there are {room:,}; choose "
                "smaller factors, or a larger machine"
            )
