"""A loop nest as Timeloop's problem."""

from collections.abc import Sequence

from tilestitch.formats.exact_mapping import plain_name
from tilestitch.ir.loop_nest import LoopNest, LoopOperand

_ARRAYS = {"I": "Inputs", "W": "Weights", "O": "Outputs"}


def array_name(array: LoopOperand) -> str:
    """What Timeloop's files call an operand."""
    return _ARRAYS.get(array.name, array.name)


def problem_text(nest: LoopNest, names: Sequence[str]) -> str:
    """The problem with loops of these names."""
    steps = dict.fromkeys((loop, step) for array in nest.operands for axis in array.axes for loop, step in axis)
    strides = {
        (loop, step): f"{names[loop]}step{'' if count == 0 else count}"
        for loop in range(len(names))
        for count, step in enumerate(step for at, step in steps if at == loop and step != 1)
    }
    lines = ["problem:", "  version: 0.4", "  shape:", f"    name: {plain_name(nest.name)}"]
    lines.append(f"    dimensions: [{', '.join(names)}]")
    if strides:
        lines.append("    coefficients:")
        lines += [f"    - {{name: {name}, default: {step}}}" for (_, step), name in strides.items()]
    lines.append("    data_spaces:")
    for array in nest.operands:
        lines.append(f"    - name: {array_name(array)}")
        axes = [_axis(axis, names, strides) for axis in array.axes if axis]  # one without loops has one index
        lines += ["      projection:", *(f"      - {axis}" for axis in axes)] if axes else ["      projection: []"]
        if array is nest.write:
            lines.append("      read_write: true")
    lines.append("  instance:")
    lines += [f"    {name}: {loop.extent}" for name, loop in zip(names, nest.loops, strict=True)]
    lines += [f"    {name}: {step}" for (_, step), name in strides.items()]
    return "\n".join(lines) + "\n"


def _axis(axis: Sequence[tuple[int, int]], names: Sequence[str], strides: dict[tuple[int, int], str]) -> str:
    terms = [f"[{names[loop]}, {strides[loop, step]}]" if step != 1 else f"[{names[loop]}]" for loop, step in axis]
    return f"[{', '.join(terms)}]"
