"""One slot of the array, cycle by cycle: a pass is computed while the networks bring the next and take results.

In every cycle words that networks sent some cycles ago reach registers, elements execute an instruction, partial sums
go from element to element, and networks take words from the scratchpad. The slot ends when all of that has.
"""

import numpy as np

from tilestitch.base.jit import lending
from tilestitch.sim.array.dma import NEVER, OUT_AT, OUT_GROUPS, RETURNED_TILES, STORED_GROUPS, WAKE, dma_step
from tilestitch.sim.array.element import execute_cycle
from tilestitch.sim.array.events import NETWORK_EVENT, PASS_EVENT, RESULTS_EVENT, SUMS_EVENT, add_event
from tilestitch.sim.array.log import LOG_END, LOG_FIRST, note_begin, note_sent
from tilestitch.sim.array.network import arrive, backlog, next_job, send
from tilestitch.sim.array.plan import ELEMENTS, FETCH_TO_READ, LATENCY, NETWORK, NETWORKS, Plan
from tilestitch.sim.array.state import (
    AFTER_IN,
    AFTER_OUT,
    AT_LEAST,
    BEGAN,
    CLASS,
    CLOSES,
    DRAINED,
    ENDED,
    ENDS,
    IN_BEGAN,
    IN_END,
    IN_TOKEN,
    IN_WORD,
    ISSUE,
    JOBS,
    OPERAND,
    OUT_BEGAN,
    OUT_END,
    OUT_ENDED,
    OUT_REGISTERS,
    OUT_TOKEN,
    OUT_WORD,
    READ_LAG,
    RELEASE,
    START,
    SUM_CLASS,
    SUM_RELEASE,
    TAIL,
    Array,
    Flight,
    Log,
    Queue,
)
from tilestitch.sim.array.tally import (
    COLLECTED,
    COMPUTE,
    DELIVERED,
    DRAIN_WAIT,
    HOPS,
    INPUTS_WAIT,
    NETWORK_BUSY,
    NETWORK_CONFLICTS,
    NETWORK_FULL,
    NETWORK_WORDS,
    READ,
    RESULTS_WAIT,
    ROOM_WAIT,
    SLOTS,
    SUMS_WAIT,
    WRITTEN,
)


