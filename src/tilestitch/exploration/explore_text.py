"""An exploration for people, as JSON, as CSV, and as pictures."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from tilestitch.base.units import counted, format_bytes, format_energy, format_seconds
from tilestitch.exploration.evaluator import Origin
from tilestitch.exploration.objectives import DesignObjective
from tilestitch.exploration.run import Explored
from tilestitch.report.curves import Axis, Curve, Series
from tilestitch.report.svg import curve_svg
from tilestitch.report.table import table, title

FORMAT = "tilestitch.exploration"
VERSION = 1
SHOWN_DESIGNS = 40  # of a front, in the text
SHOWN_REASONS = 5
SHOWN_VALUES = 12  # of a parameter
_WIDE = 20.0  # from this ratio of the largest to the smallest value on, an axis is logarithmic


def explored_text(explored: Explored, *, store: str | None) -> str:
    """What was varied, how many points there are, and each front as a table.

    With `store` None nothing is said of what was in it, and how much that left to do.
    """
    space, networks = explored.space, explored.networks
    heading = f"{space.machine}: {counted(len(explored.outcomes), 'design')} of {space.size:,}, {_several(networks)}"
    lines = title(heading, "=")
    for number, one in enumerate(space.parameters):
        stands_for = "" if one.stands_for == one.name else f" ({one.stands_for})"
        more = ["..."] if len(one.values) > SHOWN_VALUES else []
        values = ", ".join([*one.values[:SHOWN_VALUES], *more])
        lines.append(f"{'varied' if number == 0 else '':<11} {one.name}{stands_for}: {values}")
    if space.scale_energy:
        lines.append("energies    of registers in proportion to their size; of scratchpads x 1.5 each time it doubles")
    lines.append(f"{'method':<11} {explored.method}")
    lines.append(f"{'evaluator':<11} {explored.evaluator}")
    lines += [f"{'note':<11} {note}" for note in explored.notes]
    if store is not None:
        lines += _run_lines(explored, store)
    for name, network in named_fronts(explored):
        lines += ["", *_front_lines(explored, name, network)]
    if explored.infeasible:
        lines += ["", *title("Infeasible")]
        bugs = {reason for _, _, reason in explored.bugs}
        reasons = Counter(
            f"{'a bug of Tilestitch: ' if reason in bugs else ''}{reason.splitlines()[0]}"
            for _, _, reason in explored.infeasible
        ).most_common()
        lines += [f"  {counted(count, 'point')}: {reason}" for reason, count in reasons[:SHOWN_REASONS]]
        if len(reasons) > SHOWN_REASONS:
            lines.append(f"  and {counted(len(reasons) - SHOWN_REASONS, 'other reason')}")
    return "\n".join(lines) + "\n"


def _run_lines(explored: Explored, store: str) -> list[str]:
    return [
        f"{'points':<11} {explored.evaluated:,} evaluated, {explored.found:,} from the store; "
        f"{len(explored.infeasible):,} infeasible",
        f"{'store':<11} {store or 'none; --store FILE keeps points for the next time'}",
    ]


def explored_json(explored: Explored) -> str:
    """Of the format `tilestitch.exploration`: every design with its points, and every front by numbers of designs."""
    return json.dumps(explored_tree(explored), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def explored_tree(explored: Explored) -> dict[str, Any]:
    """The same, before it is text."""
    space = explored.space
    return {
        "format": FORMAT,
        "version": VERSION,
        "machine": space.machine,
        "networks": explored.networks,
        "parameters": [
            {"name": one.name, "stands_for": one.stands_for.split(", "), "values": one.values}
            for one in space.parameters
        ],
        "scale_energy": space.scale_energy,
        "method": explored.method,
        "evaluator": explored.evaluator,
        **({"notes": list(explored.notes)} if explored.notes else {}),
        "objectives": [{"name": one.name, "unit": one.unit} for one in explored.objectives],
        "run": {
            "evaluated": explored.evaluated,
            "from_store": explored.found,
            "infeasible": len(explored.infeasible),
        },
        "fronts": [
            {"network": None if network is None else name, "designs": explored.fronts[network]}
            for name, network in named_fronts(explored)
        ],
        "designs": [
            {
                "design": design,
                "values": space.values(design),
                "points": [
                    {"network": network, "infeasible": outcome.infeasible or None}
                    | {"metrics": [asdict(metric) for metric in outcome.metrics]}
                    for network, outcome in zip(explored.networks, outcomes, strict=True)
                ],
            }
            for design, outcomes in explored.outcomes.items()
        ],
    }


def points_csv(explored: Explored) -> str:
    """A row for each point: the design, its values, every number, whether it is on the front of its network."""
    outcomes = [outcome for each in explored.outcomes.values() for outcome in each]
    kinds = list(dict.fromkeys((one.name, one.unit, one.origin) for each in outcomes for one in each.metrics))
    columns = [f"{name} ({unit}): {origin}" for name, unit, origin in kinds]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    names = [one.name for one in explored.space.parameters]
    rows.writerow(["design", *names, "network", *columns, "on the front", "infeasible"])
    fronts = [set(explored.fronts[at]) for at in range(len(explored.networks))]
    for design, each in explored.outcomes.items():
        for at, (network, outcome) in enumerate(zip(explored.networks, each, strict=True)):
            values = {metric.name: metric.value for metric in outcome.metrics}
            cells = [values.get(name, "") for name, _, _ in kinds]
            on_it = "yes" if design in fronts[at] else "no"
            chosen = explored.space.values(design).values()
            rows.writerow([design, *chosen, network, *cells, on_it, outcome.infeasible])
    return text.getvalue()


def front_pictures(explored: Explored) -> list[tuple[str, str]]:
    """An SVG for every front and every two objectives, each with a name for its file."""
    found = []
    for name, network in named_fronts(explored):
        for x, y in combinations(range(len(explored.objectives)), 2):
            first, second = explored.objectives[x], explored.objectives[y]
            vectors, front = explored.vectors(network), explored.fronts[network]
            points = {design: (values[x], values[y]) for design, values in vectors.items()}
            best = tuple(points.pop(design) for design in front)
            beaten = tuple(points.values())
            if not best:
                continue
            every = [*beaten, *best]
            curve = Curve(
                name=f"front-{_file_name(name)}-{first.name}-{second.name}",
                title=f"{name}: {counted(len(vectors), 'design')}",
                x=_axis(first, [point[0] for point in every]),
                y=_axis(second, [point[1] for point in every]),
                series=tuple(
                    Series(label, points)
                    for label, points in (("beaten by another", beaten), ("Pareto front", best))
                    if points
                ),
                lines=False,
            )
            origins = dict.fromkeys(origin_of(explored, one) for one in (first, second))
            found.append((curve.name, curve_svg(curve, explored.space.machine, origin=", ".join(origins))))
    return found


def front_machines(explored: Explored) -> list[tuple[int, str]]:
    """The designs of all fronts, each as the text of a machine's file."""
    designs = sorted({design for _, network in named_fronts(explored) for design in explored.fronts[network]})
    texts = []
    for design in designs:
        values = ", ".join(f"{name} {value}" for name, value in explored.space.values(design).items())
        texts.append((design, f"# {explored.space.where} with {values}\n{explored.space.machine_text(design)}"))
    return texts


