"""Notes on what in a machine's file no layer reaches, which is often a slip: `o` for `O`, a loop that is none."""

from collections.abc import Iterable, Iterator, Sequence

from tilestitch.hardware.tree import ROLES, MachineTree, Network
from tilestitch.mapping.tree.placed import PlacedNest


def unreached_notes(tree: MachineTree, layers: Sequence[PlacedNest], loops: Iterable[str]) -> tuple[str, ...]:
    """Memories that hold names of no operand of some layers, axes that take none of the loops of a workload, and
    fields of networks that concern none of their operands.
    """
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
        notes += [f"axis {axis.name}: {said}" for one in axis.networks for said in _without_effect(one, layers)]
    return tuple(notes)


def _without_effect(network: Network, layers: Sequence[PlacedNest]) -> Iterator[str]:
    """What a network says of inputs though it carries only results, or of sums though it carries none."""
    reads = {home for layer in layers for home in layer.homes[: len(layer.nest.reads)]}
    writes = {layer.homes[-1] for layer in layers}
    carried = set(network.operands)
    of_inputs = {"multicast": not network.multicast, "forwarding": network.forwarding}
    of_inputs["shares_windows"] = network.shares_windows
    of_sums = {"reduction": not network.reduction, "passes_sums": network.passes_sums}
    for said, concerned, others, kind in ((of_inputs, reads, writes, "inputs"), (of_sums, writes, reads, "results")):
        fields = " and ".join(name for name, stated in said.items() if stated)
        if fields and carried & others and not carried & concerned:
            yield f"its network of {', '.join(network.operands)} says {fields}, which is of {kind} alone"


def _is_other_role(name: str, homes: Iterable[str]) -> bool:
    """Whether an operand has a role that these layers have none of, such as the weights of a layer that only reads."""
    roles = [role for role in ROLES if name in role]
    return bool(roles) and not any(home in role for role in roles for home in homes)
