"""When every instruction of a program starts and ends: engines in order, transfers granule by granule.

Time is counted in ticks. A tick is 1/T of a cycle, where T is the least common multiple of the numerators of all
bandwidths (bytes a cycle, as reduced fractions), so that any number of bytes takes a whole number of ticks. Where that
is more than `MAX_EXACT_TICKS_PER_CYCLE`, T is a multiple of the smaller numerators, as large as 64 bits have room for,
and a byte at the other bandwidths takes its time rounded up to a tick.

Only requests of granules are events. Everything else is known ahead of them: a granule's end is decided when it is
requested, an instruction's end when its last granule is, and the start of another when the last of its waits is. A
granule takes at least one tick, so whatever follows from a request at t asks for its own first granule after t, and
taking the requests in the order (time, engine) serves every resource first come, first served.
"""

from math import lcm

import numpy as np

from tilestitch.base.errors import InputError, InvalidIR
from tilestitch.base.jit import inner, tiered
from tilestitch.ir.program import Kind, Program
from tilestitch.ir.trace import Sharing, Trace

MAX_EXACT_TICKS_PER_CYCLE = 10**8
MIN_TICKS_PER_BYTE = 10**5  # where bytes are rounded: by less than 0.001 % of their time
MAX_TICKS = 2**62  # room for one more addition in 64 bits
MAX_GRANULES = 2**31  # minutes
SHOWN_BLOCKED = 8


def simulate(program: Program) -> Trace:
    """Start and end of every instruction, to the tick; the same program gives the same trace, to the byte.

    Each engine executes its instructions in program order. An instruction starts when its engine's previous one and
    all its waits have ended, on a whole cycle. What follows depends on its kind:

    - COMPUTE and LAUNCH end `cycles` later.
    - COPY, GATHER and STREAM occupy their engine for `cycles` (the set-up), then their bytes flow. Without bytes or
      without a path they end here.

    The payload consists of runs of `run_bytes` (0: all of it is one run; the last run may be shorter), and each run
    rounds up to the burst of each resource on the path, which gives `bytes[r]`. The transfer is cut into G granules,
    G being the largest `ceil(bytes[r] / granule_bytes)`; granule g carries `bytes[r]*(g+1)//G - bytes[r]*g//G` bytes
    through resource r. The first granule is requested when the set-up ends, each other one when the one before has
    passed. A granule requested at t is served by every resource r of the path from `max(t, free[r])` on, for its
    share ÷ the bandwidth of r, all of them at once (cut-through); `free[r]` is then the end of that, and the granule
    has passed when the slowest resource is through. Resources serve granules in the order of their requests, ties by
    engine number. The instruction ends on the first whole cycle after its last granule has passed.

    A broadcast lists the port of its source once, and so occupies it once. A resource that a path lists twice serves
    each granule twice, one after the other.

    Raises InputError where a program is too long for ticks of 64 bits, InvalidIR where an instruction can never start.
    """
    return _simulated(program, record=False)[0]


def sharing(program: Program) -> Sharing:
    """What sharing of resources does to the transfers of a program, as `simulate` runs it; raises as that does."""
    return _simulated(program, record=True)[1]


