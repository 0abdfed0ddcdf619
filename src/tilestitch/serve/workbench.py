"""What the page asks for: networks and machines to choose from, compilations, their pages and their files.

Of the file system nothing is read but networks and machines that lie in one folder, and nothing is written elsewhere.
"""

import re
import shlex
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tilestitch import api, zoo
from tilestitch.base.errors import InputError, printable
from tilestitch.base.files import write_files
from tilestitch.base.json_values import Json, plain
from tilestitch.base.progress import Progress, quiet
from tilestitch.commands.listings import models, strategies
from tilestitch.commands.why.explain import blame_of
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.compilable import compilable_presets
from tilestitch.ir.by_hand import HandGroup, HandSchedule
from tilestitch.ir.choices import Stage
from tilestitch.ir.gap import MEANINGS
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.hand_schedule import RunPiece, hand_schedule_of, run_pieces
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text
from tilestitch.serve.edits import Draft, Edit, edited

KEPT = 4  # compilations; others are made again where their page or file is asked for
_LENGTH = "128"  # of networks that there are for any number of tokens, in the list; others can be named
_SMALL = ":small"
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._ -]{0,99}")


class Exists(InputError):
    """There is a file of that name; it is only replaced where somebody says so."""


@dataclass(frozen=True, slots=True)
class Start:
    """A network on a machine, and the strategy to begin with."""

    network: str
    machine: str
    batch: int | None
    strategy: str


@dataclass(frozen=True, slots=True)
class ByHandStart:
    """The same with a schedule that somebody wrote, and the batch of an iteration that it is for."""

    network: str
    machine: str
    batch: int | None
    batch_per_iteration: int
    schedule: HandSchedule


Asked: TypeAlias = Start | ByHandStart


@dataclass(slots=True)
class Workbench:
    """Compilations of networks and machines of one folder, by keys that count them."""

    folder: Path
    progress: Progress = quiet
    asked: list[Asked] = field(default_factory=list)
    kept: OrderedDict[int, Compilation] = field(default_factory=OrderedDict)

    def choices(self) -> dict[str, Json]:
        """What there is to choose from: built in, and in the folder."""
        networks = [entry.name_for(_LENGTH) for entry in zoo.ENTRIES]
        about = dict(zip(networks, (one.description for one in models().entries), strict=True))
        return {
            "networks": [
                *({"name": name, "about": "in the folder"} for name in self._files(".onnx")),
                *(
                    {"name": name + suffix, "about": about[name] + (", shrunk" if suffix else "")}
                    for name in networks
                    for suffix in ("", _SMALL)
                ),
            ],
            "machines": [
                *({"name": name, "about": "in the folder"} for name in self._files(".yaml")),
                *({"name": name, "about": text} for name, text in compilable_presets()),
            ],
            "strategies": [{"name": one.name, "about": one.description} for one in strategies().entries],
            "folder": str(self.folder),
        }

    def compiled(self, asked: Asked) -> int:
        """Compile, and the key of what comes out."""
        done = self._compile(asked)
        self.asked.append(asked)
        key = len(self.asked) - 1
        self._keep(key, done)
        return key

    def edited(self, key: int, edit: Edit) -> int:
        """Compile what an edit makes of the schedule of a compilation, and the key of what comes out."""
        done, asked = self.done(key), self.asked[key]
        draft = Draft(given(done.graph), given(done.partition).kernels, hand_schedule_of(done))
        return self.compiled(
            ByHandStart(
                asked.network,
                asked.machine,
                asked.batch,
                given(done.schedule).batch,
                edited(draft, edit),
            )
        )

    def done(self, key: int) -> Compilation:
        """The compilation with a key; raises `InputError` where there is none."""
        if not 0 <= key < len(self.asked):
            raise InputError(f"compilation {key}: there has been no such compilation since the server was started")
        done = self.kept.get(key)
        if done is None:
            done = self._compile(self.asked[key])
        self._keep(key, done)
        return done

    def page(self, key: int) -> str:
        """The page of a compilation, as --html writes it."""
        done = self.done(key)
        command = "" if isinstance(self.asked[key], Start) else self._command(key, "FILE.json")
        return done.to_html(command)

    def answer(self, key: int) -> dict[str, Json]:
        """What the page shows of a compilation: its price, where the time goes, and what can be changed."""
        done = self.done(key)
        report, blame = given(done.report), blame_of(done)
        gap = blame.whole()
        found: dict[str, Json] = {
            "key": key,
            "network": report.network,
            "machine": report.machine,
            "strategy": report.strategy,
            "batch": report.batch,
            "batch_per_iteration": report.batch_per_iteration,
            "latency_cycles": report.latency_cycles,
            "latency_seconds": report.latency_seconds,
            "bound_cycles": report.bound_cycles,
            "ddr_bytes": report.ddr_bytes,
            "energy_pj": report.total_energy_pj,
            "gap": {
                "unit": blame.unit,
                "cycles": float(gap.gap_cycles),
                "parts": [
                    {"part": str(one.part), "cycles": float(one.cycles), "meaning": MEANINGS[one.part]}
                    for one in gap.parts
                ],
            },
            "notes": list(report.notes),
        }
        try:
            schedule = hand_schedule_of(done)
        except InputError as error:
            return {**found, "schedule": None, "not_editable": str(error)}
        return {**found, "schedule": plain(schedule), "not_editable": None, **_parts(done, schedule)}

    def save(self, key: int, name: str, *, replace: bool) -> dict[str, Json]:
        """Write the schedule of a compilation to a new file of the folder, and how to compile it."""
        target = self._place(name)
        if target.is_symlink() or (target.exists() and not target.is_file()):
            raise InputError(f"{name}: exists and is not a file; choose another name")
        if target.exists() and not replace:
            raise Exists(f"{name}: is there already; replace it, or choose another name")
        write_files([(target, stage_text(self.done(key), Stage.SCHEDULE).encode())])
        return {"saved": name, "command": self._command(key, name)}

    def _command(self, key: int, name: str) -> str:
        asked = self.asked[key]
        machine = ["--machine", asked.machine] if asked.machine in self._files(".yaml") else []
        words = ["tilestitch", "compile", asked.network, *machine, "--from", name]
        return shlex.join(words)

    def _place(self, name: str) -> Path:
        if _FILE_NAME.fullmatch(name) is None or not name.endswith(".json"):
            raise InputError(
                f"file {printable(name, 60)!r}: expected a plain name that ends in .json, of letters, digits, spaces, "
                "dots, - and _; it is written to the folder of the server"
            )
        return self.folder / name

    def _compile(self, asked: Asked) -> Compilation:
        network = self._network(asked.network)
        machine = self._machine(asked.machine)
        if isinstance(asked, Start):
            return api.compile(network, machine, strategy=asked.strategy, batch=asked.batch, progress=self.progress)
        options = Options(batch=asked.batch, batch_per_cluster=asked.batch_per_iteration)
        return api.compile(network, machine, strategy=asked.schedule, options=options, progress=self.progress)

    def _keep(self, key: int, done: Compilation) -> None:
        self.kept[key] = done
        self.kept.move_to_end(key)
        while len(self.kept) > KEPT:
            self.kept.popitem(last=False)

    def _network(self, name: str) -> str | Path:
        if name in self._files(".onnx"):
            return self.folder / name
        try:
            zoo.find(name.removesuffix(_SMALL))
        except InputError as error:
            raise InputError(
                f"network {printable(name, 60)!r}: is not an .onnx file in the folder, and {error}"
            ) from None
        return name

    def _machine(self, name: str) -> str | Path:
        if name in self._files(".yaml"):
            return self.folder / name
        known = [one for one, _ in compilable_presets()]
        if name in known:
            return name
        raise InputError(
            f"machine {printable(name, 60)!r}: is neither built in nor a .yaml file in the folder; "
            f"built in are {', '.join(known)}"
        )

    def _files(self, ending: str) -> list[str]:
        """The files of the folder itself with an ending; no hidden ones, and no links to elsewhere."""
        root = self.folder.resolve()
        return sorted(
            path.name
            for path in root.iterdir()
            if path.suffix == ending
            and not path.name.startswith(".")
            and path.is_file()
            and path.resolve().parent == root
        )


