"""Architectures of Timeloop as machine trees: nodes of version 0.4, and the subtrees of 0.2 and 0.3.

A memory holds the data spaces that its constraints keep and do not bypass, all of them where they say nothing. Meshes
are fan-outs. Energies are those of an ERT (in the file, or handed in), or of the attributes that Timeloop takes itself
(`vector_access_energy`, `energy_per_op`); without either the file is refused. They are those of an access of `width`
bits, and words of it cost their share, as Timeloop counts vector accesses over a whole run. A rate is in words a cycle;
what has none is not limited. Timeloop counts words of each memory's own width; here an operand has one width, so of the
result that of its innermost memory while it is added to, of everything else that of its outermost.

Source: the input formats of Timeloop v0.2 to v0.4, and the designs of its exercises.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.foreign_tree import (
    COMPUTES,
    MAX_BITS,
    MAX_UNITS,
    MAX_WIDTH,
    READS,
    UNLIMITED,
    WRITES,
    EnergyTable,
    ForeignTree,
    action_pj,
    ert_energies,
    plain_component,
    tree_of_parts,
)
from tilestitch.formats.timeloop.constraints import (
    constraint_fields,
    factors_of,
    permutation_of,
    spread_loops,
    targets_of,
)
from tilestitch.formats.timeloop.machine import TAGS
from tilestitch.hardware.tree import Axis, Flow, MachineTree, Port, TreeMemory
from tilestitch.hardware.yaml_tree import TAG

_TOP = (
    *("components", "compound_components", "problem", "variables", "globals", "mapper", "mapping", "mapspace"),
    *("ERT", "ART", "architecture_constraints", "mapspace_constraints", "dumped_by_timeloop_front_end"),
)
_UNSUPPORTED_TOP = {"sparse_optimizations": "sparse data has no model; leave it out for the dense machine"}
_CONSTRAINTS = ("architecture_constraints", "mapspace_constraints", "mapspace")
_STORAGE = ("DRAM", "SRAM", "regfile", "storage", "smartbuffer", "smartbuffer_SRAM", "smartbuffer_RF", "dummy_storage")
_COMPUTE = ("intmac", "fpmac", "mac", "compute")
_RENAMED = {
    "memory_depth": "depth",
    "memory_width": "width",
    "data_width": "datawidth",
    "word-bits": "datawidth",
    "word_bits": "datawidth",
    "block-size": "block_size",
    "cluster-size": "cluster_size",
    "vector-access-energy": "vector_access_energy",
    "energy-per-op": "energy_per_op",
    "multiple-buffering": "multiple_buffering",
    "shared-bandwidth": "shared_bandwidth",
    "sizeKB": "size_kb",
}
_DATASPACE = ("dataspace", "datatype", "bypass", "bypassing")  # what a type of constraints may be called
_SPACES = ("Inputs", "Weights", "Outputs")
_RESULTS = ("Outputs", "O", "Z", "C")
_RANGE = re.compile(r"(.+?)(?:\[([0-9]{1,8})\.\.([0-9]{1,8})\])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Node:
    """A memory, a mesh alone (no class), or the multiply-accumulate, with the mesh that repeats it and all inside."""

    name: str
    kind: str
    part: Part
    attributes: Mapping[str, Part]
    mesh: tuple[int, int] = (1, 1)
    constraints: Part | None = None


@dataclass(slots=True)
class _Read:
    """What is found from the outermost node inwards."""

    file: Part
    energies: EnergyTable
    spaces: tuple[str, ...]
    targets: tuple[Part, ...]
    parts: list[TreeMemory | Axis] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    words: dict[str, int] = field(default_factory=dict)  # bits, by memory
    meshes: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)  # axes along X and Y, by target
    mac_pj: float | None = None
    clock_hz: int | None = None


def timeloop_tree(text: str, where: str, energies: EnergyTable | None = None, loops: Sequence[str] = ()) -> ForeignTree:
    """The tree of an architecture's file with its constraints, for layers with these loops.

    Raises `InputError` with the keys that lead to what a tree cannot say, and where energies are missing.
    """
    file = yaml_file(text, where, tags=TAGS)
    top = file.fields(("architecture",), _TOP, _UNSUPPORTED_TOP)
    table = dict(energies or {}) or (dict(ert_energies(top["ERT"])) if "ERT" in top else {})
    body = top["architecture"].fields((), ("nodes", "subtree", "version"))
    if ("nodes" in body) == ("subtree" in body):
        top["architecture"].refuse("expected nodes, as version 0.4 has them, or subtree, as 0.2 and 0.3")
    nodes = tuple(_nodes(body["nodes"]) if "nodes" in body else _of_subtrees(body["subtree"], 1, {}))
    for node in nodes:
        _expect_known(node)
    listed = [part for key in _CONSTRAINTS for part in targets_of(top.get(key))]
    read = _Read(file, table, _data_spaces(top, nodes, listed), tuple(listed))
    if "nodes" in body:
        _relative(nodes, read)
    else:
        _absolute(nodes, read)
    if read.mac_pj is None:
        body.get("nodes", body.get("subtree", file)).refuse(
            f"expected a multiply-accumulate at the end, of one of the classes {', '.join(_COMPUTE)}"
        )
    name = plain_component(where.removesuffix(".yaml").removesuffix(".yml"))
    tree = tree_of_parts(name, read.parts, read.mac_pj, "", read.clock_hz, file)
    tree = replace(tree, has_latches=False, reads_first_sums=False)
    named = _loops(nodes, read)
    known = tuple(dict.fromkeys([*(loop for of_part in named.values() for loop in of_part), *loops]))
    factors, only, steps, orders = _restrictions(nodes, known, read)
    bits = _bits(tree.memories, read)
    return ForeignTree(tree, tuple(dict.fromkeys(read.notes)), factors, only, steps, bits, read.meshes, orders, named)


def with_sliding_windows(tree: MachineTree) -> MachineTree:
    """The tree in which no memory is filled again with what neighbouring windows share, as Timeloop prices mappings.

    A search on it takes hundreds of times as long, so that `timeloop_tree` leaves this out.
    """
    return replace(tree, memories=tuple(replace(memory, has_sliding_window=True) for memory in tree.memories))


def _nodes(part: Part) -> Iterator[_Node]:
    """The nodes of version 0.4 from the outermost; those of a hierarchy or side by side in their place."""
    for node in part.items("nodes"):
        tag = node.entries().get(TAG)
        kind = tag.text() if tag is not None else ""
        if kind in ("!Hierarchical", "!Parallel", "!Pipelined"):
            inner = tuple(_nodes(node.fields((TAG, "nodes"))["nodes"]))
            if kind != "!Hierarchical" and any(one.mesh != (1, 1) or one.kind in _COMPUTE for one in inner):
                node.refuse(f"{kind}: a mesh or a multiply-accumulate in one of several branches is not supported")
            yield from inner
        elif kind not in ("!Container", "!Component", "!Element"):
            node.refuse(f"expected one of the tags {', '.join(TAGS)}")
        else:
            known = ("class", "subclass", "attributes", "spatial", "constraints", "required_actions", "enabled")
            fields = node.fields((TAG, "name"), known)
            if "enabled" in fields and not fields["enabled"].switch():
                fields["enabled"].refuse("write only what is there")
            yield _Node(
                fields["name"].text("a name"),
                "" if kind == "!Container" else fields["class"].text("a class") if "class" in fields else "none",
                node,
                _attributes(fields.get("attributes")),
                _mesh(fields.get("spatial")),
                fields.get("constraints"),
            )


def _of_subtrees(part: Part, outside: int, inherited: Mapping[str, Part]) -> Iterator[_Node]:
    """The nodes of versions 0.2 and 0.3, each with how many there are of it along X and Y in all."""
    first, *others = part.items("subtrees")
    for other in others:
        other.refuse("a second branch is not supported; write what lies side by side as local, one after another")
    fields = first.fields(("name",), ("attributes", "local", "subtree"))
    _, count = _named(fields["name"])
    attributes = {**inherited, **_attributes(fields.get("attributes"))}
    for local in fields["local"].items("components", least=0) if "local" in fields else ():
        more = local.fields(("name", "class"), ("attributes", "subclass", "required_actions", "enabled"))
        name, times = _named(more["name"])
        own = {**attributes, **_attributes(more.get("attributes"))}
        instances = own["instances"].whole("instances", 1, MAX_UNITS) if "instances" in own else outside * count * times
        along = own["meshX"].whole("along X", 1, MAX_UNITS) if "meshX" in own else instances
        if instances % along != 0:
            local.refuse(f"meshX {along} does not divide its {instances:,} instances")
        yield _Node(name, more["class"].text("a class"), local, own, (along, instances // along))
    if "subtree" in fields:
        yield from _of_subtrees(fields["subtree"], outside * count, attributes)


def _named(part: Part) -> tuple[str, int]:
    """A name, and how many a range at its end makes of it."""
    match = _RANGE.fullmatch(part.text("a name"))
    if match is None:
        part.expected("a name, or one with a range such as PE[0..15]")
    count = int(match[3]) - int(match[2]) + 1 if match[2] is not None else 1
    if not 1 <= count <= MAX_UNITS:
        part.expected(f"a range of 1 to {MAX_UNITS:,}")
    return match[1], count


def _attributes(part: Part | None) -> dict[str, Part]:
    if part is None or part.is_absent:
        return {}
    return {_RENAMED.get(key, key): value for key, value in part.entries().items()}


def _mesh(part: Part | None) -> tuple[int, int]:
    if part is None or part.is_absent:
        return 1, 1
    sizes = part.fields((), ("meshX", "meshY"))
    along = [sizes[key].whole("along a mesh", 1, MAX_UNITS) if key in sizes else 1 for key in ("meshX", "meshY")]
    return along[0], along[1]


def _relative(nodes: Sequence[_Node], read: _Read) -> None:
    """Version 0.4: a mesh repeats the node that has it and all inside."""
    for node in nodes:
        _fan_out(node.name, node.mesh, read)
        _take(node, read)


def _absolute(nodes: Sequence[_Node], read: _Read) -> None:
    """Versions 0.2 and 0.3: the fan-out below a node is how often the next one is there for each of it."""
    above: tuple[str, tuple[int, int]] | None = None
    for node in nodes:
        x, y = above[1] if above is not None else (1, 1)
        if node.mesh[0] % x != 0 or node.mesh[1] % y != 0:
            node.part.refuse(
                f"{node.mesh[0]} x {node.mesh[1]} of it below {x} x {y} of {above[0] if above else 'nothing'}: "
                "expected as many for each"
            )
        _fan_out(above[0] if above is not None else node.name, (node.mesh[0] // x, node.mesh[1] // y), read)
        above = (node.name, node.mesh)
        _take(node, read)


def _fan_out(target: str, mesh: tuple[int, int], read: _Read) -> None:
    """The axes of a mesh: called as the target of its constraints, with X and Y where there are both."""
    both = mesh[0] > 1 and mesh[1] > 1
    taken = [part.name for part in read.parts]
    plain = f"{target}_mesh" if target in taken else target
    names = [f"{plain}_{way}" if both else plain for way in "XY"]
    found = [name if size > 1 else None for name, size in zip(names, mesh, strict=True)]
    read.parts += [Axis(name, size) for name, size in zip(found, mesh, strict=True) if name is not None]
    read.meshes[target] = (found[0], found[1])


def _expect_known(node: _Node) -> None:
    """Refuse what is neither a memory nor a multiply-accumulate nor a mesh alone."""
    holds_data = bool({"depth", "entries", "width", "size_kb"} & set(node.attributes))
    if node.kind not in ("", *_COMPUTE, *_STORAGE) and not holds_data:
        node.part.refuse(f"expected one of the classes {', '.join((*_STORAGE, *_COMPUTE))}, found {node.kind}")


def _take(node: _Node, read: _Read) -> None:
    if "global_cycle_seconds" in node.attributes:
        read.clock_hz = round(1 / node.attributes["global_cycle_seconds"].ratio("seconds"))
    if node.kind == "":
        return
    if read.mac_pj is not None:
        node.part.refuse("expected nothing inside the multiply-accumulate")
    if node.kind in _COMPUTE:
        own = node.attributes.get("energy_per_op")
        read.mac_pj = own.energy() if own is not None else action_pj(read.energies, node.name, COMPUTES, node.part)
        return
    held = _held(node, read)
    if held:
        read.parts.append(_memory(node, held, read))
    elif node.kind != "dummy_storage":
        read.notes.append(f"{node.name} is bypassed by everything; left out")


def _held(node: _Node, read: _Read) -> tuple[str, ...]:
    """The data spaces of a memory: those that are kept, and those that nothing is said of."""
    kept: set[str] = set()
    past: set[str] = set()
    only = False
    for fields in _of_kind(node, "dataspace", read):
        for key, found in (("keep", kept), ("keep_only", kept), ("bypass", past)):
            if key in fields and not fields[key].is_absent:
                names = [item.text("a data space") for item in fields[key].items("data spaces", least=0)]
                for name in names:
                    if name not in read.spaces:
                        fields[key].refuse(f"{name} is no data space; known: {', '.join(read.spaces)}")
                found |= set(names)
                only = only or key == "keep_only"
    if node.kind == "dummy_storage":
        return tuple(space for space in read.spaces if space in kept)
    is_beside = only or (bool(kept) and node.kind != "DRAM" and not past)
    return tuple(space for space in read.spaces if space not in past and (space in kept or not is_beside))


def _of_kind(node: _Node, kind: str, read: _Read) -> Iterator[Mapping[str, Part]]:
    """The constraints of a node of one kind: its own, and those of the files of constraints with it as target."""
    if node.constraints is not None and not node.constraints.is_absent:
        own = node.constraints.fields((), ("dataspace", "temporal", "spatial"))
        if kind in own:
            yield constraint_fields(own[kind], kind, ("type",))
    names = _DATASPACE if kind == "dataspace" else (kind,)
    for target in read.targets:
        fields = target.entries()
        named = [fields[key].text("a name") if key in fields else "" for key in ("target", "type")]
        if named[0] == node.name and named[1] in names:
            yield constraint_fields(target, kind, ("target", "type"))


def _data_spaces(top: Mapping[str, Part], nodes: Sequence[_Node], listed: Sequence[Part]) -> tuple[str, ...]:
    """The data spaces of the problem in the file, else those that constraints name, else Timeloop's usual ones."""
    problem = top.get("problem")
    shape = problem.entries().get("shape") if problem is not None else None
    if shape is not None and isinstance(shape.value, dict):
        spaces = shape.entries().get("data_spaces") or shape.entries().get("data-spaces")
        if spaces is not None:
            return tuple(one.entries()["name"].text("a name") for one in spaces.items("data spaces"))
    named: list[str] = []
    for part in (*(one.constraints for one in nodes if one.constraints is not None), *listed):
        fields = part.entries()
        fields = fields["dataspace"].entries() if "dataspace" in fields else fields
        for key in ("keep", "keep_only", "bypass"):
            if key in fields and not fields[key].is_absent:
                named += [item.text("a data space") for item in fields[key].items("data spaces", least=0)]
    return tuple(dict.fromkeys(named)) if set(named) - set(_SPACES) else _SPACES


