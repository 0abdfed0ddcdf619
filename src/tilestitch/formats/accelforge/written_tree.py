"""A layer on a machine tree and its mapping as files of AccelForge, in joules and seconds.

AccelForge reads an array again for every iteration of a loop outside the place where it is stored, so an array is
stored outside the innermost loops that do not move it. The values of a tensor have one size, that of partial sums.
"""

from collections.abc import Sequence

from tilestitch.base.errors import InputError
from tilestitch.formats.accelforge.workload import einsum_name, workload_text
from tilestitch.formats.exact_mapping import letters, plain_name
from tilestitch.formats.foreign_tree import MAX_BITS, UNLIMITED
from tilestitch.formats.tree_order import Holds, Node, Steps, row_of
from tilestitch.hardware.tree import Flow, TreeMemory
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.placed import PlacedNest

_RESERVED = ("All", "Inputs", "Outputs", "Intermediates", "Nothing", "Persistent", "Shared", "Tensors")


def accelforge_tree_files(placed: PlacedNest, mapping: TreeMapping) -> dict[str, str]:
    """Names and texts: the workload, the architecture and the mapping. Refuses what AccelForge has no words for."""
    nest = placed.nest
    if any(not any(array.axes) for array in nest.operands):
        raise InputError(f"{nest.name}: AccelForge cannot express an array of one element; use another program")
    row = row_of(placed, mapping, "AccelForge")
    names = tuple(letter.lower() for letter in letters(nest))
    arrays = tuple(f"{array.name}_" if array.name in _RESERVED else array.name for array in nest.operands)
    bits = [array.element_bits for array in nest.operands]
    head = f"# {plain_name(nest.name)} on {plain_name(placed.tree.name)}: "
    return {
        "workload.yaml": f"{head}the workload\n{workload_text(nest, names, arrays, bits)}",
        "arch.yaml": f"{head}the architecture, in joules and seconds\n{_architecture(placed, arrays)}",
        "mapping.yaml": f"{head}the mapping, outermost first\n{_mapping(placed, row, names, arrays)}",
    }


def _architecture(placed: PlacedNest, arrays: Sequence[str]) -> str:
    tree = placed.tree
    hz = tree.clock_hz or 10**9  # where the tree has no clock a cycle is a nanosecond
    lines = ["arch:", "  nodes:"]
    left = list(tree.axes)
    for memory in reversed(tree.memories):
        here = [axis for axis in left if axis.name not in memory.serves]
        left = [axis for axis in left if axis not in here]
        lines += [line for axis in here for line in _container(axis.name, axis.size)]
        lines += _memory(placed, memory, arrays, hz)
    lines += [line for axis in left for line in _container(axis.name, axis.size)]
    lines += ["  - !Compute", "    name: MAC", "    leak_power: 0", "    area: 0", "    actions:"]
    lines.append(f"    - {{name: compute, energy: {tree.mac_pj * 1e-12!r}, throughput: {hz}}}")
    return "\n".join(lines) + "\n"


def _container(axis: str, size: int) -> list[str]:
    return ["  - !Container", f"    name: {axis}", "    spatial:", f"    - {{name: {axis}_axis, fanout: {size}}}"]


def _memory(placed: PlacedNest, memory: TreeMemory, arrays: Sequence[str], hz: int) -> list[str]:
    held = [name for name, home in zip(arrays, placed.homes, strict=True) if home in memory.operands]
    size = "inf" if memory.size_bits >= MAX_BITS else str(memory.size_bits)
    lines = ["  - !Memory", f"    name: {memory.name}", "    leak_power: 0", "    area: 0", f"    size: {size}"]
    lines.append(f"    tensors: {{keep: {' | '.join(held) or 'Nothing'}}}")
    if len(memory.ports) > 1:
        lines.append("    total_latency: max(a.n_calls / a.throughput for a in actions)")
    lines.append("    actions:")
    for name, energy, flows in (
        ("read", memory.read_pj, (Flow.FEED, Flow.DRAIN)),
        ("write", memory.write_pj, (Flow.FILL, Flow.COLLECT)),
    ):
        ports = [port for port in memory.ports if any(flow in flows for _, flow in port.flows)]
        if len({port.width_bits for port in ports}) > 1:
            raise InputError(f"{memory.name}: ports of several widths {name} it; AccelForge has one action for each")
        port = next(iter((*ports, *memory.ports)))
        rate = "inf" if port.bits_per_cycle >= UNLIMITED else repr(float(port.bits_per_cycle / port.width_bits) * hz)
        moved = f"bits_per_action: {port.width_bits}, throughput: {rate}"
        lines.append(f"    - {{name: {name}, energy: {energy * 1e-12!r}, {moved}}}")
    return lines


def _mapping(placed: PlacedNest, row: Sequence[Node], names: Sequence[str], arrays: Sequence[str]) -> str:
    left = list(placed.nest.extents)
    lines = ["mapping:", "  nodes:"]
    for node in row:
        if isinstance(node, Holds):
            held = ", ".join(arrays[operand] for operand in node.operands)
            lines.append(f"  - !Storage {{tensors: [{held}], component: {node.memory.name}}}")
        elif isinstance(node, Steps):
            left[node.loop] //= node.factor
            lines.append(f"  - !Temporal {{rank_variable: {names[node.loop]}, tile_shape: {left[node.loop]}}}")
        else:
            for loop, factor in node.loops:
                left[loop] //= factor
                where = f"name: {node.axis}_axis, component: {node.axis}"
                lines.append(f"  - !Spatial {{rank_variable: {names[loop]}, tile_shape: {left[loop]}, {where}}}")
    lines.append(f"  - !Compute {{einsum: {einsum_name(placed.nest)}, component: MAC}}")
    return "\n".join(lines) + "\n"
