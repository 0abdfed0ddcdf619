"""An exploration: designs are proposed, evaluated and stored, until the method has no more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.base.progress import Progress
from tilestitch.base.shown import Brief
from tilestitch.base.units import counted
from tilestitch.exploration.evaluator import Evaluator, NamedNetwork, Packed, PointResult
from tilestitch.exploration.front import pareto_front, vector
from tilestitch.exploration.identity import digest_of, point_key, program_digest
from tilestitch.exploration.methods import Method
from tilestitch.exploration.objectives import DesignObjective
from tilestitch.exploration.space import Space
from tilestitch.exploration.store import Record, Store
from tilestitch.exploration.workers import Task, Workers


@dataclass(frozen=True, repr=False)
class Explored(Brief):
    """What an exploration came to. `evaluated` and `found` say what this run had to do; all else is the same
    whatever was in the store, and whoever evaluated it."""

    space: Space
    networks: tuple[str, ...]
    objectives: tuple[DesignObjective, ...]
    method: str
    evaluator: str
    outcomes: Mapping[int, tuple[PointResult, ...]]  # of each design that was proposed, by number: one for each network
    evaluated: int  # points
    found: int  # points that were in the store
    notes: tuple[str, ...] = ()  # on how networks were read

    @property
    def infeasible(self) -> tuple[tuple[int, str, str], ...]:
        """Design, network and reason of each point that cannot be."""
        return tuple(
            (design, network, outcome.infeasible)
            for design, outcomes in self.outcomes.items()
            for network, outcome in zip(self.networks, outcomes, strict=True)
            if outcome.infeasible
        )

    @property
    def bugs(self) -> tuple[tuple[int, str, str], ...]:
        """Those of them that are mistakes of Tilestitch."""
        return tuple(
            (design, network, reason)
            for design, network, reason in self.infeasible
            if self.outcomes[design][self.networks.index(network)].bug
        )

    def vectors(self, network: int | None) -> dict[int, tuple[float, ...]]:
        """The objectives of every feasible design, of one network or of all together."""
        found = {}
        for design, outcomes in self.outcomes.items():
            values = vector(self.objectives, outcomes if network is None else [outcomes[network]])
            if values is not None:
                found[design] = values
        return found

    @cached_property
    def fronts(self) -> Mapping[int | None, tuple[int, ...]]:
        """The designs that no other beats, for each network, and for all together (None)."""
        return {network: pareto_front(self.vectors(network)) for network in (*range(len(self.networks)), None)}


def explore(
    space: Space,
    networks: Sequence[Packed],
    evaluator: Evaluator,
    method: Method,
    objectives: Sequence[DesignObjective],
    *,
    store: Store,
    workers: Workers = Workers(count=1),
    progress: Progress,
) -> Explored:
    """Evaluate what the method proposes, as far as the store does not have it.

    Raises `DoesNotFit` where no point at all is feasible.
    """
    _expect_comparable(space, objectives)
    _expect_different([network for network, _ in networks])
    total = method.trials(space) * len(networks)
    outcomes: dict[tuple[int, int], PointResult] = {}
    proposed: dict[int, None] = {}  # in order
    evaluated = found = asked = 0
    rounds = method(space, len(objectives))
    with workers.opened(evaluator, networks) as evaluate:
        designs = next(rounds, ())
        while designs:
            proposed |= dict.fromkeys(designs)
            asked += len(designs) * len(networks)
            tasks: list[Task] = []
            records: list[Record] = []
            points: dict[str, list[tuple[int, int]]] = {}  # by key: two designs may be the same machine
            for design in dict.fromkeys(designs):
                text = space.machine_text(design)
                for at, (network, _) in enumerate(networks):
                    if (design, at) in outcomes:
                        continue
                    record = _record(space, design, text, network, evaluator)
                    known = store.outcome(record.key)
                    if known is not None:
                        outcomes[design, at] = known
                        found += 1
                        continue
                    if record.key not in points:
                        tasks.append(Task(len(tasks), at, text, space.where))
                        records.append(record)
                    points.setdefault(record.key, []).append((design, at))
            done = asked - len(tasks)
            progress("evaluate", done, total)
            for number, outcome in evaluate(tasks):
                record = records[number]
                store.keep(record, outcome)
                outcomes |= dict.fromkeys(points[record.key], outcome)
                evaluated += 1
                done += 1
                progress("evaluate", done, total)
            told = [vector(objectives, [outcomes[design, at] for at in range(len(networks))]) for design in designs]
            try:
                designs = rounds.send(told)
            except StopIteration:
                designs = ()
    each = {design: tuple(outcomes[design, at] for at in range(len(networks))) for design in sorted(proposed)}
    _expect_feasible(each)
    return Explored(
        space=space,
        networks=tuple(network.name for network, _ in networks),
        objectives=tuple(objectives),
        method=method.description,
        evaluator=evaluator.description,
        outcomes=each,
        evaluated=evaluated,
        found=found,
    )


def _record(space: Space, design: int, text: str, network: NamedNetwork, evaluator: Evaluator) -> Record:
    digest, program = digest_of(text.encode()), program_digest()
    return Record(
        key=point_key(digest, network.digest, evaluator.identity, program),
        machine=space.machine,
        parameters=space.values(design),
        machine_digest=digest,
        machine_text=text,
        network=network.name,
        network_digest=network.digest,
        evaluator=evaluator.identity,
        program=program,
    )


def _expect_comparable(space: Space, objectives: Sequence[DesignObjective]) -> None:
    """Refuse to compare cycles of different lengths."""
    clocked = any(path == ("clock",) for one in space.parameters for path in one.paths)
    for objective in objectives:
        if clocked and "cycles" in objective.factors:
            raise InputError(
                f"--objective {objective.name} counts cycles, whose length --vary clock changes; "
                "use --objective latency --objective energy instead"
            )


def _expect_different(networks: Sequence[NamedNetwork]) -> None:
    """Refuse a network twice, and two with one name."""
    seen: dict[str, NamedNetwork] = {}
    for network in networks:
        if network.name in seen:
            same = seen[network.name] == network
            problem = "is given twice; leave it out once" if same else "is the name of two networks; rename one file"
            raise InputError(f"{network.name}: {problem}")
        seen[network.name] = network


def _expect_feasible(outcomes: dict[int, tuple[PointResult, ...]]) -> None:
    if any(not outcome.infeasible for each in outcomes.values() for outcome in each):
        return
    reasons = list(dict.fromkeys(outcome.infeasible for each in outcomes.values() for outcome in each))
    more = f"\n(and {counted(len(reasons) - 1, 'other reason')})" if len(reasons) > 1 else ""
    raise DoesNotFit(f"no design of {len(outcomes):,} can run; the first: {reasons[0]}{more}")
