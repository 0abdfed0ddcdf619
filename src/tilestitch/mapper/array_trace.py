"""A window of a simulation in Chrome's trace format, which Perfetto (ui.perfetto.dev) opens: a cycle a microsecond."""

import json

from tilestitch.errors import InputError
from tilestitch.sim.array.events import (
    BEGIN,
    DMA_EVENT,
    END,
    KIND,
    NETWORK_EVENT,
    ONE,
    OTHER,
    PASS_EVENT,
    RESULTS_EVENT,
    SUMS_EVENT,
    WHAT,
)
from tilestitch.sim.array.simulated import CAUSE_NAMES, NETWORK_NAMES, SimulatedMapping

MAX_EVENTS = 500_000  # viewers become slow above
_ELEMENTS, _NETWORKS, _DMA, _CONTROLLER = 1, 2, 3, 4
_PROCESSES = {_ELEMENTS: "elements", _NETWORKS: "networks", _DMA: "DMA", _CONTROLLER: "controller"}
_SUMS = 4  # the track of partial sums, behind those of the networks


def array_trace(one: SimulatedMapping, window: tuple[int, int]) -> str:
    """The events that the window has some of, whole, an event a line; one track for every element, network, channel.

    `window` is the first cycle and the one after the last. Raises InputError where nothing is in it, or too much.
    """
    run, nest = one.run, one.run.geometry.nest
    first, end = window
    if first >= run.cycles:
        raise InputError(
            f"--window {first}:{end - 1}: nest {nest.name!r} takes {run.cycles:,} cycles, so the window is behind "
            f"its end; choose cycles from 0 to {run.cycles - 1}"
        )
    rows = run.events[run.events[:, BEGIN].argsort(kind="stable")]
    elements = run.programs.busy
    shown = sum(int((elements[row[WHAT]] > 0).sum()) if row[KIND] == PASS_EVENT else 1 for row in rows)
    if shown > MAX_EVENTS:
        raise InputError(
            f"--window {first}:{end - 1}: {shown:,} events are in it, a trace has at most {MAX_EVENTS:,}; choose a "
            f"shorter window"
        )
    lines: list[str] = []
    tracks: dict[tuple[int, int], str] = {}
    free = [0] * one.machine.dma_channels  # when each channel is

    def add(process: int, track: int, title: str, row: list[int], name: str, **facts: int) -> None:
        tracks[process, track] = title
        lines.append(
            f'{{"ph":"X","pid":{process},"tid":{track},"ts":{row[BEGIN]},"dur":{row[END] - row[BEGIN]},'
            f'"name":{json.dumps(name)},"args":{json.dumps(facts)}}}'
        )

    places = run.geometry.places().tolist()
    for row in rows.tolist():
        kind, what = row[KIND], row[WHAT]
        if row[BEGIN] == row[END]:
            continue
        if kind == PASS_EVENT:
            for element, macs in enumerate(elements[what].tolist()):
                if macs > 0:
                    at = " ".join(
                        f"{loop.name}={index}"
                        for loop, index, n in zip(
                            nest.loops, places[element], run.geometry.mapping.spatial, strict=True
                        )
                        if n > 1
                    )
                    title = f"element {element}" + (f" ({at})" if at else "")
                    add(_ELEMENTS, element + 1, title, row, "pass", macs=macs)
        elif kind in (NETWORK_EVENT, RESULTS_EVENT):
            network = one.network_of(what)
            add(
                _NETWORKS,
                network + 1,
                f"network: {NETWORK_NAMES[one.machine.networks][network]}",
                row,
                nest.operands[what].name,
                words_in=row[ONE],
                words_out=row[OTHER],
            )
        elif kind == SUMS_EVENT:
            add(_NETWORKS, _SUMS, "partial sums", row, "partial sums")
        elif kind == DMA_EVENT:
            channel = next((at for at, until in enumerate(free) if until <= row[BEGIN]), 0)
            free[channel] = row[END]
            name = ("store " if row[ONE] else "load ") + nest.operands[what].name
            add(_DMA, channel + 1, f"channel {channel}", row, name, size_bytes=row[OTHER])
        else:
            add(_CONTROLLER, 1, "waits", row, CAUSE_NAMES[what].replace("_", " "))
    other = json.dumps(
        {
            "nest": nest.name,
            "machine": one.machine.name,
            "time": "1 microsecond is 1 simulated cycle",
            "first_cycle": first,
            "last_cycle": min(end, run.cycles) - 1,
        }
    )
    names = [
        f'{{"ph":"M","pid":{process},"name":"process_name","args":{{"name":"{name}"}}}}'
        for process, name in _PROCESSES.items()
        if any(used == process for used, _ in tracks)
    ]
    names += [
        f'{{"ph":"M","pid":{process},"tid":{track},"name":"thread_name","args":{{"name":{json.dumps(title)}}}}}'
        for (process, track), title in sorted(tracks.items())
    ]
    return f'{{"displayTimeUnit":"ms","otherData":{other},"traceEvents":[\n' + ",\n".join([*names, *lines]) + "\n]}\n"
