"""A result that is read early and late, as a network."""

import onnx

from tests.helpers.graphs import Net


def outer_sum(*, rows: int = 64, columns: int = 32, products: int = 3) -> onnx.ModelProto:
    """A large sum of two small inputs, which the first of some products reads, and what adds it to the last of these.

    The operators are named "sum", "double", "product0" and so on, and "late"; "double" is read twice, the sum once.
    """
    net = Net()
    x, y = net.input("N", rows, 1, name="x"), net.input("N", 1, columns, name="y")
    last = wide = net.op("Mul", net.op("Add", x, y, name="sum"), 0.5, name="double")
    for number in range(products):
        product = net.op("MatMul", last, net.random(columns, columns), name=f"product{number}")
        last = net.op("Mul", product, 1.0 / columns, name=f"scale{number}")
    return net.model(net.op("Add", last, wide, name="late"))


def shifted_sum(*, rows: int = 64, columns: int = 32) -> onnx.ModelProto:
    """What the exponentials of each row of an outer sum add up to, less the largest value of each column.

    So the outer sum, "double", is read twice: to find these values ("peak"), and in full once they are known ("shift").
    """
    net = Net()
    x, y = net.input("N", rows, 1, name="x"), net.input("N", 1, columns, name="y")
    wide = net.op("Mul", net.op("Add", x, y, name="sum"), 0.5, name="double")
    shifted = net.op("Sub", wide, net.op("ReduceMax", wide, [1], name="peak"), name="shift")
    return net.model(net.op("ReduceSum", net.op("Exp", shifted, name="exp"), [2], name="total"))
