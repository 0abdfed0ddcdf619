"""How many samples a cluster takes in one iteration, by rule."""

from collections.abc import Sequence
from math import isqrt

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph


def divisors(number: int) -> list[int]:
    """All of them, in rising order."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return small + [number // n for n in reversed(small) if n * n < number]


def rule_batch(graph: Graph, kernels: Sequence[tuple[str, ...]], machine: Accelerator) -> int:
    """The largest power of two such that the input and output of the largest kernel fit in GB; at least 1.

    `graph` is the network at batch 1; constants do not count. Without GB, the local buffers of all cores together stand
    for it. INFERRED from the per-cluster batches that Zhao et al., OSDI'23, Table 2, give for TVM.
    """
    largest = max(
        (sum(graph.tensors[tensor].size_bytes for tensor in _borders(graph, members)) for members in kernels), default=1
    )
    fitting = max(1, _capacity(machine) // largest)
    return 1 << (fitting.bit_length() - 1)


def _capacity(machine: Accelerator) -> int:
    shared = machine.memory(Level.GB)
    return machine.local_capacity_bytes if shared is None else shared.size_bytes


def _borders(graph: Graph, members: tuple[str, ...]) -> set[str]:
    """Tensors that a kernel reads from others, constants left out, and those that leave it."""
    operators = [graph.by_name[member] for member in members]
    made = {tensor for op in operators for tensor in op.outputs}
    read = {tensor for op in operators for tensor in op.inputs} - set(graph.constants)
    return (read - made) | set(graph.leaving(operators))
