"""A window of a simulation in Chrome's trace format, which Perfetto (ui.perfetto.dev) opens: a cycle a microsecond."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilestitch.base.errors import InputError
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


@dataclass(frozen=True, slots=True)
class _Event:
    """One event on its track, a thread of a process."""

    process: int
    track: int
    track_name: str
    name: str
    begin: int
    end: int
    facts: Mapping[str, int]


def array_trace(one: SimulatedMapping, window: tuple[int, int]) -> str:
    """The events that the window has some of, whole, an event a line; one track for every element, network, channel.

    `window` is the first cycle and the one after the last. Raises InputError where nothing is in it, or too much.
    """
    name, (first, end) = one.run.geometry.nest.name, window
    if first >= one.cycles:
        raise InputError(
            f"--window {first}:{end - 1}: nest {name!r} takes {one.cycles:,} cycles, so the window is beyond its end; "
            f"choose cycles from 0 to {one.cycles - 1}"
        )
    busy = (one.run.programs.busy > 0).sum(axis=1)
    events = one.run.events
    passes = events[events[:, KIND] == PASS_EVENT]
    shown = len(events) - len(passes) + int(busy[passes[:, WHAT]].sum())
    if shown > MAX_EVENTS:
        raise InputError(
            f"--window {first}:{end - 1}: it contains {shown:,} events, and a trace holds at most {MAX_EVENTS:,}; "
            "choose a shorter window"
        )
    found = list(_events(one))
    names = {(event.process, event.track): event.track_name for event in found}
    lines = [
        f'{{"ph":"M","pid":{process},"name":"process_name","args":{{"name":"{title}"}}}}'
        for process, title in _PROCESSES.items()
        if any(used == process for used, _ in names)
    ]
    lines += [
        f'{{"ph":"M","pid":{process},"tid":{track},"name":"thread_name","args":{{"name":{json.dumps(title)}}}}}'
        for (process, track), title in sorted(names.items())
    ]
    lines += [
        f'{{"ph":"X","pid":{event.process},"tid":{event.track},"ts":{event.begin},"dur":{event.end - event.begin},'
        f'"name":{json.dumps(event.name)},"args":{json.dumps(event.facts)}}}'
        for event in found
    ]
    other = {
        "nest": name,
        "machine": one.machine.name,
        "time": "1 microsecond is 1 simulated cycle",
        "first_cycle": first,
        "last_cycle": min(end, one.cycles) - 1,
    }
    return f'{{"displayTimeUnit":"ms","otherData":{json.dumps(other)},"traceEvents":[\n' + ",\n".join(lines) + "\n]}\n"


def _events(one: SimulatedMapping) -> Iterator[_Event]:
    """All that take time, by when they begin. Those of one track never overlap: viewers drop what does."""
    operands = one.run.geometry.nest.operands
    networks = NETWORK_NAMES[one.machine.networks]
    elements, work = _element_names(one), one.run.programs.busy.tolist()
    free = [0] * one.machine.dma_channels  # when each channel is
    for row in one.run.events[one.run.events[:, BEGIN].argsort(kind="stable")].tolist():
        kind, what, begin, end = row[KIND], row[WHAT], row[BEGIN], row[END]
        if begin == end:
            continue
        if kind == PASS_EVENT:
            for element, macs in enumerate(work[what]):
                if macs > 0:
                    facts = {"multiply_accumulates": macs}
                    yield _Event(_ELEMENTS, element + 1, elements[element], "pass", begin, end, facts)
        elif kind in (NETWORK_EVENT, RESULTS_EVENT):
            network = one.network_of(what)
            facts = {"words_in": row[ONE], "words_out": row[OTHER]}
            yield _Event(
                _NETWORKS, network + 1, f"network: {networks[network]}", operands[what].name, begin, end, facts
            )
        elif kind == SUMS_EVENT:
            yield _Event(_NETWORKS, _SUMS, "partial sums", "partial sums", begin, end, {})
        elif kind == DMA_EVENT:
            channel = next(at for at, until in enumerate(free) if until <= begin)
            free[channel] = end
            name = ("store " if row[ONE] else "load ") + operands[what].name
            yield _Event(_DMA, channel + 1, f"channel {channel}", name, begin, end, {"size_bytes": row[OTHER]})
        else:
            yield _Event(_CONTROLLER, 1, "waits", CAUSE_NAMES[what].replace("_", " "), begin, end, {})


def _element_names(one: SimulatedMapping) -> list[str]:
    """Each with its place in the loops that are spread."""
    geometry = one.run.geometry
    spread = [at for at, factor in enumerate(geometry.mapping.spatial) if factor > 1]
    names = []
    for number, place in enumerate(geometry.places().tolist()):
        at = " ".join(f"{geometry.nest.loops[loop].name}={place[loop]}" for loop in spread)
        names.append(f"element {number}" + (f" ({at})" if at else ""))
    return names
