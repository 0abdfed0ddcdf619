"""Products of matrices: fused with transpositions, of dynamically quantised operands, of packed weights."""

import ml_dtypes
import numpy as np
from onnx import TensorProto

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.writing import Writer

_PACKED = {4: np.dtype(ml_dtypes.uint4), 8: np.dtype(np.uint8)}  # types of packed weights by their bits


def fused_product(node: Node, network: Reading) -> Definition:
    """FusedMatMul and TransposeMatMul: alpha * A B, each operand with its axes exchanged first where it says so.

    `transA` exchanges the last two axes, `transBatchA` moves the first axis before the last (then `transA` swaps).
    """
    write = Writer(node, network)
    alpha = node.real("alpha", 1.0)
    operands: list[str] = []
    for name, side in zip(node.inputs, "AB", strict=True):
        rank = len(network.shape(name))
        order = list(range(rank))
        batch_moves = node.flag(f"transBatch{side}")
        if batch_moves and rank < 3:
            raise node.fault(f"attribute transBatch{side}=1 with an operand of {rank} axes; expected at least 3.")
        if batch_moves:
            order = [*order[1:-1], 0, order[-1]]
        if node.flag(f"trans{side}") and rank > 1:
            order[-2:] = order[:-3:-1]
        operands.append(name if order == list(range(rank)) else write.op("Transpose", name, perm=order))
    if alpha == 1:
        write.op("MatMul", *operands, output=0)
    else:
        factor = write.constant(np.asarray(alpha, network.element_type(node.inputs[0])))
        write.op("Mul", write.op("MatMul", *operands), factor, output=0)
    return write.finished()


def dynamically_quantised_product(node: Node, network: Reading) -> Definition:
    """DynamicQuantizeMatMul: A in 8 bits by its own range, integer products, and back."""
    write = Writer(node, network)
    a, b, b_scale = node.inputs[:3]
    quantised, scale, zero = write.ops("DynamicQuantizeLinear", (a,), (None, None, None))
    sums = write.op("MatMulInteger", quantised, b, zero, node.operand(3))
    _as_reals(node, write, sums, write.op("Mul", scale, b_scale), node.operand(4))
    return write.finished()


def integer_product_to_float(node: Node, network: Reading) -> Definition:
    """MatMulIntegerToFloat: integer products, in real numbers."""
    write = Writer(node, network)
    a, b, a_scale, b_scale = node.inputs[:4]
    if network.element_type(a_scale) != np.float32:
        raise node.not_covered("its result is not of float32.")
    sums = write.op("MatMulInteger", a, b, node.operand(4), node.operand(5))
    _as_reals(node, write, sums, write.op("Mul", a_scale, b_scale), node.operand(6))
    return write.finished()


def _as_reals(node: Node, write: Writer, sums: str, factor: str, bias: str | None) -> None:
    """Integer sums times what one is worth, and a bias, as the first output."""
    reals = write.op("Cast", sums, to=TensorProto.FLOAT)
    if bias is None:
        write.op("Mul", reals, factor, output=0)
    else:
        write.op("Add", write.op("Mul", reals, factor), bias, output=0)


def packed_product(node: Node, network: Reading) -> Definition:
    """MatMulNBits: A times weights of 4 or 8 bits [N, blocks, bytes], with a scale for each block of K.

    `accuracy_level` lets a runtime compute less exactly, and is not followed here.
    """
    write = Writer(node, network)
    rows, columns = node.integer("K", 0), node.integer("N", 0)
    bits, block = node.integer("bits", 4), node.integer("block_size", 0)
    node.ignore("accuracy_level")
    if node.integer("weight_prepacked", 0):
        raise node.not_covered("its weights are in the order of one processor.")
    if bits not in _PACKED or block < 1 or rows % block:
        raise node.not_covered(f"bits={bits} with block_size={block} of K={rows} has no rule.")
    if node.operand(4) is not None:
        raise node.not_covered("its blocks are in an order of their own (g_idx).")
    network.afford(node, rows * columns)
    blocks = rows // block
    packed = network.required_value(node, 1, "weights")
    if packed.dtype != np.uint8 or packed.size * 8 != rows * columns * bits:
        raise node.fault(
            f"weights {text_of(packed.shape)} of {packed.dtype}; expected N * K * bits / 8 = "
            f"{rows * columns * bits // 8:,} elements of uint8."
        )
    scales = network.required_value(node, 2, "scales")
    if scales.size != columns * blocks:
        raise node.fault(f"scales {text_of(scales.shape)}; expected one for each of {columns} x {blocks} blocks.")
    weights = _unpacked(packed.reshape(columns, -1), bits, rows)
    zeros = _zeros(node, network, bits, (columns, blocks))
    real = write.op(
        "DequantizeLinear",
        write.constant(weights.T.astype(_PACKED[bits])),
        write.constant(np.ascontiguousarray(scales.reshape(columns, blocks).T)),
        write.constant(zeros.T.astype(_PACKED[bits])),
        axis=0,
        block_size=block,
    )
    bias = node.operand(5)
    if bias is None:
        write.op("MatMul", node.inputs[0], real, output=0)
    else:
        write.op("Add", write.op("MatMul", node.inputs[0], real), bias, output=0)
    return write.finished()


def _zeros(node: Node, network: Reading, bits: int, shape: tuple[int, int]) -> np.ndarray:
    """The zero point of each block; the middle of the range where none is given."""
    if node.operand(3) is None:
        return np.full(shape, 1 << (bits - 1), np.uint8)
    found = network.required_value(node, 3, "zero points")
    if found.dtype != np.uint8 or found.size * 8 < shape[0] * shape[1] * bits:
        raise node.not_covered(f"zero points {text_of(found.shape)} of {found.dtype} have no rule.")
    return _unpacked(found.reshape(shape[0], -1), bits, shape[1])


def _unpacked(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """`count` numbers of each row, those in the lower bits of a byte first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., None] >> shifts) & ((1 << bits) - 1)
    return parts.reshape(len(packed), -1)[:, :count]
