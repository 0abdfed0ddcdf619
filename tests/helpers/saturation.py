"""Whether onnxruntime saturates sums of products of bytes, as it does on processors that have AVX2 and no VNNI."""

from functools import cache

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilestitch.sim.chip.reference import IR_VERSION

BY_BYTES = ("ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "QGemm", "QLinearConv", "QLinearMatMul")


@cache
def saturates() -> bool:
    """Two products of 255 and 127 do not fit 16 bits, in which such processors add them."""
    weights = numpy_helper.from_array(np.full((64, 16), 127, np.int8), "b")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "products",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [4, 16])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=IR_VERSION)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"a": np.full((4, 64), 255, np.uint8)})
    return not bool((np.asarray(found) == 64 * 255 * 127).all())


def expect_exact_bytes() -> None:
    """Skip a test that compares sums of products of bytes, where onnxruntime has them wrong."""
    if saturates():
        pytest.skip("onnxruntime saturates sums of products of bytes on this processor (AVX2 without VNNI)")