@lending
def run_slot(
    plan: Plan,
    slot: np.ndarray,
    jobs: np.ndarray,
    flight: Flight,
    array: Array,
    log: Log,
    queue: Queue,
    values: bool,
    every_run: bool,
    counts: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> None:
    """Run a slot to its end, which is slot[ENDS] then; `jobs` are in the order in which their networks do them."""
    numbers, operands = plan.numbers, plan.operands
    start, issue = slot[START], slot[ISSUE]
    lanes = numbers[LATENCY] + 1
    elements = numbers[ELEMENTS]
    asks = queue.numbers
    written = len(operands) - 1
    registers, scratchpad, running, loaded = array.registers, array.scratchpad, array.running, array.loaded
    words, first, places, value = flight.words, flight.first, flight.place, flight.value
    offset, aim, target, mask, instructions = plan.offset, plan.aim, plan.target, plan.mask, plan.registers
    sum_cycle, sum_source, sum_target = plan.sum_cycle, plan.sum_source, plan.sum_target
    turn = array.turn  # the job that each network is at
    log_first, log_end = log.window[LOG_FIRST], log.window[LOG_END]
    busy = 0
    for network in range(NETWORKS):
        turn[network] = next_job(jobs, slot[JOBS], operands, network, 0)
        busy += turn[network] >= 0
    hop = last_hop = 0
    if slot[SUM_CLASS] >= 0:
        hop, last_hop = plan.sum_first[slot[SUM_CLASS]], plan.sum_first[slot[SUM_CLASS] + 1]
    in_end = out_end = waited = 0
    least = max(issue, slot[AT_LEAST])
    cycle = 0
    while True:
        now = start + cycle
        if now >= asks[WAKE]:
            dma_step(plan, now, every_run, queue, array, values, counts, events, window)
        lane = now % lanes
        noted = log_first <= now < log_end
        if noted:
            note_begin(log, array, now)
        if values:
            arrive(words, first, places, value, lane, registers, scratchpad, offset, aim, target)
            execute_cycle(running, loaded, now, elements, registers, instructions, mask)
        before = hop
        while hop < last_hop and sum_cycle[hop] <= cycle - slot[SUM_RELEASE]:
            if values:
                base = jobs[slot[JOBS] - 1, OUT_REGISTERS]
                registers[base + sum_target[hop]] += registers[base + sum_source[hop]]
                registers[base + sum_source[hop]] = 0
            hop += 1
        if busy > 0:
            for network in range(NETWORKS):
                at = turn[network]
                if at < 0:
                    continue
                job = jobs[at]
                if cycle < job[RELEASE]:
                    continue
                may_go = job[OUT_WORD] < job[OUT_END] and asks[STORED_GROUPS] >= job[OUT_TOKEN]
                may_come = job[IN_WORD] < job[IN_END] and asks[RETURNED_TILES] >= job[IN_TOKEN]
                if job[OUT_WORD] < job[OUT_END] and not may_go:
                    may_come = False
                if not may_go and not may_come:
                    if asks[WAKE] == NEVER:  # nothing that it waits for can happen
                        slot[ENDS] = NEVER
                        return
                    waited += 1
                    continue
                if job[BEGAN] < 0:
                    job[BEGAN] = cycle
                held = send(plan, flight, array, job, network, now, cycle, lane, values, may_come)
                counts[NETWORK_BUSY + network] += 1
                if held > 0:
                    counts[(NETWORK_CONFLICTS if held == 1 else NETWORK_FULL) + network] += 1
                if slot[CLOSES] == 1 and job[OUT_END] > 0 and job[OUT_WORD] == job[OUT_END]:
                    slot[CLOSES] = 0
                    out_of_array(asks, now + 1, lanes)
                if job[IN_WORD] == job[IN_END] and job[OUT_WORD] == job[OUT_END]:
                    job[ENDED] = cycle + 1
                    if job[OPERAND] == written:
                        if job[OUT_END] > 0:
                            out_end = job[OUT_ENDED] + slot[AFTER_OUT]
                        if job[IN_END] > 0:
                            out_end = max(out_end, cycle + 1 + slot[AFTER_IN])
                    else:
                        in_end = max(in_end, cycle + 1 + slot[AFTER_IN] + backlog(plan, array, network, now))
                    turn[network] = next_job(jobs, slot[JOBS], operands, network, at + 1)
                    busy -= turn[network] < 0
        if noted:
            note_sent(log, flight, now, lane, int(before), int(hop), jobs[max(slot[JOBS] - 1, 0), OUT_REGISTERS])
        cycle += 1
        if busy == 0 and hop == last_hop and cycle >= max(least, in_end, out_end) + slot[TAIL]:
            break
    slot[ENDS] = start + cycle
    _count(plan, slot, jobs, counts, cycle, in_end, out_end, waited)
    if window[1] > start and window[0] < start + cycle + numbers[LATENCY]:
        _remember(plan, slot, jobs, events, window)


@lending
def out_of_array(asks: np.ndarray, now: int, lanes: int) -> None:
    """All results of a tile have been sent before cycle `now`: DMA may have them when they have arrived."""
    asks[OUT_GROUPS] += 1
    asks[OUT_AT] = now + lanes
    if asks[WAKE] == NEVER:
        asks[WAKE] = now


@lending
def settle(plan: Plan, flight: Flight, array: Array, log: Log, over: int, first: int, until: int) -> int:
    """What goes on in the cycles from `first` until `until` after a slot that was over in cycle `over`.

    Words arrive, and the last instructions read registers; after some cycles nothing is left. Returns the cycle from
    which on nothing was done yet.
    """
    lanes = plan.numbers[LATENCY] + 1
    end = min(until, over + lanes + FETCH_TO_READ)
    for now in range(first, end):
        if log.window[LOG_FIRST] <= now < log.window[LOG_END]:
            note_begin(log, array, now)
        arrive(
            flight.words,
            flight.first,
            flight.place,
            flight.value,
            now % lanes,
            array.registers,
            array.scratchpad,
            plan.offset,
            plan.aim,
            plan.target,
        )
        execute_cycle(
            array.running, array.loaded, now, plan.numbers[ELEMENTS], array.registers, plan.registers, plan.mask
        )
    return max(first, end)


@lending
def _count(
    plan: Plan,
    slot: np.ndarray,
    jobs: np.ndarray,
    counts: np.ndarray,
    cycles: int,
    in_end: int,
    out_end: int,
    waited: int,
) -> None:
    """What the slot did, and what it waited for after its instructions were issued."""
    counts[SLOTS] += 1
    counts[COMPUTE] += slot[ISSUE]
    left = cycles - slot[ISSUE]
    if out_end > slot[ISSUE]:
        after = out_end - slot[ISSUE]
        drain = min(after, slot[DRAINED])
        sums = 0
        if slot[SUM_CLASS] >= 0:
            sums = min(after - drain, plan.sum_cycles[slot[SUM_CLASS]])
            counts[HOPS] += plan.sum_first[slot[SUM_CLASS] + 1] - plan.sum_first[slot[SUM_CLASS]]
        waits = min(after - drain - sums, waited)
        counts[DRAIN_WAIT] += drain
        counts[SUMS_WAIT] += sums
        counts[ROOM_WAIT] += waits
        counts[RESULTS_WAIT] += after - drain - sums - waits
        left -= after
    elif slot[SUM_CLASS] >= 0:
        counts[HOPS] += plan.sum_first[slot[SUM_CLASS] + 1] - plan.sum_first[slot[SUM_CLASS]]
    counts[INPUTS_WAIT] += left
    for at in range(slot[JOBS]):
        operand = jobs[at, OPERAND]
        network = plan.operands[operand, NETWORK]
        counts[NETWORK_WORDS + network] += (
            jobs[at, IN_END] - jobs[at, IN_BEGAN] + jobs[at, OUT_END] - jobs[at, OUT_BEGAN]
        )
        counts[READ + operand] += jobs[at, IN_END] - jobs[at, IN_BEGAN]
        counts[WRITTEN + operand] += jobs[at, OUT_END] - jobs[at, OUT_BEGAN]
        counts[DELIVERED + operand] += plan.aim[jobs[at, IN_END]] - plan.aim[jobs[at, IN_BEGAN]]
        counts[COLLECTED + operand] += plan.aim[jobs[at, OUT_END]] - plan.aim[jobs[at, OUT_BEGAN]]


@lending
def _remember(plan: Plan, slot: np.ndarray, jobs: np.ndarray, events: np.ndarray, window: np.ndarray) -> None:
    start = slot[START]
    if slot[CLASS] >= 0:
        add_event(events, window, PASS_EVENT, slot[CLASS], start, start + slot[ISSUE], slot[READ_LAG], 0)
    if slot[SUM_CLASS] >= 0 and plan.sum_cycles[slot[SUM_CLASS]] > 0:
        begin = start + slot[SUM_RELEASE]
        cycles = plan.sum_cycles[slot[SUM_CLASS]]
        add_event(events, window, SUMS_EVENT, slot[SUM_CLASS], begin, begin + cycles, 0, 0)
    for at in range(slot[JOBS]):
        kind = RESULTS_EVENT if jobs[at, OPERAND] == len(plan.operands) - 1 else NETWORK_EVENT
        came, went = jobs[at, IN_END] - jobs[at, IN_BEGAN], jobs[at, OUT_END] - jobs[at, OUT_BEGAN]
        begin, end = start + jobs[at, BEGAN], start + jobs[at, ENDED]
        add_event(events, window, kind, jobs[at, OPERAND], begin, end, came, went)