def _simulated(program: Program, *, record: bool) -> tuple[Trace, Sharing]:
    """The trace, and where `record` what sharing did; without, that of no instruction."""
    _check(program)
    burst_bytes = np.array([r.burst_bytes for r in program.resources], np.int64)
    path_offsets = np.cumsum([0, *(len(path) for path in program.paths)], dtype=np.int64)
    path_resource = np.array([r for path in program.paths for r in path], np.int64)
    moves = np.isin(program.kind, (Kind.COPY, Kind.GATHER, Kind.STREAM))
    moves &= (program.size_bytes > 0) & (program.path >= 0)

    # One type per column, so that there is one compiled version, and none that overflows with the JIT off.
    engine, cycles, size_bytes, run_bytes, path, wait_offsets, waits = (
        column.astype(np.int64)
        for column in (
            program.engine,
            program.cycles,
            program.size_bytes,
            program.run_bytes,
            program.path,
            program.wait_offsets,
            program.waits,
        )
    )
    resource_bytes = _resource_bytes(moves, size_bytes, run_bytes, path, path_offsets, path_resource, burst_bytes)
    ticks_per_cycle, ticks_per_byte = _ticks(program, resource_bytes)
    granules = float(resource_bytes.sum(dtype=float)) / program.granule_bytes
    if granules > MAX_GRANULES:
        raise InputError(
            f"program of {len(program):,} instructions: its transfers are about {granules:.1e} granules of "
            f"{program.granule_bytes} B, and the simulator serves at most {MAX_GRANULES:.1e}; use a larger "
            "granule_bytes, or a smaller batch."
        )
    successor_offsets, successors, open_waits = _successors(engine, wait_offsets, waits, len(program.engines))
    recorded = len(program) if record else 0
    found = Sharing(np.zeros(recorded, np.int64), np.full(recorded, -1, np.int64))
    start_ticks, end_ticks = _run(
        engine,
        cycles * ticks_per_cycle,
        moves,
        size_bytes,
        run_bytes,
        path,
        successor_offsets,
        successors,
        open_waits,
        path_offsets,
        path_resource,
        ticks_per_byte,
        burst_bytes,
        program.granule_bytes,
        ticks_per_cycle,
        len(program.engines),
        found.delay_ticks,
        found.behind,
    )
    if open_waits.any():
        raise InvalidIR(_blocked_text(program, open_waits > 0))
    trace = Trace(program, ticks_per_cycle, start_ticks, end_ticks, resource_bytes * ticks_per_byte, resource_bytes)
    return trace, found


