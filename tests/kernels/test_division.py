"""A kernel divided among cores looks the same compiled as when one region after another is asked for."""

from collections import Counter

import numpy as np
import pytest

from tests.helpers.kernel_boxes import NETWORKS, region
from tests.helpers.pairs import slow_for
from tilestitch import api
from tilestitch.base.units import aligned, ceil_div
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.region import Region
from tilestitch.ir.tiles import core_pieces, cuts_of, largest_piece, operator_boxes
from tilestitch.kernels.division import (
    IN_DDR,
    IN_GB,
    IN_LB,
    NOT_HERE,
    Lying,
    cycles_under,
    made_by,
    most_made,
    nearest_cores,
    needed_by,
    parts_of,
    shares,
)
from tilestitch.kernels.nest import flatten
from tilestitch.kernels.shape import KernelShape, kernel_shape, made_regions, operand_region
from tilestitch.kernels.surroundings import Source, cover
from tilestitch.pipeline.options import Options
from tilestitch.schedule.splits import possible_splits

LEVELS = {IN_DDR: Level.DDR, IN_GB: Level.GB, IN_LB: Level.LB}
CORES = 8


def some(random: np.random.Generator, whole: Region) -> Region:
    """A box inside, now and then all of it."""
    if random.random() < 0.2:
        return whole
    start = [int(random.integers(a, b)) for a, b in zip(whole.start, whole.stop, strict=True)]
    stop = [int(random.integers(a, b)) + 1 for a, b in zip(start, whole.stop, strict=True)]
    return Region(tuple(start), tuple(stop))


def sources_of(random: np.random.Generator, whole: Region, needs: list[Region]) -> list[Source]:
    """Some that overlap one another, in GB and in cores, some of them exactly what a part needs."""
    found = []
    for _ in range(int(random.integers(1, 7))):
        part = needs[int(random.integers(len(needs)))] if random.random() < 0.5 else some(random, whole)
        in_gb = random.random() < 0.3
        core = None if in_gb else int(random.integers(CORES))
        found.append(Source(part, Level.GB if in_gb else Level.LB, core))
    return found


def as_rows(sources: list[Source], rank: int) -> Lying:
    boxes = np.zeros((len(sources), 2, max(1, rank)), np.int64)
    for number, source in enumerate(sources):
        boxes[number, :, :rank] = source.region
    numbers = {level: number for number, level in LEVELS.items()}
    return Lying(
        boxes,
        np.array([numbers[source.level] for source in sources]),
        np.array([NOT_HERE if source.core is None else source.core for source in sources]),
    )


def near(needs: list[Region], sources: list[Source], width: int, cores: tuple[int, ...]) -> tuple[int, ...]:
    """The greedy order of cores, said with dictionaries."""
    held: Counter[tuple[int, int]] = Counter()
    for number, needed in enumerate(needs):
        for source in sources:
            common = needed.intersect(source.region) if needed.overlaps(source.region) else None
            if common is not None and source.core in cores:
                held[number, source.core] += width * common.size
    if not held:
        return cores
    taken: dict[int, int] = {}
    for number, core in sorted(held, key=lambda pair: (-held[pair], pair)):
        if number not in taken and core not in taken.values():
            taken[number] = core
    left = iter([core for core in cores if core not in taken.values()])
    ordered = [taken[number] if number in taken else next(left) for number in range(len(needs))]
    return (*ordered, *left)


def expected_shares(
    needs: list[Region], sources: list[Source], order: tuple[int, ...], at_home: bool
) -> tuple[bool, dict[Level, float]]:
    """Of an operand: whether all parts are read where they lie, and the bytes of all parts by level."""
    size_bytes, copied = Counter[Level](), 0
    for needed, core in zip(needs, order, strict=False):
        own = at_home and any(source.core == core and source.region.contains(needed) for source in sources)
        copied += not own
        for part, source in [(needed, Source(needed, Level.LB, core))] if own else cover(needed, sources):
            size_bytes[Level.DDR if source is None else source.level] += part.size
    total = sum(needed.size for needed in needs)
    return not copied, {level: size_bytes[level] / total for level in LEVELS.values()}