def _several(networks: Sequence[str]) -> str:
    return networks[0] if len(networks) == 1 else counted(len(networks), "network")


def named_fronts(explored: Explored) -> Iterator[tuple[str, int | None]]:
    """Fronts by name: of all networks together where there are several, and of each."""
    if len(explored.networks) > 1:
        yield "all networks together", None
    yield from ((name, number) for number, name in enumerate(explored.networks))


def _front_lines(explored: Explored, name: str, network: int | None) -> list[str]:
    objectives, space = explored.objectives, explored.space
    vectors, front = explored.vectors(network), explored.fronts[network]
    what = f"Least {objectives[0].name}" if len(objectives) == 1 else "Pareto front of "
    names = [one.name for one in objectives]
    what += "" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    lines = title(f"{what}: {name}")
    if not front:
        return [*lines, "  no design can run it" if network is not None else "  no design can run them all"]
    lines.append(f"  {counted(len(front), 'design')} of {len(vectors):,} feasible")
    rows = [
        (
            str(design),
            *space.values(design).values(),
            *(_shown(one, value) for one, value in zip(objectives, vectors[design], strict=True)),
        )
        for design in front[:SHOWN_DESIGNS]
    ]
    head = (
        "design",
        *(one.name for one in space.parameters),
        *(f"{one.name} ({origin_of(explored, one)})" for one in objectives),
    )
    lines += table(head, rows, "r" * len(head))
    if len(front) > SHOWN_DESIGNS:
        lines.append(f"  and {len(front) - SHOWN_DESIGNS:,} more (-o and --json have all)")
    return lines


def origin_of(explored: Explored, objective: DesignObjective) -> str:
    """Where its numbers come from; they all come from one evaluator."""
    for outcomes in explored.outcomes.values():
        for outcome in outcomes:
            for metric in outcome.metrics:
                if metric.name in objective.factors:
                    return metric.origin
    return Origin.MACHINE


_FORMATS: dict[str, Callable[[float], str]] = {
    "s": format_seconds,
    "pJ": format_energy,
    "B": lambda value: format_bytes(int(value)),
    "MAC/cycle": lambda value: f"{int(value):,}",
    "cycles": lambda value: f"{int(value):,} cycles",
    "mm2": lambda value: f"{value:g} mm2",
}


def _shown(objective: DesignObjective, value: float) -> str:
    return _FORMATS.get(objective.unit, lambda number: f"{number:.6g}")(value)


def _axis(objective: DesignObjective, values: Sequence[float]) -> Axis:
    return Axis(objective.name, objective.unit, logarithmic=min(values) > 0 and max(values) >= _WIDE * min(values))


def _file_name(name: str) -> str:
    """What of a network's name can stand in the name of a file."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)
