"""Mappings on machine trees for people: a table of layers, and of each its loops and where its energy goes."""

from fractions import Fraction

from tilestitch.base.units import counted, format_energy
from tilestitch.commands.map.tree_run import MappedOnTree, TreeMappings
from tilestitch.formats.einsum import nest_text
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.chain import window_rows
from tilestitch.mapping.tree.choices import Ragged
from tilestitch.mapping.tree.search import FoundMapping
from tilestitch.mapping.tree.tables import Sums
from tilestitch.report.table import table, title

_RAGGED = {
    Ragged.NONE: "all products of factors that divide their loops",
    Ragged.FILLING: "all products of factors that divide their loops, or one that does not and fills its axis",
    Ragged.ALL: "all products of factors, whether or not they divide their loops",
}
_SUMS = {Sums.FULL: "at full width", Sums.FINAL: "at the width of complete ones where complete ones leave"}


LEAST = {
    Objective.ENERGY: "least energy",
    Objective.LATENCY: "least latency",
    Objective.EDP: "least EDP",
    Objective.ED2P: "least ED2P",
    Objective.PARETO: "energy against latency",
}
_NOTHING = {
    Objective.ENERGY: "nothing costs less",
    Objective.LATENCY: "nothing is faster",
    Objective.EDP: "no mapping of a layer has less EDP",
    Objective.ED2P: "no mapping of a layer has less ED2P",
    Objective.PARETO: "no other mapping of a layer is on its front",
}


def tree_text(mapped: TreeMappings) -> str:
    """Totals, a table of all layers, and every layer's mapping; all numbers are estimated."""
    task = mapped.task
    lines = title(f"{task.name} on {task.tree.name}: mappings by exact search, {LEAST[mapped.objective]}", "=")
    lines += [
        f"layers       {_layer_count(mapped)}; every number is estimated",
        f"energy       {mapped.energy_pj:,.3f} pJ{_which(mapped)}",
        f"latency      {mapped.latency_cycles:,} cycles{_which(mapped)}, one layer after another",
        f"EDP          {mapped.edp_pj_cycles:.6e} pJ x cycles (of the sums)",
        f"proof        {proof_text(mapped)}",
        f"sums         stored {_SUMS[mapped.sums]}",
    ]
    if task.space is not None:
        lines.append(f"spread       {_RAGGED[task.space.ragged]}{_least_use(task.space.least_use)}")
    lines += [f"not mapped   {one.name}: {one.reason}" for one in mapped.unmapped]
    lines += [f"note         {note}" for note in task.notes]
    lines += ["", *title("Layers")]
    rows = [
        (
            str(number),
            one.name if one.times == 1 else f"{one.name} ({one.times} times)",
            f"{one.found.price.energy_pj:,.0f}",
            f"{one.found.price.latency_cycles:,}",
            f"{one.found.utilization:.1%}",
            f"{one.found.placed.total_steps:,}",
            f"{one.found.points:,}",
            f"{one.found.labels:,}",
            verdict_text(one),
        )
        for number, one in enumerate(mapped.layers, 1)
    ]
    head = ("", "layer", "energy pJ", "cycles", "utilization", "steps", "tiles", "labels", "")
    lines += table(head, rows, "rlrrrrrrl")
    for number, one in enumerate(mapped.layers, 1):
        lines += ["", *title(f"{number} {one.name}: {nest_text(one.found.placed.nest)}"), *_layer_lines(one)]
    return "\n".join(lines)


def _which(mapped: TreeMappings) -> str:
    return ", of the least EDP of each layer" if mapped.objective is Objective.PARETO else ""


def _layer_count(mapped: TreeMappings) -> str:
    times = sum(one.times for one in mapped.layers)
    return f"{len(mapped.layers)} different of {times}" if times > len(mapped.layers) else str(len(mapped.layers))


def _least_use(share: float) -> str:
    return f"; at least {share:.0%} of the units have work" if share > 0 else "; however few units have work"


def verdict_text(layer: MappedOnTree) -> str:
    """What is proven of a layer."""
    if layer.front:
        points = counted(len(layer.front), "mapping")
        return f"front of {points}, {'proven' if layer.found.is_proven else 'some may be missing'}"
    return "proven best" if layer.found.is_proven else f"at most {layer.found.gap:.2%} too much"


