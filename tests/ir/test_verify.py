"""A graph that breaks one invariant is refused, with a message that says which."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.graphs import Net
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InvalidIR
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ir.verify import verify_graph

pytestmark = pytest.mark.quick


def valid() -> Graph:
    """One of each kind of access: padding, a window, a broadcast, a concatenation, rows by index."""
    net = Net()
    x, rows = net.input(2, 4, 6, 6, name="x"), net.input(3, name="rows", dtype=7)
    y = net.op("Conv", x, net.random(8, 4, 3, 3), net.random(8), pads=[1, 1, 1, 1], name="conv")
    y = net.op("Concat", y, x, axis=1, name="concat")
    y = net.op("ReduceMean", y, [2, 3], name="mean")
    y = net.op("Reshape", y, [2, 12], name="flat")
    y = net.op("Gather", y, rows, axis=1, name="gather")
    return net.graph(y)


def changed(graph: Graph, name: str, **fields) -> Graph:
    """The graph with other fields of one operator."""
    return replace(graph, operators=tuple(replace(o, **fields) if o.name == name else o for o in graph.operators))


def test_a_graph_of_the_frontend_holds_all_invariants():
    """No false alarm on padding, indirect rows, and pairs of a concatenation that ignore each other's dims."""
    verify_graph(valid())


def relu(name: str, x: str, y: str, *, axis: Axis = Axis(((0, 1),)), extent: int = 4, write: Axis | None = None):
    dims = (Dim("d0", extent, DimKind.PARALLEL),)
    return Operator(name, "relu", dims, (Access(x, (axis,)),), (Access(y, (write or axis,)),))


def tiny(*operators: Operator, **shapes: int) -> Graph:
    """A graph over vectors: input x, output y."""
    tensors = {name: Tensor(name, (size,), DType.FLOAT16, (0,)) for name, size in {"x": 4, "y": 4, **shapes}.items()}
    return Graph("tiny", tensors, operators, ("x",), ("y",), {})


def test_two_operators_may_write_parts_of_one_tensor():
    """As the copies of a concatenation do."""
    verify_graph(
        tiny(
            relu("a", "x", "y", extent=2),
            relu("b", "x", "y", extent=2, write=Axis(((0, 1),), 2)),
        )
    )


def test_an_axis_may_be_written_by_two_dims():
    """An axis that is a mixed-radix number of dims is covered exactly."""
    dims = (Dim("h", 2, DimKind.PARALLEL), Dim("c", 2, DimKind.PARALLEL))
    axis = Axis(((0, 2), (1, 1)))
    verify_graph(tiny(Operator("a", "relu", dims, (Access("x", (axis,)),), (Access("y", (axis,)),))))


