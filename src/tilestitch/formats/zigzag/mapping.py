"""ZigZag's mappings: what is unrolled in space, and one order of loops from the innermost.

Such a file does not say where a memory begins: loops go into the registers of the machine as long as their tiles fit,
the next ones into its scratchpad, as ZigZag does it when all arrays change memory at the same loop (`even`).
Source: the mapping files of ZigZag 3 and the schema that it checks them with.
"""

from math import prod

from tilestitch.base.errors import InputError
from tilestitch.base.units import ceil_div
from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.given import exact, loop_number
from tilestitch.formats.limits import MAX_EXTENT
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest

_UNSUPPORTED = {"spatial_mapping_hint": "a hint is for a search; write spatial_mapping"}
_LINKS = {"O": "O", "W": "I2", "I": "I1"}

_Loops = list[tuple[int, int]]  # number and factor, innermost first


def zigzag_mapping(text: str, nest: LoopNest, machine: ArrayMachine, where: str) -> LoopMapping:
    """The mapping that a file gives a nest: the entry of its name, else `default`.

    Raises `InputError` with the place of what is not understood: a loop that the nest does not have, an order that is
    not complete, tiles that do not fit the registers even without a loop.
    """
    entries: dict[str, Part] = {}
    for entry in yaml_file(text, where).items("mappings"):
        fields = entry.entries()
        if "name" not in fields:
            entry.refuse("the field name is missing")
        entries.setdefault(fields["name"].text("a name"), entry)
    part = entries.get(nest.name, entries.get("default"))
    if part is None:
        raise InputError(f"{where}: there is no mapping for {nest.name!r} and no default; found {', '.join(entries)}")
    fields = part.fields(("name", "spatial_mapping", "temporal_ordering"), ("memory_operand_links",), _UNSUPPORTED)
    if "memory_operand_links" in fields:
        links = {key: value.text("a link") for key, value in fields["memory_operand_links"].entries().items()}
        if links != _LINKS:
            fields["memory_operand_links"].refuse("expected {O: O, W: I2, I: I1}: the memories of I are the first")
    spatial = _spatial(fields["spatial_mapping"], nest)
    loops = _temporal(fields["temporal_ordering"], nest)
    ones = (1,) * len(nest.loops)
    inner = _fitting(loops, ones, nest, machine.register_bytes, 1, machine)
    rf = _factors(loops[:inner], nest)
    pass_tile = tuple(one * many for one, many in zip(rf, spatial, strict=True))
    outer = _fitting(loops[inner:], pass_tile, nest, machine.banks, machine.bank_bytes, machine) + inner
    place = part.place
    dram_order, spm_order = (_order(level, nest, place) for level in (loops[outer:], loops[inner:outer]))
    dram, spm = _factors(loops[outer:], nest), _factors(loops[inner:outer], nest)
    return exact(LoopMapping(dram, spm, rf, spatial, dram_order, spm_order), nest, where)


def _spatial(part: Part, nest: LoopNest) -> tuple[int, ...]:
    found: _Loops = []
    for dimension in part.entries().values():
        for item in dimension.items("loops", least=0):
            name, _, factor = item.text("a loop and its factor").partition(", ")
            if not factor.isdecimal() or not factor.isascii() or not 0 < len(factor) < 10 or int(factor) == 0:
                item.expected("a loop and its factor, as in 'K, 32'")
            found.append((loop_number(name, nest, item.place), int(factor)))
    return _factors(found, nest)


def _temporal(part: Part, nest: LoopNest) -> _Loops:
    loops: _Loops = []
    for item in part.items("loops", least=0):
        pair = item.items("a loop and its factor")
        if len(pair) != 2:
            item.refuse(f"expected a loop and its factor, found {len(pair)} parts")
        name = pair[0].text("a loop")
        if "*" in (name, pair[1].text("a factor")):
            item.refuse("'*' leaves loops to a search; write every loop with its factor")
        factor = pair[1].whole("", 1, MAX_EXTENT)
        if factor > 1:
            loops.append((loop_number(name, nest, item.place), factor))
    return loops


def _fitting(
    loops: _Loops, tile: tuple[int, ...], nest: LoopNest, blocks: int, block_bytes: int, machine: ArrayMachine
) -> int:
    """How many loops, from the innermost, have tiles that fit so many blocks, each of one array."""
    count = 0
    for at in range(len(loops) + 1):
        here = tuple(one * many for one, many in zip(tile, _factors(loops[:at], nest), strict=True))
        if _blocks(here, nest, block_bytes, machine) > blocks:
            break
        count = at
    return count


def _blocks(tile: tuple[int, ...], nest: LoopNest, block_bytes: int, machine: ArrayMachine) -> int:
    total = 0
    for number, array in enumerate(nest.operands):
        bits = array.element_bits
        if machine.operand_bits is not None:
            bits = machine.operand_bits[2 if array is nest.write else min(number, 1)]
        total += ceil_div(ceil_div(prod(array.extents(tile)) * bits, 8), block_bytes)
    return total


def _factors(loops: _Loops, nest: LoopNest) -> tuple[int, ...]:
    found = [1] * len(nest.loops)
    for number, factor in loops:
        found[number] *= factor
    return tuple(found)


def _order(loops: _Loops, nest: LoopNest, where: str) -> tuple[int, ...]:
    """The loops outermost first, those that run once outside; a loop that comes again after another is refused."""
    numbers = [number for number, _ in loops]
    joined = [number for at, number in enumerate(numbers) if at == 0 or numbers[at - 1] != number]
    for number in joined:
        if joined.count(number) > 1:
            raise InputError(
                f"{where}: temporal_ordering: {nest.loops[number].name} appears twice in one memory with other loops "
                "between; write one loop"
            )
    left = [number for number in range(len(nest.loops)) if number not in joined]
    return (*left, *reversed(joined))
