"""Bits of a ZigZag layer's operands."""

from tilestitch.formats.foreign_file import Part
from tilestitch.formats.limits import MAX_BITS
from tilestitch.hardware.tree import ROLES


def precision_of(part: Part) -> dict[str, int]:
    """The bits of `operand_precision` by operand: of weights perhaps none, as they are no data of a pooling.

    Refuses inputs and results without bits, and complete sums that are wider than partial ones.
    """
    entries = part.entries()
    if "O" not in entries:
        part.refuse("the field O is missing")
    found = {name: one.whole("bits", 0, MAX_BITS) for name, one in entries.items()}
    for name, bits in found.items():
        if bits == 0 and name not in ROLES[1]:
            entries[name].refuse("expected at least 1 bit, found 0; only weights (W) may have none, as in a pooling")
    if found.get("O_final", 0) > found["O"]:
        entries["O_final"].refuse(
            f"expected at most the {found['O']} bits of O, the sums that become complete ones, found {found['O_final']}"
        )
    return found
