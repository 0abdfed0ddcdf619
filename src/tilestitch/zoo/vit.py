"""Vision transformers: an image as a sequence of patches."""

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder, Normal
from tilestitch.zoo.layers import PLAIN, Conv, classifier, convolution, layer_norm, linear, merge_heads, split_heads

_OPSET = 20
_EPSILON = 1e-6  # of every layer normalisation; the value of the published model


@dataclass(frozen=True, slots=True)
class VisionTransformer:
    """The size of a vision transformer; the defaults are ViT-B."""

    name: str
    patch: int  # pixels along each side
    image_size: int = 224
    layers: int = 12
    hidden: int = 768
    heads: int = 12
    feed_forward: int = 3072
    classes: int = 1000

    @property
    def patches(self) -> int:
        """Patches of one image."""
        return (self.image_size // self.patch) ** 2

    def reduced(self) -> "VisionTransformer":
        """Two narrow layers on 16 patches of 8x8."""
        small = replace(self, name=f"{self.name}-small", patch=8, image_size=32, classes=10)
        return replace(small, layers=2, hidden=64, heads=4, feed_forward=256)

    def graph(self) -> GraphBuilder:
        """Write `image` [N, 3, size, size] to `logits` [N, classes].

        Source: Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021, section 3.1 and table 1. Queries, keys
        and values are one product, and the class token is repeated by a computed shape, as in the common PyTorch
        implementation when exported.
        """
        graph = GraphBuilder(self.name, network=self.name, opset=_OPSET)
        image = graph.input("image", onnx.TensorProto.FLOAT, (BATCH, 3, self.image_size, self.image_size))
        x = self._tokens(graph, image)
        for layer in range(self.layers):
            name = f"encoder.layer.{layer}"
            y = layer_norm(graph, f"{name}.norm1", x, self.hidden, epsilon=_EPSILON)
            x = graph.node("Add", f"{name}.attention.add", (x, self._attention(graph, f"{name}.attention", y)))
            y = layer_norm(graph, f"{name}.norm2", x, self.hidden, epsilon=_EPSILON)
            y = linear(graph, f"{name}.mlp.1", y, self.hidden, self.feed_forward)
            y = linear(
                graph, f"{name}.mlp.2", graph.node("Gelu", f"{name}.mlp.gelu", (y,)), self.feed_forward, self.hidden
            )
            x = graph.node("Add", f"{name}.mlp.add", (x, y))
        x = layer_norm(graph, "norm", x, self.hidden, epsilon=_EPSILON)
        x = graph.node("Gather", "class_token.out", (x, graph.integers("first", 0)), {"axis": 1})
        graph.output("logits", classifier(graph, "head", x, self.hidden, self.classes), (BATCH, self.classes))
        return graph

    def _tokens(self, graph: GraphBuilder, image: str) -> str:
        """One class token and one token per patch, each plus its position: [N, 1 + patches, hidden]."""
        x = convolution(
            graph,
            "patches",
            image,
            3,
            self.hidden,
            Conv(self.patch, stride=self.patch, pad=0),
            bias=True,
            filters=PLAIN,
        )
        x = graph.node("Reshape", "patches.flat", (x, graph.integers("patches_shape", (0, self.hidden, self.patches))))
        x = graph.node("Transpose", "patches.tokens", (x,), {"perm": (0, 2, 1)})
        token = graph.weight("class_token", (1, 1, self.hidden), Normal(0.0, 1.0))
        batch = graph.node("Shape", "batch", (image,), {"start": 0, "end": 1})
        rest = graph.integers("class_token_shape", np.array([1, self.hidden]))
        shape = graph.node("Concat", "class_token.shape", (batch, rest), {"axis": 0})
        token = graph.node("Expand", "class_token.in", (token, shape))
        x = graph.node("Concat", "tokens", (token, x), {"axis": 1})
        return graph.node(
            "Add", "embedded", (x, graph.weight("positions", (1, 1 + self.patches, self.hidden), Normal(0.0, 0.5)))
        )

    def _attention(self, graph: GraphBuilder, name: str, x: str) -> str:
        """Self-attention of all heads and its output projection, without the residual addition."""
        size = self.hidden // self.heads
        packed = linear(graph, f"{name}.qkv", x, self.hidden, 3 * self.hidden, gain=1.25)
        parts = tuple(f"{name}.{part}" for part in ("query", "key", "value"))
        sizes = graph.integers("qkv_sizes", (self.hidden,) * 3)
        query, key, value = graph.nodes("Split", f"{name}.split", (packed, sizes), parts, {"axis": -1})
        query = split_heads(graph, query, query, self.heads, size)
        key = split_heads(graph, key, key, self.heads, size, transposed=True)
        value = split_heads(graph, value, value, self.heads, size)
        query = graph.node("Mul", f"{name}.scaled", (query, graph.scalar("scale", 1 / sqrt(size))))
        x = graph.node("MatMul", f"{name}.scores", (query, key))
        x = graph.node("Softmax", f"{name}.softmax", (x,), {"axis": -1})
        x = merge_heads(graph, f"{name}.context", graph.node("MatMul", f"{name}.context", (x, value)), self.hidden)
        return linear(graph, f"{name}.out", x, self.hidden, self.hidden)
