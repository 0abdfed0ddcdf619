"""Chains of products in a network, and trees of them: nothing but one of them reads the result of another."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilestitch.api import Model, shown
from tilestitch.base.errors import InputError
from tilestitch.commands.map.networks import open_network
from tilestitch.formats.einsum import einsum_nest
from tilestitch.ir.graph import Access, Graph, Operator
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.fused.chain import MOST_OPERATORS, Link
from tilestitch.mapping.network import nest_of_operator
from tilestitch.ops import is_contraction

ROW_WISE = ("softmax",)  # what needs all of some axes at once, and keeps the shape
_SOFTMAX = re.compile(r"softmax\(\s*([A-Za-z_]\w*)(\[[^\]]*\])\s*\)")
_ARRAY = re.compile(r"([A-Za-z_]\w*)\s*\[")
_ACCESS = r"[A-Za-z_]\w*\s*\[[^\]]*\]"
_MEETING = re.compile(rf"\(\s*({_ACCESS}(?:\s*\*\s*{_ACCESS})+|{_ACCESS}(?:\s*\+\s*{_ACCESS})+)\s*\)")


@dataclass(frozen=True, slots=True)
class NamedChain:
    """Nests that read from one another, what they read, and what happens in between; how often they are there.

    Each but the last has one link, to the next one unless `readers` say otherwise.
    """

    names: tuple[str, ...]
    nests: tuple[LoopNest, ...]
    links: tuple[Link, ...]
    between: tuple[tuple[str, ...], ...]  # operators between two nests, by kind
    times: int = 1
    readers: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The names with what reads what, as in `a > (b, c) > d`."""
        return tree_label(self.names, self.readers)


def tree_label(names: Sequence[str], readers: Sequence[int] = ()) -> str:
    """Operators with what reads what: `a > b` in a row, `(a, b) > c` where one reads the results of several."""
    reading = readers or range(1, len(names))
    told: list[str] = []
    for number, name in enumerate(names):
        before = [told[link] for link, reader in enumerate(reading) if reader == number]
        together = before[0] if len(before) == 1 else f"({', '.join(before)})"
        told.append(f"{together} > {name}" if before else name)
    return told[-1]


def chains_of(graph: Graph, runs: int = 1) -> tuple[NamedChain, ...]:
    """Every different chain or tree of a network, as far as it goes, for so many runs of it.

    Products that stand alone are chains of one.
    """
    products = {op.name: op for op in graph.operators if is_contraction(op)}
    steps = {name: step for name, op in products.items() if (step := _next(graph, op)) is not None}
    made: dict[str, list[str]] = {name: [] for name in products}  # of each product those whose results it reads
    for name, step in steps.items():
        others = [steps[one] for one in made[step.reader.name] if steps[one].link.read == step.link.read]
        if all(_may_meet(one, step) for one in others):
            made[step.reader.name].append(name)
    ends = {name: reader for reader, names in made.items() for name in names}
    found: dict[tuple[object, ...], list[tuple[str, ...]]] = {}
    chains: dict[tuple[object, ...], NamedChain] = {}
    inside: set[str] = set()
    for name in products:
        if name in inside:
            continue
        last = name
        while last in ends:
            last = ends[last]
        names = _in_order(made, last)
        inside.update(names)
        nests = tuple(nest_of_operator(graph, products[one]) for one in names)
        chain = _named(names, nests, [steps[one] for one in names[:-1]])
        key = (tuple(replace(nest, name="") for nest in chain.nests), chain.links, chain.between, chain.readers)
        found.setdefault(key, []).append(chain.names)
        chains.setdefault(key, chain)
    return tuple(replace(chain, times=runs * len(found[key])) for key, chain in chains.items())


def _named(names: Sequence[str], nests: tuple[LoopNest, ...], steps: Sequence["_Step"]) -> NamedChain:
    """Products that read from one another, in an order in which they can run; the last one is read by none of them."""
    readers = tuple(names.index(step.reader.name) for step in steps)
    links: list[Link] = []
    for number, step in enumerate(steps):
        reads = readers[number], step.link.read
        others = [one for at, one in enumerate(steps) if at != number and (readers[at], one.link.read) == reads]
        kinds = {_meet(step, one).kind for one in others}
        links.append(_backwards(replace(step.link, is_factor=kinds == {"mul"}), nests[readers[number]]))
    is_row = readers == tuple(range(1, len(names)))
    between = tuple(tuple(op.kind for op in step.through) for step in steps)
    return NamedChain(tuple(names), nests, tuple(links), between, readers=() if is_row else readers)


