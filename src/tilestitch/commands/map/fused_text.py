"""Fused mappings for people and as JSON."""

import json
from collections.abc import Sequence

from tilestitch.base.json_values import Json
from tilestitch.base.units import format_energy
from tilestitch.commands.map.fused_nest import nest_rows
from tilestitch.commands.map.fused_value import MappedChains
from tilestitch.commands.map.named_chain import NamedChain, graph_label
from tilestitch.formats.einsum import nest_text
from tilestitch.ir.choices import Objective
from tilestitch.mapping.fused.chain import Chain
from tilestitch.mapping.fused.mapping import FusedMapping
from tilestitch.mapping.fused.search import FoundChain, FoundGroup
from tilestitch.mapping.tree.chain import PricedFlow
from tilestitch.report.table import table, title

NAMES = {Objective.ENERGY: "energy", Objective.LATENCY: "latency", Objective.EDP: "EDP", Objective.ED2P: "ED2P"}
UNITS = {
    Objective.ENERGY: "pJ",
    Objective.LATENCY: "cycles",
    Objective.EDP: "pJ x cycles",
    Objective.ED2P: "pJ x cycles^2",
}
BETTER = {
    Objective.ENERGY: "costs less",
    Objective.LATENCY: "is faster",
    Objective.EDP: "has less EDP",
    Objective.ED2P: "has less ED2P",
}
FORMAT = "tilestitch.fused"
VERSION = 1


def fused_text(mapped: MappedChains) -> str:
    """Totals, a table of chains, and of each chain its groups, their loops and where their energy goes."""
    task = mapped.task
    lines = title(
        f"{task.name} on {task.tree.name}: fused mappings by exact search, least {NAMES[task.objective]}", "="
    )
    chains = len(mapped.chains)
    times = sum(chain.times for chain, _ in mapped.chains)
    lines += [
        f"chains       {chains if chains == times else f'{chains} different of {times}'}; every number is estimated",
        f"together     up to {task.most} operators",
        f"energy       {mapped.energy_pj:,.3f} pJ, {mapped.unfused_pj:,.3f} pJ unfused",
        f"latency      {mapped.latency_cycles:,} cycles, {mapped.unfused_cycles:,} cycles unfused",
        f"proof        {proof_text(mapped)}",
    ]
    lines += [f"not mapped   {one.label}: {one.reason}" for one in mapped.unmapped]
    lines += [f"note         {note}" for note in task.notes]
    lines += ["", *title("Chains")]
    rows = [
        (
            str(number),
            chain.label if len(chain.names) < 5 else f"{chain.names[0]} > ... > {chain.names[-1]}",
            f"{chain.times:,}",
            _number(task.objective, found.unfused_value),
            _number(task.objective, found.value),
            f"{found.value / found.unfused_value:.3f}",
            " ".join(str(len(group.numbers)) for group in found.groups),
            verdict_text(found),
        )
        for number, (chain, found) in enumerate(mapped.chains, 1)
    ]
    unit = UNITS[task.objective]
    head = ("", "operators", "times", f"unfused {unit}", f"fused {unit}", "of it", "together", "")
    lines += table(head, rows, "rlrrrrll")
    for number, (chain, found) in enumerate(mapped.chains, 1):
        for group in found.groups:
            if group.mapping is not None and group.price is not None:
                lines += ["", *_group_lines(number, chain, found, group, group.mapping)]
    return "\n".join([*lines, ""])


def proof_text(mapped: MappedChains) -> str:
    """What is proven of all chains together."""
    objective = mapped.task.objective
    if mapped.is_proven:
        return f"no fused mapping of these chains {BETTER[objective]}; the search of every group came to its end"
    if mapped.bound is None:
        gap = max(found.value / found.bound - 1 for _, found in mapped.chains)
        return f"none of all chains; of each the {NAMES[objective]} is at most {gap:.2%} too much"
    value = mapped.energy_pj if objective is Objective.ENERGY else mapped.latency_cycles
    least = f"{mapped.bound:,.0f} {UNITS[objective]}"
    return f"none of all chains; nothing has less than {least}, so at most {value / mapped.bound - 1:.2%} too much"


def verdict_text(found: FoundChain) -> str:
    """What is proven of a chain, and whether none of its operators run together."""
    alone = ", unfused" if len(found.groups) == len(found.chain.operators) > 1 else ""
    if found.is_proven:
        return f"proven best{alone}"
    return f"at most {found.value / found.bound - 1:.2%} too much{alone}"


def _number(objective: Objective, value: float) -> str:
    """A value of an objective; products with six digits."""
    return f"{value:,.0f}" if objective in (Objective.ENERGY, Objective.LATENCY) else f"{value:.5e}"


