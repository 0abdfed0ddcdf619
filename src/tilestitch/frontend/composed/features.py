"""Operators of `ai.onnx.ml` on features."""

import numpy as np
from onnx import helper

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.writing import Writer


def array_feature_extractor(node: Node, network: Reading) -> Definition:
    """ArrayFeatureExtractor: columns of the last axis by their numbers; of a list, as a matrix of one row."""
    write = Writer(node, network)
    (x, places), shape = node.inputs, network.shape(node.inputs[0])
    count = int(np.prod(network.shape(places)))
    columns = write.op("Gather", x, write.reshape(places, count), axis=-1)
    write.reshape(columns, *(shape[:-1] or (1,)), count, output=0)
    return write.finished()


def binarizer(node: Node, network: Reading) -> Definition:
    """Binarizer: 1 for what is greater than a threshold, else 0."""
    write = Writer(node, network)
    (x,), element_type = node.inputs, network.element_type(node.inputs[0])
    threshold = node.real("threshold", 0.0)
    if not network.is_float(x) and not threshold.is_integer():
        raise node.not_covered(f"attribute threshold={threshold} lies between the integers of operand '{x}'.")
    greater = write.op("Greater", x, write.constant(np.asarray(threshold, element_type)))
    write.op("Cast", greater, output=0, to=helper.np_dtype_to_tensor_dtype(element_type))
    return write.finished()
