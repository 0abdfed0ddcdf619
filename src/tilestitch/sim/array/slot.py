"""One slot of the array, cycle by cycle: a pass is computed while the networks bring the next and take results.

In every cycle words that networks sent some cycles ago reach registers, elements execute an instruction, partial sums
go from element to element, and networks take words from the scratchpad. The slot ends when all of that has.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.compiled import lending
from tilestitch.sim.array.dma import NEVER, OUT_AT, OUT_GROUPS, RETURNED_TILES, STORED_GROUPS, WAKE, dma_step
from tilestitch.sim.array.events import NETWORK_EVENT, PASS_EVENT, RESULTS_EVENT, SUMS_EVENT, add_event
from tilestitch.sim.array.plan import (
    BANKS,
    CHECKED,
    ELEMENTS,
    EMPTIED,
    FETCH_TO_READ,
    FIFO,
    FIRST_BANK,
    LATENCY,
    NETWORK,
    NETWORKS,
    PORTS,
    RATE_ABOVE,
    RATE_BELOW,
    ROW_BYTES,
    ROWS,
    SCRATCHPAD,
    TILE,
    WORD_BITS,
    Plan,
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

# Columns of what networks do in a slot. A row brings the words of one operand, or takes results, or both at once.
(
    OPERAND,
    IN_WORD,  # next word of the stream that comes in
    IN_END,
    IN_PLACE,  # first word of its box in the scratchpad
    IN_REGISTERS,  # first register x elements of its buffer
    OUT_WORD,  # likewise of what goes out
    OUT_END,
    OUT_PLACE,
    OUT_REGISTERS,
    RELEASE,  # cycle of the slot from which on it may begin
    APART,  # cycles from the end of what goes out until anything comes in; -1: both at once
    IN_TOKEN,  # tiles whose results must have returned
    OUT_TOKEN,  # tiles of results that must have been stored
    CREDIT,  # that its network has for it, in eighths of a byte x the rate's lower part
    OUT_CREDIT,
    BEGAN,  # cycle in which its first word went; -1 before
    ENDED,  # the cycle of the slot after its last word
    IN_BEGAN,  # first word of its streams
    OUT_BEGAN,
    OUT_ENDED,  # the cycle of the slot after the last word that goes out
    JOB_COLUMNS,
) = range(21)
# Numbers of a slot.
(
    START,  # its first cycle
    JOBS,
    CLASS,  # of the pass that is computed; -1: none
    ISSUE,  # cycles in which its instructions are issued
    SUM_CLASS,  # of the sums that elements add up; -1: none
    SUM_RELEASE,  # cycle of the slot from which on they do
    DRAINED,  # cycles of the pipeline before that, in this slot
    AT_LEAST,  # cycles of the slot
    TAIL,  # cycles of it after all is done
    CLOSES,  # 1 where the last results of a tile of the scratchpad go out
    AFTER_IN,  # cycles from the last word that comes in to the end of the slot
    AFTER_OUT,
    LIKE,  # what its length depends on, as one number: equal for slots of equal lengths
    READ_LAG,  # cycles from the slot's first until its first instruction reads registers
    ENDS,  # the cycle after its last: what the slot finds out
    SLOT_NUMBERS,
) = range(16)
# What elements execute, and since which cycle. Then the first register x elements of every operand's buffer.
SINCE, NEXT, LAST, IN_ROUND, ROUND, PERIOD, MASK, BUFFERS = range(8)


class Flight(NamedTuple):
    """Words between scratchpad and registers: for each network, and for results, by cycle of sending."""

    words: np.ndarray  # lane, cycle: how many
    first: np.ndarray  # their first word in its stream
    place: np.ndarray  # first register x elements, or first word of the scratchpad
    value: np.ndarray  # lane, cycle, word


class Array(NamedTuple):
    """All that the array remembers from one cycle to the next."""

    registers: np.ndarray
    scratchpad: np.ndarray
    memory: np.ndarray
    running: np.ndarray  # what elements execute
    loaded: np.ndarray  # cycle, what: what they execute from a cycle on, by its number modulo the rows
    bank_until: np.ndarray  # read or write, bank: the last cycle in which it is taken
    bank_row: np.ndarray
    fifo: np.ndarray  # network, element: words in it
    fifo_at: np.ndarray  # when that was
    turn: np.ndarray  # network: the job that it is at


class Queue(NamedTuple):
    """What the DMA queue remembers."""

    numbers: np.ndarray
    tile: np.ndarray
    moved: np.ndarray
    parity: np.ndarray
    results: np.ndarray
    ends: np.ndarray
    flying: np.ndarray
    state: np.ndarray  # of the memory behind it


@lending
def run_slot(
    plan: Plan,
    slot: np.ndarray,
    jobs: np.ndarray,
    flight: Flight,
    array: Array,
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
    busy = 0
    for network in range(NETWORKS):
        turn[network] = _next_job(jobs, slot[JOBS], operands, network, 0)
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
            _dma(plan, now, every_run, queue, array, values, counts, events, window)
        lane = now % lanes
        if values:
            arrive(words, first, places, value, lane, registers, scratchpad, offset, aim, target)
            _execute(running, loaded, now, elements, registers, instructions, mask)
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
                held = _send(
                    plan,
                    job,
                    network,
                    now,
                    cycle,
                    lane,
                    words,
                    first,
                    places,
                    value,
                    array,
                    registers,
                    scratchpad,
                    offset,
                    aim,
                    target,
                    numbers,
                    operands,
                    values,
                    may_come,
                )
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
                        in_end = max(in_end, cycle + 1 + slot[AFTER_IN] + _backlog(plan, array, network, now))
                    turn[network] = _next_job(jobs, slot[JOBS], operands, network, at + 1)
                    busy -= turn[network] < 0
        cycle += 1
        if busy == 0 and hop == last_hop and cycle >= max(least, in_end, out_end) + slot[TAIL]:
            break
    slot[ENDS] = start + cycle
    _count(plan, slot, jobs, counts, cycle, in_end, out_end, waited)
    if window[1] > start and window[0] < start + cycle + numbers[LATENCY]:
        _remember(plan, slot, jobs, events, window)


@lending
def _dma(
    plan: Plan,
    now: int,
    every_run: bool,
    queue: Queue,
    array: Array,
    values: bool,
    counts: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> None:
    dma_step(
        plan,
        now,
        every_run,
        queue.numbers,
        queue.tile,
        queue.moved,
        queue.parity,
        queue.results,
        queue.ends,
        queue.flying,
        queue.state,
        values,
        array.scratchpad,
        array.memory,
        counts,
        events,
        window,
    )


@lending
def out_of_array(asks: np.ndarray, now: int, lanes: int) -> None:
    """All results of a tile have been sent before cycle `now`: DMA may have them when they have arrived."""
    asks[OUT_GROUPS] += 1
    asks[OUT_AT] = now + lanes
    if asks[WAKE] == NEVER:
        asks[WAKE] = now


@lending
def settle(plan: Plan, flight: Flight, array: Array, over: int, first: int, until: int) -> int:
    """What goes on in the cycles from `first` until `until` after a slot that was over in cycle `over`.

    Words arrive, and the last instructions read registers; after some cycles nothing is left. Returns the cycle from
    which on nothing was done yet.
    """
    lanes = plan.numbers[LATENCY] + 1
    end = min(until, over + lanes + FETCH_TO_READ)
    for now in range(first, end):
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
        _execute(array.running, array.loaded, now, plan.numbers[ELEMENTS], array.registers, plan.registers, plan.mask)
    return max(first, end)


@lending
def _next_job(jobs: np.ndarray, count: int, operands: np.ndarray, network: int, first: int) -> int:
    for at in range(first, count):
        if operands[jobs[at, OPERAND], NETWORK] == network:
            return at
    return -1


@lending
def arrive(
    words: np.ndarray,
    first: np.ndarray,
    places: np.ndarray,
    value: np.ndarray,
    lane: int,
    registers: np.ndarray,
    scratchpad: np.ndarray,
    offset: np.ndarray,
    aim: np.ndarray,
    target: np.ndarray,
) -> None:
    """Words that were sent as many cycles ago as the network takes are in the register files, or in the scratchpad."""
    for network in range(NETWORKS):
        for one in range(words[network, lane]):
            word, place = first[network, lane] + one, places[network, lane]
            sent = value[network, lane, one]
            for to in target[aim[word] : aim[word + 1]]:
                registers[place + to] = sent
        words[network, lane] = 0
    for one in range(words[NETWORKS, lane]):
        scratchpad[places[NETWORKS, lane] + offset[first[NETWORKS, lane] + one]] = value[NETWORKS, lane, one]
    words[NETWORKS, lane] = 0


@lending
def _execute(
    running: np.ndarray,
    loaded: np.ndarray,
    now: int,
    elements: int,
    registers: np.ndarray,
    instructions: np.ndarray,
    mask: np.ndarray,
) -> None:
    """All elements execute the instruction that reads registers in this cycle, if there is one."""
    row = now % len(loaded)
    if now == loaded[row, SINCE]:
        for number in range(len(running)):
            running[number] = loaded[row, number]
    if running[NEXT] != running[LAST]:
        if running[IN_ROUND] < running[ROUND]:
            row, masked = running[NEXT], running[MASK]
            operands = instructions.shape[1]
            result = running[BUFFERS + operands - 1] + instructions[row, operands - 1] * elements
            one = running[BUFFERS] + instructions[row, 0] * elements
            if masked < 0 and operands == 3:
                other = running[BUFFERS + 1] + instructions[row, 1] * elements
                _multiply_add(
                    registers[result : result + elements],
                    registers[one : one + elements],
                    registers[other : other + elements],
                )
            else:
                for element in range(elements):
                    if masked < 0 or mask[masked, element]:
                        product = registers[one + element]
                        for operand in range(1, operands - 1):
                            factor = running[BUFFERS + operand] + instructions[row, operand] * elements + element
                            product *= registers[factor]
                        registers[result + element] += product
            running[NEXT] += 1
            if masked >= 0:
                running[MASK] += 1
        running[IN_ROUND] += 1
        if running[IN_ROUND] == running[PERIOD]:
            running[IN_ROUND] = 0


@lending
def _multiply_add(result: np.ndarray, one: np.ndarray, other: np.ndarray) -> None:
    for element in range(len(result)):  # the elements are lanes of vector instructions
        result[element] += one[element] * other[element]


@lending
def _send(
    plan: Plan,
    job: np.ndarray,
    network: int,
    now: int,
    cycle: int,
    lane: int,
    words: np.ndarray,
    firsts: np.ndarray,
    places: np.ndarray,
    value: np.ndarray,
    array: Array,
    registers: np.ndarray,
    scratchpad: np.ndarray,
    offset: np.ndarray,
    aim: np.ndarray,
    target: np.ndarray,
    numbers: np.ndarray,
    operands: np.ndarray,
    values: bool,
    may_come: bool,
) -> int:
    """What a network sends in one cycle; 1 if a bank held a word up, 2 if a FIFO did."""
    operand = job[OPERAND]
    facts = operands[operand]
    rate, size = 8 * facts[RATE_ABOVE], facts[WORD_BITS] * facts[RATE_BELOW]
    held = 0
    apart = job[APART]
    goes = job[OUT_WORD] < job[OUT_END]
    if goes:
        credit = job[OUT_CREDIT] + rate
        word, sent = job[OUT_WORD], 0
        firsts[NETWORKS, lane], places[NETWORKS, lane] = word, job[OUT_PLACE]
        while word < job[OUT_END] and credit >= size:
            if numbers[CHECKED] == 1 and _taken(plan, array, operand, job[OUT_PLACE] + offset[word], 1, now):
                held = 1
                break
            if values:
                at = job[OUT_REGISTERS] + target[aim[word]]
                value[NETWORKS, lane, sent] = registers[at]
                registers[at] = 0
            sent += 1
            word += 1
            credit -= size
        job[OUT_CREDIT] = min(credit, max(rate, size - 1) if held == 0 else size - 1)
        job[OUT_WORD] = word
        words[NETWORKS, lane] = sent
        if word == job[OUT_END]:
            job[OUT_ENDED] = cycle + 1
    word = job[IN_WORD]
    if may_come and (apart < 0 or (not goes and cycle >= job[OUT_ENDED] + apart)):
        credit, sent = job[CREDIT] + rate, 0
        firsts[network, lane], places[network, lane] = word, job[IN_REGISTERS]
        while word < job[IN_END] and credit >= size:
            if numbers[CHECKED] == 1 and _taken(plan, array, operand, job[IN_PLACE] + offset[word], 0, now):
                held = 1
                break
            if numbers[EMPTIED] > 0 and _full(plan, array, network, word, now):
                held = 2
                break
            if values:
                value[network, lane, sent] = scratchpad[job[IN_PLACE] + offset[word]]
            sent += 1
            word += 1
            credit -= size
        job[CREDIT] = min(credit, max(rate, size - 1) if held == 0 else size - 1)
        job[IN_WORD] = word
        words[network, lane] = sent
    return held


@lending
def _taken(plan: Plan, array: Array, number: int, word: int, writes: int, now: int) -> bool:
    """Whether the port of the bank that has a word of the scratchpad is taken; if not, it is taken now."""
    operand = plan.operands[number]
    within = word - operand[SCRATCHPAD]
    half = within // operand[TILE]
    within -= half * operand[TILE]
    begin = within * operand[WORD_BITS] // 8
    row = begin // operand[ROW_BYTES]
    rows = -(-(begin + -(-operand[WORD_BITS] // 8)) // operand[ROW_BYTES]) - row
    bank = row // operand[ROWS] if operand[ROWS] > 0 else row % operand[BANKS]
    bank = operand[FIRST_BANK] + half * operand[BANKS] + min(bank, operand[BANKS] - 1)
    port = writes if plan.numbers[PORTS] == 2 else 0
    if array.bank_until[port, bank] >= now:
        return array.bank_row[port, bank] != 2 * row + writes or rows > 1
    array.bank_until[port, bank] = now + rows - 1
    array.bank_row[port, bank] = 2 * row + writes
    return False


@lending
def _full(plan: Plan, array: Array, network: int, word: int, now: int) -> bool:
    """Whether some element that needs a word has no place for it in its FIFO; if not, it is put there."""
    elements, emptied = plan.numbers[ELEMENTS], plan.numbers[EMPTIED]
    for at in range(plan.aim[word], plan.aim[word + 1]):
        element = plan.target[at] % elements
        left = array.fifo[network, element] - emptied * (now - array.fifo_at[network, element])
        if left >= plan.numbers[FIFO]:
            return True
    for at in range(plan.aim[word], plan.aim[word + 1]):
        element = plan.target[at] % elements
        left = array.fifo[network, element] - emptied * (now - array.fifo_at[network, element])
        array.fifo[network, element] = max(0, left) + 1
        array.fifo_at[network, element] = now
    return False


@lending
def _backlog(plan: Plan, array: Array, network: int, now: int) -> int:
    """Cycles until the FIFOs of a network are empty, beyond the one in which a word passes through."""
    emptied = plan.numbers[EMPTIED]
    most = 0
    if emptied > 0:
        for element in range(plan.numbers[ELEMENTS]):
            left = array.fifo[network, element] - emptied * (now - array.fifo_at[network, element])
            most = max(most, -(-left // emptied) - 1)
    return most


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