def _group_lines(
    number: int, chain: NamedChain, found: FoundChain, group: FoundGroup, mapping: FusedMapping
) -> list[str]:
    names = names_of(chain, group)
    lines = title(f"{number} {graph_label(names, mapping.chain)}: together")
    price = group.price
    assert price is not None
    for at, (name, energy) in enumerate(zip(names, price.operators_pj, strict=True)):
        alone = found.unfused[group.numbers[at]].price.energy_pj
        lines.append(f"  {name}: {nest_text(mapping.chain.operators[at].nest)}")
        lines.append(f"    {format_energy(energy)}, {format_energy(alone)} unfused")
    lines += [f"  {line}" for line in [*stays_text(chain, group), *met_text(found, group), time_text(found, group)]]
    lines += ["", *("  " * (1 + row.depth) + row.text for row in nest_rows(mapping, names)), ""]
    rows: list[tuple[str, ...]] = []
    total = price.energy_pj
    for at, name in enumerate(names):
        rows.append((name, "units", "", "multiply-accumulate", "", *_share(price.mac_pj[at], total)))
        for flow in price.flows[at]:
            rows.append((name, *_flow(mapping, at, flow), *_share(flow.energy_pj, total)))
    for link, energy in enumerate(price.passes_pj):
        if energy > 0:
            name = mapping.chain.operators[link].nest.write.name
            rows.append(
                (f"after {names[link]}", mapping.homes[link], name, "read and write", "", *_share(energy, total))
            )
    outermost = mapping.chain.tree.memories[-1].name
    for link, energy in enumerate(price.leaving_pj):
        if energy > 0:
            name = mapping.chain.operators[link].nest.write.name
            rows.append((f"after {names[link]}", outermost, name, "leaves as well", "", *_share(energy, total)))
    head = ("operator", "memory", "", "direction", "accesses", "energy", "share")
    return [*lines, *table(head, rows, "llllrrr")]


def names_of(chain: NamedChain, group: FoundGroup) -> tuple[str, ...]:
    """The operators of a group in the order in which they run."""
    return tuple(chain.names[number] for number in group.numbers)


def time_text(found: FoundChain, group: FoundGroup) -> str:
    """How long the operators of a group take together, and one after another unfused."""
    alone = sum(found.unfused[number].price.latency_cycles for number in group.numbers)
    alone += sum(found.passes_cycles[number] for number in group.numbers[:-1])
    alone += sum(found.met[number].cycles for number in group.numbers)
    together = group.all_cycles - group.passes.cycles
    return f"{together:,} cycles together, {alone:,} unfused"


def met_text(found: FoundChain, group: FoundGroup) -> list[str]:
    """What is read from the outermost memory of results that meet those of a group, or are added to them."""
    if group.met.cycles == 0:
        return []
    memory = found.chain.tree.memories[-1].name
    cost = f"{format_energy(group.met.energy_pj)} and {group.met.cycles:,} cycles"
    return [f"what meets them or is added is read from {memory} once: {cost}"]


def stays_text(chain: NamedChain, group: FoundGroup) -> list[str]:
    """Of each intermediate of a group where it stays, and what happens to it there."""
    found: list[str] = []
    names = names_of(chain, group)
    for link, home in enumerate(group.mapping.homes if group.mapping is not None else ()):
        assert group.mapping is not None
        number = group.numbers[link]
        kinds = chain.between[number]
        between = f", {', '.join(kinds)} there" if kinds else ""
        result = group.mapping.chain.operators[link].nest.write.name
        ahead = group.mapping.kept_ahead()[link]
        rows = "" if ahead is None else f"; its rows are made once, tiles ahead of those that are read: {ahead}"
        cells = _cells_text(group.mapping, link)
        meets = [names[one] for one in group.mapping.chain.meeting(link) if one != link]
        together = f", where it meets that of {' and '.join(meets)}" if meets else ""
        its = [names[one.reader] for one in group.mapping.chain.added if one.link == link]
        added = f", and is added to that of {' and '.join(its)}" if its else ""
        outermost = group.mapping.chain.tree.memories[-1].name
        leaves = f", and goes out to {outermost} as well" if group.mapping.chain.links[link].leaves else ""
        found.append(
            f"{result} of {chain.names[number]} stays in {home}{cells}{between}{together}{added}{leaves}{rows}"
        )
    return found


def _cells_text(mapping: FusedMapping, link: int) -> str:
    """How many memories hold a part of an intermediate each, where its home repeats."""
    chain = mapping.chain
    home = next(memory for memory in chain.tree.memories if memory.name == mapping.homes[link])
    parts = [
        f"{chain.operators[link].nest.loops[thread[link]].name} over {factor} along {axis}"
        for axis, thread, factor in chain.cells.spread
        if axis not in home.serves
    ]
    count = chain.cells.with_one_of(home)
    if parts:
        return f", a part in each of {count} ({', '.join(parts)})"
    return ", in one of them" if any(axis not in home.serves for axis in chain.cells.axes) else ""