@pytest.mark.parametrize(
    "graph, message",
    [
        (tiny(relu("a", "x", "y"), relu("a", "x", "y")), "2 operators have the name 'a'"),
        (tiny(relu("a", "x", "z")), "operator 'a' uses 'z', which is not a tensor"),
        (replace(tiny(relu("a", "x", "y")), outputs=("z",)), "output 'z' is not a tensor"),
        (replace(tiny(relu("a", "x", "y")), constants={"x": np.zeros(3)}), r"constant 'x' of shape \(3,\) is declared"),
        (tiny(relu("a", "x", "y", axis=Axis(((1, 1),)))), "do not name each of 1 dims"),
        (tiny(relu("a", "x", "y", axis=Axis(((0, 0),)))), "not sorted by falling non-zero stride"),
        (tiny(relu("a", "x", "y", extent=0)), "dim 'd0' has extent 0"),
        (tiny(relu("b", "z", "y"), relu("a", "x", "z"), z=4), "'b' reads 'z' before all of it is written"),
        (tiny(relu("a", "z", "y"), z=4), "'a' reads 'z', which no operator writes"),
        (tiny(relu("a", "x", "z"), z=4), "output 'y' is never written"),
        (tiny(relu("a", "y", "x"), relu("b", "x", "y")), "'a' writes 'x', which comes from outside"),
        (tiny(relu("a", "x", "y", axis=Axis(((0, 1),), 1), write=Axis(((0, 1),)))), "reads 'x' at 1:5 of axis 0"),
        (tiny(relu("a", "x", "y", axis=Axis(((0, -1),)), write=Axis(((0, 1),)))), "reads 'x' at -3:1 of axis 0"),
        (tiny(relu("a", "x", "y", axis=Axis(((0, 1),)), write=Axis(((0, 1),), 1))), r"writes \[1:5\] of 'y'"),
        (tiny(relu("a", "x", "y", extent=3)), "3 of 4 elements are written"),
        (tiny(relu("a", "x", "y", write=Axis(()))), "parallel dim 'd0' does not move the write to 'y'"),
        (tiny(relu("a", "x", "y"), relu("b", "x", "y", extent=1)), r"'a' and 'b' both write \[0:1\] of 'y'"),
        (tiny(relu("a", "x", "y", extent=2, write=Axis(((0, 2),)))), r"does not write each element of \[0:3\] of 'y'"),
        (tiny(relu("a", "x", "y", write=Axis(((0, -1),), 3))), r"does not write each element of \[0:4\] of 'y'"),
        (tiny(relu("a", "x", "y", axis=Axis(((0, 1),)), write=Axis(((0, 1),), -1))), r"writes \[-1:3\] of 'y'"),
    ],
)
def test_a_broken_vector_graph_is_refused(graph, message):
    """Names, forms, order, and each element written once."""
    with pytest.raises(InvalidIR, match=message):
        verify_graph(graph)


def test_only_windows_read_padding():
    """The same access is right for a convolution and wrong for another kind."""
    graph = valid()
    verify_graph(changed(graph, "conv", kind="max_pool"))
    with pytest.raises(InvalidIR, match=r"'conv' \(matmul\) reads 'x' at -1:7 of axis 2, which has 6 elements"):
        verify_graph(changed(graph, "conv", kind="matmul"))


def test_padding_is_for_the_first_operand():
    """Weights and bias are read inside their tensors."""
    graph = valid()
    conv = graph.by_name["conv"]
    weights = replace(conv.reads[1], axes=(Axis(conv.reads[1].axes[0].terms, 1), *conv.reads[1].axes[1:]))
    with pytest.raises(InvalidIR, match=r"'conv' .* at 1:9 of axis 0"):
        verify_graph(changed(graph, "conv", reads=(conv.reads[0], weights, conv.reads[2])))


def test_a_reduction_ends_before_the_write():
    """A reduction dim that moves the result is refused."""
    graph = valid()
    dims = tuple(replace(dim, kind=DimKind.REDUCTION) for dim in graph.by_name["conv"].dims)
    with pytest.raises(InvalidIR, match="reduction dim 'm' moves the write to 'conv'"):
        verify_graph(changed(graph, "conv", dims=dims))


def test_an_access_has_an_index_per_axis():
    """Fewer indices than axes are refused, before anything relies on them."""
    graph = valid()
    conv = graph.by_name["conv"]
    with pytest.raises(InvalidIR, match="access to 'conv' has 3 indices for 4 axes"):
        verify_graph(changed(graph, "conv", writes=(replace(conv.writes[0], axes=conv.writes[0].axes[:3]),)))


def test_a_layout_is_a_permutation():
    """A layout that forgets an axis is refused."""
    graph = valid()
    tensors = {**graph.tensors, "x": replace(graph.tensors["x"], layout=(0, 2, 3, 3))}
    with pytest.raises(InvalidIR, match=r"'x' of 4 axes has layout \(0, 2, 3, 3\)"):
        verify_graph(replace(graph, tensors=tensors))


def test_every_fault_is_reported():
    """One error lists all of them."""
    with pytest.raises(InvalidIR) as caught:
        verify_graph(tiny(relu("a", "x", "z"), relu("b", "w", "y")))
    assert len(str(caught.value).splitlines()) == 2
