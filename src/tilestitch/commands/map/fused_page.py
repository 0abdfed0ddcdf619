"""Fused mappings on a machine tree as a page to look at: the verdict, the chains, what runs together, the machine."""

from tilestitch.base.json_values import Json
from tilestitch.commands.map.fused_nest import nest_rows
from tilestitch.commands.map.fused_text import (
    UNITS,
    fused_text,
    fused_values,
    met_text,
    names_of,
    proof_text,
    readers_json,
    stays_text,
    time_text,
    verdict_text,
)
from tilestitch.commands.map.fused_value import MappedChains
from tilestitch.commands.map.named_chain import NamedChain
from tilestitch.commands.map.tree_page import drawn, drawn_machine
from tilestitch.formats.einsum import nest_text
from tilestitch.mapping.fused.search import FoundChain, FoundGroup
from tilestitch.report.html.page import Result


def fused_result(mapped: MappedChains) -> Result:
    """All that the page of `map --fuse` holds."""
    tree = mapped.task.tree
    return Result(
        "chains",
        f"{mapped.task.name} on {tree.name}: fused mappings",
        fused_text(mapped),
        fused_values(mapped),
        {
            **drawn_machine(tree),
            "most": mapped.task.most,
            "proof": proof_text(mapped),
            "unit": UNITS[mapped.task.objective],
            "chains": [drawn_chain(mapped, chain, found) for chain, found in mapped.chains],
        },
    )


def drawn_chain(mapped: MappedChains, chain: NamedChain, found: FoundChain) -> dict[str, Json]:
    """A chain in its mapping, group by group, with the loops as lines."""
    return {
        "verdict": verdict_text(found),
        "value": found.value,
        "unfused_value": found.unfused_value,
        "outside_pj": sum(group.passes.energy_pj for group in found.groups),
        "groups": [_group(mapped, chain, found, group) for group in found.groups],
    }


def _group(mapped: MappedChains, chain: NamedChain, found: FoundChain, group: FoundGroup) -> dict[str, Json]:
    """What runs together as lines of loops; an operator alone as on the page of `map`."""
    numbers, names = group.numbers, names_of(chain, group)
    return {
        "operators": list(names),
        **({} if group.mapping is None else readers_json(group.mapping.chain)),
        "nests": [nest_text(found.chain.operators[number].nest) for number in numbers],
        "energy_pj": group.all_pj - group.passes.energy_pj,
        "unfused_pj": sum(found.unfused[number].price.energy_pj + found.met[number].energy_pj for number in numbers)
        + sum(found.passes_pj[link] for link in numbers[:-1]),
        "stays": _stays(chain, found, group),
        "alone": drawn(group.alone) if group.alone is not None else None,
        "rows": []
        if group.mapping is None
        else [[row.depth, row.kind.value, row.text] for row in nest_rows(group.mapping, names)],
        "energy": _energies(mapped, group),
    }


def _stays(chain: NamedChain, found: FoundChain, group: FoundGroup) -> list[Json]:
    """What stays at home, what is read from outside to meet it, and how long the operators of a group take."""
    last = [] if group.alone is not None else [time_text(found, group)]
    return [*stays_text(chain, group), *met_text(found, group), *last]


def _energies(mapped: MappedChains, group: FoundGroup) -> list[Json]:
    """Of each memory from the outermost the energy by operator; then networks, operators between, and arithmetic."""
    price, mapping = group.price, group.mapping
    if price is None or mapping is None:
        return []
    memories = [memory.name for memory in reversed(mapped.task.tree.memories)]
    places = [[(flow.memory.split(" (")[0], flow.energy_pj) for flow in flows] for flows in price.flows]
    networks = dict.fromkeys(name for flows in places for name, _ in flows if name not in memories)
    rows: list[Json] = []
    for name in (*memories, *networks):
        of_operator = [sum(energy for place, energy in flows if place == name) for flows in places]
        rows.append({"name": name, "operands_pj": of_operator, "energy_pj": sum(of_operator)})
    for home, energy in zip(mapping.homes, price.passes_pj, strict=True):
        if energy > 0:
            rows.append({"name": f"operators between, in {home}", "operands_pj": [], "energy_pj": energy})
    if group.leaving.energy_pj > 0:
        rows.append(
            {"name": f"what leaves as well, to {memories[0]}", "operands_pj": [], "energy_pj": group.leaving.energy_pj}
        )
    return [*rows, {"name": "arithmetic", "operands_pj": list(price.mac_pj), "energy_pj": sum(price.mac_pj)}]
