"""dMazeRunner: its spaces, optima, examples and figures beside what our search gives in published mode."""

from collections.abc import Callable, Mapping, Sequence
from math import factorial, floor

from tilestitch.base.errors import InputError, printable
from tilestitch.base.progress import Progress
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.factors import orders_of
from tilestitch.mapping.search import Found, search, search_space
from tilestitch.reproduction.array_layers import RULES, digits, nest_of, of_the_paper, rule_limits
from tilestitch.reproduction.dataflows import dataflow_rows
from tilestitch.reproduction.mapping_energy import example_rows, least_energy_rows, validation_rows
from tilestitch.reproduction.memory_sweep import sweep_rows
from tilestitch.reproduction.published import read
from tilestitch.reproduction.published_dmazerunner import (
    BestMapping,
    PublishedDMazeRunner,
    PublishedLayer,
    PublishedSweep,
)
from tilestitch.reproduction.row_stationary import eyeriss_rows
from tilestitch.reproduction.rows import Row, exact

ALL, PRUNED = RULES[0], RULES[-1]


def dmazerunner_rows(
    *, networks: Sequence[str], machines: Sequence[str], must_match: bool, progress: Progress
) -> tuple[Row, ...]:
    """All rows, or those of some of the six layers, which stand for networks here; see `reproduce`.

    Sums and means are there only where all of their layers are. Raises `InputError` for a layer or a machine that there
    are no rows of.
    """
    published, sweep = read(PublishedDMazeRunner, "dmazerunner"), read(PublishedSweep, "dmazerunner-sweep")
    names = [layer.name for layer in published.layers]
    possible_machines = [published.machine, published.eyeriss.machine]
    for kind, given, possible in (("network", networks, names), ("machine", machines, possible_machines)):
        for name in given:
            if name not in possible:
                shown = printable(name)
                raise InputError(f"reproduce dmazerunner: {kind} '{shown}': expected some of: {', '.join(possible)}")
    steps: list[tuple[str, Callable[[], list[Row]]]] = []
    if not machines or published.machine in machines:
        steps += _steps(published, sweep, networks)
    if not must_match and not networks and (not machines or published.eyeriss.machine in machines):
        steps.append(("AlexNet on Eyeriss", lambda: eyeriss_rows(published.eyeriss, published.batch)))
    rows: list[Row] = []
    for number, (step, found) in enumerate(steps):
        progress(step, number, len(steps))
        rows += found()
    return tuple(row for row in rows if row.must_match or not must_match)


def _steps(
    published: PublishedDMazeRunner, sweep: PublishedSweep, networks: Sequence[str]
) -> list[tuple[str, Callable[[], list[Row]]]]:
    """What each step is called, and its rows, in the order in which they are shown."""
    machine = array_of_core(load_machine(published.machine))
    layers = [layer for layer in published.layers if not networks or layer.name in networks]
    nests = {layer.name: nest_of(layer.name, layer.shape, published.batch) for layer in layers}
    whole = len(layers) == len(published.layers)
    steps: list[tuple[str, Callable[[], list[Row]]]] = []
    for layer in layers:
        nest = nests[layer.name]
        steps.append((f"space of {layer.name}", lambda layer=layer, nest=nest: _space(published, layer, nest, machine)))
    if whole:
        steps.append(("sums of spaces", lambda: _sums(published, nests, machine)))
    if published.validation.layer in nests:
        nest = nests[published.validation.layer]
        steps.append(("energy validation", lambda: validation_rows(published.validation, nest, machine)))
        steps.append(("example of conv5_2", lambda: example_rows(published.example, nest, machine)))
    steps.append(("least energies", lambda: least_energy_rows(published.least_energy, nests, machine)))
    steps.append(("dataflows", lambda: dataflow_rows(published, nests, machine)))
    steps.append(("memory sweep", lambda: sweep_rows(sweep, nests, machine, whole=whole)))
    return steps


def _space(published: PublishedDMazeRunner, layer: PublishedLayer, nest: LoopNest, machine: ArrayMachine) -> list[Row]:
    """Tilings under each set of rules, and the best of all and of the fewest."""
    rows, best = [], {}
    for rules, tilings in zip(RULES, layer.tilings, strict=True):
        space = search_space(nest, machine, CostMode.PUBLISHED, limits=rule_limits(nest, rules))
        rows.append(exact(f"{layer.name}: {rules}", published.spaces.source, tilings, space.tilings()))
        if rules in (ALL, PRUNED):
            best[rules] = search(space, Objective.EDP).best[0]
    for rules, known in ((ALL, layer.best), (PRUNED, layer.pruned)):
        rows += _best(f"{layer.name}, {rules}", published.spaces.best_source, known, best[rules])
    return rows


def _best(what: str, source: str, known: BestMapping, found: Found) -> list[Row]:
    return [
        exact(f"{what}: pJ x cycles", source, known.edp, digits(found.edp, 7)),
        exact(f"{what}: cycles", source, known.cycles, found.cycles),
        exact(f"{what}: pJ", source, known.energy_pj, int(found.energy_pj)),
    ]


def _sums(published: PublishedDMazeRunner, nests: Mapping[str, LoopNest], machine: ArrayMachine) -> list[Row]:
    """What needs all layers: spaces and losses, under the register check of the released code and of the paper's."""
    tilings, best = dict.fromkeys(RULES, 0), dict.fromkeys((ALL, PRUNED), 0.0)
    paper_tilings, paper_best, paper_conv1 = dict.fromkeys(RULES, 0), 0.0, 0.0
    for name, nest in nests.items():
        for rules in RULES:
            limits = rule_limits(nest, rules)
            space = search_space(nest, machine, CostMode.PUBLISHED, limits=limits)
            paper_space = search_space(nest, machine, CostMode.PUBLISHED, limits=of_the_paper(limits, nest))
            tilings[rules] += space.tilings()
            paper_tilings[rules] += paper_space.tilings()
            if rules in best:
                best[rules] += search(space, Objective.EDP).best[0].edp
            if rules == PRUNED:
                found = search(paper_space, Objective.EDP).best[0]
                paper_best += found.edp
                if name == "conv1":
                    paper_conv1 = found.edp
    spaces, losses, reductions = published.spaces, published.losses, published.reductions
    check = "under the register check of the paper's code, which pairs Ox with Fy"
    rows = [
        exact(f"sum: {rules}", spaces.sums_source, known, digits(paper_tilings[rules], 3), check)
        for rules, known in zip(RULES, spaces.sums, strict=True)
    ]
    loss = 100 * (best[PRUNED] / best[ALL] - 1)
    paper_loss = 100 * (paper_best / best[ALL] - 1)
    rows += [
        exact("OPT1-3, released code", losses.source, losses.percent, round(loss, 3)),
        exact(
            "OPT1-3, paper",
            losses.source,
            losses.paper_percent,
            floor(100 * paper_loss) / 100,
            f"{paper_loss:.4f} %, cut after two digits, {check}",
        ),
        exact("conv1, paper: pJ x cycles", losses.source, losses.paper_conv1, digits(paper_conv1, 7), check),
    ]
    nest = next(iter(nests.values()))
    fewer = (factorial(len(nest.loops)) / orders_of(nest, every=False).most) ** 2
    methods = fewer * tilings[ALL] / tilings[PRUNED]
    return [
        *rows,
        exact("orders", reductions.source, reductions.orders, digits(fewer, 3)),
        exact("tilings x orders, OPT1-3", reductions.source, reductions.methods, digits(methods, 3)),
    ]
