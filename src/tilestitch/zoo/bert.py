"""BERT encoders, with the same weights in three forms: compact operators, decomposed ones, and whole attention."""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt

import numpy as np
import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder, Normal
from tilestitch.zoo.layers import layer_norm, linear, merge_heads, norm_parameters, split_heads

_EPSILON = 1e-12  # of every layer normalisation; the value of the published model
_MASKED = -10_000.0  # added to the attention scores of a masked token


class BertForm(StrEnum):
    """Which operators say the same arithmetic."""

    NATIVE = "native"  # Softmax, LayerNormalization and Gelu are one node each
    DECOMPOSED = "decomposed"  # each of those is several elementwise and reducing nodes
    ATTENTION = "attention"  # native, and the Attention operator from scores to merged heads


@dataclass(frozen=True, slots=True)
class Bert:
    """The size and the form of a BERT encoder; the defaults are BERT-base."""

    name: str
    form: BertForm
    sequence_length: int = 128
    layers: int = 12
    hidden: int = 768
    heads: int = 12
    feed_forward: int = 3072
    vocabulary: int = 30522
    positions: int = 512

    @property
    def head_size(self) -> int:
        """Channels of one attention head."""
        return self.hidden // self.heads

    @property
    def opset(self) -> int:
        """The operator set that has every operator of the form."""
        return 23 if self.form is BertForm.ATTENTION else 20

    def reduced(self) -> "Bert":
        """Two narrow layers and a vocabulary of 100, for fast tests."""
        return replace(self, name=f"{self.name}-small", layers=2, hidden=64, heads=4, feed_forward=256, vocabulary=100)

    def with_length(self, tokens: int) -> "Bert":
        """The same encoder for sequences of that length."""
        return replace(self, sequence_length=tokens)

    def graph(self) -> GraphBuilder:
        """Write the encoder for sequences of L tokens.

        Inputs, int64 [N, L]: `input_ids`, `attention_mask` (1 = attend, 0 = masked), `token_type_ids`.
        Outputs, float32: `last_hidden_state` [N, L, hidden] and `pooler_output` [N, hidden].
        The weight of a linear operator is stored [inputs, outputs], as MatMul reads it; the pooler's is transposed.

        Source: Devlin et al., BERT, NAACL 2019, section 3; post-normalisation, GELU. Node order is that of the common
        PyTorch implementation when exported.
        """
        suffix = "" if self.form is BertForm.NATIVE else f"-{self.form}"
        graph = GraphBuilder(f"{self.name}-{self.sequence_length}{suffix}", network=self.name, opset=self.opset)
        tokens = (BATCH, self.sequence_length)
        ids, mask, token_types = (
            graph.input(name, onnx.TensorProto.INT64, tokens)
            for name in ("input_ids", "attention_mask", "token_type_ids")
        )
        mask = _additive_mask(graph, self, mask)
        x = _embeddings(graph, self, ids, token_types)
        for layer in range(self.layers):
            name = f"encoder.layer.{layer}"
            y = _attention(graph, self, f"{name}.attention", x, mask)
            x = graph.node("Add", f"{name}.attention.output.add", (y, x))
            x = _layer_norm(graph, self, f"{name}.attention.output.LayerNorm", x)
            y = linear(graph, f"{name}.intermediate.dense", x, self.hidden, self.feed_forward)
            y = _gelu(graph, self, f"{name}.intermediate.gelu", y)
            y = linear(graph, f"{name}.output.dense", y, self.feed_forward, self.hidden)
            x = graph.node("Add", f"{name}.output.add", (y, x))
            x = _layer_norm(graph, self, f"{name}.output.LayerNorm", x)
        x = graph.output("last_hidden_state", x, (*tokens, self.hidden))
        y = _pooler(graph, self, x)
        graph.output("pooler_output", y, (BATCH, self.hidden))
        return graph


def _additive_mask(graph: GraphBuilder, options: Bert, mask: str) -> str:
    """From 1 and 0 per token [N, L] to 0 and a large negative number per key [N, 1, 1, L].

    With the Attention operator [N, 1, L, L], the same in each row: onnxruntime does not repeat the one row itself.
    """
    x = graph.node("Unsqueeze", "mask.heads", (mask, graph.integers("axis_1", (1,))))
    x = graph.node("Unsqueeze", "mask.queries", (x, graph.integers("axis_2", (2,))))
    x = graph.node("Cast", "mask.cast", (x,), {"to": onnx.TensorProto.FLOAT})
    x = graph.node("Sub", "mask.inverted", (graph.scalar("one", 1.0), x))
    x = graph.node("Mul", "mask.additive", (x, graph.scalar("masked", _MASKED)))
    if options.form is BertForm.ATTENTION:
        shape = graph.integers("mask_shape", (1, 1, options.sequence_length, 1))
        x = graph.node("Expand", "mask.repeated", (x, shape))
    return x


def _embeddings(graph: GraphBuilder, options: Bert, ids: str, token_types: str) -> str:
    """Word + token type + position, normalised."""
    tables = {
        "word": graph.weight("embeddings.word", (options.vocabulary, options.hidden), Normal(0.0, 0.1)),
        "token_type": graph.weight("embeddings.token_type", (2, options.hidden), Normal(0.0, 0.05)),
        "position": graph.weight("embeddings.position", (options.positions, options.hidden), Normal(0.0, 0.05)),
    }
    positions = graph.integers("position_ids", np.arange(options.sequence_length)[np.newaxis])
    rows = {"word": ids, "token_type": token_types, "position": positions}
    word, token_type, position = (
        graph.node("Gather", f"embeddings.{name}.rows", (table, rows[name]), {"axis": 0})
        for name, table in tables.items()
    )
    x = graph.node("Add", "embeddings.add_token_type", (word, token_type))
    x = graph.node("Add", "embeddings.add_position", (x, position))
    return _layer_norm(graph, options, "embeddings.LayerNorm", x)