def shapes_of(network: str) -> list[KernelShape]:
    machine = load_machine("stcp920")
    schedule = api.compile(network, machine, strategy="tvm", batch=4, options=Options(stop_after="schedule")).schedule
    assert schedule is not None
    graph = schedule.graph
    kernels = (tuple(graph.by_name[name] for name in kernel.operators) for kernel in schedule.kernels)
    return [kernel_shape(graph, operators, machine, machine.cores[0]) for operators in kernels]


@pytest.mark.parametrize("network", slow_for(["densenet121:small"], NETWORKS))
def test_parts_need_make_and_take_as_long_as_their_boxes_say(network: str) -> None:
    random, machine = np.random.default_rng(2), load_machine("stcp920")
    for shape in shapes_of(network):
        nest, graph, steps = flatten(shape, machine), shape.graph, cuts_of(shape.graph, shape.operators).steps
        box = some(random, shape.sink.whole)
        every = possible_splits(tuple(map(ceil_div, box.extents, steps)), CORES)
        loops = np.array(box.start), np.array(box.extents), np.array(steps, np.int64)
        cycles = cycles_under(nest, *loops, np.array(every).reshape(len(every), len(steps)))
        names = list(dict.fromkeys(a.tensor for op in shape.operators for a in (*op.reads, *op.writes)))
        results = np.array([names.index(name) for name in shape.results])
        for number in random.choice(len(every), min(6, len(every)), replace=False):
            splits = every[number]
            pieces = core_pieces(box, splits, steps)
            parts = parts_of(*loops, np.array(splits, np.int64))
            assert [region(part, len(steps)) for part in parts] == pieces
            boxes = [operator_boxes(graph, shape.operators, piece) for piece in pieces]
            needs = needed_by(nest, parts, np.arange(len(shape.operands)))
            for operand, found in zip(shape.operands, needs, strict=True):
                rank = len(graph.tensors[operand.tensor].shape)
                assert [region(one, rank) for one in found] == [
                    operand_region(shape, operand, one, None) for one in boxes
                ]
            made = [made_regions(shape, one) for one in boxes]
            for name, found in zip(shape.results, made_by(nest, parts, results), strict=True):
                rank = len(graph.tensors[name].shape)
                assert [region(one, rank) for one in found] == [one[name] for one in made]
            sizes = [sum(aligned(graph.tensors[name].bytes_of(one[name])) for name in shape.results) for one in made]
            assert most_made(nest, parts, results) == max(sizes)
            stop = tuple(a + b for a, b in zip(box.start, largest_piece(box.extents, steps, splits), strict=True))
            largest = operator_boxes(graph, shape.operators, Region(box.start, stop))
            assert cycles[number] == sum(shape.cycles(op, largest[op.name].extents) for op in shape.operators)


@pytest.mark.parametrize("network", slow_for(["densenet121:small"], NETWORKS))
def test_parts_go_to_the_cores_that_hold_them_and_the_rest_is_counted_where_it_lies(network: str) -> None:
    random, machine = np.random.default_rng(3), load_machine("stcp920")
    for shape in shapes_of(network):
        nest, graph, steps = flatten(shape, machine), shape.graph, cuts_of(shape.graph, shape.operators).steps
        box = shape.sink.whole
        every = possible_splits(tuple(map(ceil_div, box.extents, steps)), CORES)
        splits = every[int(random.integers(len(every)))]
        parts = parts_of(np.array(box.start), np.array(box.extents), np.array(steps, np.int64), np.array(splits))
        for number, operand in enumerate(shape.operands):
            tensor, chosen = graph.tensors[operand.tensor], np.array([number])
            needs = needed_by(nest, parts, chosen)
            regions = [region(one, len(tensor.shape)) for one in needs[0]]
            sources = sources_of(random, Region.whole(tensor.shape), regions)
            spans, rows = np.array([[0, len(sources)]]), as_rows(sources, len(tensor.shape))
            cores = tuple(int(core) for core in random.permutation(CORES))
            order = nearest_cores(nest, needs, chosen, spans, rows, np.array(cores))
            assert tuple(order) == near(regions, sources, tensor.dtype.size_bytes, cores), operand.tensor
            ((direct, *levels),) = shares(nest, needs, chosen, spans, rows, order, True)
            in_place, wanted = expected_shares(regions, sources, tuple(order), operand.level is shape.home)
            assert direct == in_place
            assert levels == pytest.approx([wanted[level] for level in LEVELS.values()], abs=1e-12)
