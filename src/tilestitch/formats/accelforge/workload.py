"""A loop nest as AccelForge's workload."""

from collections.abc import Sequence

from tilestitch.formats.exact_mapping import plain_name
from tilestitch.ir.loop_nest import LoopNest


def einsum_name(nest: LoopNest) -> str:
    return plain_name(nest.name).replace(".", "_").replace("-", "_")


def workload_text(nest: LoopNest, names: Sequence[str], arrays: Sequence[str], bits: Sequence[int]) -> str:
    """Loops and arrays by these names, and the bits of each array's elements."""
    sizes = ", ".join(f"{name}: {count}" for name, count in zip(arrays, bits, strict=True))
    lines = ["workload:", f"  bits_per_value: {{{sizes}}}", "  einsums:", f"  - name: {einsum_name(nest)}"]
    lines.append("    tensor_accesses:")
    for name, array in zip(arrays, nest.operands, strict=True):
        ranks = []
        for at, axis in enumerate(array.axes):
            if len(axis) == 1 and axis[0][1] == 1:
                ranks.append(f"{names[axis[0][0]].upper()}: {names[axis[0][0]]}")
            elif axis:
                terms = [names[loop] if step == 1 else f"{step} * {names[loop]}" for loop, step in axis]
                ranks.append(f"{name.upper()}{at}: {' + '.join(terms)}")
        lines += [f"    - name: {name}", f"      projection: {{{', '.join(ranks)}}}"]
        if array is nest.write:
            lines.append("      output: true")
    indexed = frozenset().union(
        *(array.indexed_by for array in nest.operands)
    )  # others run once, and are unknown there
    bounds = [f"0 <= {names[at]} < {loop.extent}" for at, loop in enumerate(nest.loops) if at in indexed]
    lines.append(f"    iteration_space_shape: [{', '.join(bounds)}]")
    return "\n".join(lines) + "\n"
