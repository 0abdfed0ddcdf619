"""MatMul and Gemm: sums of products over one dim."""

from math import prod

import numpy as np

from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import FIXED, Nest, along, axis, broadcast
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.ir.graph import Access, Attribute, Operator


def matrix_product(node: Node, network: Reading) -> None:
    """MatMul, as `numpy.matmul`."""
    multiply(node, network, node.inputs[0], node.inputs[1], node.target)


def multiply(
    node: Node,
    network: Reading,
    a: str,
    b: str,
    target: Target,
    *,
    element_type: np.dtype | None = None,
    attributes: tuple[tuple[str, Attribute], ...] = (),
) -> str:
    """A [..., I, K] times B [..., K, J]; an operand of rank 1 has no i (or j), a stretched batch axis does not move."""
    a_shape, b_shape = network.shape(a), network.shape(b)
    found = f"operands of shapes {text_of(a_shape)} and {text_of(b_shape)}"
    if not a_shape or not b_shape:
        raise node.fault(f"{found}; expected at least one axis each.")
    inner = b_shape[-2:][0]
    batch = broadcast(a_shape[:-2], b_shape[:-2])
    if a_shape[-1] != inner or batch is None:
        raise node.fault(f"{found}; expected [..., I, K] and [..., K, J], with other axes that broadcast.")

    nest = Nest()
    batches = [nest.parallel(f"b{number}", extent) for number, extent in enumerate(batch)]
    i = nest.parallel("i", a_shape[-2]) if len(a_shape) > 1 else None
    j = nest.parallel("j", b_shape[-1]) if len(b_shape) > 1 else None
    k = nest.reduction("k", inner)

    def moving(tensor: str, shape: tuple[int, ...], *last: int | None) -> Access:
        own = shape[:-2]
        used = batches[len(batches) - len(own) :]
        moved = (axis((d, 1)) if size == batch[d] else FIXED for d, size in zip(used, own, strict=True))
        return Access(tensor, (*moved, *along(*(dim for dim in last if dim is not None))))

    reads = (moving(a, a_shape, i, k), moving(b, b_shape, k, j))
    kept = [dim for dim in (*batches, i, j) if dim is not None]
    shape = tuple(nest.dims[dim].extent for dim in kept)
    write = Access(target.tensor, along(*kept))
    op = Operator(target.operator, "matmul", nest.dims, reads, (write,), attributes)
    return network.emit(node, op, shape, element_type=element_type)


def general_product(node: Node, network: Reading) -> None:
    """Gemm: alpha * A' B' + beta * C, A' and B' transposed on demand; the factors go into an operand each."""
    a, b = node.inputs[:2]
    c = node.operand(2)
    transposed_a, transposed_b = node.flag("transA"), node.flag("transB")
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    a_shape, b_shape = network.shape(a), network.shape(b)
    found = f"operands of shapes {text_of(a_shape)} and {text_of(b_shape)}"
    if len(a_shape) != 2 or len(b_shape) != 2:
        raise node.fault(f"{found}; expected two matrices.")
    rows, inner = a_shape[::-1] if transposed_a else a_shape
    columns = b_shape[0] if transposed_b else b_shape[1]
    if b_shape[1 if transposed_b else 0] != inner:
        raise node.fault(f"{found}, transA={int(transposed_a)}, transB={int(transposed_b)}; the inner sizes differ.")
    if alpha != 1.0:
        smaller = prod(b_shape) <= prod(a_shape)
        if network.is_known(b) or (smaller and not network.is_known(a)):
            b = _scaled(node, network, b, "alpha", alpha)
        else:
            a = _scaled(node, network, a, "alpha", alpha)
    if c is not None and beta == 0.0:
        c = None
    elif c is not None and beta != 1.0:
        c = _scaled(node, network, c, "beta", beta)

    nest = Nest()
    i, j = nest.parallel("i", rows), nest.parallel("j", columns)
    k = nest.reduction("k", inner)
    reads = [
        Access(a, along(k, i) if transposed_a else along(i, k)),
        Access(b, along(j, k) if transposed_b else along(k, j)),
    ]
    if c is not None:
        c_shape = network.shape(c)
        if broadcast(c_shape, (rows, columns)) != (rows, columns) or len(c_shape) > 2:
            raise node.fault(f"operand C '{c}' has shape {text_of(c_shape)}, which does not fit [{rows}, {columns}].")
        moved = zip((i, j)[2 - len(c_shape) :], c_shape, strict=True)
        reads.append(Access(c, tuple(axis((d, 1)) if size == nest.dims[d].extent else FIXED for d, size in moved)))
    write = Access(node.outputs[0], along(i, j))
    op = Operator(node.name, "matmul", nest.dims, tuple(reads), (write,))
    network.emit(node, op, (rows, columns))


def _scaled(node: Node, network: Reading, name: str, factor_name: str, factor: float) -> str:
    """An operand multiplied by a factor of the node."""
    if not network.is_float(name):
        raise node.not_covered(f"attribute {factor_name}={factor} for integers; export with {factor_name}=1.")
    constant = network.new_constant(node, factor_name, np.asarray(factor, network.element_type(name)))
    return apply(node, network, "mul", (name, constant), network.step(node, f"{factor_name}.scaled"))
