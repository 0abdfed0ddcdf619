"""GraphTurbo's decisions beside what follows from its paper: sub-graphs, factors, order, parking, bytes.

All of these rows must match. Source: Zhao et al., OSDI 2023, sections 3.1 to 3.4.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

import onnx

from tilestitch import zoo
from tilestitch.base.units import ceil_div
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.instance import InstanceGraph
from tilestitch.kernels.instances import split_into_instances
from tilestitch.partition.groups.fuse_ops import fuse_ops
from tilestitch.partition.subgraphs.coarse import CoarseGroup, coarse_groups
from tilestitch.partition.subgraphs.liveness import given_peak_bytes, least_peak
from tilestitch.partition.subgraphs.splitting import least_factor
from tilestitch.passes import simplify
from tilestitch.passes.views import resolve_views
from tilestitch.reproduction.published import DdrBytes, PublishedGraphTurbo, SubGraphs, Transformer
from tilestitch.reproduction.rows import Row, exact
from tilestitch.schedule.orders import breadth_first, depth_first, joined, parked

MIB = 2**20
MEGABYTE = 10**6
IMAGES = 16  # of a cluster, where a published number says nothing else
_ADDITIONS_PER_BLOCK = 4  # of ResNet-50 v2: three batch normalisations and the residual

Rows = Callable[[], list[Row]]


def decision_rows(published: PublishedGraphTurbo) -> Iterator[tuple[str, Rows]]:
    """Networks, and what gives their rows; one network at a time is in memory."""
    yield "resnet50", lambda: _resnet50(published)
    for name, found in groupby(published.transformers, key=lambda one: one.network):
        cases = list(found)
        traffic = [one for one in published.ddr if one.network == name]
        yield name, lambda cases=cases, traffic=traffic: _transformer(cases, traffic)


def _resnet50(published: PublishedGraphTurbo) -> list[Row]:
    model = zoo.build("resnet50")
    graphs = {batch: _resolved(simplify(read_onnx(model, batch=batch))) for batch in (1, 8, IMAGES)}
    unfolded = _resolved(simplify(read_onnx(model, batch=IMAGES), fold_bn=False))
    graph = graphs[IMAGES]
    peaks = {block: least_peak(graph, _block(graph, block)).peak_bytes for block in published.peaks.megabytes}
    rows = [
        exact(f"ResNet-50, one image: peak of {block}, MB", published.peaks.source, megabytes, round(needed, 2))
        for block, megabytes in published.peaks.megabytes.items()
        for needed in [least_peak(graphs[1], _block(graphs[1], block)).peak_bytes / MEGABYTE]
    ]
    factors: dict[int, list[int]] = {}
    for blocks in published.block_factors:
        found = [least_factor(IMAGES, ceil_div(peak, blocks.capacity_bytes)) or 0 for peak in peaks.values()]
        factors[blocks.capacity_bytes] = found
        what = f"ResNet-50, {IMAGES} images: factors of the blocks at {_mib(blocks.capacity_bytes)}"
        rows.append(exact(what, blocks.source, _listed(blocks.factors), _listed(found)))
    small = published.pieces_at_64_kib
    for block, pieces in small.pieces.items():
        what = f"ResNet-50, {IMAGES} images: peak of {block} / {_mib(small.capacity_bytes)}, rounded up"
        rows.append(exact(what, small.source, pieces, ceil_div(peaks[block], small.capacity_bytes), small.why))
    for case in published.sub_graphs:
        rows += _sub_graphs(case, graphs[case.images] if case.fold_bn else unfolded)
    fixed = published.fixed_order
    naive = coarse_groups(graphs[fixed.images], fixed.capacity_bytes, peak_bytes=given_peak_bytes)
    what = f"ResNet-50, {fixed.images} images: sub-graphs at {_mib(fixed.capacity_bytes)} if the order is not searched"
    rows.append(exact(what, fixed.source, fixed.count, len(naive)))
    rows += _hand_schedule(published, factors) + _parking(published, graph) + _order(published, graph)
    return rows + [_kernel_traffic(one, model) for one in published.ddr if one.network == "resnet50"]


def _sub_graphs(case: SubGraphs, graph: Graph) -> list[Row]:
    found = coarse_groups(graph, case.capacity_bytes)
    norm = "folded" if case.fold_bn else "separate"
    what = f"ResNet-50, {case.images} images, batch normalisation {norm}, {_mib(case.capacity_bytes)}"
    return [
        exact(f"{what}: factors", case.source, _listed(case.factors), _listed(_factors(found))),
        exact(f"{what}: operators", case.source, _listed(case.sizes), _listed([len(one.operators) for one in found])),
    ]


def _hand_schedule(published: PublishedGraphTurbo, factors: Mapping[int, Sequence[int]]) -> list[Row]:
    """The vendor cuts after the blocks that sample down, where single blocks ask for fewer pieces at 8 MiB."""
    hand = published.hand_schedule
    runs = [(factor, len(list(same))) for factor, same in groupby(factors[8 * MIB])]
    ends = [sum(count for _, count in runs[: number + 1]) for number in range(len(runs) - 1)]
    additions = [_ADDITIONS_PER_BLOCK * blocks - 1 for blocks in ends]
    what = "ResNet-50, 16 images, blocks of equal factors at 8 MiB"
    return [
        exact(f"{what}: last addition of a group", hand.source, _listed(hand.last_additions), _listed(additions)),
        exact(f"{what}: factors", hand.source, _listed(hand.factors), _listed([factor for factor, _ in runs])),
    ]


def _parking(published: PublishedGraphTurbo, graph: Graph) -> list[Row]:
    source, factors = published.parking.source, published.hand_schedule.factors
    rows = []
    for what, ends, megabytes in (
        (
            "after down-sampling",
            ("layer2.0.", "layer3.0.", "layer4.0."),
            published.parking.after_down_sampling_megabytes,
        ),
        ("at the ends of stages", ("layer1.", "layer2.", "layer3."), published.parking.at_stage_ends_megabytes),
    ):
        last = [max(n for n, op in enumerate(graph.operators) if op.name.startswith(end)) + 1 for end in ends]
        bounds = [0, *last, len(graph.operators)]
        groups = [tuple(op.name for op in graph.operators[start:stop]) for start, stop in pairwise(bounds)]
        instances = split_into_instances(graph, groups, [((0, factor),) for factor in factors])
        waiting = _most_parked_bytes(graph, instances, depth_first(instances)) / MEGABYTE
        rows.append(
            exact(f"ResNet-50, 16 images, cut {what}: most that waits, MB", source, megabytes, round(waiting, 1))
        )
    return rows


def _order(published: PublishedGraphTurbo, graph: Graph) -> list[Row]:
    found = coarse_groups(graph, 10 * MIB)
    instances = split_into_instances(
        graph, [one.operators for one in found], [((one.split.axis, one.split.factor),) for one in found]
    )
    expected, deep = published.order, depth_first(instances)
    what = "ResNet-50, 16 images, 10 MiB"
    return [
        exact(f"{what}: depth first", expected.source, expected.depth_first, _letters(instances, deep)),
        exact(
            f"{what}: breadth first",
            expected.source,
            expected.breadth_first,
            _letters(instances, breadth_first(instances)),
        ),
        exact(f"{what}: concatenations", expected.source, expected.joined, len(joined(instances))),
        exact(f"{what}: results parked in GB", expected.source, expected.parked, len(parked(instances, deep))),
    ]


def _transformer(cases: Sequence[Transformer], traffic: Sequence[DdrBytes]) -> list[Row]:
    model = zoo.build(cases[0].network)
    rows = []
    for case in cases:
        graph = _resolved(simplify(read_onnx(model, batch=case.samples)))
        found = [
            one for one in coarse_groups(graph, 10 * MIB) if any(name.startswith("encoder.") for name in one.operators)
        ]
        what = f"{case.network}, {case.samples} sentences, 10 MiB"
        rows.append(exact(f"{what}: sub-graphs of the encoder", case.source, case.count, len(found)))
        factors = (
            sorted(set(_factors(found))) if case.pattern is None else _repeated(_factors(found), len(case.pattern))
        )
        expected = case.factors if case.pattern is None else case.pattern
        rows.append(exact(f"{what}: their factors", case.source, _listed(expected), _listed(factors)))
        if case.mebibytes is not None:
            needed = least_peak(graph, graph.operators).peak_bytes / MIB
            rows.append(exact(f"{what}: peak as one, MiB", case.source, case.mebibytes, round(needed, 1)))
    return rows + [_kernel_traffic(one, model) for one in traffic]


def _kernel_traffic(case: DdrBytes, model: onnx.ModelProto) -> Row:
    """What crosses the borders of TVM's kernels where every view is a copy, and constants are read once a pass."""
    graph = simplify(read_onnx(model, batch=case.samples))
    kernels: list[tuple[str, ...]] = []
    for group in fuse_ops(graph):
        members = [graph.by_name[name] for name in group.operators if name.startswith(case.within)]
        for _, same in groupby(members, key=lambda op: op.name if op.kind in case.alone else ""):
            kernels.append(tuple(op.name for op in same))
    crossing = sum(_border_bytes(graph, kernel) for kernel in kernels) / case.samples / MEGABYTE
    alone = "".join(f", {kind} a kernel of its own" for kind in case.alone)
    within = f", only {case.within}*" if case.within else ""
    what = f"{case.network}, tvm, {case.samples} samples: through the borders of kernels, MB a sample{alone}{within}"
    why = "every view a copy here, which tvm as it runs below does not need" if case.alone else ""
    return exact(what, case.source, case.megabytes, round(crossing), why)