def _in_order(made: Mapping[str, Sequence[str]], last: str) -> list[str]:
    """A product behind all whose results it reads, and these behind those that they read."""
    found, waiting = list[str](), [last]
    while waiting:
        found.append(waiting.pop())
        waiting += made[found[-1]]
    return found[::-1]


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


def _next(graph: Graph, op: Operator) -> _Step | None:
    """The product that alone reads the result of another, through operators that go element by element or by rows."""
    tensor, through, whole, passes = op.writes[0].tensor, list[Operator](), set[int](), 0
    while True:
        readers = graph.consumers.get(tensor, ())
        if tensor in graph.outputs or len(readers) != 1 or len(op.writes) != 1:
            return None
        reader = readers[0]
        if is_contraction(reader):
            reads = [number for number, access in enumerate(reader.reads[:2]) if access.tensor == tensor]
            if len(reads) != 1 or any(access.tensor == tensor for access in reader.reads[2:]):
                return None
            order = graph.tensors[tensor].layout
            link = Link(reads[0], frozenset(at for at, axis in enumerate(order) if axis in whole), passes)
            return _Step(reader, link, tuple(through))
        access = next(access for access in reader.reads if access.tensor == tensor)
        if len(reader.writes) != 1 or not _is_alike(access, reader.writes[0], graph):
            return None
        if reader.kind in ROW_WISE:
            passes += 1
            whole |= {
                at for at, axis in enumerate(access.axes) for dim, _ in axis.terms if reader.dims[dim].kind == "whole"
            }
        elif any(dim.kind != "parallel" for dim in reader.dims):
            return None
        through.append(reader)
        tensor, op = reader.writes[0].tensor, reader


def _backwards(link: Link, reader: LoopNest) -> Link:
    """The link with every axis whole that is read backwards: no loop along it is shared."""
    axes = enumerate(reader.reads[link.read].axes)
    return replace(link, whole=link.whole | {at for at, terms in axes if any(step < 0 for _, step in terms)})


def _is_alike(read: Access, write: Access, graph: Graph) -> bool:
    """Whether an operator writes each element where it reads it, in a tensor of the same shape."""
    before, after = graph.tensors[read.tensor], graph.tensors[write.tensor]
    same = (before.shape, before.layout, before.dtype) == (after.shape, after.layout, after.dtype)
    return same and read.axes == write.axes and read.indirect_axis is None