def _flow(mapping: FusedMapping, at: int, flow: PricedFlow) -> tuple[str, ...]:
    operand = mapping.chain.operators[at].operands[flow.operand].name
    return flow.memory.split(" (")[0], operand, str(flow.flow), f"{flow.accesses:,}"


def _share(energy_pj: float, all_pj: float) -> tuple[str, str]:
    return format_energy(energy_pj), f"{energy_pj / all_pj:.1%}" if all_pj > 0 else "-"


def fused_json(mapped: MappedChains) -> str:
    """Of the format `tilestitch.fused`: energies are in picojoules."""
    return json.dumps(fused_values(mapped), indent=1) + "\n"


def fused_values(mapped: MappedChains) -> dict[str, Json]:
    """What the JSON says."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "network": mapped.task.name,
        "machine": mapped.task.tree.name,
        "estimated": True,
        "objective": mapped.task.objective.value,
        "energy_pj": mapped.energy_pj,
        "unfused_pj": mapped.unfused_pj,
        "latency_cycles": mapped.latency_cycles,
        "unfused_cycles": mapped.unfused_cycles,
        **_bound_json(mapped.task.objective, mapped.bound),
        "proven_best": mapped.is_proven,
        "notes": list(mapped.task.notes),
        "chains": [_chain_json(chain, found) for chain, found in mapped.chains],
        "unmapped": [{"operators": list(one.names), "reason": one.reason} for one in mapped.unmapped],
    }


def _bound_json(objective: Objective, bound: float | None) -> dict[str, Json]:
    """What nothing comes below, under the name of the objective; of several chains products have no bound."""
    names = {Objective.ENERGY: "bound_pj", Objective.LATENCY: "bound_cycles", Objective.EDP: "bound_pj_cycles"}
    return {} if bound is None else {names.get(objective, "bound_pj_cycles2"): bound}


def _chain_json(chain: NamedChain, found: FoundChain) -> dict[str, Json]:
    return {
        "operators": list(chain.names),
        **readers_json(chain),
        "between": [list(kinds) for kinds in chain.between],
        "times": chain.times,
        "energy_pj": found.energy_pj,
        "unfused_pj": found.unfused_pj,
        "latency_cycles": found.latency_cycles,
        "unfused_cycles": found.unfused_cycles,
        **_bound_json(found.objective, found.bound),
        "proven_best": found.is_proven,
        "labels": found.labels,
        "groups": [_group_json(chain, group) for group in found.groups],
    }


def _group_json(chain: NamedChain, group: FoundGroup) -> dict[str, Json]:
    names = names_of(chain, group)
    found: dict[str, Json] = {
        "operators": list(names),
        "energy_pj": group.energy_pj,
        "latency_cycles": group.latency_cycles,
        "met_pj": group.met.energy_pj,
        "met_cycles": group.met.cycles,
        "leaving_pj": group.leaving.energy_pj,
        "leaving_cycles": group.leaving.cycles,
    }
    mapping = mapping_json(names, group)
    return found if mapping is None else {**found, "mapping": mapping}


def mapping_json(names: Sequence[str], group: FoundGroup) -> dict[str, Json] | None:
    """Homes, shared loops, and of each operator its loops, cuts, spread and flows; none of an operator alone."""
    mapping, price = group.mapping, group.price
    if mapping is None or price is None:
        return None
    operators: list[Json] = []
    for at, name in enumerate(names):
        placed, one = mapping.chain.operators[at], mapping.mappings[at]
        loops = [placed.nest.loops[loop].name for loop, _ in one.loops]
        operators.append(
            {
                "name": name,
                "energy_pj": price.operators_pj[at],
                "loops": [[loop, factor] for loop, (_, factor) in zip(loops, one.loops, strict=True)],
                "cuts": {array.name: list(cuts) for array, cuts in zip(placed.operands, one.cuts, strict=True)},
                "spread": [
                    [one_.axis, placed.nest.loops[one_.loop].name, float(one_.factor)] for one_ in mapping.unrolled[at]
                ],
                "flows": [
                    {
                        "memory": flow.memory.split(" (")[0],
                        "operand": placed.operands[flow.operand].name,
                        "direction": str(flow.flow),
                        "accesses": flow.accesses,
                        "energy_pj": flow.energy_pj,
                    }
                    for flow in price.flows[at]
                ],
            }
        )
    shared = {"shared_loops": list(mapping.shared), "tiles_ahead": list(mapping.kept_ahead())}
    return {"homes": list(mapping.homes), **readers_json(mapping.chain), **shared, "operators": operators}


def readers_json(chain: NamedChain | Chain) -> dict[str, Json]:
    """The last reader of each result unless operators are in a row, and all others, each behind what it reads."""
    found: dict[str, Json] = {"readers": list(chain.readers)} if chain.readers else {}
    found |= {"more_readers": [[one.link, one.reader] for one in chain.more]} if chain.more else {}
    added = [[one.link, one.reader] for one in chain.added]
    return {**found, **({"added": added} if added else {})}
