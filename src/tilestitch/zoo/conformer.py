"""Conformer: attention and convolution over the frames of an utterance."""

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder, Normal
from tilestitch.zoo.layers import PLAIN, Conv, batch_norm, convolution, layer_norm, linear, merge_heads, split_heads

_OPSET = 20
_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Conformer:
    """The size of a Conformer encoder; nobody published the sizes of the one that others measured."""

    name: str = "conformer"
    layers: int = 12  # assumed
    hidden: int = 256  # assumed
    heads: int = 4  # assumed
    feed_forward: int = 2048  # assumed
    kernel: int = 15  # assumed
    frames: int = 1000  # assumed: ten seconds
    bins: int = 80  # assumed

    def reduced(self) -> "Conformer":
        """Two narrow layers on 40 frames."""
        small = replace(self, name=f"{self.name}-small", layers=2, hidden=32, heads=2, feed_forward=64)
        return replace(small, frames=40, bins=20)

    def graph(self) -> GraphBuilder:
        """Write `features` [N, frames, bins] to `encoded` [N, tokens, hidden].

        A quarter of the frames become tokens. Source: Gulati et al., Conformer, Interspeech 2020, section 2. Positions
        are added to the keys of each query without the shift by its own position, as WeNet does. # assumed
        """
        graph = GraphBuilder(self.name, network=self.name, opset=_OPSET)
        features = graph.input("features", onnx.TensorProto.FLOAT, (BATCH, self.frames, self.bins))
        x, tokens = self._tokens(graph, features)
        for layer in range(self.layers):
            name = f"encoder.{layer}"
            x = self._feed_forward(graph, f"{name}.feed_forward1", x)
            x = graph.node("Add", f"{name}.attention.add", (x, self._attention(graph, f"{name}.attention", x, tokens)))
            x = graph.node("Add", f"{name}.conv.add", (x, self._convolution(graph, f"{name}.conv", x)))
            x = self._feed_forward(graph, f"{name}.feed_forward2", x)
            x = self._norm(graph, f"{name}.norm", x)
        graph.output("encoded", x, (BATCH, tokens, self.hidden))
        return graph

    def _tokens(self, graph: GraphBuilder, features: str) -> tuple[str, int]:
        """Two convolutions that halve frames and bins, a linear operator on what is left of each frame; the count."""
        x = graph.node("Unsqueeze", "features.channel", (features, graph.integers("axis_1", (1,))))
        inputs, tokens, bins = 1, self.frames, self.bins
        for number in range(2):
            x = convolution(graph, f"embed.{number}", x, inputs, self.hidden, Conv(3, stride=2, pad=0), bias=True)
            x = graph.node("Relu", f"embed.{number}.relu", (x,))
            inputs, tokens, bins = self.hidden, (tokens - 1) // 2, (bins - 1) // 2
        x = graph.node("Transpose", "embed.transposed", (x,), {"perm": (0, 2, 1, 3)})
        x = graph.node("Reshape", "embed.flat", (x, graph.integers("embed_shape", (0, 0, self.hidden * bins))))
        return linear(graph, "embed.out", x, self.hidden * bins, self.hidden, gain=1.0), tokens

    def _feed_forward(self, graph: GraphBuilder, name: str, x: str) -> str:
        """Half of a feed-forward module, added to its input."""
        y = self._norm(graph, f"{name}.norm", x)
        y = linear(graph, f"{name}.1", y, self.hidden, self.feed_forward, gain=1.0)
        y = linear(graph, f"{name}.2", _swish(graph, f"{name}.swish", y), self.feed_forward, self.hidden, gain=1.0)
        return graph.node("Add", f"{name}.add", (x, graph.node("Mul", f"{name}.half", (y, graph.scalar("half", 0.5)))))

    def _attention(self, graph: GraphBuilder, name: str, x: str, tokens: int) -> str:
        """Self-attention with relative positions: softmax(((Q + u) K^T + (Q + v) P^T) / sqrt(size)) V."""
        size = self.hidden // self.heads
        x = self._norm(graph, f"{name}.norm", x)
        query, key, value = (
            linear(graph, f"{name}.{part}", x, self.hidden, self.hidden, gain=gain)
            for part, gain in (("query", 1.0), ("key", 1.0), ("value", 0.7))
        )
        positions = graph.floats("positions", _sinusoids(tokens, self.hidden))
        matrix = graph.weight(f"{name}.position.weight", (self.hidden, self.hidden), Normal(0.0, 1 / sqrt(self.hidden)))
        position = graph.node("MatMul", f"{name}.position", (positions, matrix))
        key, position = (split_heads(graph, y, y, self.heads, size, transposed=True) for y in (key, position))
        value = split_heads(graph, value, value, self.heads, size)
        query = graph.node(
            "Reshape", f"{query}.split", (query, graph.integers(f"split_{self.heads}_heads", (0, 0, self.heads, size)))
        )
        scores = []
        for part, keys in (("content", key), ("place", position)):
            bias = graph.weight(f"{name}.{part}.bias", (self.heads, size), Normal(0.0, 0.3))
            y = graph.node("Add", f"{name}.{part}.biased", (query, bias))
            y = graph.node("Transpose", f"{name}.{part}.transposed", (y,), {"perm": (0, 2, 1, 3)})
            scores.append(graph.node("MatMul", f"{name}.{part}.scores", (y, keys)))
        x = graph.node("Add", f"{name}.scores", tuple(scores))
        x = graph.node("Div", f"{name}.scaled", (x, graph.scalar("sqrt_head_size", sqrt(size))))
        x = graph.node("Softmax", f"{name}.softmax", (x,), {"axis": -1})
        x = merge_heads(graph, f"{name}.context", graph.node("MatMul", f"{name}.context", (x, value)), self.hidden)
        return linear(graph, f"{name}.out", x, self.hidden, self.hidden)

    def _convolution(self, graph: GraphBuilder, name: str, x: str) -> str:
        """Gated pointwise, depthwise along the tokens, pointwise; without the residual addition."""
        x = self._norm(graph, f"{name}.norm", x)
        x = graph.node("Transpose", f"{name}.channels", (x,), {"perm": (0, 2, 1)})
        x = convolution(
            graph, f"{name}.pointwise1", x, self.hidden, 2 * self.hidden, Conv((1,)), bias=True, filters=PLAIN
        )
        halves = (f"{name}.value", f"{name}.gate")
        value, gate = graph.nodes(
            "Split", f"{name}.split", (x, graph.integers("halves", (self.hidden,) * 2)), halves, {"axis": 1}
        )
        x = graph.node("Mul", f"{name}.glu", (value, graph.node("Sigmoid", f"{name}.sigmoid", (gate,))))
        x = convolution(
            graph, f"{name}.depthwise", x, self.hidden, self.hidden, Conv((self.kernel,), group=self.hidden), bias=True
        )
        x = _swish(graph, f"{name}.swish", batch_norm(graph, f"{name}.bn", x, self.hidden))
        x = convolution(graph, f"{name}.pointwise2", x, self.hidden, self.hidden, Conv((1,)), bias=True, filters=PLAIN)
        return graph.node("Transpose", f"{name}.tokens", (x,), {"perm": (0, 2, 1)})

    def _norm(self, graph: GraphBuilder, name: str, x: str) -> str:
        return layer_norm(graph, name, x, self.hidden, epsilon=_EPSILON)


def _swish(graph: GraphBuilder, name: str, x: str) -> str:
    return graph.node("Mul", name, (x, graph.node("Sigmoid", f"{name}.sigmoid", (x,))))


def _sinusoids(tokens: int, channels: int) -> np.ndarray:
    """Sine and cosine of each position at falling frequencies, [1, tokens, channels].

    Source: Vaswani et al., Attention Is All You Need, NIPS 2017, section 3.5.
    """
    angles = np.arange(tokens)[:, np.newaxis] / 10_000.0 ** (np.arange(0, channels, 2) / channels)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(1, tokens, channels)
