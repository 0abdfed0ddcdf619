"""Architectures of AccelForge as machine trees.

A memory holds what it keeps and what it may keep. `spatial` repeats the node that has it and all inside. Energies are
joules of an action, which moves `bits_per_action` bits (one unless stated) and costs its share; where the file leaves
them to component models they are those of a table that is handed in, or the file is refused. Rates are a second; a
cycle is the time of one multiply-accumulate. The tensors are those of a product: input, weight and output.

Source: the input formats of AccelForge 1.0.467 and the architectures that it ships.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tilestitch.formats.accelforge.expressions import TENSORS, number, tensors
from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.foreign_tree import (
    MAX_BITS,
    MAX_UNITS,
    MAX_WIDTH,
    UNLIMITED,
    EnergyTable,
    ForeignTree,
    action_pj,
    tree_of_parts,
)
from tilestitch.hardware.tree import Axis, Flow, Port, TreeMemory
from tilestitch.hardware.yaml_tree import TAG, Scalar

TAGS = ("!Memory", "!Container", "!Fanout", "!Compute", "!Toll", "!Hierarchical", "!Fork", "!Array", "!Network")
_OPERANDS = dict(zip(TENSORS, ("I", "W", "O"), strict=True))
_SILENT = (  # of area, leakage and component models
    *("component_class", "leak_power", "area", "extra_attributes_for_component_model", "leak_power_scale"),
    *("area_scale", "energy_scale", "n_parallel_instances", "latency_scale", "component_model"),
)
_TIMELOOP = "this is Timeloop's first form; write architecture with nodes, as its version 0.4 has it"
_MEMORY = ("size", "tensors", "actions", "total_latency", "spatial", "bits_per_value", *_SILENT)
_SEPARATE = "max(a.n_calls / a.throughput for a in actions)"  # each action a port of its own
_SHARED = "sum(a.n_calls for a in actions)"  # over a rate: one port for all actions


@dataclass(slots=True)
class _Read:
    energies: EnergyTable
    bits: Mapping[str, int]
    parts: list[TreeMemory | Axis] = field(default_factory=list)
    held: dict[str, frozenset[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    mac_pj: float | None = None
    hz: Fraction | None = None  # multiply-accumulates a second of one unit


@dataclass(frozen=True, slots=True)
class _Action:
    """One way to use a component: its energy, the bits that it moves, and how many there are in a second at most."""

    energy_pj: float
    bits: int
    rate: Fraction | None


def accelforge_tree(
    text: str,
    where: str,
    energies: EnergyTable | None = None,
    bits: Mapping[str, int] | None = None,
    names: Mapping[str, str] | None = None,
) -> ForeignTree:
    """The tree of an architecture's file; `bits` are those of a value of each tensor, where sizes depend on them.

    `names` are what the layers call the tensors: input, weight or output by name.

    Raises `InputError` with the keys that lead to what a tree cannot say, and where energies are missing.
    """
    file = yaml_file(text, where, tags=TAGS)
    top = file.fields(("arch",), ("variables", "workload", "renames", "mapper", "model", "config", "component_models"))
    arch = top["arch"].fields(("nodes",), ("extra_attributes_for_all_component_models", "name"), {"storage": _TIMELOOP})
    read = _Read(energies or {}, bits or {})
    read.held |= {name: frozenset((role,)) for name, role in (names or {}).items()}
    nodes = tuple(_flat(arch["nodes"]))
    for node in nodes:  # the rate of the units makes cycles of seconds
        if node.entries()[TAG].text() == "!Compute":
            _compute(node, read)
    for node in nodes:
        _take(node, read)
    if read.mac_pj is None:
        arch["nodes"].refuse("expected a !Compute for products of three tensors, found none")
    clock = round(read.hz) if read.hz is not None else None
    name = where.removesuffix(".yaml").removesuffix(".yml")
    tree = tree_of_parts(name, read.parts, read.mac_pj, "", clock, file)
    tree = replace(tree, has_latches=False, reads_first_sums=False)
    return ForeignTree(tree, tuple(dict.fromkeys(read.notes)))


def _flat(part: Part) -> Iterator[Part]:
    """The nodes from the outermost, those of a hierarchy in its place."""
    for node in part.items("nodes"):
        tag = node.entries().get(TAG)
        if tag is None:
            node.refuse(f"expected one of the tags {', '.join(TAGS)}")
        if tag.text() == "!Hierarchical":
            yield from _flat(node.fields((TAG, "nodes"))["nodes"])
        elif tag.text() in ("!Toll", "!Fork", "!Array", "!Network"):
            node.refuse(f"{tag.text()} is not supported: a tree has memories, fan-outs and units; leave it out")
        else:
            yield node


def _compute(node: Part, read: _Read) -> None:
    known = ("actions", "total_latency", "enabled", "spatial", *_SILENT)
    fields = node.fields((TAG, "name"), known)
    if "enabled" in fields:
        match = re.fullmatch(r"len\(All\)\s*==\s*([0-9]{1,3})", fields["enabled"].text("a condition"))
        if match is None:
            fields["enabled"].expected("len(All) == 3, which says that a unit multiplies")
        if int(match[1]) != len(TENSORS):
            return
    if read.mac_pj is not None:
        node.refuse("a second unit for products of three tensors is not supported; leave one out")
    actions = _actions(fields, ("compute",), read)
    read.mac_pj, read.hz = actions[0].energy_pj, actions[0].rate


def _take(node: Part, read: _Read) -> None:
    kind = node.entries()[TAG].text()
    if kind == "!Compute":
        return
    known = _MEMORY if kind == "!Memory" else ("spatial", *_SILENT)
    fields = node.fields((TAG, "name", "size", "tensors") if kind == "!Memory" else (TAG, "name"), known)
    name = fields["name"].text("a name")
    if "spatial" in fields:
        read.parts += _axes(name, fields["spatial"], read)
    if kind == "!Memory":
        held = frozenset[str]()
        kept = fields["tensors"].fields((), ("keep", "may_keep"))
        for part in kept.values():
            held |= tensors(part, read.held)
        read.held[name] = held
        if held:
            read.parts.append(_memory(name, fields, [_OPERANDS[one] for one in TENSORS if one in held], read))
        else:
            read.notes.append(f"{name} holds nothing; left out")


def _axes(name: str, part: Part, read: _Read) -> Iterator[Axis]:
    for item in part.items("fan-outs", least=0):
        fields = item.fields(("name", "fanout"), ("may_reuse", "reuse", "min_usage", "loop_bounds", "usage_scale"))
        count = number(fields["fanout"], read.bits)
        if count is None or count.denominator != 1 or not 1 <= count <= MAX_UNITS:
            fields["fanout"].expected(f"a whole number of 1 to {MAX_UNITS:,}")
        for key in ("may_reuse", "reuse", "min_usage", "loop_bounds"):
            if key in fields:
                read.notes.append(f"{key} of fan-outs does not restrict what is spread; left out")
        yield Axis(f"{name}_{fields['name'].text('a name')}", int(count))


def _memory(name: str, fields: Mapping[str, Part], held: Sequence[str], read: _Read) -> TreeMemory:
    size = number(fields["size"], read.bits)
    if size is not None and (size.denominator != 1 or size < 1):
        fields["size"].expected("a whole number of bits above 0, or inf")
    if "bits_per_value" in fields:
        read.notes.append(f"{name}: bits_per_value: an operand has the bits of the layer in every memory; left out")
    reads, writes = _actions(fields, ("read", "write"), read)
    ways = ((Flow.FEED, Flow.DRAIN), (Flow.FILL, Flow.COLLECT))
    shared = reads.rate == writes.rate and reads.bits == writes.bits and not _is_separate(fields)
    if shared and reads.rate is not None:
        ports: tuple[Port, ...] = (_port("port", reads, held, tuple(Flow), read),)
    else:
        if not _is_separate(fields) and reads.rate is not None:
            read.notes.append(f"{name}: one port with two rates is read as a port for each")
        found = zip(("read", "write"), (reads, writes), ways, strict=True)
        ports = tuple(_port(called, action, held, flows, read) for called, action, flows in found)
    area = number(fields["area"], read.bits) if "area" in fields else None
    bits = MAX_BITS if size is None else min(MAX_BITS, int(size))
    mm2 = float(area * 10**6) if area is not None else None
    return TreeMemory(name, bits, tuple(held), ports, reads.energy_pj, writes.energy_pj, (), area_mm2=mm2)


def _is_separate(fields: Mapping[str, Part]) -> bool:
    return "total_latency" in fields and fields["total_latency"].text() == _SEPARATE


def _port(name: str, action: _Action, held: Sequence[str], flows: Sequence[Flow], read: _Read) -> Port:
    rate = Fraction(UNLIMITED)
    if action.rate is not None:
        rate = action.rate * action.bits / (read.hz or 1)
    return Port(name, action.bits, 1, tuple((operand, flow) for operand in held for flow in flows), rate)


def _actions(fields: Mapping[str, Part], names: Sequence[str], read: _Read) -> list[_Action]:
    """The actions of a component by name, with rates of the component's own where a formula gives them."""
    given = {
        one["name"].text("an action"): one
        for item in (fields["actions"].items("actions", least=0) if "actions" in fields else ())
        for one in (item.fields(("name",), ("energy", "bits_per_action", "throughput", "latency")),)
    }
    common = _common_rate(fields, read)
    component = fields["name"].text("a name")
    found: list[_Action] = []
    for name in names:
        parts = given.get(name, {})
        joules = number(parts["energy"], read.bits) if "energy" in parts else None
        if "energy" in parts and (joules is None or joules < 0):
            parts["energy"].expected("joules of at least 0")
        zero = "component_class" in fields and fields["component_class"].text() == "Dummy"
        if joules is not None:
            energy = float(joules * 10**12)
        else:
            energy = 0.0 if zero and not read.energies.get(component) else _modelled(component, name, fields, read)
        width = number(parts["bits_per_action"], read.bits) if "bits_per_action" in parts else Fraction(1)
        if width is None or width.denominator != 1 or not 1 <= width <= MAX_WIDTH:
            parts["bits_per_action"].expected(f"1 to {MAX_WIDTH:,} bits")
        found.append(_Action(energy, int(width), common if common is not None else _rate(parts, read)))
    return found


