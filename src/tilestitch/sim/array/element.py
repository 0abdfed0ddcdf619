"""The processing elements, which execute one program in step: their lanes are those of vector instructions."""

import numpy as np

from tilestitch.base.jit import lending
from tilestitch.sim.array.state import BUFFERS, IN_ROUND, LAST, MASK, NEXT, PERIOD, ROUND, SINCE


@lending
def execute_cycle(
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
