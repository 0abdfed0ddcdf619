"""Chains of products in a network, and graphs of them: nothing but some of them reads the result of another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from pathlib import Path

from tilestitch.api import Model, shown
from tilestitch.base.errors import InputError
from tilestitch.commands.map.einsum_lines import einsum_chain
from tilestitch.commands.map.named_chain import NamedChain, backwards
from tilestitch.commands.map.networks import open_network
from tilestitch.commands.map.views import (
    VIEWS,
    Split,
    View,
    plain_view,
    read_as_written,
    seen_through,
    split_nest,
    split_of,
)
from tilestitch.ir.graph import Access, Graph, Operator
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.fused.chain import MOST_OPERATORS, Link, Reading, has_plain_axes
from tilestitch.mapping.network import nest_of_operator
from tilestitch.ops import is_contraction

ADDED = -1  # instead of the number of a read
MOST_AROUND = 16  # operators that hang together where several read a result
ROW_WISE = ("softmax",)  # what needs all of some axes at once, and keeps the shape


def chains_of(graph: Graph, runs: int = 1) -> tuple[NamedChain, ...]:
    """Every different chain or graph of a network's products, as far as it goes, for so many runs of it.

    Products that stand alone are chains of one.
    """
    products = {op.name: op for op in graph.operators if is_contraction(op)}
    every = {name: nest_of_operator(graph, op) for name, op in products.items()}
    steps = _steps(graph, products, every)
    made: dict[str, list[str]] = {name: [] for name in products}  # of each product those whose results it reads
    for name, its in steps.items():
        for step in its:
            made[step.reader.name].append(name)
    found: dict[tuple[object, ...], list[tuple[str, ...]]] = {}
    chains: dict[tuple[object, ...], NamedChain] = {}
    inside: set[str] = set()
    for name in products:
        if name in inside:
            continue
        last = name
        while last in steps:
            last = steps[last][-1].reader.name
        names = _in_order(made, last)
        inside.update(names)
        nests = _nests(every, names, steps)
        chain = _named(names, nests, [steps[one] for one in names[:-1]])
        nameless = tuple(replace(nest, name="") for nest in chain.nests)
        key = (nameless, chain.links, chain.between, chain.readers, chain.more)
        found.setdefault(key, []).append(chain.names)
        chains.setdefault(key, chain)
    return tuple(replace(chain, times=runs * len(found[key])) for key, chain in chains.items())


def _steps(
    graph: Graph, products: Mapping[str, Operator], nests: Mapping[str, LoopNest]
) -> dict[str, tuple["_Step", ...]]:
    """Of each product all that read its result, in their order; without those that may not go on together.

    Where several read a result, all that hang together with it have to end in one product, and they are no more than
    sixteen, as a search takes the longer the more do. Else the network is divided there. First are those of which some
    four products hold the result and all that read it, so that all may run together. A result with an axis of several
    loops, as the channels of a grouped convolution are, is not followed, and none that is added to such a one.
    """
    network = _Network.of(graph)
    plain = {name for name in products if has_plain_axes(nests[name].write)}
    after = {name: _next(network, op) for name, op in products.items() if name in plain}
    every = {
        name: its for name, its in after.items() if its and all(one.reader.name in plain for one in its if one.is_added)
    }
    steps: dict[str, tuple[_Step, ...]] = {}
    for name, its in every.items():
        met = [
            (step, one)
            for step in its
            for other in steps.values()
            for one in other
            if not step.is_added and (one.reader.name, one.link.read) == (step.reader.name, step.link.read)
        ]
        if all(_may_meet(one, step) for step, one in met):
            steps[name] = its
    kept = {name: its for name, its in steps.items() if len(its) == 1}
    for soon in (True, False):
        for name in reversed(steps):  # what ends sooner first
            more = {**kept, name: steps[name]}
            if name in kept or (soon and not _ends_soon(more, network.place, name)):
                continue
            if len(around := _around(more, name)) <= MOST_AROUND and len(around - more.keys()) == 1:
                kept = more
    for name in products:
        if name in plain and name not in kept and (step := _next_view(graph, products[name])) is not None:
            more = {**kept, name: (step,)}
            around = _around(more, name)
            is_row = all(len(more.get(one, ())) < 2 for one in around)  # or a tree
            if (is_row or len(around) <= MOST_AROUND) and _may_split(nests, more, name):
                kept = more
    return kept


def _next_view(graph: Graph, product: Operator) -> "_Step | None":
    """The product that alone reads the result of another, through reshapes or transpositions and element by element."""
    op, before, tensor = product, list[Operator](), product.writes[0].tensor
    view: View | None = plain_view(graph.tensors[tensor].shape)
    while view is not None:
        readers = graph.consumers.get(tensor, ())
        if tensor in graph.outputs or len(readers) != 1 or len(op.writes) != 1:
            return None
        (op,) = readers
        if is_contraction(op):
            reads = [number for number, access in enumerate(op.reads) if access.tensor == tensor]
            is_view = any(one.kind in VIEWS for one in before)
            is_one = len(reads) == 1 and reads[0] < 2
            return _Step(op, Link(reads[0]), tuple(before), view=view) if is_view and is_one else None
        if not _is_elementwise(graph, tensor, op):
            view = seen_through(graph, view, op, tensor)
        before.append(op)
        tensor = op.writes[0].tensor
    return None


def _may_split(nests: Mapping[str, LoopNest], steps: Mapping[str, Sequence["_Step"]], name: str) -> bool:
    """Whether a result that is read as a view meets none, and no loop is split that other results go along."""
    (step,) = steps[name]
    every = [(maker, one) for maker, its in steps.items() for one in its]
    others = [one for _, one in every if one is not step]
    if any(one.is_added and one.reader.name == name for one in others):
        return False
    if any((one.reader.name, one.link.read) == (step.reader.name, step.link.read) for one in others):
        return False
    for maker, one in every:
        if one.view is None:
            continue
        split = _split_of(nests, maker, one)
        if split is None:
            return False
        loops = {maker: {*split.maker}, one.reader.name: {*split.reader}}
        for other, its in every:
            along = {(other, ADDED), (its.reader.name, its.link.read)} if its is not one else set[tuple[str, int]]()
            if any(at in loops and loops[at] & nests[at].operands[operand].indexed_by for at, operand in along):
                return False
    return True


def _split_of(nests: Mapping[str, LoopNest], maker: str, step: "_Step") -> Split | None:
    """The loops that are split for a result that is read as a view; none where that can not be."""
    assert step.view is not None
    made, taken = nests[maker], nests[step.reader.name]
    split = split_of(step.view, made, taken, step.link.read)
    if split is None or split_nest(made, split.maker) is None or split_nest(taken, split.reader) is None:
        return None
    return split


def _nests(
    nests: Mapping[str, LoopNest], names: Sequence[str], steps: Mapping[str, Sequence["_Step"]]
) -> tuple[LoopNest, ...]:
    """The nests of some products, with loops split where results are read as views, and read as they are written."""
    parts: dict[str, dict[int, tuple[int, ...]]] = {name: {} for name in names}
    views: list[tuple[str, _Step, Split]] = []
    for name in names[:-1]:
        for step in steps[name]:
            split = None if step.view is None else _split_of(nests, name, step)
            if split is not None:
                parts[name] |= split.maker
                parts[step.reader.name] |= split.reader
                views.append((name, step, split))
    found = {name: nests[name] for name in names}
    numbers: dict[str, Mapping[int, Sequence[int]]] = {}
    for name in names:
        both = split_nest(nests[name], parts[name])
        assert both is not None, "each loop has been looked at"
        found[name], numbers[name] = both
    for name, step, split in views:
        reader = step.reader.name
        loops = [numbers[reader][loop][part] for loop, part in split.order]
        found[name], found[reader] = read_as_written(found[name], found[reader], step.link.read, loops)
    return tuple(found[name] for name in names)


def _around(steps: Mapping[str, Sequence["_Step"]], name: str) -> set[str]:
    """All products that hang together with one."""
    beside: dict[str, list[str]] = {}
    for one, its in steps.items():
        for step in its:
            beside.setdefault(one, []).append(step.reader.name)
            beside.setdefault(step.reader.name, []).append(one)
    found, waiting = {name}, [name]
    while waiting:
        more = [one for one in beside.get(waiting.pop(), ()) if one not in found]
        found.update(more)
        waiting += more
    return found


def _ends_soon(steps: Mapping[str, Sequence["_Step"]], place: Mapping[str, int], name: str) -> bool:
    """Whether few enough products hold one and all that read what they make, but for what the last one makes."""
    inside = {name, *(step.reader.name for step in steps[name])}
    while len(inside) <= MOST_OPERATORS:
        *before, _ = sorted(inside, key=lambda one: place[one])
        if any(one not in steps for one in before):
            return False
        more = {step.reader.name for one in before for step in steps[one]} - inside
        if not more:
            return True
        inside |= more
    return False


def _named(names: Sequence[str], nests: tuple[LoopNest, ...], steps: Sequence[Sequence["_Step"]]) -> NamedChain:
    """Products that read from one another, in an order in which they can run; the last one is read by none of them."""
    every: dict[tuple[str, int], list[_Step]] = {}
    for its in steps:
        for step in its:
            every.setdefault((step.reader.name, step.link.read), []).append(step)
    links: list[Link] = []
    readers: list[int] = []
    more: list[Reading] = []
    for number, its in enumerate(steps):
        found: list[Reading] = []
        link = its[0].link
        for step in its:
            reader = names.index(step.reader.name)
            if step.is_added:
                found.append(Reading(number, reader, len(nests[reader].reads)))
                continue
            others = [one for one in every[step.reader.name, step.link.read] if one is not step]
            kinds = {_meet(step, one).kind for one in others}
            found.append(Reading(number, reader, step.link.read, kinds == {"mul"}))
            link = backwards(replace(step.link, whole=link.whole), nests[reader])
        *before, last = sorted(found, key=lambda one: (one.reader, one.read))
        links.append(replace(link, read=last.read, is_factor=last.is_factor))
        readers.append(last.reader)
        more += before
    is_row = not more and readers == [*range(1, len(names))]
    between = tuple(tuple(dict.fromkeys(op for step in its for op in step.through)) for its in steps)
    kinds_between = tuple(tuple(op.kind for op in ops) for ops in between)
    return NamedChain(
        tuple(names), nests, tuple(links), kinds_between, readers=() if is_row else tuple(readers), more=tuple(more)
    )


def _in_order(made: Mapping[str, Sequence[str]], last: str) -> list[str]:
    """A product behind all whose results it reads, and these behind those that they read."""
    found: dict[str, None] = {}
    waiting = [last]
    while waiting:
        missing = [name for name in made[waiting[-1]] if name not in found]
        if missing:
            waiting.append(missing[0])
        else:
            found.setdefault(waiting.pop())
    return list(found)


def _may_meet(one: "_Step", other: "_Step") -> bool:
    """Whether results meet before nothing but what goes element by element: by rows it would be done to both as one."""
    meet = _meet(one, other).name
    behind = [op.name for op in one.through].index(meet)
    return all(op.kind not in ROW_WISE for op in one.through[behind:])


def _meet(one: "_Step", other: "_Step") -> Operator:
    """The operator in which two results meet on their way to the same read."""
    names = {op.name for op in other.through}
    return next(op for op in one.through if op.name in names)


@dataclass(frozen=True, slots=True)
class _Step:
    reader: Operator
    link: Link
    through: tuple[Operator, ...]  # what is in between
    is_added: bool = False  # to the result of the reader
    view: View | None = None  # as which it is read behind reshapes and transpositions


@dataclass(frozen=True, slots=True)
class _Network:
    """A network: the place of each operator, and of what goes element by element of which products' results it is.

    Where the results of a product and of one before it whose result leads to it are added it is that of the later one.
    """

    graph: Graph
    place: Mapping[str, int]
    sources: Mapping[str, frozenset[str]]  # by tensor
    before: Mapping[str, frozenset[str]]  # by product the products whose results lead to it

    @classmethod
    def of(cls, graph: Graph) -> "_Network":
        sources: dict[str, frozenset[str]] = {}
        before: dict[str, frozenset[str]] = {}
        for op in graph.operators:
            read = {tensor: sources.get(tensor, frozenset[str]()) for tensor in op.inputs}
            if is_contraction(op):
                every = frozenset[str]().union(*read.values())
                before[op.name] = every.union(*(before[one] for one in every))
                sources[op.writes[0].tensor] = frozenset({op.name})
            elif len(op.writes) == 1:
                alike = [its for tensor, its in read.items() if its and _goes_on(graph, tensor, op)]
                every = frozenset[str]().union(*alike)
                sources[op.writes[0].tensor] = every.difference(*(before[one] for one in every))
        return cls(graph, {op.name: at for at, op in enumerate(graph.operators)}, sources, before)

    def added_to(self, name: str, op: Operator) -> str | None:
        """The product to whose result that of another one is added by an operator, if that leads to it: the first."""
        every = {one for tensor in op.inputs for one in self.sources.get(tensor, ()) if name in self.before[one]}
        return min(every, key=lambda one: self.place[one], default=None)


def _next(network: _Network, product: Operator) -> tuple[_Step, ...]:
    """The products that alone read the result of another, through operators that go element by element or by rows.

    What goes by rows is done before several read what it makes. There are none where anything else reads the result.
    """
    graph, op = network.graph, product
    before, whole, passes = list[Operator](), set[int](), 0
    while len(op.writes) == 1:
        tensor = op.writes[0].tensor
        readers = graph.consumers.get(tensor, ())
        if tensor in graph.outputs or len(readers) != 1 or is_contraction(readers[0]):
            break
        (op,) = readers
        if op.kind in ROW_WISE and _goes_on(graph, tensor, op):
            access = next(access for access in op.reads if access.tensor == tensor)
            passes += 1
            whole |= {
                at for at, axis in enumerate(access.axes) for dim, _ in axis.terms if op.dims[dim].kind == "whole"
            }
        elif not _is_elementwise(graph, tensor, op):
            return ()
        before.append(op)
    behind = _behind(network, product, op) if len(op.writes) == 1 else None
    if not behind or all(one.is_added for one in behind):
        return ()
    order = graph.tensors[op.writes[0].tensor].layout
    axes = frozenset(at for at, axis in enumerate(order) if axis in whole)
    return tuple(
        replace(one, link=replace(one.link, whole=axes, passes=passes), through=(*before, *one.through))
        for one in behind
    )


def _behind(network: _Network, product: Operator, op: Operator) -> list[_Step] | None:
    """All products that read what an operator makes of a product's result, or what is made of it element by element.

    And those to whose results it is added. None where anything else reads it.
    """
    graph, place = network.graph, network.place
    products = {one.name: one for one in graph.operators if is_contraction(one)}
    made = {op.writes[0].tensor: frozenset[str]()}  # what is made of it, and through which operators
    through: dict[str, Operator] = {}
    found: dict[tuple[str, int], tuple[Operator, str]] = {}
    waiting = [(place[op.name], op)]
    while waiting:
        tensor = heappop(waiting)[1].writes[0].tensor
        readers = graph.consumers.get(tensor, ())
        if tensor in graph.outputs or not readers:
            return None
        for reader in readers:
            if is_contraction(reader):
                reads = [number for number, access in enumerate(reader.reads) if access.tensor == tensor]
                if any(read > 1 for read in reads):
                    return None
                found |= {(reader.name, read): (reader, tensor) for read in reads}
                continue
            if not _is_elementwise(graph, tensor, reader):
                return None
            added = network.added_to(product.name, reader)
            if added is not None and reader.kind != "add":
                return None
            if added is not None:
                found[added, ADDED] = products[added], tensor
                continue
            if reader.name not in through:
                through[reader.name] = reader
                heappush(waiting, (place[reader.name], reader))
            writes = reader.writes[0].tensor
            made[writes] = made.get(writes, frozenset()) | made[tensor] | {reader.name}
    steps: list[_Step] = []
    for (_, read), (reader, tensor) in found.items():
        path = sorted(made[tensor], key=lambda name: place[name])
        steps.append(_Step(reader, Link(read), tuple(through[name] for name in path), read == ADDED))
    return steps


def _is_elementwise(graph: Graph, tensor: str, reader: Operator) -> bool:
    return _goes_on(graph, tensor, reader) and all(dim.kind == "parallel" for dim in reader.dims)


def _goes_on(graph: Graph, tensor: str, reader: Operator) -> bool:
    """Whether an operator has one result, each element of which it writes where it reads a tensor."""
    access = next(access for access in reader.reads if access.tensor == tensor)
    return len(reader.writes) == 1 and _is_alike(access, reader.writes[0], graph)


def _is_alike(read: Access, write: Access, graph: Graph) -> bool:
    """Whether an operator writes each element where it reads it, in a tensor of the same shape."""
    before, after = graph.tensors[read.tensor], graph.tensors[write.tensor]
    same = (before.shape, before.layout, before.dtype) == (after.shape, after.layout, after.dtype)
    return same and read.axes == write.axes and read.indirect_axis is None


def longest(chains: Sequence[NamedChain]) -> int:
    """Operators of the longest chain."""
    return max((len(chain.nests) for chain in chains), default=0)


def expect_together(count: object) -> int:
    """How many operators may run together. Raises `InputError` for anything but 2 to 4."""
    if not isinstance(count, int) or isinstance(count, bool) or not 2 <= count <= MOST_OPERATORS:
        raise InputError(f"fuse: expected 2 to {MOST_OPERATORS} operators that run together, found {shown(count)}")
    return count


@dataclass(frozen=True, slots=True)
class OpenedChains:
    """The chains of a network, and how it was read."""

    name: str
    chains: tuple[NamedChain, ...]
    notes: tuple[str, ...] = ()


def open_chains(
    model: Model, layers: Sequence[str], *, batch: int | None, dims: Mapping[str, int], fold_bn: bool
) -> OpenedChains:
    """The chains of a network, or those that have an operator of `layers`; or the chain of a line of products.

    Raises `InputError` for a network without products.
    """
    if isinstance(model, str | Path) and "+=" in str(model):
        return OpenedChains("einsum", (einsum_chain(str(model)),))
    network = open_network(model, batch=batch, dims=dims, fold_bn=fold_bn)
    graph, chains = network.graph, chains_of(network.graph, network.runs)
    if not chains:
        raise InputError(f"{graph.name}: no convolution and no matrix product, so there is nothing to map")
    for name in layers:
        if not any(name in chain.names for chain in chains):
            known = ", ".join(chain.names[0] for chain in chains[:8])
            raise InputError(f"--layer {name}: {graph.name} has no such product; chains begin with {known}")
    found = tuple(chain for chain in chains if not layers or set(layers) & set(chain.names))
    return OpenedChains(graph.name, found, (network.note,) if network.note else ())
