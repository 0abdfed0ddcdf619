"""Seconds for GraphTurbo's sub-graphs: of whole networks, and of a chain of residual blocks that doubles in length."""

import time

import numpy as np

from tilestitch import zoo
from tilestitch.base.dtypes import DType
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.partition.subgraphs.coarse import coarse_groups
from tilestitch.passes import simplify
from tilestitch.passes.views import resolve_views

CAPACITY_BYTES = 10 * 2**20
NETWORKS = (("resnet50", 16, 0.3), ("bert-base-128", 8, 0.3), ("densenet121", 8, 1.0))  # batch of a cluster, limit
SIZES = (1_250, 2_500, 5_000, 10_000)  # operators
GROWTH = 2.8  # most that the time may grow when the network doubles
BLOCK = 5


def residual_chain(operators: int, rows: int = 1024, width: int = 1 << 13) -> Graph:
    """Blocks of three products (narrow, narrow, wide), an addition of what entered and a ReLU; each stage half as wide.

    Made without ONNX, whose reader takes longer than what is measured here.
    """
    tensors: dict[str, Tensor] = {}
    nests: list[Operator] = []
    weights: dict[str, np.ndarray] = {}

    def tensor(name: str, *shape: int) -> str:
        tensors[name] = Tensor(name, shape, DType.FLOAT16, tuple(range(len(shape))))
        return name

    def same(name: str, *operands: str) -> str:
        """An element-wise operator."""
        rows, columns = tensors[operands[0]].shape
        dims = (Dim("n", rows, DimKind.PARALLEL), Dim("m", columns, DimKind.PARALLEL))
        axes = (Axis(((0, 1),)), Axis(((1, 1),)))
        reads = tuple(Access(operand, axes) for operand in operands)
        kind = "relu" if len(operands) == 1 else "add"
        nests.append(Operator(name, kind, dims, reads, (Access(tensor(name, rows, columns), axes),)))
        return name

    def product(name: str, operand: str, columns: int) -> str:
        rows, depth = tensors[operand].shape
        weight = tensor(f"{name}.weight", depth, columns)
        weights[weight] = np.zeros((), np.float16)
        dims = (
            Dim("n", rows, DimKind.PARALLEL),
            Dim("m", columns, DimKind.PARALLEL),
            Dim("k", depth, DimKind.REDUCTION),
        )
        n, m, k = (Axis(((number, 1),)) for number in range(3))
        result = Access(tensor(name, rows, columns), (n, m))
        nests.append(Operator(name, "matmul", dims, (Access(operand, (n, k)), Access(weight, (k, m))), (result,)))
        return name

    widest = width
    entry = tensor("in", rows, widest)
    for block in range(operators // BLOCK):
        width = widest >> (4 * BLOCK * block // operators)
        found = entry
        for layer in range(3):
            found = product(f"{block}.{layer}", found, width if layer == 2 else width // 4)
        if tensors[entry].shape[1] == width:
            found = same(f"{block}.add", found, entry)
        entry = same(f"{block}.relu", found)
    return Graph("residual", tensors, tuple(nests), ("in",), (entry,), weights)


def seconds(graph: Graph) -> tuple[float, int]:
    """How long the sub-graphs of a network take, and how many there are."""
    begin = time.perf_counter()
    groups = coarse_groups(graph, CAPACITY_BYTES)
    return time.perf_counter() - begin, len(groups)


def main() -> None:
    """Print one line for each network and length."""
    for name, batch, limit in NETWORKS:
        graph = resolve_views(simplify(read_onnx(zoo.build(name), batch=batch)))[0]
        took, groups = seconds(graph)
        kept = "kept" if took <= limit else "BROKEN"
        print(
            f"  {name}, {batch} samples in a cluster: {len(graph.operators):,} operators, {groups} sub-graphs in "
            f"{took:.2f} s; limit {limit} s {kept}"
        )
    before = None
    for size in SIZES:
        graph = residual_chain(size)
        took, groups = seconds(graph)
        growth = "" if before is None else f", {took / before:.2f} x half of them; limit {GROWTH} x"
        kept = "" if before is None else " kept" if took <= GROWTH * before else " BROKEN"
        print(
            f"  residual chain: {len(graph.operators):,} operators, {groups} sub-graphs in {took:.2f} s{growth}{kept}"
        )
        before = took
