"""Notes on names in a machine's file that no layer reaches, which is often a slip: `o` for `O`, a loop that is none."""

from collections.abc import Iterable, Sequence

from tilestitch.hardware.tree import ROLES, MachineTree
from tilestitch.mapping.tree.placed import PlacedNest


def unreached_notes(tree: MachineTree, layers: Sequence[PlacedNest], loops: Iterable[str]) -> tuple[str, ...]:
    """Memories that hold names of no operand of some layers, and axes that take none of the loops of a workload."""
    homes = {home for layer in layers for home in layer.homes}
    notes: list[str] = []
    for memory in tree.memories:
        others = [name for name in memory.operands if name not in homes and not _is_other_role(name, homes)]
        if others:
            notes.append(
                f"memory {memory.name}: it holds {', '.join(others)}, and no operand of these layers has that name; "
                f"they are {', '.join(sorted(homes))}"
            )
    known = tuple(dict.fromkeys(loops))
    for axis in tree.axes:
        if axis.loops and not set(axis.loops) & set(known):
            notes.append(
                f"axis {axis.name}: no layer has a loop {' or '.join(axis.loops)}, which it takes, so that nothing is "
                f"spread along it; they have {', '.join(known)}"
            )
    return tuple(notes)


def _is_other_role(name: str, homes: Iterable[str]) -> bool:
    """Whether an operand has a role that these layers have none of, such as the weights of a layer that only reads."""
    roles = [role for role in ROLES if name in role]
    return bool(roles) and not any(home in role for role in roles for home in homes)
