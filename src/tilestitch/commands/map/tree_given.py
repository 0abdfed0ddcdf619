"""A mapping that a file gives of a layer on a machine tree: its price, without a search.

Mappings are those of Timeloop and of AccelForge. On a machine of theirs the price by their own rules stands beside
ours, row by row.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tilestitch.api import Model
from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.json_values import Json
from tilestitch.base.shown import Shown
from tilestitch.base.text_files import file_text
from tilestitch.base.units import format_energy
from tilestitch.commands.map.sources import MAX_YAML_BYTES, Nests
from tilestitch.commands.map.tree_json import UNITS, layer_values
from tilestitch.commands.map.tree_machines import GivenTree, OpenedTree, open_tree
from tilestitch.commands.map.tree_page import drawn, drawn_machine
from tilestitch.commands.map.tree_run import MappedOnTree, TreeMappings, TreeTask, free_work, layers_named, layers_on
from tilestitch.commands.map.tree_sources import TreeLayer, bound_nest
from tilestitch.commands.map.tree_text import loop_lines
from tilestitch.formats.accelforge.mapping import accelforge_row
from tilestitch.formats.einsum import nest_text
from tilestitch.formats.foreign_price import PROGRAMS, foreign_price
from tilestitch.formats.timeloop.tree_machine import with_sliding_windows
from tilestitch.formats.timeloop.tree_mapping import timeloop_row
from tilestitch.formats.tree_row import mapping_of_row, room_faults
from tilestitch.mapping.tree.chain import PricedFlow, TreePrice, price
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.tables import Sums
from tilestitch.pipeline.origin import made_by
from tilestitch.report.html.page import Result, result_page
from tilestitch.report.table import table, title


@dataclass(frozen=True, repr=False)
class GivenOnTree(Shown):
    """A layer with a given mapping; `theirs` is its price by the rules of the program that the machine's file is of."""

    task: TreeTask
    layer: MappedOnTree
    program: str
    theirs: TreePrice | None
    misfits: tuple[str, ...]  # memories that are too small; priced as if they were not
    call: str = field(default="", repr=False)  # in Python, that makes its page again

    @property
    def mapped(self) -> TreeMappings:
        """As what a search finds, for the writers of files."""
        return TreeMappings(self.task, Sums.FULL, (self.layer,))

    def __str__(self) -> str:
        return given_text(self)

    def to_json(self) -> str:
        """What `tilestitch map --mapping --json` writes."""
        return given_json(self)

    def to_html(self, command: str = "") -> str:
        """What `tilestitch map --mapping --html` writes: a page to look at; `command` is said to make it again."""
        return result_page(given_page(self), made_by(command or self.call, (("mapping", self.task.mapping_file),)))

    def heading(self) -> str:
        """The layer, the machine, and the price."""
        ours = self.layer.found.price
        return (
            f"{self.layer.name} on {self.task.tree.name}, a given mapping: {ours.latency_cycles:,} cycles, "
            f"{ours.energy_pj:,.0f} pJ (estimated)"
        )

    def records(self) -> tuple[Record, ...]:
        """What each memory moves of each operand in each direction."""
        names = [array.name for array in self.layer.found.placed.operands]
        return tuple(
            {
                "memory": flow.memory,
                "operand": names[flow.operand],
                "direction": str(flow.flow),
                "accesses": flow.accesses,
                "energy_pj": flow.energy_pj,
            }
            for flow in _joined(self.layer.found.price.flows)
        )


def open_given(
    workload: Model,
    machine: GivenTree,
    mapping: Path,
    names: Sequence[str],
    load: Callable[[Model], Nests],
    energies: Path | None = None,
) -> GivenOnTree:
    """A layer, a machine and a mapping from files. Raises `InputError` for what is wrong with one of them."""
    work = free_work(workload, load)
    opened = open_tree(machine, energies, work.layers)
    layers, notes = layers_on(work, opened)
    found = layers_named(layers, names, work.name)
    if len(found) != 1:
        raise InputError(f"--mapping describes one layer, and {work.name} has {len(found)}; choose one with --layer")
    task = TreeTask(work.name, opened.tree, found, (), mapping.name, (*notes, *opened.notes))
    return _given(task, found[0], opened, file_text(mapping, "mapping", MAX_YAML_BYTES), mapping.name)


def _given(task: TreeTask, layer: TreeLayer, opened: OpenedTree, text: str, where: str) -> GivenOnTree:
    is_timeloop = opened.program == "Timeloop"
    bare = bound_nest(layer, with_sliding_windows(opened.tree) if is_timeloop else opened.tree)
    if re.search(r"^\s*-?\s*!(Storage|Compute)\b", text, re.MULTILINE) is not None:
        row, file = accelforge_row(text, where, bare)
    elif re.search(r"^mapping\s*:", text, re.MULTILINE) is not None:
        row, file = timeloop_row(text, where, bare, opened.meshes)
    else:
        raise InputError(
            f"{where}: on a tree a mapping is one of Timeloop or of AccelForge, with the field mapping; ZigZag's goes "
            "with --spatial FILE"
        )
    placed, mapping = mapping_of_row(bare, row, file)
    ours = price(placed, mapping)
    program = opened.program if opened.program in PROGRAMS else ""
    theirs = foreign_price(program, placed, mapping) if program else None
    found = FoundMapping(placed, Sums.FULL, mapping, ours, 0.0, is_proven=False, labels=0, points=0)
    shown = MappedOnTree(layer.nest.name, layer.operator, found, ())
    return GivenOnTree(replace(task, tree=placed.tree), shown, program, theirs, tuple(room_faults(placed, mapping)))