def proof_text(mapped: TreeMappings) -> str:
    """What is proven of all layers together."""
    nothing = _NOTHING[mapped.objective]
    if mapped.is_proven and mapped.task.space is None:
        return f"{nothing} with these spatial factors: the lattice of cuts was searched to the end"
    if mapped.is_proven:
        choices, opened = (sum(getattr(one, part) for one in mapped.layers) for part in ("choices", "opened"))
        others = "the bounds of the others are above"
        if mapped.more_than:
            others += ", and so is what holds for those that were not compared"
        if mapped.objective is Objective.PARETO:
            others = "points of it beat all of the others"
        spread = f"{choices:,} choices of what is spread: {opened:,} were searched to the end"
        return f"{nothing} with any of {spread}, {others}"
    if mapped.more_than:
        return "none of all layers: of some there are too many choices of what is spread; the table says of which"
    if mapped.objective is not Objective.ENERGY:
        return "none of all layers; the table says which"
    gap = mapped.energy_pj / mapped.bound_pj - 1
    return f"none; nothing costs less than {mapped.bound_pj:,.0f} pJ, so at most {gap:.2%} too much"


def _front_lines(layer: MappedOnTree) -> list[str]:
    rows = [
        (
            "*" if one is layer.found else "",
            f"{one.price.energy_pj:,.0f}",
            f"{one.price.latency_cycles:,}",
            f"{one.price.edp_pj_cycles:.4e}",
            f"{one.utilization:.1%}",
            *((_spread_text(one),) if layer.choices else ()),
        )
        for one in layer.front
    ]
    head = ("", "energy pJ", "cycles", "EDP pJ x cycles", "utilization", *(("spread",) if layer.choices else ()))
    return [*table(head, rows, "lrrrr" + "l" * (len(head) - 5)), "  * the least EDP; its mapping:", ""]


def _spread_text(found: FoundMapping) -> str:
    """What is spread, and along which axis."""
    names = [loop.name for loop in found.placed.nest.loops]
    spread = [f"{names[one.loop]} {factor_text(one.factor)} along {one.axis}" for one in found.placed.unrolled]
    return ", ".join(spread) or "nothing"


def _layer_lines(layer: MappedOnTree) -> list[str]:
    found = layer.found
    placed, price = found.placed, found.price
    lines = [f"  note: {note}" for note in layer.notes]
    if layer.front:
        lines += _front_lines(layer)
    lines += loop_lines(found)
    for row in window_rows(placed, found.mapping):
        lines.append(f"  windows of {row.operand} slide into {row.into} along {row.loop}, {row.steps:,} in a row")
    rows = [("units", "", "multiply-accumulate", f"{placed.nest.macs:,}", *_share(price.mac_pj, price.energy_pj))]
    for flow in price.flows:
        if flow.accesses > 0 or flow.energy_pj > 0:
            name = placed.operands[flow.operand].name
            share = _share(flow.energy_pj, price.energy_pj)
            rows.append((flow.memory, name, str(flow.flow), f"{flow.accesses:,}", *share))
    return [*lines, "", *table(("memory", "", "direction", "accesses", "energy", "share"), rows, "lllrrr")]


def _share(energy_pj: float, all_pj: float) -> tuple[str, str]:
    return format_energy(energy_pj), f"{energy_pj / all_pj:.1%}" if all_pj > 0 else "-"


def loop_lines(found: FoundMapping) -> list[str]:
    """The loops from the outermost, and which memory holds which operand inside each."""
    placed, mapping = found.placed, found.mapping
    names = [loop.name for loop in placed.nest.loops]
    lines: list[str] = []
    depth = 1
    for inside in range(len(mapping.loops), -1, -1):
        held = [
            f"{array.name} in {memory.name}"
            for number, array in enumerate(placed.operands)
            for memory, cut in reversed(list(zip(placed.chain(number), mapping.cuts[number], strict=True)))
            if cut == inside and array.element_bits > 0
        ]
        if held:
            lines.append(f"{'  ' * depth}# {', '.join(held)}")
        if inside > 0:
            loop, factor = mapping.loops[inside - 1]
            lines.append(f"{'  ' * depth}for {names[loop]} in {factor}:")
            depth += 1
    spread = [f"{names[one.loop]} over {factor_text(one.factor)} along {one.axis}" for one in placed.unrolled]
    lines.append(f"{'  ' * depth}spread {', '.join(spread) or 'nothing'}:  # over {counted(placed.tree.units, 'unit')}")
    reads = [array.name for array in placed.nest.reads if array.element_bits > 0]
    lines.append(f"{'  ' * (depth + 1)}{placed.nest.write.name} += {' * '.join(reads)}")
    return lines


def factor_text(factor: Fraction) -> str:
    """A factor, which may be no whole number."""
    return str(factor) if factor.denominator == 1 else f"{float(factor):.4g}"
