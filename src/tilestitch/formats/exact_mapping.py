"""What the writers of mappings for other programs share: they take exact mappings of arrays with one size of word."""

from string import ascii_uppercase

from tilestitch.base.errors import InputError, printable
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest

_USUAL = {"Ox": "P", "Oy": "Q", "Fx": "R", "Fy": "S"}  # as these programs call the loops of a convolution


def check_exact(nest: LoopNest, mapping: LoopMapping, program: str) -> None:
    """Refuse ragged tiles, which `program` cannot be told."""
    if not mapping.is_exact(nest):
        raise InputError(
            f"{nest.name}: the mapping has tiles that are smaller than others, which {program} cannot express; use "
            "one whose factors divide"
        )


def word_bits(nest: LoopNest, machine: ArrayMachine, program: str) -> int:
    """Bits of an element of every array; refuses several sizes."""
    sizes = set(machine.operand_bits or (array.element_bits for array in nest.operands))
    if len(sizes) != 1:
        found = ", ".join(f"{bits}" for bits in sorted(sizes))
        raise InputError(
            f"{nest.name}: {program} supports one word size, found arrays of {found} bits; ZigZag and "
            "AccelForge support one for each array"
        )
    return sizes.pop()


def letters(nest: LoopNest) -> tuple[str, ...]:
    """A capital letter for each loop: its own name, the usual one, its first letter, or one that is free."""
    given: list[str] = []
    wanted = [_USUAL.get(loop.name, loop.name if len(loop.name) == 1 else "").upper() for loop in nest.loops]
    for loop, want in zip(nest.loops, wanted, strict=True):
        taken = {*given, *wanted[len(given) + 1 :]}
        choices = (want, loop.name[0].upper(), *ascii_uppercase)
        given.append(next(c for c in choices if c in ascii_uppercase and len(c) == 1 and c not in taken))
    return tuple(given)


def plain_name(name: str) -> str:
    """A name of letters, digits, `_`, `.` and `-`, that begins with a letter."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in name)
    return plain if plain[:1].isalpha() else f"nest_{plain}"


def file_head(nest: LoopNest, machine: ArrayMachine, what: str) -> str:
    """The first line of a file: a comment that says what it is."""
    return f"# {printable(nest.name, 80)} on {printable(machine.name, 80)}: {what}\n"
