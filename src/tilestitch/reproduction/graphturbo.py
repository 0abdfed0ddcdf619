"""GraphTurbo's paper: decisions that must match, and its tables and figures beside what we simulate."""

from collections.abc import Sequence

from tilestitch.base.errors import InputError, printable
from tilestitch.base.progress import Progress
from tilestitch.pipeline.strategies import STRATEGIES
from tilestitch.reproduction.decisions import decision_rows
from tilestitch.reproduction.published import PublishedGraphTurbo, PublishedNetwork, read
from tilestitch.reproduction.quantised import SUFFIX
from tilestitch.reproduction.rows import Row
from tilestitch.reproduction.runs import VENDOR, Case, run
from tilestitch.reproduction.simulated import mean_rows, network_rows, published_mean_rows
from tilestitch.reproduction.vendor import IMAGES

MACHINES = ("stcp920-paper", "stcp920")


def graphturbo_rows(
    *, networks: Sequence[str], machines: Sequence[str], must_match: bool, jobs: int, progress: Progress
) -> tuple[Row, ...]:
    """All rows, or those of some networks (by the names of the zoo) and machines; see `reproduce`.

    Strategies that do not exist here have no rows. Raises `InputError` for a network that the paper does not have, and
    for a machine that does not stand for its chip.
    """
    published = read(PublishedGraphTurbo, "graphturbo")
    known = [one.network for one in published.networks]
    for kind, given, possible in (("network", networks, known), ("machine", machines, MACHINES)):
        for name in given:
            if name not in possible:
                shown = printable(name)
                raise InputError(f"reproduce graphturbo: {kind} '{shown}': expected some of: {', '.join(possible)}")
    chosen = [one for one in published.networks if not networks or one.network in networks]
    rows: list[Row] = []
    decisions = [(name, found) for name, found in decision_rows(published) if not networks or name in networks]
    for number, (name, found) in enumerate(decisions):
        progress(f"decisions for {name}", number, len(decisions))
        rows += found()
    rows += published_mean_rows(published)
    if must_match:
        return tuple(row for row in rows if row.must_match)
    targets = [machine for machine in MACHINES if not machines or machine in machines]
    outcomes = run(_cases(published, chosen, targets), jobs=jobs, progress=progress)
    for machine in targets:
        for network in chosen:
            rows += network_rows(published, network, machine, outcomes)
        rows += mean_rows(published, chosen, machine, outcomes)
    return tuple(rows)


def _cases(published: PublishedGraphTurbo, chosen: Sequence[PublishedNetwork], machines: Sequence[str]) -> list[Case]:
    """Everything that a table needs, each once."""
    known = {VENDOR, *(strategy.name for strategy in STRATEGIES)}
    cases: list[Case] = []
    for one in chosen:
        for machine in machines:
            cases.append(Case(one.network, machine, "tvm", one.batch, one.tvm_batch))
            for strategy in ("tvm", *(line.strategy for line in published.speed_ups)):
                cases.append(Case(one.network, machine, strategy, one.batch, "auto"))
            if one.letter == "A":
                cases.append(Case(one.network, machine, VENDOR, one.batch, IMAGES))
            if one.letter == "B":
                for line in published.table_1.rows:
                    cases.append(Case(one.network, machine, line.strategy, line.batch, line.per_cluster))
            for curve in published.figure_16.curves:
                if curve.letter == one.letter:
                    network = one.network + (SUFFIX if curve.element == "int8" else "")
                    cases += [Case(network, machine, "graphturbo", 4 * batch, batch) for batch in curve.batches]
    return [case for case in dict.fromkeys(cases) if case.strategy in known]
