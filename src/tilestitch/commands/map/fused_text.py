"""Fused mappings for people and as JSON."""

import json

from tilestitch.base.json_values import Json
from tilestitch.base.units import format_energy
from tilestitch.commands.map.chains import NamedChain
from tilestitch.commands.map.fused_value import MappedChains
from tilestitch.commands.map.tree_text import factor_text
from tilestitch.formats.einsum import nest_text
from tilestitch.mapping.fused.mapping import FusedMapping
from tilestitch.mapping.fused.search import FoundChain, FoundGroup
from tilestitch.mapping.tree.chain import PricedFlow
from tilestitch.report.table import table, title

FORMAT = "tilestitch.fused"
VERSION = 1


def fused_text(mapped: MappedChains) -> str:
    """Totals, a table of chains, and of each chain its groups, their loops and where their energy goes."""
    task = mapped.task
    lines = title(f"{task.name} on {task.tree.name}: fused mappings by exact search, least energy", "=")
    chains = len(mapped.chains)
    times = sum(chain.times for chain, _ in mapped.chains)
    lines += [
        f"chains       {chains if chains == times else f'{chains} different of {times}'}; every number is estimated",
        f"together     up to {task.most} operators",
        f"energy       {mapped.energy_pj:,.3f} pJ, {mapped.unfused_pj:,.3f} pJ unfused",
        f"proof        {_proof(mapped)}",
    ]
    lines += [f"not mapped   {' > '.join(one.names)}: {one.reason}" for one in mapped.unmapped]
    lines += [f"note         {note}" for note in task.notes]
    lines += ["", *title("Chains")]
    rows = [
        (
            str(number),
            " > ".join(chain.names) if len(chain.names) < 5 else f"{chain.names[0]} > ... > {chain.names[-1]}",
            f"{chain.times:,}",
            f"{found.unfused_pj:,.0f}",
            f"{found.energy_pj:,.0f}",
            f"{found.energy_pj / found.unfused_pj:.3f}",
            " ".join(str(group.last - group.first + 1) for group in found.groups),
            _verdict(found),
        )
        for number, (chain, found) in enumerate(mapped.chains, 1)
    ]
    head = ("", "operators", "times", "unfused pJ", "fused pJ", "of it", "together", "")
    lines += table(head, rows, "rlrrrrll")
    for number, (chain, found) in enumerate(mapped.chains, 1):
        for group in found.groups:
            if group.mapping is not None and group.price is not None:
                lines += ["", *_group_lines(number, chain, found, group, group.mapping)]
    return "\n".join([*lines, ""])


def _proof(mapped: MappedChains) -> str:
    if mapped.is_proven:
        return "no fused mapping of these chains costs less; the search of every group came to its end"
    gap = mapped.energy_pj / mapped.bound_pj - 1
    return f"none of all chains; nothing costs less than {mapped.bound_pj:,.0f} pJ, so at most {gap:.2%} too much"


def _verdict(found: FoundChain) -> str:
    if found.is_proven:
        return "proven best"
    return f"at most {found.energy_pj / found.bound_pj - 1:.2%} too much"


def _group_lines(
    number: int, chain: NamedChain, found: FoundChain, group: FoundGroup, mapping: FusedMapping
) -> list[str]:
    names = chain.names[group.first : group.last + 1]
    lines = title(f"{number} {' > '.join(names)}: together")
    price = group.price
    assert price is not None
    for at, (name, energy) in enumerate(zip(names, price.operators_pj, strict=True)):
        alone = found.unfused[group.first + at].price.energy_pj
        lines.append(f"  {name}: {nest_text(mapping.chain.operators[at].nest)}")
        lines.append(f"    {format_energy(energy)}, {format_energy(alone)} unfused")
    for link, home in enumerate(mapping.homes):
        kinds = chain.between[group.first + link]
        between = f", {', '.join(kinds)} there" if kinds else ""
        lines.append(f"  {mapping.chain.operators[link].nest.write.name} of {names[link]} stays in {home}{between}")
    lines += ["", *_loop_lines(mapping, names, 0, len(names) - 1, 0, 1), ""]
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
    head = ("operator", "memory", "", "direction", "accesses", "energy", "share")
    return [*lines, *table(head, rows, "llllrrr")]


def _flow(mapping: FusedMapping, at: int, flow: PricedFlow) -> tuple[str, ...]:
    operand = mapping.chain.operators[at].operands[flow.operand].name
    return flow.memory.split(" (")[0], operand, str(flow.flow), f"{flow.accesses:,}"