def _modelled(component: str, action: str, fields: Mapping[str, Part], read: _Read) -> float:
    part = fields["name"]
    if not read.energies and "component_class" in fields:
        part.refuse(
            f"{component}: its energies come from a component model, which is not run here; write energy at each "
            "action, or --energies FILE with a table of picojoules"
        )
    return action_pj(read.energies, component, (action,), part)


def _rate(parts: Mapping[str, Part], read: _Read) -> Fraction | None:
    if "throughput" in parts:
        rate = number(parts["throughput"], read.bits)
        if rate is not None and rate <= 0:
            parts["throughput"].expected("a rate above 0, or inf")
        return rate
    if "latency" in parts:
        seconds = number(parts["latency"], read.bits)
        return 1 / seconds if seconds else None
    return None


def _common_rate(fields: Mapping[str, Part], read: _Read) -> Fraction | None:
    """Actions a second of all kinds together, where the formula of the latency says so."""
    if "total_latency" not in fields or _is_separate(fields):
        return None
    part = fields["total_latency"]
    text = part.text("a formula")
    if not text.startswith(_SHARED):
        part.expected(f"'{_SEPARATE}' or '{_SHARED} / RATE'")
    rest = Scalar(text.removeprefix(_SHARED), quoted=False)
    seconds = number(Part(rest, part.file, part.path), read.bits, prefix="1")
    return 1 / seconds if seconds else None
