"""What networks and elements do in a slot, written down for it."""

import numpy as np

from tilestitch.base.jit import lending
from tilestitch.sim.array.plan import ADDER, BUFFER, CLASSES, REGISTERS, SCRATCHPAD, TILE, Plan
from tilestitch.sim.array.state import (
    APART,
    BEGAN,
    BUFFERS,
    IN_BEGAN,
    IN_END,
    IN_PLACE,
    IN_REGISTERS,
    IN_ROUND,
    IN_TOKEN,
    IN_WORD,
    JOBS,
    LAST,
    MASK,
    NEXT,
    OPERAND,
    OUT_BEGAN,
    OUT_END,
    OUT_PLACE,
    OUT_REGISTERS,
    OUT_TOKEN,
    OUT_WORD,
    PASS,
    PERIOD,
    READ_LAG,
    RELEASE,
    ROUND,
    SINCE,
    START,
)

# Columns of a visit: how long some results stay in the register files. Where they are, and where they go.
V_CLASS, V_PLACE, V_REGISTERS, V_GROUP, V_TILE, V_RETURNS, VISIT_COLUMNS = range(7)


@lending
def registers_at(plan: Plan, operand: int, buffer: int) -> int:
    """First register x elements of a buffer of an operand."""
    return plan.operands[operand, REGISTERS] + buffer * plan.operands[operand, BUFFER]


@lending
def scratchpad_at(plan: Plan, operand: int, half: int, offset: int) -> int:
    """Word of the scratchpad that is `offset` words into one of the two tiles of an operand."""
    return plan.operands[operand, SCRATCHPAD] + half * plan.operands[operand, TILE] + offset


@lending
def add_job(slot: np.ndarray, jobs: np.ndarray, operand: int, release: int) -> int:
    """An empty row for an operand, behind the others."""
    at = slot[JOBS]
    jobs[at, :] = 0
    jobs[at, OPERAND], jobs[at, RELEASE], jobs[at, BEGAN], jobs[at, APART] = operand, release, -1, -1
    slot[JOBS] += 1
    return at


@lending
def bring(plan: Plan, jobs: np.ndarray, at: int, one: int, place: int, registers: int) -> None:
    """Words of a class of passes, from their box in the scratchpad to a buffer of the registers."""
    stream = jobs[at, OPERAND] * plan.numbers[CLASSES] + one
    jobs[at, IN_WORD], jobs[at, IN_END] = plan.stream_first[stream], plan.stream_first[stream + 1]
    jobs[at, IN_BEGAN], jobs[at, IN_PLACE], jobs[at, IN_REGISTERS] = jobs[at, IN_WORD], place, registers


@lending
def exchange(
    plan: Plan,
    slot: np.ndarray,
    jobs: np.ndarray,
    release: int,
    out: np.ndarray,
    goes: bool,
    into: np.ndarray,
    comes: bool,
    lag: int,
) -> None:
    """Results of a visit go out, and those of another come in, if they go and come.

    Both at once word by word, as long as the words that come in go to registers whose words went out before; one
    after the other where their boxes differ, and where the same words go out and come in.
    """
    operand = len(plan.operands) - 1
    at = add_job(slot, jobs, operand, release)
    if goes:
        stream = operand * plan.numbers[CLASSES] + out[V_CLASS]
        jobs[at, OUT_WORD], jobs[at, OUT_END] = plan.stream_first[stream], plan.stream_first[stream + 1]
        jobs[at, OUT_BEGAN], jobs[at, OUT_PLACE] = jobs[at, OUT_WORD], out[V_PLACE]
        jobs[at, OUT_REGISTERS] = out[V_REGISTERS]
        jobs[at, OUT_TOKEN] = out[V_GROUP] - 1
    if comes:
        bring(plan, jobs, at, into[V_CLASS], into[V_PLACE], into[V_REGISTERS])
        jobs[at, IN_TOKEN] = into[V_TILE] + 1
    if goes and comes:
        if out[V_PLACE] == into[V_PLACE]:
            jobs[at, APART] = lag
        elif out[V_CLASS] != into[V_CLASS]:
            jobs[at, APART] = 0


@lending
def execute(plan: Plan, slot: np.ndarray, queue: np.ndarray, one: int, buffers: np.ndarray) -> int:
    """Let elements execute a pass in this slot; the cycles in which its instructions are issued."""
    since = slot[START] + slot[READ_LAG]
    loaded = queue[since % len(queue)]
    rows = plan.program_first[one + 1] - plan.program_first[one]
    together = plan.together[one]
    period = max(together, plan.numbers[ADDER])
    loaded[SINCE] = since
    loaded[NEXT], loaded[LAST] = plan.program_first[one], plan.program_first[one + 1]
    loaded[IN_ROUND], loaded[ROUND], loaded[PERIOD] = 0, together, period
    loaded[MASK] = plan.masked[one]
    latest = loaded[PASS]
    for row in range(len(queue)):
        latest = max(latest, queue[row, PASS])
    loaded[PASS] = latest + 1
    for operand in range(len(plan.operands)):
        loaded[BUFFERS + operand] = registers_at(plan, operand, buffers[operand])
    return rows // together * period
