"""DLRM: embeddings of many categories, their inner products, and two stacks of fully connected layers."""

from dataclasses import dataclass, replace

import numpy as np
import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder, Normal
from tilestitch.zoo.layers import RECTIFIED, classifier

_OPSET = 20


@dataclass(frozen=True, slots=True)
class Dlrm:
    """The size of a recommendation model; the defaults are MLPerf's, but for the number of rows."""

    name: str = "dlrm"
    dense: int = 13  # features that are numbers
    tables: int = 26  # features that are categories
    rows: int = 1000  # of each table; published are up to 40 million
    width: int = 128  # of an embedding
    bottom: tuple[int, ...] = (512, 256)  # widths between the dense features and an embedding
    top: tuple[int, ...] = (1024, 1024, 512, 256)  # widths between the interactions and the one result

    def reduced(self) -> "Dlrm":
        """Eight tables of 50 rows and narrow layers."""
        return replace(self, name=f"{self.name}-small", tables=8, rows=50, width=16, bottom=(32, 32), top=(64, 32))

    def graph(self) -> GraphBuilder:
        """Write `dense` [N, features] and `categories` [N, tables], row numbers, to `click` [N, 1], a probability.

        Source: Naumov et al., Deep Learning Recommendation Model, 2019, section 2; sizes of MLPerf's benchmark on the
        Criteo data. A category has one row here, so the sum over its rows is left out.
        """
        graph = GraphBuilder(self.name, network=self.name, opset=_OPSET)
        dense = graph.input("dense", onnx.TensorProto.FLOAT, (BATCH, self.dense))
        categories = graph.input("categories", onnx.TensorProto.INT64, (BATCH, self.tables))
        x, width = dense, self.dense
        for number, wider in enumerate((*self.bottom, self.width)):
            x = graph.node(
                "Relu",
                f"bottom.{number}.relu",
                (classifier(graph, f"bottom.{number}", x, width, wider, filters=RECTIFIED),),
            )
            width = wider
        x, width = self._interactions(graph, x, categories)
        for number, wider in enumerate(self.top):
            x = graph.node(
                "Relu", f"top.{number}.relu", (classifier(graph, f"top.{number}", x, width, wider, filters=RECTIFIED),)
            )
            width = wider
        x = classifier(graph, "top.last", x, width, 1, filters=RECTIFIED)
        graph.output("click", graph.node("Sigmoid", "click", (x,)), (BATCH, 1))
        return graph

    def _interactions(self, graph: GraphBuilder, x: str, categories: str) -> tuple[str, int]:
        """The dense vector, and the inner product of each pair of vectors; with the number of columns."""
        columns = tuple(f"category.{number}" for number in range(self.tables))
        ones = graph.integers("one_each", (1,) * self.tables)
        graph.nodes("Split", "categories.split", (categories, ones), columns, {"axis": 1})
        vectors = [graph.node("Unsqueeze", "dense_vector", (x, graph.integers("axis_1", (1,))))]
        for number, column in enumerate(columns):
            # inner products of two rows deviate by 1
            table = graph.weight(f"table.{number}", (self.rows, self.width), Normal(0.0, self.width**-0.25))
            vectors.append(graph.node("Gather", f"embedding.{number}", (table, column), {"axis": 0}))
        every = graph.node("Concat", "vectors", tuple(vectors), {"axis": 1})
        flipped = graph.node("Transpose", "vectors.transposed", (every,), {"perm": (0, 2, 1)})
        products = graph.node("MatMul", "products", (every, flipped))
        count = 1 + self.tables
        pairs = graph.integers("pairs", np.flatnonzero(np.tri(count, count, -1)))  # below the diagonal
        flat = graph.node("Flatten", "products.flat", (products,), {"axis": 1})
        chosen = graph.node("Gather", "products.pairs", (flat, pairs), {"axis": 1})
        return graph.node("Concat", "interactions", (x, chosen), {"axis": 1}), self.width + count * (count - 1) // 2
