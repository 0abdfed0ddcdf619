"""One block of a Llama: over a whole prompt, or over one token behind a cache of keys and values."""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt

import numpy as np
import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder, Normal, Uniform
from tilestitch.zoo.layers import merge_heads, split_heads

_EPSILON = 1e-5  # of both normalisations; the value of the published model
_ROTARY_BASE = 500_000.0  # the value of the published model, without its stretching for long texts
_MASKED = -10_000.0  # added to the attention score of a later token


class Phase(StrEnum):
    """What the block is given."""

    PREFILL = "prefill"  # all tokens of a prompt; gives a cache of their keys and values
    DECODE = "decode"  # the token behind those of the cache, which comes as inputs and leaves one longer


class LlamaForm(StrEnum):
    """Which operators say the same arithmetic."""

    DECOMPOSED = "decomposed"  # elementary operators, as frameworks export them
    NATIVE = "native"  # RMSNormalization, RotaryEmbedding and Attention are one node each


@dataclass(frozen=True, slots=True)
class LlamaBlock:
    """The size, phase and form of one block; the defaults are those of Llama 3.2 1B."""

    phase: Phase
    form: LlamaForm = LlamaForm.DECOMPOSED
    name: str = "llama-block"
    sequence_length: int = 128  # of the prompt, or of the cache that comes in
    hidden: int = 2048
    heads: int = 32
    groups: int = 8  # heads of keys and values, each of which serves several of queries
    feed_forward: int = 8192
    positions: int = 4096

    @property
    def head_size(self) -> int:
        """Channels of one attention head."""
        return self.hidden // self.heads

    @property
    def tokens(self) -> int:
        """Tokens that come in."""
        return self.sequence_length if self.phase is Phase.PREFILL else 1

    @property
    def keys(self) -> int:
        """Tokens that are attended to, which are those of the cache that leaves."""
        return self.sequence_length + (self.phase is Phase.DECODE)

    def reduced(self) -> "LlamaBlock":
        """Four narrow heads in two groups."""
        return replace(self, name=f"{self.name}-small", hidden=64, heads=4, groups=2, feed_forward=128)

    def with_length(self, tokens: int) -> "LlamaBlock":
        """The same block for a prompt or a cache of that many tokens."""
        return replace(self, sequence_length=tokens)

    def graph(self) -> GraphBuilder:
        """Write the block.

        Inputs: `hidden_states` [N, tokens, hidden], and to decode `past_key` and `past_value` [N, groups, L, size].
        Outputs: `output`, of the shape of the first input, `present_key` and `present_value` [N, groups, keys, size].

        Source: Touvron et al., LLaMA, 2023, section 2.2; grouped queries of Ainslie et al., GQA, EMNLP 2023, as in the
        Llama 3 models. Node order of the decomposed form is that of the common PyTorch implementation.
        """
        native = self.form is LlamaForm.NATIVE
        suffix = f"-{self.form}" if native else ""
        title = f"{self.name}-{self.phase}-{self.sequence_length}{suffix}"
        graph = GraphBuilder(title, network=self.name, opset=23 if native else 20)
        x = graph.input("hidden_states", onnx.TensorProto.FLOAT, (BATCH, self.tokens, self.hidden))
        past = (BATCH, self.groups, self.sequence_length, self.head_size)
        if self.phase is Phase.DECODE:
            for name in ("past_key", "past_value"):
                graph.input(name, onnx.TensorProto.FLOAT, past)
        y, key, value = self._attention(graph, self._norm(graph, "input_norm", x), x)
        x = graph.node("Add", "attention.add", (x, y))
        y = self._norm(graph, "post_attention_norm", x)
        gate = _linear(graph, "mlp.gate", y, self.hidden, self.feed_forward)
        gate = graph.node("Mul", "mlp.silu", (gate, graph.node("Sigmoid", "mlp.sigmoid", (gate,))))
        y = graph.node("Mul", "mlp.gated", (gate, _linear(graph, "mlp.up", y, self.hidden, self.feed_forward)))
        y = _linear(graph, "mlp.down", y, self.feed_forward, self.hidden)
        graph.output("output", graph.node("Add", "mlp.add", (x, y)), (BATCH, self.tokens, self.hidden))
        present = (BATCH, self.groups, self.keys, self.head_size)
        graph.output("present_key", key, present)
        graph.output("present_value", value, present)
        return graph

    def _norm(self, graph: GraphBuilder, name: str, x: str) -> str:
        """Divide each token by the root of its mean square, then scale."""
        weight = graph.weight(f"{name}.weight", (self.hidden,), Uniform(0.8, 1.2))
        if self.form is LlamaForm.NATIVE:
            return graph.node("RMSNormalization", name, (x, weight), {"axis": -1, "epsilon": _EPSILON})
        y = graph.node("Pow", f"{name}.squared", (x, graph.scalar("two", 2.0)))
        y = graph.node("ReduceMean", f"{name}.mean", (y, graph.integers("last_axis", (-1,))), {"keepdims": 1})
        y = graph.node("Add", f"{name}.stabilised", (y, graph.scalar("epsilon", _EPSILON)))
        y = graph.node("Reciprocal", f"{name}.factor", (graph.node("Sqrt", f"{name}.root", (y,)),))
        return graph.node("Mul", name, (weight, graph.node("Mul", f"{name}.normalised", (x, y))))

    def _attention(self, graph: GraphBuilder, x: str, image: str) -> tuple[str, str, str]:
        """Causal self-attention without the residual addition; with all keys and values."""
        query, key, value = (
            split_heads(
                graph,
                name,
                _linear(graph, name, x, self.hidden, heads * self.head_size, gain=gain),
                heads,
                self.head_size,
            )
            for name, heads, gain in (
                ("attention.query", self.heads, 1.25),
                ("attention.key", self.groups, 1.25),
                ("attention.value", self.groups, 0.7),
            )
        )
        query, key = (
            self._rotated(graph, "attention.query", query, image),
            self._rotated(graph, "attention.key", key, image),
        )
        if self.form is LlamaForm.NATIVE:
            x, key, value = self._native_attention(graph, query, key, value)
        else:
            if self.phase is Phase.DECODE:
                key = graph.node("Concat", "attention.keys", ("past_key", key), {"axis": 2})
                value = graph.node("Concat", "attention.values", ("past_value", value), {"axis": 2})
            x = self._decomposed_attention(graph, query, key, value)
        x = merge_heads(graph, "attention.context", x, self.hidden)
        return _linear(graph, "attention.out", x, self.hidden, self.hidden), key, value

    def _native_attention(self, graph: GraphBuilder, query: str, key: str, value: str) -> tuple[str, str, str]:
        if self.phase is Phase.PREFILL:
            return graph.node("Attention", "attention", (query, key, value), {"is_causal": 1}), key, value
        operands = (query, key, value, "", "past_key", "past_value")
        y, key, value = graph.nodes(
            "Attention", "attention", operands, ("attention", "attention.keys", "attention.values")
        )
        return y, key, value

    def _decomposed_attention(self, graph: GraphBuilder, query: str, key: str, value: str) -> str:
        """softmax(Q K^T / sqrt(size) + mask) V, with each head of keys and values repeated for its queries."""
        key, value = (
            self._repeated(graph, name, x) for name, x in (("attention.key", key), ("attention.value", value))
        )
        key = graph.node("Transpose", "attention.key.flipped", (key,), {"perm": (0, 1, 3, 2)})
        x = graph.node("MatMul", "attention.scores", (query, key))
        x = graph.node("Mul", "attention.scaled", (x, graph.scalar("scale", 1 / sqrt(self.head_size))))
        if self.phase is Phase.PREFILL:
            later = np.triu(np.full((1, 1, self.tokens, self.tokens), _MASKED), 1)
            x = graph.node("Add", "attention.masked", (x, graph.floats("later_tokens", later)))
        x = graph.node("Softmax", "attention.softmax", (x,), {"axis": -1})
        return graph.node("MatMul", "attention.context", (x, value))

    def _repeated(self, graph: GraphBuilder, name: str, x: str) -> str:
        """[N, groups, keys, size] to [N, heads, keys, size]."""
        repeats = self.heads // self.groups
        x = graph.node("Unsqueeze", f"{name}.group", (x, graph.integers("axis_2", (2,))))
        x = graph.node("Expand", f"{name}.repeated", (x, graph.integers("repeats", (1, 1, repeats, 1, 1))))
        shape = graph.integers("repeated_shape", (0, self.heads, self.keys, self.head_size))
        return graph.node("Reshape", f"{name}.heads", (x, shape))

    def _rotated(self, graph: GraphBuilder, name: str, x: str, image: str) -> str:
        """Turn each pair of channels by the token's position times the pair's frequency.

        Source: Su et al., RoFormer, 2021, section 3.2.2; a pair is one channel of each half of the head.
        """
        half = self.head_size // 2
        first = self.sequence_length if self.phase is Phase.DECODE else 0
        positions = np.arange(first, first + self.tokens)
        angles = np.arange(first + self.tokens)[:, np.newaxis] * _ROTARY_BASE ** (-np.arange(half) / half)
        if self.form is LlamaForm.NATIVE:
            batch = graph.node("Shape", f"{name}.batch", (image,), {"start": 0, "end": 1})
            shape = graph.node(
                "Concat", f"{name}.ids_shape", (batch, graph.integers("tokens", (self.tokens,))), {"axis": 0}
            )
            ids = graph.node("Expand", f"{name}.ids", (graph.integers("position_ids", positions[np.newaxis]), shape))
            cos, sin = graph.floats("cos", np.cos(angles)), graph.floats("sin", np.sin(angles))
            return graph.node("RotaryEmbedding", f"{name}.rotary", (x, cos, sin, ids))
        angles = np.tile(angles[positions], 2)[np.newaxis, np.newaxis]
        axis, middle = graph.integers("last_axis", (-1,)), graph.integers("middle", (half,))
        low = graph.node("Slice", f"{name}.low", (x, graph.integers("start", (0,)), middle, axis))
        high = graph.node("Slice", f"{name}.high", (x, middle, graph.integers("end", (self.head_size,)), axis))
        turned = (graph.node("Neg", f"{name}.negated", (high,)), low)
        turned = graph.node("Concat", f"{name}.turned", turned, {"axis": -1})
        x = graph.node("Mul", f"{name}.cos", (x, graph.floats("cos", np.cos(angles))))
        y = graph.node("Mul", f"{name}.sin", (turned, graph.floats("sin", np.sin(angles))))
        return graph.node("Add", f"{name}.rotary", (x, y))


def _linear(graph: GraphBuilder, name: str, x: str, inputs: int, outputs: int, *, gain: float = 0.7) -> str:
    """MatMul without bias; the output deviates by about `gain` where the input deviates by 1."""
    return graph.node(
        "MatMul", name, (x, graph.weight(f"{name}.weight", (inputs, outputs), Normal(0.0, gain / sqrt(inputs))))
    )
