"""Normalisations with the sums before them."""

import numpy as np
from onnx import TensorProto

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.writing import Writer

_SUM = 3  # the output with what was normalised


def skip_layer_norm(node: Node, network: Reading) -> Definition:
    """LayerNormalization(input + skip + bias); the sum is an output as well."""
    write = Writer(node, network)
    total = _sum(node, write, node.operand(4))
    gamma, beta = node.inputs[2], node.operand(3)
    write.op("LayerNormalization", total, gamma, beta, output=0, epsilon=node.real("epsilon", 1e-12))
    return write.finished()


def rms_norm(node: Node, network: Reading) -> Definition:
    """SimplifiedLayerNormalization, which has become the standard's RMSNormalization."""
    write = Writer(node, network)
    axis, epsilon = node.integer("axis", -1), node.real("epsilon", 1e-5)
    node.ignore("stash_type")
    write.op("RMSNormalization", *node.inputs[:2], output=0, axis=axis, epsilon=epsilon)
    return write.finished()


def skip_rms_norm(node: Node, network: Reading) -> Definition:
    """SkipSimplifiedLayerNormalization: the same with RMSNormalization."""
    write = Writer(node, network)
    total = _sum(node, write, node.operand(3))
    write.op("RMSNormalization", total, node.inputs[2], output=0, epsilon=node.real("epsilon", 1e-12))
    return write.finished()


def _sum(node: Node, write: Writer, bias: str | None) -> str:
    """Of input, skip and bias."""
    x, skip = node.inputs[:2]
    if bias is None:
        return write.op("Add", x, skip, output=_SUM)
    return write.op("Add", write.op("Add", x, skip), bias, output=_SUM)


def embed_layer_norm(node: Node, network: Reading) -> Definition:
    """LayerNormalization of the sum of the embeddings of words, of positions and of segments.

    The second output counts the words of each sample that its mask keeps.
    """
    write = Writer(node, network)
    ids, segments, words, positions, kinds, gamma, beta = node.inputs[:7]
    mask, places = node.operand(7), node.operand(8)
    node.ignore("mask_index_type")
    batch, length = network.shape(ids)
    if places is None:
        rows = write.cut(positions, 0, 0, length)
    else:
        rows = write.op("Gather", positions, places)
    total = write.op("Add", write.op("Gather", words, ids), rows, output=None if kinds else 2)
    if kinds:
        total = write.op("Add", total, write.op("Gather", kinds, segments), output=2)
    write.op("LayerNormalization", total, gamma, beta, output=0, epsilon=node.real("epsilon", 1e-12))
    if node.needs(1) and mask is None:
        write.op("Identity", write.constant(np.zeros(batch, np.int32)), output=1)
    elif node.needs(1):
        assert mask is not None
        one = write.constant(np.ones((), network.element_type(mask)))
        kept = write.op("Cast", write.op("Equal", mask, one), to=TensorProto.INT32)
        write.op("ReduceSum", kept, write.integers(1), output=1, keepdims=0)
    return write.finished()
