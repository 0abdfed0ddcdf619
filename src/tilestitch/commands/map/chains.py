"""Chains of products in a network: each reads the result of the one before and nothing else does."""

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


@dataclass(frozen=True, slots=True)
class NamedChain:
    """Nests in a row, what each reads from the one before, and what happens in between; how often it is there."""

    names: tuple[str, ...]
    nests: tuple[LoopNest, ...]
    links: tuple[Link, ...]
    between: tuple[tuple[str, ...], ...]  # operators between two nests, by kind
    times: int = 1


def chains_of(graph: Graph, runs: int = 1) -> tuple[NamedChain, ...]:
    """Every different chain of a network, as long as it goes, for so many runs of it.

    Products that stand alone are chains of one.
    """
    inside: set[str] = set()
    found: dict[tuple[object, ...], list[tuple[str, ...]]] = {}
    chains: dict[tuple[object, ...], NamedChain] = {}
    for op in graph.operators:
        if not is_contraction(op) or op.name in inside:
            continue
        names, nests, links, between = [op.name], [nest_of_operator(graph, op)], [], []
        last = op
        while (step := _next(graph, last)) is not None and step.reader.name not in inside:
            last = step.reader
            names.append(last.name)
            nests.append(nest_of_operator(graph, last))
            links.append(_backwards(step.link, nests[-1]))
            between.append(step.between)
        inside.update(names)
        key = (tuple(replace(nest, name="") for nest in nests), tuple(links), tuple(between))
        found.setdefault(key, []).append(tuple(names))
        chains.setdefault(key, NamedChain(tuple(names), tuple(nests), tuple(links), tuple(between)))
    return tuple(replace(chain, times=runs * len(found[key])) for key, chain in chains.items())


@dataclass(frozen=True, slots=True)
class _Step:
    reader: Operator
    link: Link
    between: tuple[str, ...]


def _next(graph: Graph, op: Operator) -> _Step | None:
    """The product that alone reads the result of another, through operators that go element by element or by rows."""
    tensor, between, whole, passes = op.writes[0].tensor, [], set[int](), 0
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
            return _Step(reader, link, tuple(between))
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
        between.append(reader.kind)
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

    `softmax(S[m,n])` needs all of the last index at once. Raises `InputError` where it is no chain.
    """
    parts = [part.strip() for part in text.split(";")]
    lines, facts = [part for part in parts if "+=" in part], [part for part in parts if "+=" not in part]
    if len(facts) != 1 or len(lines) < 2 or parts[-1] != facts[0]:
        raise InputError(
            "einsum: expected products one after another and then the extents of all loops, each part behind a ';', "
            "such as 'S[m,n] += Q[m,d] * K[n,d]; O[m,e] += S[m,n] * V[n,e]; m=8 n=8 d=4 e=4'"
        )
    rows = [_SOFTMAX.search(line) for line in lines]
    plain = [_SOFTMAX.sub(r"\1\2", line) for line in lines]
    nests = [einsum_nest(f"{line}; {_facts_of(line, facts[0])}", line.split("[")[0].strip()) for line in plain]
    links: list[Link] = []
    between: list[tuple[str, ...]] = []
    for number, nest in enumerate(nests[1:], 1):
        made = nests[number - 1].write.name
        reads = [at for at, array in enumerate(nest.reads) if array.name == made]
        if len(reads) != 1:
            raise InputError(
                f"einsum: {plain[number]!r} reads {made} {len(reads)} times; expected once, as a chain does"
            )
        row = rows[number]
        is_row = row is not None and row.group(1) == made
        if row is not None and not is_row:
            raise InputError(f"einsum: softmax({row.group(1)}) is not of {made}, the result before it")
        last = len(nest.reads[reads[0]].axes) - 1
        links.append(_backwards(Link(reads[0], frozenset({last} if is_row else ()), int(is_row)), nest))
        between.append(("softmax",) if is_row else ())
    names = tuple(nest.name for nest in nests)
    return NamedChain(names, tuple(nests), tuple(links), tuple(between))


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
