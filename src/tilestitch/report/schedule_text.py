"""How a schedule runs the pieces of its sub-graphs: order, core maps, what waits, what is joined and what gave way.

Source of the forms: Zhao et al., GraphTurbo, OSDI 2023, Figs. 3 and 7, section 3.5 and Table 3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilestitch.base.errors import printable
from tilestitch.base.units import counted, format_bytes
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.allocation import allocation_text
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Home, Kernel, PieceRun, Schedule
from tilestitch.ir.tiles import core_parts, operator_boxes
from tilestitch.kernels.surroundings import Source, cover
from tilestitch.report.summarise import place_rows
from tilestitch.report.table import Row, table

_NAMES_SHOWN = 60
_GIVEN_WAY_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Joined:
    """Where the bytes are that a piece needs of what other pieces made, counted for every core that needs them."""

    in_place: int  # in the LB of the core itself
    copied: int  # from GB to LB
    redistributed: int  # from the LB of other cores
    transfers: int  # from core to core: regions of one core that another needs
    loaded: int  # from DDR


def schedule_text(schedule: Schedule, machine: Accelerator, *, limit: int | None = None) -> str:
    """A schedule as a page: pieces and what becomes of their results, then at most `limit` kernels."""
    stay = (f"{row.count:,} in {row.level.upper()} ({format_bytes(row.size_bytes)})" for row in place_rows(schedule))
    kept = [f"  results stay: {', '.join(stay)}", allocation_text(schedule.homes, machine)] if schedule.homes else []
    lines = [schedule.title, *_pieces(schedule, limit), *_blocks(schedule, limit), *schedule.kernel_lines(limit)]
    lines += [f"  {note}" for note in schedule.notes]
    return "\n".join([*lines, *kept])


def joined(schedule: Schedule, at: int) -> Joined:
    """What piece `at` of a schedule needs of the pieces before it, and where that lies."""
    run, graph = schedule.pieces[at], schedule.graph
    makers = {
        number: schedule.pieces[one]
        for one in run.producers
        for number in range(schedule.pieces[one].first, schedule.pieces[one].last + 1)
    }
    tensors = {tensor for one in run.producers for tensor, _ in schedule.pieces[one].writes}
    homes: dict[str, list[Home]] = {}
    for home in reversed(schedule.homes):
        if home.first in makers and home.tensor in tensors:
            homes.setdefault(home.tensor, []).append(home)
    found = Joined(0, 0, 0, 0, 0)
    for kernel in schedule.kernels[run.first : run.last + 1]:
        for tensor, needs in _needs(graph, kernel, tensors).items():
            sources = [
                Source(region, home.level, core)
                for home in homes.get(tensor, ())
                for core, region in (home.parts or ((None, home.region),))
            ]
            found = _added(found, lying(needs, sources, graph, tensor))
    return found


def lying(needs: Sequence[tuple[int, Region]], sources: Sequence[Source], graph: Graph, tensor: str) -> Joined:
    """Where the regions of a tensor lie that cores need; the first source that holds an element counts."""
    in_place = copied = redistributed = loaded = transfers = 0
    for core, region in needs:
        near = sorted(sources, key=lambda source: source.core != core)
        for part, source in cover(region, near):
            size = graph.tensors[tensor].bytes_of(part)
            if source is None:
                loaded += size
            elif source.level is not Level.LB:
                copied += size
            elif source.core == core:
                in_place += size
            else:
                redistributed += size
                transfers += 1
    return Joined(in_place, copied, redistributed, transfers, loaded)


def _added(one: Joined, other: Joined) -> Joined:
    return Joined(
        one.in_place + other.in_place,
        one.copied + other.copied,
        one.redistributed + other.redistributed,
        one.transfers + other.transfers,
        one.loaded + other.loaded,
    )


def _needs(graph: Graph, kernel: Kernel, tensors: set[str]) -> dict[str, list[tuple[int, Region]]]:
    """Of each tensor that a kernel reads, which core needs which region."""
    operators = [graph.by_name[name] for name in kernel.operators]
    reads = [(op.name, read) for op in operators for read in op.reads if read.tensor in tensors]
    if not reads:
        return {}
    found: dict[str, list[tuple[int, Region]]] = {}
    for core, piece in core_parts(graph, kernel):
        boxes = operator_boxes(graph, operators, piece)
        own: dict[str, Region] = {}
        for name, read in reads:
            region = graph.read_region(read, boxes[name])
            own[read.tensor] = region.hull(own[read.tensor]) if read.tensor in own else region
        for tensor, region in own.items():
            found.setdefault(tensor, []).append((core, region))
    return found


def _pieces(schedule: Schedule, limit: int | None) -> list[str]:
    runs = schedule.pieces
    if not runs:
        return []
    shown = runs if limit is None else runs[:limit]
    concatenations = [run for run in runs if _concatenates(schedule, run)]
    waiting = [run for run in runs if run.waits]
    lines = ["", f"  {counted(len({run.group for run in runs}), 'sub-graph')}, cut into pieces:"]
    lines += table(("", "operators", "pieces", "of a result", "bytes each"), _groups(schedule, limit), "lrrlr")
    lines += ["", f"  order: {_listed(run.name for run in runs)}"]
    lines.append(
        f"  {counted(len(waiting), 'result')} to wait in GB while others run: {_listed(run.name for run in waiting)}"
    )
    lines.append(f"  {counted(len(concatenations), 'concatenation')} of results of several pieces")
    head = ("piece", "kernels", "cores of its result", "stays in", "reads", "in place", "from GB", "from cores", "DDR")
    rows = [_row(schedule, at) for at in range(len(shown))]
    lines += ["", *table(head, rows, "lrlllrrrr")]
    if len(shown) < len(runs):
        lines.append(f"  ... {counted(len(runs) - len(shown), 'piece')} more")
    return [*lines, "", *_given_way(schedule), ""]


def _blocks(schedule: Schedule, limit: int | None) -> list[str]:
    """Fused blocks: what runs in each, what its cores compute several times, and what it hands to DDR and back."""
    runs = schedule.blocks
    if not runs:
        return []
    graph, rows = schedule.graph, []
    for run in runs if limit is None else runs[:limit]:
        kernels = schedule.kernels[run.first : run.last + 1]
        parts = [(graph.by_name[kernel.sink], core_parts(graph, kernel)) for kernel in kernels]
        done = sum(part.size for _, strips in parts for _, part in strips)
        once = sum(
            (sink.whole if kernel.box is None else kernel.box).size
            for kernel, (sink, _) in zip(kernels, parts, strict=True)
        )
        homes = [home for home in schedule.homes if run.first <= home.first <= run.last and not home.fetched]
        numbers = f"{run.first}" if run.first == run.last else f"{run.first}-{run.last}"
        counts = ((sum(home.level is level for home in homes), level) for level in (Level.LB, Level.GB))
        levels = ", ".join(f"{count} in {level.upper()}" for count, level in counts if count) or "none"
        rows.append((f"{run.number}", numbers, f"{run.cores}", f"{100 * (done / once - 1):.0f} %", levels))
    head = ("block", "kernels", "cores", "computed again", "results that stay")
    lines = ["", f"  {counted(len(runs), 'fused block')}, one launch each:", *table(head, rows, "rlrrl")]
    if len(rows) < len(runs):
        lines.append(f"  ... {counted(len(runs) - len(rows), 'block')} more")
    return [*lines, ""]


def _concatenates(schedule: Schedule, run: PieceRun) -> bool:
    """Whether a piece reads parts of one tensor that several others made."""
    tensors = [tensor for one in run.producers for tensor, _ in schedule.pieces[one].writes]
    return len(set(tensors)) < len(tensors)


def _groups(schedule: Schedule, limit: int | None) -> list[Row]:
    rows: list[Row] = []
    for group in sorted({run.group for run in schedule.pieces}):
        runs = [run for run in schedule.pieces if run.group == group]
        first = min(runs, key=lambda run: run.number)
        operators = {
            name for run in runs for kernel in schedule.kernels[run.first : run.last + 1] for name in kernel.operators
        }
        tensor, region = first.writes[0]
        size = sum(schedule.graph.tensors[name].bytes_of(part) for name, part in first.writes)
        more = f" and {len(first.writes) - 1} more" if len(first.writes) > 1 else ""
        extents = "x".join(map(str, region.extents))
        letters = first.name.rstrip("0123456789")
        rows.append(
            (
                letters,
                f"{len(operators):,}",
                f"{len(runs)}",
                f"{extents} of {printable(tensor)}{more}",
                format_bytes(size),
            )
        )
    if limit is not None and len(rows) > limit:
        rows = [*rows[:limit], (f"... {len(rows) - limit:,} more", "", "", "", "")]
    return rows


def _row(schedule: Schedule, at: int) -> Row:
    run, found = schedule.pieces[at], joined(schedule, at)
    kernel = schedule.kernels[run.last]
    levels = _levels(schedule, run)
    kernels = f"{run.first}" if run.first == run.last else f"{run.first}-{run.last}"
    places = ", ".join(level.upper() for level in levels)
    cells = (found.in_place, found.copied, found.redistributed, found.loaded)
    sizes = [format_bytes(size) if size else "-" for size in cells]
    if found.transfers:
        sizes[2] += f" in {found.transfers:,}"
    reads = " ".join(schedule.pieces[one].name for one in run.producers)
    return (run.name, kernels, _core_map(schedule, kernel), places, reads or "-", *sizes)


def _levels(schedule: Schedule, run: PieceRun) -> list[Level]:
    """Where the results of a piece stay, the nearest first."""
    own = {tensor for tensor, _ in run.writes}
    homes = [home for home in schedule.homes if run.first <= home.first <= run.last and home.tensor in own]
    found = {home.level for home in homes}
    if own - {home.tensor for home in homes}:
        found.add(Level.DDR)
    return [level for level in (Level.LB, Level.GB, Level.DDR) if level in found]


def _core_map(schedule: Schedule, kernel: Kernel) -> str:
    """`n/2 oh/4: 0 1 2 3, 4 5 6 7`: the dims that are divided, and the cores of the parts of the first of them."""
    sink = schedule.graph.by_name[kernel.sink]
    cut = [(dim.name, count) for dim, count in zip(sink.dims, kernel.tiling.splits, strict=True) if count > 1]
    used = 1
    for _, count in cut:
        used *= count
    cores = [str(core) for core in kernel.cores[:used]]
    inner = used // cut[0][1] if cut else 1
    parts = [" ".join(cores[at : at + inner]) for at in range(0, used, inner)]
    names = " ".join(f"{name}/{count}" for name, count in cut)
    return f"{names}: {', '.join(parts) if inner > 1 else ' '.join(cores)}" if cut else f"core {cores[0]}"


def _given_way(schedule: Schedule) -> list[str]:
    """Results that lie lower than they were to, because there was no room."""
    levels = {(home.first, home.tensor): home.level for home in schedule.homes}
    wanted = {
        (number, tensor): Level.GB if run.waits else Level.LB
        for run in schedule.pieces
        for number in range(run.first, run.last + 1)
        for tensor, _ in run.writes
    }
    order = (Level.LB, Level.GB, Level.DDR)
    names: dict[Level, list[str]] = {}
    graph = schedule.graph
    for run in schedule.pieces:
        for number in range(run.first, run.last + 1):
            kernel, inside = schedule.kernels[number], set(schedule.kernels[number].operators)
            for tensor in (name for op in kernel.operators for name in graph.by_name[op].outputs):
                readers = graph.consumers.get(tensor, ())
                if tensor in graph.outputs or all(reader.name in inside for reader in readers):
                    continue
                level = levels.get((number, tensor), Level.DDR)
                if order.index(level) > order.index(wanted.get((number, tensor), Level.LB)):
                    names.setdefault(level, []).append(f"{printable(tensor)} of {run.name}")
    if not names:
        return ["  no result was spilled for lack of room"]
    return [
        f"  spilled to {level.upper()} for lack of room, {len(found):,}: {_listed(found, _GIVEN_WAY_SHOWN)}"
        for level in order
        if (found := names.get(level))
    ]


def _listed(names: Iterable[str], most: int = _NAMES_SHOWN) -> str:
    every = list(names)
    shown = (", " if most < _NAMES_SHOWN else " ").join(every[:most])
    return f"{shown} ... {len(every) - most:,} more" if len(every) > most else shown
