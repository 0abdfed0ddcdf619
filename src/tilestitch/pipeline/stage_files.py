"""Values of stages in files, so that a run can start where another one stopped.

A file says how its value came about (network, machine, options, strategy, how the samples are divided), then holds the
value of one stage. Graphs are whole in it; a partition and a schedule name the operators of the network, and a program
also holds the schedule that it was lowered from.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from tilestitch.base.errors import InputError, InvalidIR, printable
from tilestitch.base.json_text import JsonPart, Rows, document_text, json_fields, json_value
from tilestitch.base.json_values import plain, value_of
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.by_hand import HandSchedule
from tilestitch.ir.choices import BindingRule, GroupingRule, Spill, Stage
from tilestitch.ir.decisions import Decisions, decisions_of
from tilestitch.ir.forms.graph_form import graph_digest, graph_in, graph_text
from tilestitch.ir.forms.program_form import program_in, program_text
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Blocks, ByHand, Groups, Partition, SubGraphs
from tilestitch.ir.program import Program
from tilestitch.ir.rewriting import Across, Again, Band, Rewriting, SplitK, Stream
from tilestitch.ir.run import Run
from tilestitch.ir.schedule import BlockRun, Home, Kernel, PieceRun
from tilestitch.ir.verify_schedule import verify_partition, verify_schedule
from tilestitch.lower.cluster import Cluster
from tilestitch.ops.known import verify_operators
from tilestitch.pipeline.compilation import Compilation, Way, given
from tilestitch.pipeline.options import Options

FORMAT = "tilestitch.stage"
VERSION = 1
MOST_BYTES = 2**32  # of a file: networks with their weights
HEAD = ("stage", "network", "machine", "options", "way", "run", "notes")
FIELDS = {  # of the value of each stage
    Stage.LOAD: ("graph",),
    Stage.SIMPLIFY: ("graph",),
    Stage.PARTITION: ("graph_sha256", "partition", "kernels"),
    Stage.SCHEDULE: ("graph_sha256", "partition", "kernels", "homes", "pieces", "blocks"),
}
FIELDS[Stage.LOWER] = (*FIELDS[Stage.SCHEDULE], "reordered", "program")
_STAGES = {str(stage): stage for stage in FIELDS}
_PARTITIONS = {"groups": Groups, "sub-graphs": SubGraphs, "blocks": Blocks, "by hand": ByHand}
_FAULTS_SHOWN = 20

Fields: TypeAlias = Mapping[str, JsonPart]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that a value depends on."""

    batch: int
    batch_per_cluster: int | str
    batches: int
    dims: Mapping[str, int]
    fold_bn: bool
    spill: Spill
    binding: BindingRule
    grouping: GroupingRule


@dataclass(frozen=True, slots=True)
class Started:
    """Where a run starts: the value of a stage, still as JSON, and how it came about."""

    stage: Stage
    network: str
    machine: str
    options: Options
    way: Way
    run: Run
    notes: tuple[str, ...]
    value: Fields
    where: str  # the file, for messages


def stage_text(done: Compilation, stage: Stage) -> str:
    """The value with which a stage that was reached ended, so that a run can start there."""
    options = done.options
    asked = Asked(
        options.batch or 1,
        options.batch_per_cluster,
        options.batches,
        dict(options.dims),
        options.fold_bn,
        options.spill,
        options.binding,
        options.grouping,
    )
    head = {
        "stage": str(stage),
        "network": done.loaded.name,
        "machine": done.machine.name,
        "options": plain(asked),
        "way": plain(done.way),
        "run": plain(done.run),
        "notes": list(_searched_notes(done)),
    }
    return document_text(FORMAT, VERSION, {**head, **_value(done, stage)})


def _searched_notes(done: Compilation) -> tuple[str, ...]:
    """What the search says of the schedule; what another order of instructions brought is found again."""
    if done.schedule is None:
        return ()
    return tuple(note for note in done.schedule.notes if note != done.reordered)


def _value(done: Compilation, stage: Stage) -> dict[str, Any]:
    if stage in (Stage.LOAD, Stage.SIMPLIFY):
        graph = done.loaded if stage is Stage.LOAD else given(done.simplified)
        return {"graph": json.loads(graph_text(graph))}
    partition = given(done.partition)
    kind = next(name for name, kind in _PARTITIONS.items() if isinstance(partition, kind))
    own = {name: value for name, value in _object(plain(partition)).items() if name != "kernels"}
    found: dict[str, Any] = {
        "graph_sha256": graph_digest(given(done.graph)),
        "partition": {"kind": kind, **own},
        "kernels": Rows([list(kernel) for kernel in partition.kernels]),
    }
    if stage is Stage.PARTITION:
        return found
    decisions = decisions_of(given(done.schedule), partition)
    found["partition"] = {**found["partition"], "kernels": found["kernels"].rows}
    for name in ("kernels", "homes", "pieces", "blocks"):
        found[name] = Rows([plain(item) for item in getattr(decisions, name)])
    if stage is Stage.LOWER:
        found |= {"reordered": done.reordered, "program": json.loads(program_text(given(done.program)))}
    return found