def _attention(graph: GraphBuilder, options: Bert, name: str, x: str, mask: str) -> str:
    """Self-attention of all heads and its output projection, without the residual addition."""
    # a gain above 1 spreads the scores by more than 1, so that the softmax prefers some keys to others
    query = linear(graph, f"{name}.self.query", x, options.hidden, options.hidden, gain=1.25)
    key = linear(graph, f"{name}.self.key", x, options.hidden, options.hidden, gain=1.25)
    value = linear(graph, f"{name}.self.value", x, options.hidden, options.hidden)
    if options.form is BertForm.ATTENTION:
        attributes = {
            "q_num_heads": options.heads,
            "kv_num_heads": options.heads,
            "scale": 1 / sqrt(options.head_size),
        }
        context = graph.node("Attention", f"{name}.self", (query, key, value, mask), attributes)
    else:
        context = _heads(graph, options, f"{name}.self", query, key, value, mask)
    return linear(graph, f"{name}.output.dense", context, options.hidden, options.hidden)


def _heads(graph: GraphBuilder, options: Bert, name: str, query: str, key: str, value: str, mask: str) -> str:
    """softmax(Q K^T / sqrt(head size) + mask) V, head by head, merged again to [N, L, hidden]."""
    q, k, v = (
        split_heads(graph, f"{name}.{operand}", tensor, options.heads, options.head_size, transposed=operand == "key")
        for operand, tensor in (("query", query), ("key", key), ("value", value))
    )
    x = graph.node("MatMul", f"{name}.scores", (q, k))
    x = graph.node("Div", f"{name}.scaled", (x, graph.scalar("sqrt_head_size", sqrt(options.head_size))))
    x = graph.node("Add", f"{name}.masked", (x, mask))
    x = _softmax(graph, options, f"{name}.softmax", x)
    x = graph.node("MatMul", f"{name}.context", (x, v))
    return merge_heads(graph, f"{name}.context", x, options.hidden)


def _layer_norm(graph: GraphBuilder, options: Bert, name: str, x: str) -> str:
    """Normalise each token over its channels, then scale and shift."""
    if options.form is not BertForm.DECOMPOSED:
        return layer_norm(graph, name, x, options.hidden, epsilon=_EPSILON)
    weight, bias = norm_parameters(graph, name, options.hidden)
    axis = graph.integers("last_axis", (-1,))
    mean = graph.node("ReduceMean", f"{name}.mean", (x, axis), {"keepdims": 1})
    centred = graph.node("Sub", f"{name}.centred", (x, mean))
    x = graph.node("Pow", f"{name}.squared", (centred, graph.scalar("two", 2.0)))
    x = graph.node("ReduceMean", f"{name}.variance", (x, axis), {"keepdims": 1})
    x = graph.node("Add", f"{name}.stabilised", (x, graph.scalar("epsilon", _EPSILON)))
    x = graph.node("Sqrt", f"{name}.deviation", (x,))
    x = graph.node("Div", f"{name}.normalised", (centred, x))
    x = graph.node("Mul", f"{name}.scaled", (x, weight))
    return graph.node("Add", name, (x, bias))


def _softmax(graph: GraphBuilder, options: Bert, name: str, x: str) -> str:
    """Softmax over the last axis."""
    if options.form is not BertForm.DECOMPOSED:
        return graph.node("Softmax", name, (x,), {"axis": -1})
    axis = graph.integers("last_axis", (-1,))
    greatest = graph.node("ReduceMax", f"{name}.max", (x, axis), {"keepdims": 1})
    x = graph.node("Exp", f"{name}.exp", (graph.node("Sub", f"{name}.shifted", (x, greatest)),))
    total = graph.node("ReduceSum", f"{name}.sum", (x, axis), {"keepdims": 1})
    return graph.node("Div", name, (x, total))


def _gelu(graph: GraphBuilder, options: Bert, name: str, x: str) -> str:
    """The exact GELU: x * 0.5 * (1 + erf(x / sqrt 2))."""
    if options.form is not BertForm.DECOMPOSED:
        return graph.node("Gelu", name, (x,))
    half = graph.node("Mul", f"{name}.half", (x, graph.scalar("half", 0.5)))
    x = graph.node("Div", f"{name}.scaled", (x, graph.scalar("sqrt_2", sqrt(2.0))))
    x = graph.node("Erf", f"{name}.erf", (x,))
    x = graph.node("Add", f"{name}.add_one", (x, graph.scalar("one", 1.0)))
    return graph.node("Mul", name, (half, x))


def _pooler(graph: GraphBuilder, options: Bert, x: str) -> str:
    """The first token through one dense operator and tanh."""
    x = graph.node("Gather", "pooler.first_token", (x, graph.integers("first", 0)), {"axis": 1})
    weight = graph.weight(
        "pooler.dense.weight", (options.hidden, options.hidden), Normal(0.0, 0.7 / sqrt(options.hidden))
    )
    bias = graph.weight("pooler.dense.bias", (options.hidden,), Normal(0.0, 0.02))
    x = graph.node("Gemm", "pooler.dense", (x, weight, bias), {"transB": 1})
    return graph.node("Tanh", "pooler.tanh", (x,))