def _memory(node: _Node, held: tuple[str, ...], read: _Read) -> TreeMemory:
    attributes = node.attributes
    if "reduction_supported" in attributes and not attributes["reduction_supported"].switch():
        attributes["reduction_supported"].refuse("not supported: every fan-out adds up here")
    number = {
        key: attributes[key].whole(key, 1, MAX_BITS)
        for key in ("depth", "entries", "width", "datawidth", "block_size", "cluster_size", "size_kb")
        if key in attributes and not attributes[key].is_absent
    }
    word = number.get(
        "datawidth", 8 if "datawidth" not in attributes and "width" not in number else number.get("width", 0)
    )
    if "datawidth" not in number:
        node.part.refuse("the attribute datawidth is missing: the bits of a word")
    width = number.get("width", word * number.get("block_size", 1) * number.get("cluster_size", 1))
    if not word <= width <= MAX_WIDTH:
        node.part.refuse(f"expected a width of one word ({word} bits) to {MAX_WIDTH:,} bits, found {width:,}")
    size = MAX_BITS
    if len({"size_kb", "entries", "depth"} & set(number)) > 1:
        node.part.refuse("expected one of depth, entries and sizeKB")
    if "size_kb" in number:
        size = number["size_kb"] * 8192
    elif "entries" in number:
        size = min(MAX_BITS, number["entries"] * word)
    elif "depth" in number:  # an access reaches all memories of a cluster, each of which has its share of a row
        size = min(MAX_BITS, number["depth"] * (width // number.get("cluster_size", 1)))
    elif node.kind != "DRAM":
        node.part.refuse("the attribute depth is missing: the rows of the memory; or entries, its words")
    read.words[node.name] = word
    own = attributes.get("vector_access_energy")
    read_pj, write_pj = (
        own.energy() if own is not None else action_pj(read.energies, node.name, actions, node.part)
        for actions in (READS, WRITES)
    )
    return TreeMemory(node.name, size, held, _ports(node, held, word, width), read_pj, write_pj, (), _buffers(node))


def _buffers(node: _Node) -> int:
    if "multiple_buffering" not in node.attributes:
        return 1
    part = node.attributes["multiple_buffering"]
    buffers = part.ratio("buffers", 16)
    if buffers not in (1, 2):
        part.expected("1 or 2 buffers")
    return int(buffers)


def _ports(node: _Node, held: Sequence[str], word: int, width: int) -> tuple[Port, ...]:
    """One for what is read and one for what is written, or one for both where they share a rate."""
    rates = {
        key: node.attributes[key].ratio("words a cycle") * word
        for key in ("read_bandwidth", "write_bandwidth", "shared_bandwidth")
        if key in node.attributes and not node.attributes[key].is_absent
    }
    if "shared_bandwidth" in rates:
        if len(rates) > 1:
            node.part.refuse("expected shared_bandwidth, or read_bandwidth and write_bandwidth")
        return (_port("port", width, word, held, tuple(Flow), rates["shared_bandwidth"]),)
    reads, writes = (Flow.FEED, Flow.DRAIN), (Flow.FILL, Flow.COLLECT)
    free = Fraction(UNLIMITED)
    return (
        _port("read", width, word, held, reads, rates.get("read_bandwidth", free)),
        _port("write", width, word, held, writes, rates.get("write_bandwidth", free)),
    )


def _port(name: str, width: int, word: int, held: Sequence[str], flows: Sequence[Flow], rate: Fraction) -> Port:
    return Port(name, width, word, tuple((operand, flow) for operand in held for flow in flows), rate)


def _bits(memories: Sequence[TreeMemory], read: _Read) -> dict[str, tuple[int, int]]:
    """Of each data space the bits of its words in its innermost memory, of a result only, and in its outermost."""
    found: dict[str, tuple[int, int]] = {}
    for space in read.spaces:
        words = [read.words[memory.name] for memory in memories if space in memory.operands]
        if words:
            found[space] = (words[0] if space in _RESULTS else words[-1], words[-1])
    return found


def _restrictions(
    nodes: Sequence[_Node], known: Sequence[str], read: _Read
) -> tuple[
    dict[tuple[str, str], int],
    dict[str, tuple[str, ...]],
    dict[tuple[str, str], tuple[int, int]],
    dict[str, tuple[str, ...]],
]:
    """What constraints say of spread factors, of loops along axes, of steps at memories, and of their order there.

    `known` are all loops, of constraints and of layers.
    """
    factors: dict[tuple[str, str], int] = {}
    only: dict[str, tuple[str, ...]] = {}
    steps: dict[tuple[str, str], tuple[int, int]] = {}
    orders: dict[str, tuple[str, ...]] = {}
    memories = {part.name for part in read.parts if isinstance(part, TreeMemory)}
    for node in nodes:
        for fields in _of_kind(node, "spatial", read):
            _spread(node, fields, known, factors, only, read)
        for fields in _of_kind(node, "temporal", read):
            if "factors" in fields and node.name in memories:
                for loop, sign, factor in factors_of(fields["factors"]):
                    steps[node.name, loop] = (factor if sign == "=" else 1, factor)
            if "permutation" in fields and node.name in memories:
                orders[node.name] = permutation_of(fields["permutation"])
    return factors, only, steps, orders


def _spread(
    node: _Node,
    fields: Mapping[str, Part],
    known: Sequence[str],
    factors: dict[tuple[str, str], int],
    only: dict[str, tuple[str, ...]],
    read: _Read,
) -> None:
    fixed = factors_of(fields["factors"]) if "factors" in fields else []
    order = permutation_of(fields["permutation"]) if "permutation" in fields else ()
    split = fields["split"].whole("loops", 0, 99) if "split" in fields else None
    axes = read.meshes.get(node.name, (None, None))
    for is_y, axis in enumerate(axes):
        if axis is None:
            continue
        loops = spread_loops(order, split, bool(is_y), fixed, known)
        if loops is not None:
            only[axis] = loops or ("",)
        for loop, sign, factor in fixed:
            alone = sum(one is not None for one in axes) == 1
            if factor == 1 or not (alone or (loops is not None and split is not None and loop in loops)):
                continue
            if sign == "=" and (loops is None or loop in loops):
                factors[axis, loop] = factor
            else:
                read.notes.append(
                    f"{node.name}: {loop}{sign}{factor} of what is spread is not a fixed factor; left out"
                )


def _loops(nodes: Sequence[_Node], read: _Read) -> dict[str, tuple[str, ...]]:
    """Every loop that constraints name, by their targets."""
    found: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        named: list[str] = []
        for fields in (*_of_kind(node, "spatial", read), *_of_kind(node, "temporal", read)):
            if "permutation" in fields:
                named += permutation_of(fields["permutation"])
            if "factors" in fields:
                named += [loop for loop, _, _ in factors_of(fields["factors"])]
        if named:
            found[node.name] = tuple(dict.fromkeys(named))
    return found