def _parts(done: Compilation, schedule: HandSchedule) -> dict[str, Json]:
    """The groups with what they can be cut along, and the pieces in their order with where their results stay."""
    graph, planned = given(done.graph), given(done.schedule)
    draft = Draft(graph, given(done.partition).kernels, schedule)
    pieces = run_pieces(planned)
    groups: list[Json] = []
    for group, members, ends in zip(schedule.groups, draft.members(), draft.ends(), strict=True):
        results = [graph.tensors[name].shape for name in graph.leaving([graph.by_name[one] for one in members])]
        axes = min((len(shape) for shape in results), default=0)
        groups.append(
            {
                "name": group.name,
                "operators": list(members),
                "kernels": list(ends),
                "axis": group.axis,
                "pieces": group.pieces if isinstance(group.pieces, int) else len(group.pieces),
                "besides": _besides(group),
                "extents": [min(shape[axis] for shape in results) for axis in range(axes)],
            }
        )
    scopes = {} if isinstance(schedule.order, str) else {one.instance: one.scope for one in schedule.order}
    order: list[Json] = []
    for piece in pieces:
        name = f"{schedule.groups[piece.group].name}[{piece.number}]"
        order.append({"name": name, "group": piece.group, "scope": scopes.get(name), "stays": _stays(done, piece)})
    return {"groups": groups, "order": order}


def _besides(group: HandGroup) -> str:
    """What the number of its pieces does not say."""
    uneven = [] if isinstance(group.pieces, int) else ["uneven"]
    return "; ".join([*uneven, *(f"each in {pieces} along axis {axis}" for axis, pieces in group.further)])


def _stays(done: Compilation, piece: RunPiece) -> list[str]:
    """The levels at which what leaves a piece stays, the nearest first."""
    planned, graph = given(done.schedule), given(done.graph)
    inside = range(piece.first, piece.last + 1)
    homes = {(one.first, one.tensor): one for one in planned.homes if one.first in inside and not one.fetched}
    own = {name for number in inside for name in planned.kernels[number].operators}
    leaving = set(graph.leaving([graph.by_name[name] for name in own]))
    found: set[Level] = set()
    for number in inside:
        made = {tensor for name in planned.kernels[number].operators for tensor in graph.by_name[name].outputs}
        for tensor in made & leaving:
            home = homes.get((number, tensor))
            found.add(Level.DDR if home is None else home.level)
    return [str(level) for level in (Level.LB, Level.GB, Level.DDR) if level in found]
