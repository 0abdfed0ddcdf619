"""Accelerators of ZigZag as machine trees: every memory, port and axis as the file has it.

Source: the accelerator files of ZigZag 3.9.1 and the schema that it checks them with. In a port's allocation `fh` is
what comes from the higher memory, `tl` what goes to the lower one, `fl` what comes from it, `th` what goes up. Energies
are those of an access of `bandwidth_max` bits; an access moves whole multiples of `bandwidth_min` and costs its share.
A memory is repeated along the axes that it does not serve.
"""

from math import prod

from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.hardware.tree import Axis, Flow, MachineTree, Port, TreeMemory, tree_faults

MAX_UNITS = 2**24
MAX_BITS = 2**53
MAX_WIDTH = 2**24
OPERANDS = ("I1", "I2", "O")
_FLOWS = {"fh": Flow.FILL, "tl": Flow.FEED, "fl": Flow.COLLECT, "th": Flow.DRAIN}
_MEMORY_REQUIRED = ("size", "latency", "operands", "ports", "served_dimensions")
_MEMORY_OPTIONAL = (
    *("r_cost", "w_cost", "area", "mem_type", "auto_cost_extraction", "force_double_buffering"),
    *("r_bw", "w_bw", "r_port", "w_port", "rw_port"),
)
_ARRAY_OPTIONAL = (
    *("unit_area", "input_precision", "systolic_dimensions", "is_imc"),
    *("imc_type", "adc_resolution", "bit_serial_precision"),
)
_PORT_FIELDS = ("name", "type", "bandwidth_min", "bandwidth_max", "allocation")
_IN_MEMORY = "not supported: in-memory compute has costs of its own, which have no model; expected an array of units"


def zigzag_tree(text: str, where: str) -> tuple[MachineTree, tuple[str, ...]]:
    """The tree of an accelerator's file, and notes on what was read otherwise than it stands there.

    Raises `InputError` with the keys that lead to what is wrong or has no model.
    """
    notes: list[str] = []
    file = yaml_file(text, where, notes=notes)
    parts = file.fields(("name", "memories", "operational_array"), ("dataflows",))
    name = parts["name"].text("a name")
    array = parts["operational_array"]
    mac_pj, axes = _array(array, name)
    memories = [_memory(key, part, axes) for key, part in parts["memories"].entries().items()]
    tree = MachineTree(name, axes, tuple(memories), mac_pj)
    for part, fault in tree_faults(tree):
        parts["memories"].refuse(f"{part}: {fault}")
    if "dataflows" in parts and not parts["dataflows"].is_absent:
        notes.append(f"{where}: dataflows: what is spread over the units is said by the mapping; left out")
    return tree, tuple(notes)


def _array(part: Part, name: str) -> tuple[float, tuple[Axis, ...]]:
    entries = part.entries()
    in_memory = "is_imc" in entries and entries["is_imc"].switch()
    if in_memory or ("imc_type" in entries and not entries["imc_type"].is_absent):
        entries["is_imc" if in_memory else "imc_type"].refuse(f"{name}: {_IN_MEMORY}")
    fields = part.fields(("dimensions", "sizes"), ("unit_energy", *_ARRAY_OPTIONAL))
    if "unit_energy" not in fields:
        part.refuse("the field unit_energy is missing; write the picojoules of one multiply-accumulate")
    names = [item.text("a dimension") for item in fields["dimensions"].items("dimensions", least=0)]
    sizes = [item.whole("units", 1, MAX_UNITS) for item in fields["sizes"].items("sizes", least=0)]
    if len(names) != len(sizes) or len(set(names)) != len(names):
        fields["sizes"].refuse(f"expected every dimension once and a size for each; found {len(names)}, {len(sizes)}")
    if prod(sizes) > MAX_UNITS:
        fields["sizes"].refuse(f"expected at most {MAX_UNITS:,} units together, found {prod(sizes):,}")
    return fields["unit_energy"].energy(), tuple(map(Axis, names, sizes))


def _memory(name: str, part: Part, axes: tuple[Axis, ...]) -> TreeMemory:
    fields = part.fields(_MEMORY_REQUIRED, _MEMORY_OPTIONAL)
    if "auto_cost_extraction" in fields and fields["auto_cost_extraction"].switch():
        fields["auto_cost_extraction"].refuse("not supported: CACTI is not asked; write r_cost and w_cost")
    for cost in ("r_cost", "w_cost"):
        if cost not in fields or fields[cost].is_absent:
            part.refuse(f"the field {cost} is missing; write the picojoules of an access")
    operands = tuple(dict.fromkeys(item.text("an operand") for item in fields["operands"].items("operands")))
    if any(operand not in OPERANDS for operand in operands):
        fields["operands"].refuse(f"expected some of {', '.join(OPERANDS)}, found {', '.join(operands)}")
    known = [axis.name for axis in axes]
    served = [item.text("a dimension") for item in fields["served_dimensions"].items("dimensions", least=0)]
    for dimension in served:
        if dimension not in known:
            fields["served_dimensions"].refuse(f"{dimension} is no dimension; known: {', '.join(known) or 'none'}")
    twice = "force_double_buffering" in fields and fields["force_double_buffering"].switch()
    return TreeMemory(
        name,
        fields["size"].whole("bits", 1, MAX_BITS),
        operands,
        tuple(_port(item, operands) for item in fields["ports"].items("ports")),
        fields["r_cost"].energy(),
        fields["w_cost"].energy(),
        tuple(dict.fromkeys(served)),
        2 if twice else 1,
    )


def _port(part: Part, operands: tuple[str, ...]) -> Port:
    fields = part.fields(_PORT_FIELDS)
    kind = fields["type"].text("a type")
    if kind not in ("read", "write", "read_write"):
        fields["type"].expected("read, write or read_write")
    width = fields["bandwidth_max"].whole("bits", 1, MAX_WIDTH)
    granule = fields["bandwidth_min"].whole("bits", 1, width)
    flows: list[tuple[str, Flow]] = []
    for item in fields["allocation"].items("allocations"):
        operand, _, direction = item.text("an allocation").replace(" ", "").partition(",")
        if operand not in operands or direction not in _FLOWS:
            item.expected("an operand of this memory and tl, fl, th or fh, as in 'I1, tl'")
        flow = _FLOWS[direction]
        if kind == ("write" if flow.is_read else "read"):
            item.refuse(f"a {kind} port cannot serve {direction}, which {'reads' if flow.is_read else 'writes'}")
        flows.append((operand, flow))
    return Port(fields["name"].text("a name"), width, granule, tuple(flows))