def given_text(given: GivenOnTree) -> str:
    """What a given mapping costs, and by the rules of the machine's program."""
    found = given.layer.found
    placed, ours = found.placed, found.price
    lines = title(f"{given.layer.name} on {given.task.tree.name}: a given mapping, estimated", "=")
    lines += [nest_text(placed.nest)]
    lines += [f"DOES NOT FIT: {misfit}; priced as if it did" for misfit in given.misfits]
    lines += [f"note         {note}" for note in given.task.notes]
    lines += [
        f"energy       {ours.energy_pj:,.3f} pJ",
        *([f"             {given.theirs.energy_pj:,.3f} pJ by the rules of {given.program}"] if given.theirs else []),
        f"latency      {ours.latency_cycles:,} cycles, {found.utilization:.1%} of the units at work",
        f"EDP          {ours.edp_pj_cycles:.6e} pJ x cycles",
        "",
        *loop_lines(found),
        "",
    ]
    head = ("memory", "", "direction", "accesses", "energy", "share")
    own = {_place(flow): flow for flow in _joined(given.theirs.flows)} if given.theirs else {}
    rows = [
        ("units", "", "multiply-accumulate", f"{placed.nest.macs:,}", *_share(ours.mac_pj, ours), *_its(given, ours))
    ]
    for flow in _joined(ours.flows):
        if flow.accesses > 0 or flow.energy_pj > 0:
            name = placed.operands[flow.operand].name
            cells = (flow.memory, name, str(flow.flow), f"{flow.accesses:,}", *_share(flow.energy_pj, ours))
            rows.append((*cells, *_its(given, own.get(_place(flow)))))
    if given.theirs:
        head = (*head, f"{given.program}: accesses", "energy")
    return "\n".join([*lines, *table(head, rows, "lllrrr" + "rr" * bool(given.theirs))])


def _joined(flows: Sequence[PricedFlow]) -> list[PricedFlow]:
    """The flows of each place in one; those of windows that slide are two."""
    found: dict[tuple[int, int, str], PricedFlow] = {}
    for flow in flows:
        before = found.get(_place(flow))
        if before is not None:
            flow = replace(flow, accesses=before.accesses + flow.accesses, energy_pj=before.energy_pj + flow.energy_pj)
        found[_place(flow)] = flow
    return list(found.values())


def _place(flow: PricedFlow) -> tuple[int, int, str]:
    return flow.operand, flow.level, str(flow.flow)


def _its(given: GivenOnTree, flow: PricedFlow | TreePrice | None) -> tuple[str, ...]:
    """The cells of the other program."""
    if given.theirs is None:
        return ()
    if isinstance(flow, TreePrice):
        return f"{given.layer.found.placed.nest.macs:,}", format_energy(flow.mac_pj)
    return (f"{flow.accesses:,}", format_energy(flow.energy_pj)) if flow is not None else ("0", format_energy(0.0))


def _share(energy_pj: float, whole: TreePrice) -> tuple[str, str]:
    return format_energy(energy_pj), f"{energy_pj / whole.energy_pj:.1%}" if whole.energy_pj > 0 else "-"


def given_page(given: GivenOnTree) -> Result:
    """All that the page of a mapping holds that was given, and not searched for."""
    tree, found = given.task.tree, given.layer.found
    names = [array.name for array in found.placed.operands]
    own = {_place(flow): flow for flow in _joined(given.theirs.flows)} if given.theirs else {}
    theirs = [own.get(_place(flow)) for flow in _joined(found.price.flows)] if given.theirs else []
    return Result(
        "given-tree",
        f"{given.layer.name} on {tree.name}: a given mapping",
        given_text(given),
        _values(given),
        {
            **drawn_machine(tree),
            "nest": nest_text(found.placed.nest),
            "program": given.program if given.theirs else "",
            "drawn": drawn(found),
            "flows": [
                {
                    "memory": flow.memory,
                    "operand": names[flow.operand],
                    "direction": str(flow.flow),
                    "accesses": flow.accesses,
                    "energy_pj": flow.energy_pj,
                }
                for flow in _joined(found.price.flows)
            ],
            "theirs": [
                None if one is None else {"accesses": one.accesses, "energy_pj": one.energy_pj} for one in theirs
            ],
        },
    )


def given_json(given: GivenOnTree) -> str:
    """Everything that the text says, with its units."""
    return json.dumps(_values(given), indent=1) + "\n"


def _values(given: GivenOnTree) -> dict[str, Json]:
    proofs = ("proven_best", "bound_pj", "gap", "bound_cycles", "labels", "lattice_points")
    hidden = (*proofs, "spatial_choices", "spatial_choices_opened", "notes", "times")
    layer = {key: value for key, value in layer_values(given.layer).items() if key not in hidden}
    found: dict[str, Any] = {
        "machine": given.task.tree.name,
        "numbers": "estimated",
        "units": UNITS,
        "mapping": given.task.mapping_file,
        "fits": not given.misfits,
        "misfits": list(given.misfits),
        "notes": list(given.task.notes),
        "layer": layer,
    }
    if given.theirs is not None:
        names = [array.name for array in given.layer.found.placed.operands]
        flows = [{**asdict(flow), "operand": names[flow.operand]} for flow in _joined(given.theirs.flows)]
        found["by_rules_of"] = {"program": given.program, "energy_pj": given.theirs.energy_pj, "flows": flows}
    return found
