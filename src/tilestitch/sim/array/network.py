"""The multicast networks: words leave the scratchpad, cross, and reach every register that their window has."""

import numpy as np

from tilestitch.base.jit import lending
from tilestitch.sim.array.plan import (
    BANKS,
    CHECKED,
    ELEMENTS,
    EMPTIED,
    FIFO,
    FIRST_BANK,
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
from tilestitch.sim.array.state import (
    APART,
    CREDIT,
    IN_BEGAN,
    IN_END,
    IN_PLACE,
    IN_REGISTERS,
    IN_WORD,
    OPERAND,
    OUT_BEGAN,
    OUT_CREDIT,
    OUT_END,
    OUT_ENDED,
    OUT_PLACE,
    OUT_REGISTERS,
    OUT_WORD,
    Array,
    Flight,
)


@lending
def next_job(jobs: np.ndarray, count: int, operands: np.ndarray, network: int, first: int) -> int:
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
def send(
    plan: Plan,
    flight: Flight,
    array: Array,
    job: np.ndarray,
    network: int,
    now: int,
    cycle: int,
    lane: int,
    values: bool,
    may_come: bool,
) -> int:
    """What a network sends in one cycle; 1 if a bank held a word up, 2 if a FIFO did."""
    words, firsts, places, value = flight.words, flight.first, flight.place, flight.value
    registers, scratchpad, numbers = array.registers, array.scratchpad, plan.numbers
    offset, aim, target = plan.offset, plan.aim, plan.target
    operand = job[OPERAND]
    facts = plan.operands[operand]
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
            if goes and apart < 0 and word - job[IN_BEGAN] >= job[OUT_WORD] - job[OUT_BEGAN]:
                break  # its registers have a result that has not gone yet
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
def backlog(plan: Plan, array: Array, network: int, now: int) -> int:
    """Cycles until the FIFOs of a network are empty, beyond the one in which a word passes through."""
    emptied = plan.numbers[EMPTIED]
    most = 0
    if emptied > 0:
        for element in range(plan.numbers[ELEMENTS]):
            left = array.fifo[network, element] - emptied * (now - array.fifo_at[network, element])
            most = max(most, -(-left // emptied) - 1)
    return most