def _border_bytes(graph: Graph, kernel: tuple[str, ...]) -> int:
    operators = [graph.by_name[name] for name in kernel]
    made = {name for op in operators for name in op.outputs}
    read = {name for op in operators for name in op.inputs}
    leaving = {
        name
        for name in made
        if name in graph.outputs or any(reader.name not in kernel for reader in graph.consumers.get(name, ()))
    }
    return sum(graph.tensors[name].size_bytes for name in (read - made) | leaving)


def _most_parked_bytes(graph: Graph, instances: InstanceGraph, order: Sequence[int]) -> int:
    """The largest sum of parked results while one instance runs, those that it reads and makes left out."""
    place = {number: at for at, number in enumerate(order)}
    waiting = [0] * len(order)
    for number in parked(instances, order):
        size_bytes = sum(
            graph.tensors[name].bytes_of(region) for name, region in instances.instances[number].writes.items()
        )
        for at in range(place[number] + 1, max(place[reader] for reader in instances.consumers[number])):
            waiting[at] += size_bytes
    return max(waiting)


def _letters(instances: InstanceGraph, order: Sequence[int]) -> str:
    """`a8` is piece 8 of the first sub-graph, as in the paper's figures."""
    found = [instances.instances[number] for number in order]
    first = {one.group: one.number for one in reversed(instances.instances)}
    return " ".join(f"{chr(ord('a') + one.group)}{one.number - first[one.group] + 1}" for one in found)


def _resolved(graph: Graph) -> Graph:
    return resolve_views(graph)[0]


def _block(graph: Graph, block: str) -> list[Operator]:
    return [op for op in graph.operators if op.name.startswith(f"{block}.")]


def _repeated(numbers: list[int], period: int) -> list[int]:
    """What repeats, where the numbers do repeat; else all of them."""
    return numbers[:period] if numbers == numbers[:period] * (len(numbers) // period) else numbers


def _factors(groups: Sequence[CoarseGroup]) -> list[int]:
    return [group.split.factor for group in groups]


def _listed(numbers: Sequence[int]) -> str:
    return "/".join(map(str, numbers))


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:g} MiB"