def einsum_chain(text: str) -> NamedChain:
    """The chain that one line of several products describes, such as `S[m,n] += Q[m,d] * K[n,d]; O[m,e] += ...; m=8`.

    `softmax(S[m,n])` needs all of the last index at once, and of `(G[m,f] * U[m,f])` the elements are multiplied before
    they are read, or added. Raises `InputError` where it is neither a chain nor a tree.
    """
    parts = [part.strip() for part in text.split(";")]
    lines, facts = [part for part in parts if "+=" in part], [part for part in parts if "+=" not in part]
    if len(facts) != 1 or len(lines) < 2 or parts[-1] != facts[0]:
        raise InputError(
            "einsum: expected products one after another and then the extents of all loops, each part behind a ';', "
            "such as 'S[m,n] += Q[m,d] * K[n,d]; O[m,e] += S[m,n] * V[n,e]; m=8 n=8 d=4 e=4'"
        )
    plain = [_SOFTMAX.sub(r"\1\2", line) for line in lines]
    meeting = [_meeting_in(line) for line in plain]
    single = [_MEETING.sub(lambda found: _arrays_in(found.group(1))[0][1], line) for line in plain]
    nests = [einsum_nest(f"{line}; {_facts_of(line, facts[0])}", line.split("[")[0].strip()) for line in single]
    made: dict[str, int] = {}  # results that no line has read yet, by the number of their line
    links: dict[int, Link] = {}
    readers: dict[int, int] = {}
    between: dict[int, tuple[str, ...]] = {}
    for number, nest in enumerate(nests):
        rows = {found.group(1) for found in _SOFTMAX.finditer(lines[number])}
        for name in sorted(rows - set(made)):
            raise InputError(f"einsum: softmax({name}) is not of a result that a line before it makes for it alone")
        for at, array in enumerate(nest.reads):
            names, is_factor = meeting[number].get(array.name, ((array.name,), False))
            for name in names if len(names) > 1 else [name for name in names if name in made]:
                if name not in made:
                    raise InputError(
                        f"einsum: {' and '.join(names)} meet in {plain[number]!r}, but no line before it makes {name} "
                        "for it alone"
                    )
                whole = frozenset({len(array.axes) - 1} if name in rows else ())
                link = made.pop(name)
                links[link] = _backwards(Link(at, whole, int(name in rows), is_factor), nest)
                readers[link], between[link] = number, ("softmax",) if name in rows else ()
        name = nest.write.name
        if name in made:
            _expect_read(plain, made[name], 0)
        made[name] = number
    count = len(nests) - 1
    for number in range(count):
        if number not in links:
            _expect_read(plain, number, 0)
        again = [later for later in range(readers[number] + 1, count + 1) if _reads_again(nests, number, later)]
        if again:
            _expect_read(plain, number, 1 + len(again))
    is_row = all(readers[number] == number + 1 for number in range(count))
    return NamedChain(
        tuple(nest.name for nest in nests),
        tuple(_named_as_it_meets(nest, met) for nest, met in zip(nests, meeting, strict=True)),
        tuple(links[number] for number in range(count)),
        tuple(between[number] for number in range(count)),
        readers=() if is_row else tuple(readers[number] for number in range(count)),
    )


def _named_as_it_meets(nest: LoopNest, meeting: Mapping[str, tuple[tuple[str, ...], bool]]) -> LoopNest:
    """A nest that reads what meets by a name of all its parts, such as `(G*U)`."""
    reads = [
        replace(array, name=f"({('*' if meeting[array.name][1] else '+').join(meeting[array.name][0])})")
        if array.name in meeting
        else array
        for array in nest.reads
    ]
    return replace(nest, reads=tuple(reads))


def _reads_again(nests: Sequence[LoopNest], number: int, later: int) -> bool:
    """Whether a line reads what one before it made, and none in between makes anew."""
    name = nests[number].write.name
    return all(one.write.name != name for one in nests[number + 1 : later]) and any(
        array.name == name for array in nests[later].reads
    )


def _expect_read(lines: Sequence[str], number: int, times: int) -> None:
    raise InputError(
        f"einsum: what {lines[number]!r} makes is read {times} times behind it; expected once, as in a chain or a tree"
    )


def _arrays_in(text: str) -> list[tuple[str, str]]:
    """The arrays in a part of a line: name, and the whole access."""
    return [(found.split("[")[0].strip(), found) for found in re.findall(_ACCESS, text)]


def _meeting_in(line: str) -> dict[str, tuple[tuple[str, ...], bool]]:
    """By the first of results that meet all of them, and whether they are multiplied.

    Raises `InputError` where their indices are not the same.
    """
    found: dict[str, tuple[tuple[str, ...], bool]] = {}
    for one in _MEETING.finditer(line):
        arrays = _arrays_in(one.group(1))
        if len({re.sub(r"\s", "", access[access.index("[") :]) for _, access in arrays}) > 1:
            raise InputError(f"einsum: {one.group(0)}: what meets has the same indices everywhere")
        names = tuple(name for name, _ in arrays)
        if len(set(names)) < len(names):
            raise InputError(f"einsum: {one.group(0)}: expected every array once")
        found[names[0]] = names, "*" in re.sub(r"\[[^\]]*\]", "", one.group(1))
    return found


def _facts_of(line: str, facts: str) -> str:
    """What is said of the loops and arrays of one line."""
    arrays = set(_ARRAY.findall(line))
    loops = set(re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"\[([^\]]*)\]", line))))
    return " ".join(one for one in facts.split() if re.split(r"[=\[:]", one)[0] in (loops if "=" in one else arrays))


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