def _ticks(program: Program, resource_bytes: np.ndarray) -> tuple[int, np.ndarray]:
    """Ticks of a cycle, and of a byte at each resource; rounded up where no tick that is long enough divides it."""
    bandwidths = [resource.bandwidth_bytes_per_cycle for resource in program.resources]
    # Until the end, an engine or a resource is always at work, or an instruction rounds up to its next cycle.
    most_cycles = float(program.cycles.sum(dtype=float) + len(program))
    most_cycles += float((resource_bytes / np.array(bandwidths, float)).sum())
    ticks, is_exact = _shared_ticks([bandwidth.numerator for bandwidth in bandwidths])
    if not is_exact:  # a quarter is left for bytes that take longer than stated
        ticks *= int(0.75 * MAX_TICKS / max(most_cycles, 1)) // ticks
    ticks_per_byte = [-(-bandwidth.denominator * ticks // bandwidth.numerator) for bandwidth in bandwidths]
    if most_cycles * ticks > MAX_TICKS or not (is_exact or min(ticks_per_byte) >= MIN_TICKS_PER_BYTE):
        rates = ", ".join(f"{resource.name} {resource.bandwidth_bytes_per_cycle}" for resource in program.resources)
        raise InputError(
            f"program of {len(program):,} instructions: may take {most_cycles:.1e} cycles, too many for ticks of 64 "
            f"bits that divide a byte's time at {rates} bytes per cycle; use a smaller batch, or bandwidths with small "
            "numerators."
        )
    return ticks, np.array(ticks_per_byte, np.int64)


def _shared_ticks(numerators: list[int]) -> tuple[int, bool]:
    """The least common multiple of all numerators, or of the smaller ones, and whether it is that of all."""
    shared = 1
    for numerator in sorted(numerators):
        if lcm(shared, numerator) <= MAX_EXACT_TICKS_PER_CYCLE:
            shared = lcm(shared, numerator)
    return shared, all(shared % numerator == 0 for numerator in numerators)


def _check(program: Program) -> None:
    """Refuse what compiled code would take for an address, or never come back from."""
    columns = (
        ("engine", program.engine, 0, len(program.engines)),
        ("path", program.path, -1, len(program.paths)),
        ("waits", program.waits, 0, len(program)),
        ("paths", np.array([r for path in program.paths for r in path], np.int64), 0, len(program.resources)),
        ("cycles", program.cycles, 0, MAX_TICKS),
        ("size_bytes", program.size_bytes, 0, MAX_TICKS),
        ("run_bytes", program.run_bytes, 0, MAX_TICKS),
    )
    for name, column, low, stop in columns:
        wrong = np.flatnonzero((column < low) | (column >= stop))
        if len(wrong):
            raise InvalidIR(f"program: {name}[{wrong[0]}]: expected {low} to {stop - 1}, found {column[wrong[0]]}")
    offsets = program.wait_offsets
    if (
        len(offsets) != len(program) + 1
        or offsets[0] != 0
        or offsets[-1] != len(program.waits)
        or (offsets[1:] < offsets[:-1]).any()
    ):
        raise InvalidIR(
            f"program: wait_offsets: expected {len(program) + 1:,} that rise from 0 to {len(program.waits):,}"
        )
    if any(len(path) == 0 for path in program.paths):
        raise InvalidIR("program: a path must list a resource; a copy that passes none has path -1")
    for resource in program.resources:
        if resource.bandwidth_bytes_per_cycle <= 0 or resource.burst_bytes < 1:
            raise InvalidIR(f"program: bandwidth and burst must be positive, found {resource}")
    if program.granule_bytes < 1:
        raise InvalidIR(f"program: granule_bytes: expected 1 or more, found {program.granule_bytes}")


def _blocked_text(program: Program, blocked: np.ndarray) -> str:
    """Which instructions never start: the first of each engine, with the waits that never end."""
    numbers = np.flatnonzero(blocked)
    engines, first = np.unique(program.engine[numbers], return_index=True)
    lines = []
    for engine, number in zip(engines[:SHOWN_BLOCKED], numbers[first[:SHOWN_BLOCKED]], strict=True):
        waits = program.waits[program.wait_offsets[number] : program.wait_offsets[number + 1]]
        open_waits = ", ".join(f"{w} ({program.engines[program.engine[w]].name})" for w in waits[blocked[waits]])
        lines.append(f"\n  {program.engines[engine].name}: instruction {number} waits for {open_waits}")
    if len(engines) > SHOWN_BLOCKED:
        lines.append(f"\n  and {len(engines) - SHOWN_BLOCKED} more engines")
    return (
        f"program: {len(numbers):,} of {len(program):,} instructions can never start; waits must lead to instructions "
        f"that end first. The first on each engine:{''.join(lines)}"
    )


@tiered
def _burst_rounded(size_bytes: int, run_bytes: int, burst_bytes: int) -> int:
    """Bytes of a payload when each of its runs rounds up to a burst."""
    if run_bytes == 0:
        run_bytes = size_bytes
    runs = size_bytes // run_bytes
    bursts = runs * ((run_bytes + burst_bytes - 1) // burst_bytes)
    bursts += (size_bytes - runs * run_bytes + burst_bytes - 1) // burst_bytes
    return bursts * burst_bytes


@tiered
def _resource_bytes(
    moves: np.ndarray,
    size_bytes: np.ndarray,
    run_bytes: np.ndarray,
    path: np.ndarray,
    path_offsets: np.ndarray,
    path_resource: np.ndarray,
    burst_bytes: np.ndarray,
) -> np.ndarray:
    """Bytes that pass each resource, bursts included."""
    total = np.zeros(len(burst_bytes), np.int64)
    for i in range(len(path)):
        if moves[i]:
            for at in range(path_offsets[path[i]], path_offsets[path[i] + 1]):
                r: int = path_resource[at]
                total[r] += _burst_rounded(size_bytes[i], run_bytes[i], burst_bytes[r])
    return total


@tiered
def _successors(
    engine: np.ndarray, wait_offsets: np.ndarray, waits: np.ndarray, engines: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The waits turned round, the previous instruction of the engine being one of them.

    Those who wait for i are `successors[offsets[i]:offsets[i + 1]]`; the third array counts what each one waits for.
    """
    count = len(engine)
    offsets = np.zeros(count + 2, np.int64)  # shifted by one more, so that filling leaves the offsets behind
    open_waits = np.zeros(count, np.int64)
    previous = np.full(count, -1, np.int64)
    latest = np.full(engines, -1, np.int64)
    for i in range(count):
        open_waits[i] = wait_offsets[i + 1] - wait_offsets[i]
        before = latest[engine[i]]
        latest[engine[i]] = i
        previous[i] = before
        if before >= 0:
            open_waits[i] += 1
            offsets[before + 2] += 1
    for wait in waits:
        offsets[wait + 2] += 1
    for i in range(count):
        offsets[i + 2] += offsets[i + 1]
    successors = np.empty(offsets[count + 1], np.int64)
    for i in range(count):
        for at in range(wait_offsets[i], wait_offsets[i + 1]):
            successors[offsets[waits[at] + 1]] = i
            offsets[waits[at] + 1] += 1
        if previous[i] >= 0:
            successors[offsets[previous[i] + 1]] = i
            offsets[previous[i] + 1] += 1
    return offsets[: count + 1], successors, open_waits


@inner
def _push(times: np.ndarray, engines: np.ndarray, count: int, time: int, engine: int) -> int:
    """Add a request to the binary heap of the first `count` pairs (time, engine); returns the new count."""
    at = count
    while at > 0:
        parent = (at - 1) // 2
        if times[parent] < time or (times[parent] == time and engines[parent] < engine):
            break
        times[at], engines[at] = times[parent], engines[parent]
        at = parent
    times[at], engines[at] = time, engine
    return count + 1


@inner
def _replace_first(times: np.ndarray, engines: np.ndarray, count: int, time: int, engine: int) -> None:
    """Put a request into the heap in place of the first."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        other = child + 1
        if other < count and (
            times[other] < times[child] or (times[other] == times[child] and engines[other] < engines[child])
        ):
            child = other
        if time < times[child] or (time == times[child] and engine < engines[child]):
            break
        times[at], engines[at] = times[child], engines[child]
        at = child
    times[at], engines[at] = time, engine


@tiered
def _cut(
    size_bytes: int,
    run_bytes: int,
    ports: np.ndarray,
    ticks_per_byte: np.ndarray,
    burst_bytes: np.ndarray,
    granule_bytes: int,
    shares: np.ndarray,
) -> int:
    """The number G of granules of a transfer; fills `shares` for `_serve`.

    Row k of `shares` is about the k-th resource of the path: the ticks of `bytes // G`, the remainder, and that of
    `remainder * g` where granule g begins, so that nothing is divided per granule.
    """
    granules = 1
    for k in range(len(ports)):
        r: int = ports[k]
        size = _burst_rounded(size_bytes, run_bytes, burst_bytes[r])
        shares[k, 1] = size
        granules = max(granules, (size + granule_bytes - 1) // granule_bytes)
    for k in range(len(ports)):
        even = shares[k, 1] // granules
        shares[k, 0] = even * ticks_per_byte[ports[k]]
        shares[k, 1] -= even * granules
        shares[k, 2] = 0
    return granules


@inner
def _serve(
    time: int, granules: int, ports: np.ndarray, ticks_per_byte: np.ndarray, shares: np.ndarray, free: np.ndarray
) -> int:
    """When the next granule, requested at `time`, has passed every resource of its path."""
    passed = time
    for k in range(len(ports)):
        r: int = ports[k]
        ticks = shares[k, 0]
        rest = shares[k, 2] + shares[k, 1]
        if rest >= granules:
            rest -= granules
            ticks += ticks_per_byte[r]
        shares[k, 2] = rest
        free[r] = max(time, free[r]) + ticks
        passed = max(passed, free[r])
    return passed


@inner
def _mark_repeats(ports: np.ndarray, shares: np.ndarray) -> None:
    """Fill `shares` for `_share`: the row before of the same resource, or -1."""
    for k in range(len(ports)):
        before = k - 1
        while before >= 0 and ports[before] != ports[k]:
            before -= 1
        shares[k, 3] = before


@tiered
def _share(
    time: int,
    granules: int,
    number: int,
    ports: np.ndarray,
    ticks_per_byte: np.ndarray,
    shares: np.ndarray,
    free: np.ndarray,
    holder: np.ndarray,
) -> tuple[int, int]:
    """What sharing does to the next granule of instruction `number`, before `_serve` serves it.

    By how much it passes later than if it had its resources to itself, and which instruction was served before it
    where it is through last.
    """
    passed = time
    alone = 0
    behind = -1
    for k in range(len(ports)):
        r: int = ports[k]
        own = shares[k, 0]
        if shares[k, 2] + shares[k, 1] >= granules:
            own += ticks_per_byte[r]
        before = shares[k, 3]
        own += shares[before, 4] if before >= 0 else 0
        shares[k, 4] = own
        alone = max(alone, own)
        if max(time, free[r]) + own > passed:
            passed = max(time, free[r]) + own
            behind = holder[r]
    for k in range(len(ports)):
        holder[ports[k]] = number
    return passed - time - alone, behind


@tiered
def _run(
    engine: np.ndarray,
    engine_ticks: np.ndarray,
    moves: np.ndarray,
    size_bytes: np.ndarray,
    run_bytes: np.ndarray,
    path: np.ndarray,
    successor_offsets: np.ndarray,
    successors: np.ndarray,
    open_waits: np.ndarray,
    path_offsets: np.ndarray,
    path_resource: np.ndarray,
    ticks_per_byte: np.ndarray,
    burst_bytes: np.ndarray,
    granule_bytes: int,
    ticks_per_cycle: int,
    engines: int,
    delay: np.ndarray,
    behind: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Start and end ticks; counts `open_waits` down, and what is left above zero never started.

    Where `delay` and `behind` have an entry for each instruction, what sharing does to it is written there.
    """
    start = np.zeros(len(engine), np.int64)  # until its last wait has ended: the latest end so far
    end = np.zeros(len(engine), np.int64)
    free = np.zeros(len(ticks_per_byte), np.int64)
    holder = np.full(len(ticks_per_byte), -1, np.int64)
    # An engine is at one instruction at a time: it can start, or it has one request in the heap.
    startable = np.empty(engines, np.int64)
    request_time = np.empty(engines, np.int64)
    request_engine = np.empty(engines, np.int64)
    startables = requests = 0
    current = np.empty(engines, np.int64)
    granules = np.empty(engines, np.int64)
    passed_granules = np.empty(engines, np.int64)
    most = 0
    for p in range(len(path_offsets) - 1):
        most = max(most, path_offsets[p + 1] - path_offsets[p])
    shares = np.empty((engines, most, 5), np.int64)
    longest = np.empty(engines, np.int64)  # delay of a granule of the current instruction

    for i in range(len(engine)):
        if open_waits[i] == 0:
            startable[startables] = i
            startables += 1
    while startables > 0 or requests > 0:
        if startables > 0:
            startables -= 1
            i: int = startable[startables]
            e: int = engine[i]
            time = start[i] + engine_ticks[i]
            if moves[i]:
                ports = path_resource[path_offsets[path[i]] : path_offsets[path[i] + 1]]
                granules[e] = _cut(
                    size_bytes[i], run_bytes[i], ports, ticks_per_byte, burst_bytes, granule_bytes, shares[e]
                )
                current[e] = i
                passed_granules[e] = 0
                if len(delay) > 0:
                    longest[e] = 0
                    _mark_repeats(ports, shares[e])
                requests = _push(request_time, request_engine, requests, time, e)
                continue
        else:
            e: int = request_engine[0]
            i: int = current[e]
            ports = path_resource[path_offsets[path[i]] : path_offsets[path[i] + 1]]
            if len(delay) > 0:
                waited, other = _share(request_time[0], granules[e], i, ports, ticks_per_byte, shares[e], free, holder)
                delay[i] += waited
                if waited > longest[e]:
                    longest[e], behind[i] = waited, other
            time = _serve(request_time[0], granules[e], ports, ticks_per_byte, shares[e], free)
            passed_granules[e] += 1
            if passed_granules[e] < granules[e]:
                _replace_first(request_time, request_engine, requests, time, e)
                continue
            requests -= 1
            _replace_first(request_time, request_engine, requests, request_time[requests], request_engine[requests])
            time = (time + ticks_per_cycle - 1) // ticks_per_cycle * ticks_per_cycle
        # Instruction i ends at `time`.
        end[i] = time
        for at in range(successor_offsets[i], successor_offsets[i + 1]):
            s = successors[at]
            start[s] = max(start[s], time)
            open_waits[s] -= 1
            if open_waits[s] == 0:
                startable[startables] = s
                startables += 1
    return start, end
