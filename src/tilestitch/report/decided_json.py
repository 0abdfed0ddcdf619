"""The groups `operators` and `decisions` of a report in JSON: what was decided and simulated, operator by operator."""

from tilestitch.base.json_values import Json
from tilestitch.ir.graph import Graph
from tilestitch.ir.schedule import Kernel, Schedule
from tilestitch.report.html.contents import parts_of
from tilestitch.report.summarise import stays
from tilestitch.report.totals import OneBatch, Total


def operator_rows(schedule: Schedule, batch: OneBatch) -> list[Json]:
    """Each operator that runs, in the order in which the first kernels with it run."""
    parts = parts_of(schedule)
    kernels: dict[str, list[int]] = {}
    for number, kernel in enumerate(schedule.kernels):
        for name in kernel.operators:
            kernels.setdefault(name, []).append(number)
    levels: dict[str, list[str]] = {}
    for stay in stays(schedule):
        levels.setdefault(stay.tensor, []).append(str(stay.level))
    totals = dict(zip(batch.trace.program.operators, batch.by_operator(), strict=True))
    found: list[Json] = []
    for name, numbers in kernels.items():
        if name not in totals:
            continue
        first, op = schedule.kernels[numbers[0]], schedule.graph.by_name[name]
        found.append(
            {
                "name": name,
                "kind": op.kind,
                "decided": {
                    "sub_graph": parts.sub_graphs[parts.sub_graph[numbers[0]]],
                    "pieces": len({parts.instance[number] for number in numbers}),
                    "runs_with": [other for other in first.operators if other != name],
                    "results_in": sorted({level for tensor in op.outputs for level in levels.get(tensor, ())}),
                    "tiling": tiling_text(first, schedule.graph),
                },
                "simulated": _simulated(totals[name]),
            }
        )
    return found


def decisions(schedule: Schedule) -> dict[str, Json]:
    """Sub-graphs, the order of their pieces, and where each result that leaves a kernel waits for its readers."""
    parts = parts_of(schedule)
    members: dict[int, dict[str, None]] = {}
    pieces: dict[int, set[int]] = {}
    for number, kernel in enumerate(schedule.kernels):
        members.setdefault(parts.sub_graph[number], {}).update(dict.fromkeys(kernel.operators))
        pieces.setdefault(parts.sub_graph[number], set()).add(parts.instance[number])
    places: dict[tuple[str, str], list[int]] = {}
    for stay in stays(schedule):
        place = places.setdefault((stay.tensor, str(stay.level)), [0, 0])
        place[0] += 1
        place[1] += stay.size_bytes
    return {
        "sub_graphs": [
            {"name": name, "operators": list(members[number]), "pieces": len(pieces[number])}
            for number, name in enumerate(parts.sub_graphs)
        ],
        "order": list(parts.instances),
        "homes": [
            {"tensor": tensor, "level": level, "count": count, "size_bytes": size}
            for (tensor, level), (count, size) in places.items()
        ],
    }


def tiling_text(kernel: Kernel, graph: Graph) -> str:
    """`n:1 m:64/4 oh:56 by 8; order n m oh`: extents, pieces over cores and tiles of the loops that are cut."""
    sink, tiling = graph.by_name[kernel.sink], kernel.tiling
    if kernel.streamed:
        return "streamed"
    if kernel.strips:
        return f"strips on {len(kernel.strips)} cores"
    extents = (sink.whole if kernel.box is None else kernel.box).extents
    loops = " ".join(
        f"{dim.name}:{extent}"
        + (f"/{pieces}" if pieces > 1 else "")
        + (f" by {tile}" if tile * pieces < extent else "")
        for dim, extent, pieces, tile in zip(sink.dims, extents, tiling.splits, tiling.tile, strict=True)
    )
    return f"{loops}; order {' '.join(sink.dims[dim].name for dim in tiling.order)}"


def _simulated(total: Total) -> dict[str, Json]:
    return {
        "occupied_cycles": total.occupied_cycles,
        "ddr_bytes": total.ddr_bytes,
        "gb_bytes": total.gb_bytes,
        "macs": total.macs,
        "vector_operations": total.vector_operations,
        "instructions": total.instructions,
        "cores": total.cores,
    }