def started(text: str, where: str) -> Started:
    """What the head of a file says; its value is read when the network is there. Raises `InputError`."""
    whole = JsonPart(json_value(text, where), where)
    entries = whole.entries()
    stage = entries["stage"].choice(_STAGES) if "stage" in entries else Stage.LOAD
    fields = json_fields(whole, FORMAT, VERSION, (*HEAD, *FIELDS[stage]))
    asked = value_of(Asked, fields["options"].value, f"{where}: options")
    options = Options(
        batch=asked.batch,
        batch_per_cluster=asked.batch_per_cluster,
        batches=asked.batches,
        dims=asked.dims,
        fold_bn=asked.fold_bn,
        spill=asked.spill,
        binding=asked.binding,
        grouping=asked.grouping,
    )
    return Started(
        stage,
        fields["network"].text(),
        fields["machine"].text(),
        options,
        value_of(Way, fields["way"].value, f"{where}: way"),
        value_of(Run, fields["run"].value, f"{where}: run"),
        fields["notes"].texts("notes"),
        {name: fields[name] for name in FIELDS[stage]},
        where,
    )


def graph_of(start: Started) -> Graph:
    """The network in a file of the stages `load` and `simplify`."""
    graph = graph_in(start.value["graph"])
    _refuse_faults(start, lambda: verify_operators(graph))
    return graph


def partition_of(start: Started, graph: Graph, machine: Accelerator) -> Partition:
    """The partition in a file, of a network without views; it holds all that a partition must."""
    _expect_graph(start, graph)
    fields = dict(start.value["partition"].entries())
    kind = fields.pop("kind", start.value["partition"]).choice(_PARTITIONS)
    tree = {name: part.value for name, part in fields.items()}
    if start.stage is Stage.PARTITION:
        tree["kernels"] = start.value["kernels"].value
    partition = value_of(kind, tree, f"{start.where}: partition")
    if isinstance(partition, ByHand):
        partition = replace(partition, schedule=_with_tuples(partition.schedule))
    _refuse_faults(start, lambda: verify_partition(partition, graph, machine))
    return partition


def rewriting_in(start: Started) -> Rewriting:
    """The network in whose terms a partition is: as its schedule by hand says, if it has one."""
    fields = start.value["partition"].entries()
    if fields.get("kind", start.value["partition"]).choice(_PARTITIONS) is not ByHand or "schedule" not in fields:
        return Rewriting()
    schedule = fields["schedule"].entries()
    flags = ("joined", "apart", "folded", "packed")
    asked = {name for name in flags if name in schedule and schedule[name].value is True}
    where = f"{start.where}: partition: schedule"
    bands = _several(schedule, "bands", Band, where)
    streams, splits = _several(schedule, "streams", Stream, where), _several(schedule, "split_k", SplitK, where)
    across, again = _several(schedule, "across", Across, where), _several(schedule, "again", Again, where)
    whole = "joined" in asked, "apart" in asked, "folded" in asked
    return Rewriting(*whole, bands, streams, splits, across, "packed" in asked, again)


def _several(schedule: Fields, name: str, kind: type[T], where: str) -> tuple[T, ...]:
    """A list of values of a kind; empty where there is none of that name."""
    return value_of(tuple[kind, ...], schedule[name].value, f"{where}: {name}") if name in schedule else ()


def decisions_in(start: Started, graph: Graph, machine: Accelerator) -> Decisions:
    """Every decision in a file of the stages `schedule` and `lower`; the schedule holds all that it must."""
    partition = partition_of(start, graph, machine)
    value, where = start.value, start.where
    found = Decisions(
        start.run,
        partition,
        value_of(tuple[Kernel, ...], value["kernels"].value, f"{where}: kernels"),
        value_of(tuple[Home, ...], value["homes"].value, f"{where}: homes"),
        value_of(tuple[PieceRun, ...], value["pieces"].value, f"{where}: pieces"),
        value_of(tuple[BlockRun, ...], value["blocks"].value, f"{where}: blocks"),
        start.notes,
    )
    _refuse_faults(start, lambda: verify_schedule(found.of(graph), machine))
    return found


def program_of(start: Started, graph: Graph, machine: Accelerator) -> tuple[Program, str | None]:
    """The program in a file of the stage `lower`, and what another order of its instructions had brought."""
    note = start.value["reordered"]
    program, cluster = program_in(start.value["program"], graph), Cluster(machine)
    for what in ("spaces", "engines", "resources"):
        if getattr(program, what) != getattr(cluster, what):
            found = f"{start.where}: program.{what}: are not those of {machine.name}"
            raise InputError(f"{found}; start from the schedule, and lower it again")
    return program, None if note.value is None else note.text()


def _with_tuples(schedule: HandSchedule) -> HandSchedule:
    order = schedule.order if isinstance(schedule.order, str) else tuple(schedule.order)
    return replace(schedule, groups=tuple(schedule.groups), order=order, rules=tuple(schedule.rules))


def _object(tree: Any) -> dict[str, Any]:
    assert isinstance(tree, dict)
    return tree


def _expect_graph(start: Started, graph: Graph) -> None:
    if start.value["graph_sha256"].text("a digest") != graph_digest(graph):
        raise InputError(
            f"{start.where}: is of a network {printable(start.network)!r}, and the one that was given differs from it "
            "as it is read here; give the network, --dim and batch that it was made with"
        )


def _refuse_faults(start: Started, verify: Callable[[], None]) -> None:
    try:
        verify()
    except InvalidIR as error:
        lines = str(error).splitlines()[:_FAULTS_SHOWN]
        raise InputError("\n".join(f"{start.where}: {line}" for line in lines)) from None
