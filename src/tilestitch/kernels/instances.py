"""Sub-graphs split into instances: what each piece makes, and what it needs for that.

Source: Zhao et al., GraphTurbo, OSDI 2023, section 3.3.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise, product

from tilestitch.ir.by_hand import AxisCut
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.instance import Instance, InstanceGraph
from tilestitch.ir.region import Region, even_pieces
from tilestitch.ir.tiles import box_for_needs


def split_into_instances(
    graph: Graph,
    groups: Sequence[tuple[str, ...]],
    splits: Sequence[Sequence[AxisCut]],
    *,
    lean: bool = False,
    known: "PieceNeeds | None" = None,
) -> InstanceGraph:
    """Cut each group into pieces of its outputs and find which piece reads what another makes.

    `groups` hold operator names, in an order in which the groups can run; `splits` holds per group the axes of its
    outputs that are cut, and the number of pieces, which may be ragged, or the extent of each. Pieces are numbered such
    that the last axis changes fastest. An instance depends on another only where a region that it reads overlaps one
    that the other writes. With `lean`, a piece makes only what the outputs of the network need of that, where they need
    any of it. What is `known` of the graph is used and added to.
    """
    known = PieceNeeds(graph) if known is None else known
    needed = known.of_all if lean else {}
    instances: list[Instance] = []
    for number, (group, cuts) in enumerate(zip(groups, splits, strict=True)):
        operators = [graph.by_name[name] for name in group]
        outputs = graph.leaving(operators)
        for piece, slabs in enumerate(product(*(_slabs(graph, outputs, axis, cut) for axis, cut in cuts if cut != 1))):
            wanted = {}
            for name in outputs:
                wanted[name] = Region.whole(graph.tensors[name].shape)
                for slab in slabs:
                    wanted[name] = wanted[name].slab(*slab)
                if name in needed and needed[name].overlaps(wanted[name]):
                    wanted[name] = needed[name].intersect(wanted[name])
            boxes, reads = known.of(group, wanted)
            instances.append(
                Instance(len(instances), f"g{number}[{piece}]", number, tuple(group), wanted, reads, boxes)
            )
    makers: dict[str, list[tuple[Instance, Region]]] = {}
    for instance in instances:
        for op in (graph.by_name[name] for name in instance.operators if name in instance.boxes):
            for write in (write for write in op.writes if write.tensor in instance.writes):
                part = write.hull(instance.boxes[op.name]).intersect(instance.writes[write.tensor])
                if part is not None:
                    makers.setdefault(write.tensor, []).append((instance, part))
    producers = tuple(
        tuple(
            sorted(
                {
                    maker.number
                    for name, region in instance.reads.items()
                    for maker, part in makers.get(name, ())
                    if maker.group != instance.group and part.overlaps(region)
                }
            )
        )
        for instance in instances
    )
    return InstanceGraph(tuple(instances), producers)


def _slabs(graph: Graph, tensors: Sequence[str], axis: int, cut: int | tuple[int, ...]) -> list[tuple[int, int, int]]:
    """The pieces along an axis, with where each begins and ends."""
    extent = min(graph.tensors[name].shape[axis] for name in tensors)
    pieces = even_pieces(extent, cut) if isinstance(cut, int) else pairwise(accumulate(cut, initial=0))
    return [(axis, start, stop) for start, stop in pieces]


class PieceNeeds:
    """What pieces of groups of a graph's operators need, each found once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: dict[tuple, tuple[Mapping[str, Region], Mapping[str, Region]]] = {}

    @cached_property
    def of_all(self) -> Mapping[str, Region]:
        """What the outputs of the network need of every tensor."""
        graph = self.graph
        wanted = {name: Region.whole(graph.tensors[name].shape) for name in graph.outputs if name in graph.producers}
        return _needs(graph, graph.operators, wanted)[1]

    def of(
        self, group: tuple[str, ...], wanted: Mapping[str, Region]
    ) -> tuple[Mapping[str, Region], Mapping[str, Region]]:
        """The iterations of each operator of a group, and what these read of others, for parts of its outputs."""
        key = group, tuple(wanted.items())
        if key not in self._known:
            operators = [self.graph.by_name[name] for name in group]
            boxes, needs = _needs(self.graph, operators, wanted)
            made = {name for op in operators for name in op.outputs}
            reads = {name: region for name, region in needs.items() if name not in made}
            self._known[key] = boxes, {**reads, **_parts_of_others(self.graph, operators, boxes, made)}
        return self._known[key]


def _parts_of_others(
    graph: Graph, operators: Sequence[Operator], boxes: Mapping[str, Region], made: Collection[str]
) -> dict[str, Region]:
    """What operators, each with its iterations, read of parts that others make of tensors of which they make some."""
    inside, found = {op.name for op in operators}, dict[str, Region]()
    for op in (op for op in operators if op.name in boxes):
        for read in (read for read in op.reads if read.tensor in made):
            region = graph.read_region(read, boxes[op.name])
            for maker in (maker for maker in graph.makers[op.name] if maker.name not in inside):
                for write in (write for write in maker.writes if write.tensor == read.tensor):
                    part = write.hull(maker.whole).intersect(region)
                    if part is not None:
                        found[read.tensor] = part.hull(found[read.tensor]) if read.tensor in found else part
    return found


def _needs(
    graph: Graph, operators: Sequence[Operator], wanted: Mapping[str, Region]
) -> tuple[dict[str, Region], dict[str, Region]]:
    """The iterations of each operator, and the regions of all tensors, that the wanted parts of the outputs need."""
    needed = dict(wanted)
    boxes: dict[str, Region] = {}
    for op in reversed(operators):
        box = box_for_needs(op, needed)
        if box is None:
            continue  # nobody needs any of it in this piece
        boxes[op.name] = box
        for read in op.reads:
            if read.tensor not in graph.constants:
                region = graph.read_region(read, box)
                needed[read.tensor] = region.hull(needed[read.tensor]) if read.tensor in needed else region
    return boxes, needed