def _share(energy_pj: float, all_pj: float) -> tuple[str, str]:
    return format_energy(energy_pj), f"{energy_pj / all_pj:.1%}" if all_pj > 0 else "-"


def _loop_lines(
    mapping: FusedMapping, names: tuple[str, ...], first: int, last: int, outside: int, depth: int
) -> list[str]:
    """The loops of some operators inside so many that they share with others, as a tree."""
    until = min(mapping.shared[first:last], default=len(mapping.mappings[first].loops))
    lines: list[str] = []
    loops = mapping.mappings[last].loops
    for position in range(outside, until + 1):
        held = _held(mapping, first, last, position)
        if held:
            lines.append(f"{'  ' * depth}# {', '.join(held)}")
        if position < until:
            loop, factor = loops[len(loops) - 1 - position]
            own = mapping.chain.operators[last].nest.loops[loop].name
            lines.append(f"{'  ' * depth}for {own} in {factor}:")
            depth += 1
    if first == last:
        placed = mapping.chain.operators[first]
        spread = [
            f"{placed.nest.loops[one.loop].name} over {factor_text(one.factor)} along {one.axis}"
            for one in mapping.unrolled[first]
        ]
        lines.append(f"{'  ' * depth}{names[first]}: spread {', '.join(spread) or 'nothing'}")
        return lines
    start = first
    for link in [link for link in range(first, last) if mapping.shared[link] == until] + [last]:
        lines += _loop_lines(mapping, names, start, link, until, depth)
        start = link + 1
    return lines


def _held(mapping: FusedMapping, first: int, last: int, outside: int) -> list[str]:
    """What is held inside so many loops from the outermost, of operators that share them."""
    found: list[str] = []
    for number in range(first, last + 1):
        placed, one = mapping.chain.operators[number], mapping.mappings[number]
        own = min(mapping.own_loops(number), default=0)
        for operand, array in enumerate(placed.operands):
            home = None
            if operand == len(placed.nest.reads) and number < len(mapping.homes):
                home = mapping.homes[number]
            if number > 0 and operand == mapping.chain.links[number - 1].read:
                home = mapping.homes[number - 1]
            names = [memory.name for memory in placed.chain(operand)]
            inner = names[: names.index(home)] if home is not None else names
            for name, cut in zip(inner, one.cuts[operand], strict=False):
                if len(one.loops) - cut == outside and array.element_bits and (first == last or cut > own):
                    found.append(f"{array.name} in {name}")
        if number < last and mapping.shared[number] == outside:
            found.append(f"{placed.nest.write.name} in {mapping.homes[number]}")
    return found


def fused_json(mapped: MappedChains) -> str:
    """Of the format `tilestitch.fused`: energies are in picojoules."""
    tree: dict[str, Json] = {
        "format": FORMAT,
        "version": VERSION,
        "network": mapped.task.name,
        "machine": mapped.task.tree.name,
        "estimated": True,
        "energy_pj": mapped.energy_pj,
        "unfused_pj": mapped.unfused_pj,
        "bound_pj": mapped.bound_pj,
        "proven_best": mapped.is_proven,
        "notes": list(mapped.task.notes),
        "chains": [_chain_json(chain, found) for chain, found in mapped.chains],
        "unmapped": [{"operators": list(one.names), "reason": one.reason} for one in mapped.unmapped],
    }
    return json.dumps(tree, indent=1) + "\n"


def _chain_json(chain: NamedChain, found: FoundChain) -> dict[str, Json]:
    return {
        "operators": list(chain.names),
        "between": [list(kinds) for kinds in chain.between],
        "times": chain.times,
        "energy_pj": found.energy_pj,
        "unfused_pj": found.unfused_pj,
        "bound_pj": found.bound_pj,
        "proven_best": found.is_proven,
        "labels": found.labels,
        "groups": [_group_json(chain, group) for group in found.groups],
    }


def _group_json(chain: NamedChain, group: FoundGroup) -> dict[str, Json]:
    names = chain.names[group.first : group.last + 1]
    found: dict[str, Json] = {
        "operators": list(names),
        "energy_pj": group.energy_pj,
        "bound_pj": group.bound_pj,
    }
    mapping, price = group.mapping, group.price
    if mapping is None or price is None:
        return found
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
    found["mapping"] = {"homes": list(mapping.homes), "shared_loops": list(mapping.shared), "operators": operators}
    return found
