"""Boxes, tiles and transfers against plain enumeration: of indices, of iterations, of addresses."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from math import ceil, prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.graphs import Net, chains
from tilestitch import api
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError
from tilestitch.ir.boxes import all_operator_boxes, batched, boxes_for_regions, hulls, read_regions
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ir.per_graph import once_per_graph
from tilestitch.ir.region import Region, even_pieces, pieces, split
from tilestitch.ir.schedule import Tiling
from tilestitch.ir.tiles import (
    box_for_region,
    core_pieces,
    kernels_of,
    operator_boxes,
    reduction_parts,
    tiles_of,
)
from tilestitch.ir.transfers import MAX_STRIDES, in_memory_order, runs
from tilestitch.partition.groups.fuse_ops import fuse_ops
from tilestitch.passes import simplify
from tilestitch.passes.views import resolve_views

Index = tuple[int, ...]

# ---- regions


def indices(region: Region) -> set[Index]:
    """Every index of a region."""
    return set(product(*map(range, region.start, region.stop)))


def hull_of(found: set[Index]) -> Region:
    """The smallest region that holds these indices."""
    columns = list(zip(*found, strict=True))
    return Region(tuple(map(min, columns)), tuple(max(column) + 1 for column in columns))


@st.composite
def regions(draw, rank: int = 2, most: int = 6) -> Region:
    bounds = [sorted(draw(st.lists(st.integers(0, most), min_size=2, max_size=2, unique=True))) for _ in range(rank)]
    return Region(tuple(a for a, _ in bounds), tuple(b for _, b in bounds))


@given(regions(), regions())
def test_a_region_is_the_set_of_its_indices(a, b):
    """Size, overlap, containment, intersection and hull are those of sets; slices select them."""
    common = indices(a) & indices(b)
    assert a.size == len(indices(a))
    assert a.overlaps(b) == bool(common)
    assert a.contains(b) == (indices(b) <= indices(a))
    assert a.intersect(b) == (hull_of(common) if common else None)
    assert a.hull(b) == hull_of(indices(a) | indices(b))
    assert indices(a.relative_to(b)) == {(i - b.start[0], j - b.start[1]) for i, j in indices(a)}
    grid = np.arange(49).reshape(7, 7)
    assert set(grid[a.slices].flat) == {int(grid[index]) for index in indices(a)}


@given(st.integers(0, 9), st.integers(1, 30), st.integers(1, 9))
def test_pieces_cover_a_range_and_only_the_last_is_ragged(start, length, extent):
    found = pieces(start, start + length, extent)
    assert [i for a, b in found for i in range(a, b)] == list(range(start, start + length))
    assert all(b - a == extent for a, b in found[:-1])
    assert 0 < found[-1][1] - found[-1][0] <= extent


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 7))
def test_even_pieces_cover_a_range_evenly(extent, count, step):
    """As many as asked for where there are so many steps, in order, at whole steps, equal to within one step."""
    found = even_pieces(extent, count, step)
    assert [i for a, b in found for i in range(a, b)] == list(range(extent))
    assert len(found) == min(count, ceil(extent / step))
    assert all(a % step == 0 for a, _ in found)
    lengths = [ceil((b - a) / step) for a, b in found]
    assert max(lengths) - min(lengths) <= 1


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_split_covers_a_shape_in_row_major_order(shape, data):
    extents = tuple(data.draw(st.integers(1, size)) for size in shape)
    found = split(tuple(shape), extents)
    assert sorted(index for box in found for index in indices(box)) == list(product(*map(range, shape)))
    assert [box.start for box in found] == sorted(box.start for box in found)
    assert all(size <= extent for box in found for size, extent in zip(box.extents, extents, strict=True))


# ---- accesses


def touched(access: Access, box: Region) -> set[Index]:
    """The index that each iteration of `box` touches."""
    return {
        tuple(axis.offset + sum(stride * point[dim] for dim, stride in axis.terms) for axis in access.axes)
        for point in indices(box)
    }


@st.composite
def accesses(draw, dims: int) -> Access:
    """Windows, strides, reversals and offsets: any sum of dims an axis."""
    axes = []
    for _ in range(draw(st.integers(1, 3))):
        terms = [(d, draw(st.sampled_from((-2, -1, 1, 2, 3)))) for d in range(dims) if draw(st.booleans())]
        axes.append(Axis(tuple(sorted(terms, key=lambda term: -abs(term[1]))), draw(st.integers(-3, 3))))
    return Access("x", tuple(axes))


@given(regions(rank=3, most=4), st.data())
def test_the_footprint_of_a_box_is_the_hull_of_what_its_iterations_touch(box, data):
    """With padding, and inside the tensor; where all of it is padding, one element stands for it."""
    access = data.draw(accesses(3))
    found = touched(access, box)
    assert access.hull(box) == hull_of(found)
    shape = tuple(data.draw(st.integers(1, 8)) for _ in access.axes)
    inside = {index for index in found if all(0 <= i < size for i, size in zip(index, shape, strict=True))}
    region = access.region(box, shape)
    assert region.size >= 1
    assert Region.whole(shape).contains(region)
    if access.hull(box).intersect(Region.whole(shape)) is not None:
        assert region == access.hull(box).intersect(Region.whole(shape))
        assert inside <= indices(region)


def test_a_gather_needs_the_whole_of_the_axis_that_it_indexes():
    access = Access("table", (Axis(((0, 1),)), Axis(((1, 1),))), indirect_axis=0)
    assert access.region(Region((0, 2), (1, 3)), (5, 4)) == Region((0, 2), (5, 3))


# ---- boxes of operators


def test_one_head_of_a_product_is_one_box():
    """Of an axis 4 * head + channel: one head may be cut along its channels, two need all of them."""
    dims = (Dim("head", 3, DimKind.PARALLEL), Dim("channel", 4, DimKind.PARALLEL))
    write = Access("y", (Axis(((0, 4), (1, 1))),))
    op = Operator("op", "relu", dims, (write,), (write,))
    assert box_for_region(op, write, Region((5,), (7,))) == Region((1, 1), (2, 3))
    assert box_for_region(op, write, Region((7,), (9,))) == Region((1, 0), (3, 4))
    assert box_for_region(op, write, Region((4,), (12,))) == Region((1, 0), (3, 4))


@st.composite
def writers(draw) -> Operator:
    """An operator whose write has axes of one to three dims each, as mixed-radix numbers, somewhere in its tensor."""
    dims: list[Dim] = []
    axes = []
    for _ in range(draw(st.integers(1, 3))):
        stride, terms = 1, []
        for _ in range(draw(st.integers(0, 3 if not dims else 2))):
            extent = draw(st.integers(1, 4))
            terms.insert(0, (len(dims), stride))
            dims.append(Dim(f"d{len(dims)}", extent, draw(st.sampled_from((DimKind.PARALLEL,) * 4 + (DimKind.WHOLE,)))))
            stride *= extent
        axes.append(Axis(tuple(terms), draw(st.integers(0, 3))))
    dims.append(Dim("k", 2, DimKind.REDUCTION))
    write = Access("y", tuple(axes))
    return Operator("op", "relu", tuple(dims), (write,), (write,))


@given(writers(), st.data())
def test_the_box_that_writes_a_region_is_the_smallest(op, data):
    """It is the hull of all iterations that write there; dims that must stay whole do."""
    (write,) = op.writes
    written = write.hull(op.whole)
    bounds = [
        sorted(data.draw(st.lists(st.integers(a, b), min_size=2, max_size=2, unique=True)))
        for a, b in zip(written.start, written.stop, strict=True)
    ]
    region = Region(tuple(a for a, _ in bounds), tuple(b for _, b in bounds))
    needed = {point for point in indices(op.whole) if touched(write, one(point)) <= indices(region)}
    expected = hull_of(needed)
    whole = [dim.kind is DimKind.WHOLE for dim in op.dims]
    start = tuple(0 if w else a for w, a in zip(whole, expected.start, strict=True))
    stop = tuple(dim.extent if w else b for w, dim, b in zip(whole, op.dims, expected.stop, strict=True))
    assert box_for_region(op, write, region) == Region(start, stop)


def one(point: Index) -> Region:
    return Region(point, tuple(i + 1 for i in point))


@st.composite
def windowed(draw) -> Graph:
    """Up to three branches of windows that keep the size of an image, their sum, and up to two windows of any form."""
    net = Net()
    start = net.op("Relu", net.input(1, 2, draw(st.integers(4, 8)), 5))
    ends = []
    for _ in range(draw(st.integers(1, 3))):
        end = start
        for _ in range(draw(st.integers(1, 2))):
            kernel = [draw(st.sampled_from((1, 3))) for _ in range(2)]
            end = _window(net, end, draw(st.booleans()), kernel, [1, 1], [k // 2 for k in kernel])
        ends.append(end)
    total = ends[0]
    for end in ends[1:]:
        total = net.op("Add", total, end)
    for _ in range(draw(st.integers(0, 2))):
        kernel = [draw(st.integers(1, 3)) for _ in range(2)]
        pads = [draw(st.integers(0, k - 1)) for k in kernel]
        wider = _window(net, total, draw(st.booleans()), kernel, [draw(st.integers(1, 2)) for _ in range(2)], pads)
        try:
            net.graph(wider)
        except InputError:
            net.nodes.pop()  # the window is larger than the image
            break
        total = wider
    return net.graph(total)


def _window(net: Net, x: str, pools: bool, kernel: list[int], strides: list[int], pads: list[int]) -> str:
    """A pool, or a convolution that keeps the two channels."""
    if pools:
        return net.op("MaxPool", x, kernel_shape=kernel, strides=strides, pads=pads * 2)
    return net.op("Conv", x, net.random(2, 2, *kernel), strides=strides, pads=pads * 2)


@given(windowed(), st.data())
def test_operators_compute_what_the_last_one_needs_and_no_more(graph, data):
    """Halo upon halo, through strides and pads, and where two operators read one tensor; counted element by element."""
    sink = graph.operators[-1]
    bounds = [
        sorted(data.draw(st.lists(st.integers(0, dim.extent), min_size=2, max_size=2, unique=True)))
        if dim.kind is DimKind.PARALLEL
        else [0, dim.extent]
        for dim in sink.dims
    ]
    box = Region(tuple(a for a, _ in bounds), tuple(b for _, b in bounds))
    found = operator_boxes(graph, graph.operators, box)
    wanted: dict[str, set[Index]] = {}
    for op in reversed(graph.operators):
        (write,) = op.writes
        points = indices(op.whole)
        if op is sink:
            points = indices(box)
        else:
            points = {point for point in points if touched(write, one(point)) <= wanted[write.tensor]}
        if not points:
            continue  # all that the readers touch here is padding
        assert found[op.name] == hull_of(points)
        for read in op.reads:
            shape = graph.tensors[read.tensor].shape
            inside = {
                index
                for index in touched(read, hull_of(points))
                if all(0 <= i < size for i, size in zip(index, shape, strict=True))
            }
            wanted.setdefault(read.tensor, set()).update(inside)


# ---- tiles

KINDS = (*[DimKind.PARALLEL] * 4, DimKind.WHOLE, DimKind.REDUCTION)


@st.composite
def tilings(draw) -> tuple[Operator, Tiling]:
    """A loop nest of up to three dims, cut at random; only parallel dims are cut."""
    dims, splits, tile, steps = [], [], [], []
    for number in range(draw(st.sampled_from((1, 2, 2, 3)))):
        extent, kind = draw(st.integers(1, 8)), draw(st.sampled_from(KINDS))
        cut = kind is DimKind.PARALLEL
        dims.append(Dim(f"d{number}", extent, kind))
        splits.append(draw(st.sampled_from((1, 1, 2, 3))) if cut else 1)
        steps.append(draw(st.sampled_from((1, 1, 2))) if cut else extent)
        tile.append(steps[-1] * draw(st.integers(1, 2)))
    order = draw(st.sampled_from(list(permutations(range(len(dims))))))
    op = Operator("op", "relu", tuple(dims), (), ())
    return op, Tiling(tuple(splits), tuple(tile), tuple(steps), order, (), ())


@settings(max_examples=200)
@given(tilings())
def test_every_iteration_belongs_to_one_tile_of_one_core(cut):
    """Tiles begin at whole steps, are no larger than asked for, and follow the loop order."""
    op, tiling = cut
    cores = [tiles_of(piece, tiling) for piece in core_pieces(op.whole, tiling.splits, tiling.steps)]
    assert len(cores) <= prod(tiling.splits)
    found = [index for tiles in cores for tile in tiles for index in indices(tile)]
    assert sorted(found) == sorted(indices(op.whole))
    for tiles in cores:
        keys = [tuple(tile.start[d] for d in tiling.order) for tile in tiles]
        assert keys == sorted(keys)
        for tile in tiles:
            assert all(a % step == 0 for a, step in zip(tile.start, tiling.steps, strict=True))
            assert all(size <= most for size, most in zip(tile.extents, tiling.tile, strict=True))


@given(tilings(), st.data())
def test_parts_of_a_reduction_cut_nothing_else(cut, data):
    op, _ = cut
    extents = [data.draw(st.integers(1, dim.extent)) for dim in op.dims]
    parts = reduction_parts(op, op.whole, extents)
    assert sorted(index for part in parts for index in indices(part)) == sorted(indices(op.whole))
    for part in parts:
        for dim, size, most in zip(op.dims, part.extents, extents, strict=True):
            assert size <= most if dim.kind is DimKind.REDUCTION else size == dim.extent


def test_an_operator_that_is_read_elsewhere_ends_a_kernel_of_its_own():
    """By another group, by the host, or by two ends of its own group; else it is part of what follows."""
    net = Net()
    x = net.op("Relu", net.input(4, 4), name="relu")
    e, s = net.op("Exp", x, name="exp"), net.op("Softmax", x, name="softmax")
    for outputs, group, expected in (
        ((e,), ("relu", "exp"), [["relu", "exp"]]),
        ((e, s), ("relu", "exp"), [["relu"], ["exp"]]),
        ((e, x), ("relu", "exp"), [["relu"], ["exp"]]),
        ((e, s), ("relu", "exp", "softmax"), [["relu"], ["exp"], ["softmax"]]),
    ):
        graph = net.graph(*outputs)
        found = kernels_of(graph, [graph.by_name[name] for name in group])
        assert [[op.name for op in kernel] for kernel in found] == expected


@settings(max_examples=80)
@given(chains())
def test_kernels_have_one_end_and_run_in_order(graph):
    """Whatever the group: every operator once, each leads to the end of its kernel, operands are there before.

    What is made and read inside a kernel is made there completely, and read nowhere else.
    """
    simplified = simplify(graph)
    resolved, now = resolve_views(simplified)
    position = {op.name: number for number, op in enumerate(resolved.operators)}
    kernels = []
    for group in fuse_ops(simplified):
        members = sorted((name for old in group.operators for name in now[old]), key=position.__getitem__)
        kernels += kernels_of(resolved, [resolved.by_name[name] for name in members])
    assert sorted(op.name for kernel in kernels for op in kernel) == sorted(position)
    for kernel in kernels:
        inner = {name for op in kernel[:-1] for name in op.outputs}
        assert inner <= {name for op in kernel for name in op.inputs}
        assert inner.isdisjoint(resolved.outputs)
        assert all(writer in kernel for name in inner for writer in resolved.producers[name])
        read_outside = {name for op in resolved.operators if op not in kernel for name in op.inputs}
        assert inner.isdisjoint(read_outside)
    written: dict[str, int] = dict.fromkeys([*resolved.inputs, *resolved.constants], 0)
    for kernel in sorted(kernels, key=lambda kernel: position[kernel[-1].name]):
        for op in kernel:
            for name in op.inputs:
                assert written.get(name) == len(resolved.producers.get(name, ())), (op.name, name)
            for name in op.outputs:
                written[name] = written.get(name, 0) + 1


# ---- transfers


def addresses(extents: Sequence[int], buffer: Sequence[int]) -> list[int]:
    """Element addresses of a box at the start of a dense buffer, in the order in which they are copied."""
    strides = [prod(buffer[axis + 1 :]) for axis in range(len(buffer))]
    return [sum(i * s for i, s in zip(index, strides, strict=True)) for index in product(*map(range, extents))]


def loops(places: list[tuple[int, int]]) -> list[int]:
    """Extents of the fewest loops of constant strides that give these pairs of addresses in order, innermost first."""
    found = []
    while len(places) > 1:
        step = [b - a for a, b in zip(places[0], places[1], strict=True)]
        count = 1
        while count < len(places) and [b - a for a, b in zip(places[count - 1], places[count], strict=True)] == step:
            count += 1
        found.append(count)
        places = places[::count]
    return found


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6))
def test_runs_and_descriptors_are_those_of_the_addresses(axes):
    """A run goes on while both sides do; at most three further loops fit a descriptor, the others repeat it."""
    extents = tuple(extent for extent, _, _ in axes)
    source, target = (tuple(axis[0] + axis[side] for axis in axes) for side in (1, 2))
    pairs = list(zip(addresses(extents, source), addresses(extents, target), strict=True))
    length = next((n for n, (a, b) in enumerate(pairs) if n and not (a == b == n)), len(pairs))
    outer = loops(pairs[::length])
    run, descriptors = runs(extents, source, target, 2)
    assert run == 2 * length
    assert descriptors == prod(outer[MAX_STRIDES:])


def test_five_loops_take_a_descriptor_for_each_turn_of_the_outer_two():
    """All axes are cut: the innermost is the run, three strides are loops of a descriptor, the rest repeats it."""
    assert runs((2, 3, 4, 5, 6, 7), (3, 4, 5, 6, 7, 8), (2, 3, 4, 5, 6, 7), 2) == (14, 2 * 3)
    assert runs((4, 5, 6, 7), (5, 6, 7, 8), (4, 5, 6, 7), 2) == (14, 1)
    assert runs((4, 5, 6, 7), (4, 5, 6, 7), (4, 5, 6, 7), 2) == (4 * 5 * 6 * 7 * 2, 1)


def test_a_layout_orders_the_axes_of_a_transfer():
    """Channels innermost: half of the rows of an image are one run, half of its channels are not."""
    tensor = Tensor("x", (1, 4, 6, 8), DType.FLOAT16, (0, 2, 3, 1))
    whole = in_memory_order(tensor, tensor.shape)
    assert whole == (1, 6, 8, 4)
    rows, channels = in_memory_order(tensor, (1, 4, 3, 8)), in_memory_order(tensor, (1, 2, 6, 8))
    assert runs(rows, whole, rows, 2) == (3 * 8 * 4 * 2, 1)
    assert runs(channels, whole, channels, 2) == (2 * 2, 1)


# ---- many boxes at once


def boxes_in(sink: Operator, data: st.DataObject) -> list[Region]:
    """A few parts of an operator's iterations; only parallel dims are cut."""

    def part(dim: Dim) -> list[int]:
        if dim.kind is not DimKind.PARALLEL:
            return [0, dim.extent]
        return sorted(data.draw(st.lists(st.integers(0, dim.extent), min_size=2, max_size=2, unique=True)))

    found = [[part(dim) for dim in sink.dims] for _ in range(data.draw(st.integers(1, 4)))]
    return [Region(tuple(a for a, _ in bounds), tuple(b for _, b in bounds)) for bounds in found]


@given(windowed(), st.data())
def test_many_boxes_of_operators_are_what_each_would_be(graph, data):
    sinks = boxes_in(graph.operators[-1], data)
    found = all_operator_boxes(graph, graph.operators, batched(sinks))
    for number, sink in enumerate(sinks):
        one = operator_boxes(graph, graph.operators, sink)
        assert {name: boxes[number] for name, boxes in found.items()} == one
        for op in graph.operators:
            for access in op.reads:
                assert read_regions(graph, access, found[op.name])[number] == graph.read_region(access, one[op.name])
            for access in op.writes:
                assert hulls(access, found[op.name])[number] == access.hull(one[op.name])


@given(st.lists(regions(rank=1, most=24), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 3))
def test_many_regions_of_an_axis_of_two_dims_are_written_by_what_each_would_be(wanted, inner, offset):
    """The axis is `inner * outer + inner's dim`, from an offset on."""
    dims = Dim("outer", 5, DimKind.PARALLEL), Dim("inner", inner, DimKind.PARALLEL)
    write = Access("y", (Axis(((0, inner), (1, 1)), offset),))
    op = Operator("op", "relu", dims, (), (write,))
    found = boxes_for_regions(op, write, batched(wanted))
    assert found.regions() == [box_for_region(op, write, region) for region in wanted]


def test_a_network_is_worked_out_once():
    """For what else is given; another network of the same operators is worked out again, and nothing is kept of it."""
    asked = []

    @once_per_graph
    def named(graph, end):
        asked.append(graph.name + end)
        return Region.whole((len(asked),))

    graph = api.load_graph("resnet18:small")
    first, second = named(graph, "a"), named(graph, "b")
    assert (named(graph, "a"), named(graph, "b")) == (first, second)
    for _ in range(3):  # which may lie where the one before it lay
        named(replace(graph, name="other"), "a")
    assert asked == [f"{graph.name}a", f"{graph.name}b", *["othera"] * 3]
