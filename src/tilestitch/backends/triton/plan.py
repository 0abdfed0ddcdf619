"""Which operators of a schedule become which kernels: what the schedule runs together, as far as one kernel can.

A module holds what the schedule runs as one sub-graph instance: a piece of a sub-graph, a fused block, or kernels that
are stitched together. Its kernels are those of the schedule; a kernel that cannot be one is split, and kernels whose
results only one other takes are fused with it where `launch` can write that. What stays apart is said, with the reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilestitch.backends.triton.code import identifier
from tilestitch.backends.triton.launch import KNOWN, Launch, Limits, launch
from tilestitch.backends.triton.reductions import STEPS, is_row
from tilestitch.backends.triton.values import Storage, Unfused
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel, Schedule
from tilestitch.ir.tiles import operator_boxes
from tilestitch.ops.contraction import KINDS

MOST_PRODUCTS = 3  # of a kernel


@dataclass(frozen=True, slots=True)
class Draft:
    """Operators that are to be one kernel, and which kernels of the schedule they come from."""

    operators: tuple[str, ...]
    box: Region | None
    kernels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Apart:
    """Two operators that are not one kernel, and why."""

    first: str
    second: str
    reason: str

    def __str__(self) -> str:
        return f"{self.first} and {self.second} stay apart: {self.reason}."


@dataclass(frozen=True, slots=True)
class Module:
    """One sub-graph instance: kernels in the order in which they run."""

    name: str
    kernels: tuple[int, ...]  # of the schedule
    launches: tuple[Launch, ...]
    drafts: tuple[Draft, ...]  # of each launch
    notes: tuple[str, ...]  # what stays apart, and why


@dataclass(frozen=True, slots=True)
class Plan:
    """All modules, and what is where in memory."""

    schedule: Schedule
    storage: Storage
    modules: tuple[Module, ...]


@dataclass(slots=True)
class _Planner:
    """Drafts of all modules, and what is known of those that were tried."""

    schedule: Schedule
    storage: Storage
    limits: Limits
    tried: dict[tuple[tuple[str, ...], Region | None], Launch | str] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        return self.schedule.graph

    def operators(self, names: Sequence[str]) -> list[Operator]:
        return [self.graph.by_name[name] for name in names]

    def attempt(self, operators: tuple[str, ...], box: Region | None) -> Launch | str:
        """A kernel for some operators, or why there can be none."""
        key = (operators, box)
        if key not in self.tried:
            try:
                self.tried[key] = self._launch(operators, box)
            except Unfused as error:
                self.tried[key] = str(error)
        return self.tried[key]

    def _launch(self, operators: tuple[str, ...], box: Region | None) -> Launch:
        found = self.operators(operators)
        leaving = self.graph.leaving(found)
        if leaving != list(found[-1].outputs):
            inner = next((name for name in leaving if name not in found[-1].outputs), leaving[0])
            raise Unfused(f"others read {inner} as well")
        return launch(self.graph, self.storage, f"{identifier(found[-1].name)}_kernel", found, box, self.limits)


def plan(schedule: Schedule, floats: DType, limits: Limits, *, fuse: bool = True) -> Plan:
    """Modules for a schedule, whose floating tensors are stored as `floats`; without `fuse` kernels stay apart.

    Raises `InputError` for an operator that the back end does not have.
    """
    expect_known(schedule.graph)
    planner = _Planner(schedule, Storage(floats, _layouts(schedule.graph)), limits)
    groups = list(_groups(schedule))
    drafts, split = _separate(planner, groups)
    notes: list[list[Apart | str]] = [list(one) for one in split]
    if fuse:
        drafts = _fused(planner, drafts, notes)
    kept = [number for number, module in enumerate(drafts) if module]
    modules = []
    for number, group in enumerate(kept):
        launches = _named([_given(planner.attempt(one.operators, one.box)) for one in drafts[group]])
        name = f"g{number:0{len(str(len(kept) - 1))}d}_{identifier(launches[0].operators[0])}"
        kernels = tuple(sorted({kernel for draft in drafts[group] for kernel in draft.kernels}))
        modules.append(Module(name, kernels, launches, tuple(drafts[group]), _said(notes[group], drafts[group])))
    return Plan(schedule, planner.storage, tuple(modules))


def _said(notes: Sequence[Apart | str], drafts: Sequence[Draft]) -> tuple[str, ...]:
    """Each note once, without those on operators that came together in the end."""
    kept = [
        str(note)
        for note in notes
        if isinstance(note, str) or not any({note.first, note.second} <= {*draft.operators} for draft in drafts)
    ]
    return tuple(dict.fromkeys(kept))


def expect_known(graph: Graph) -> None:
    """Refuse an operator that the back end does not have."""
    for op in graph.operators:
        if op.kind not in KNOWN:
            known = ", ".join(sorted(KNOWN))
            raise InputError(
                f"{graph.name}: operator {op.name!r} ({op.kind}): the Triton back end does not have it; it has {known}."
            )


def _layouts(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Weights of convolutions with the channels that are added up innermost, as the images have them."""
    weights = {op.reads[1].tensor for op in graph.operators if op.kind == "conv"}
    return {
        name: (0, *range(2, len(graph.tensors[name].shape)), 1)
        for name in weights
        if name in graph.constants and len(graph.tensors[name].shape) > 2
    }


def _groups(schedule: Schedule) -> Iterator[tuple[int, int]]:
    """The first and the last kernel of everything that the schedule runs as one."""
    count = len(schedule.kernels)
    runs = schedule.pieces or schedule.blocks
    starts = {0} | {run.first for run in runs} | {run.last + 1 for run in runs}
    inside = {number for run in runs for number in range(run.first + 1, run.last + 1)}
    starts |= {n for n, kernel in enumerate(schedule.kernels) if kernel.launches and n not in inside}
    ordered = sorted(start for start in starts if start < count)
    yield from zip(ordered, [*(start - 1 for start in ordered[1:]), count - 1], strict=True)


def _separate(planner: _Planner, groups: Sequence[tuple[int, int]]) -> tuple[list[list[Draft]], list[list[Apart]]]:
    """The kernels of the schedule, those that cannot be one kernel of Triton in parts."""
    drafts: list[list[Draft]] = []
    notes: list[list[Apart]] = []
    for first, last in groups:
        drafts.append([])
        notes.append([])
        for number in range(first, last + 1):
            parts, why = _parts(planner, number, planner.schedule.kernels[number])
            drafts[-1] += parts
            notes[-1] += why
    return drafts, notes


def _parts(planner: _Planner, number: int, kernel: Kernel) -> tuple[list[Draft], list[Apart]]:
    """One kernel of the schedule as drafts that can be written, each with as many operators as can be."""
    boxes = _boxes(planner, kernel)
    found: list[Draft] = []
    notes: list[Apart] = []
    left = kernel.operators
    while left:
        tries = [planner.attempt(left[:count], boxes[left[count - 1]]) for count in range(len(left), 0, -1)]
        count = len(left) - next((at for at, one in enumerate(tries) if isinstance(one, Launch)), len(left))
        if count == 0:
            where = f"{planner.graph.name}: operator {left[0]!r}"
            raise InputError(f"{where}: the Triton back end cannot write it: {tries[-1]}.")
        if count < len(left):
            notes.append(Apart(left[count - 1], left[count], str(tries[0])))
        found.append(Draft(left[:count], boxes[left[count - 1]], (number,)))
        left = left[count:]
    return found, notes


def _boxes(planner: _Planner, kernel: Kernel) -> Mapping[str, Region | None]:
    """The iterations of each operator that a kernel of the schedule takes; None: all."""
    if kernel.box is None:
        return dict.fromkeys(kernel.operators)
    operators = planner.operators(kernel.operators)
    return dict(operator_boxes(planner.graph, operators, kernel.box))


def _given(found: Launch | str) -> Launch:
    assert isinstance(found, Launch), found
    return found


def _named(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """Kernels whose names differ, within one module."""
    used: dict[str, int] = {}
    found = []
    for one in launches:
        used[one.name] = used.get(one.name, 0) + 1
        name = one.name if used[one.name] == 1 else f"{one.name}_{used[one.name]}"
        found.append(replace(one, name=name, text=one.text.replace(f"def {one.name}(", f"def {name}(", 1)))
    return tuple(found)


def _fused(planner: _Planner, drafts: list[list[Draft]], notes: list[list[Apart | str]]) -> list[list[Draft]]:
    """Kernels fused with the only one that reads their result, in every module or in none.

    A result that one module keeps on chip is not in memory for another. So where another module cannot do the same,
    the result stays in memory, and all is fused anew.
    """
    in_memory: set[str] = set()
    while True:
        why: list[list[Apart | str]] = [[] for _ in drafts]
        found = [
            _merged(planner, one, in_memory, lines)
            for one, lines in zip(_with_attention(planner, drafts, in_memory, why), why, strict=True)
        ]
        gone = {
            name
            for module in found
            for draft in module
            for op in planner.operators(draft.operators[:-1])
            for name in op.outputs
        }
        read = {
            name
            for module in found
            for draft in module
            for name in _given(planner.attempt(draft.operators, draft.box)).reads[:-1]
        }
        if not gone & read:
            break
        in_memory |= gone & read
    for lines, more in zip(notes, why, strict=True):
        lines += more
    return found


def _with_attention(
    planner: _Planner, drafts: Sequence[Sequence[Draft]], in_memory: set[str], why: Sequence[list[Apart | str]]
) -> list[list[Draft]]:
    """Drafts of all modules, attention that the schedule runs in several of them together in the last.

    Its scores are the largest tensors of a network, and no core has room for them; streamed they need none. Pieces of
    a sub-graph stay apart, as the same operators are in several of them.
    """
    found = [list(module) for module in drafts]
    if planner.schedule.pieces or all(op.kind != "softmax" for op in planner.graph.operators):
        return found
    home = {one.kernels[-1]: number for number, module in enumerate(drafts) for one in module}
    every = [one for module in drafts for one in module]
    joined = _passed(planner, every, in_memory, [], only="attention")
    for number, module in enumerate(found):
        module[:] = [one for one in joined if home[one.kernels[-1]] == number]
        for one in module:
            if len({home[kernel] for kernel in one.kernels}) > 1:
                first, last = one.kernels[0], one.kernels[-1]
                why[number].append(
                    f"Kernels {first} to {last} of the schedule run apart there, and are one here: "
                    f"{one.operators[0]} to {one.operators[-1]} are attention, whose scores stay on chip."
                )
    return found


def _merged(planner: _Planner, drafts: Sequence[Draft], in_memory: set[str], why: list[Apart | str]) -> list[Draft]:
    """The kernels of one module, each with those before it whose results only it takes; attention comes first."""
    attention: list[Apart | str] = []
    found = _passed(planner, drafts, in_memory, attention, only="attention")
    return _passed(planner, found, in_memory, why)


def _passed(
    planner: _Planner, drafts: Sequence[Draft], in_memory: set[str], why: list[Apart | str], only: str = ""
) -> list[Draft]:
    """Fuse the kernels of a module as long as any two can be; `only` names a form that must come out."""
    found = list(drafts)
    while True:
        for before, after in _neighbours(planner, found):
            joined = _joined(planner, before, after, in_memory, why)
            if joined is not None and only in ("", _given(planner.attempt(joined.operators, joined.box)).form):
                found[found.index(after)] = joined
                found.remove(before)
                break
        else:
            return found


def _neighbours(planner: _Planner, drafts: Sequence[Draft]) -> list[tuple[Draft, Draft]]:
    """Kernels with those that read their results, the largest result first: it is the one that should not be stored."""
    makes = {name: draft for draft in drafts for name in planner.graph.by_name[draft.operators[-1]].outputs}
    found: dict[tuple[Draft, Draft], int] = {}
    for draft in drafts:
        for op in planner.operators(draft.operators):
            for access in op.reads:
                before = makes.get(access.tensor)
                if before is not None and before is not draft:
                    found[before, draft] = planner.graph.tensors[access.tensor].size_bytes
    return sorted(found, key=lambda pair: -found[pair])


def _joined(
    planner: _Planner, before: Draft, after: Draft, in_memory: set[str], why: list[Apart | str]
) -> Draft | None:
    """Two kernels as one, if the second takes the only result of the first and nobody else does."""
    results = planner.graph.by_name[before.operators[-1]].outputs
    readers = {op.name for name in results for op in planner.graph.consumers.get(name, ())}
    if not readers & set(after.operators):
        return None
    pair = before.operators[-1], after.operators[-1]
    if set(results) & (in_memory | set(planner.graph.outputs)) or not readers <= set(after.operators):
        why.append(Apart(*pair, f"others read {results[0]} as well"))
        return None
    repeated = _repeated(planner, before, after)
    tried = repeated or planner.attempt((*before.operators, *after.operators), after.box)
    if isinstance(tried, str):
        why.append(Apart(*pair, tried))
        return None
    kernels = tuple(sorted({*before.kernels, *after.kernels}))
    return Draft((*before.operators, *after.operators), after.box, kernels)


def _repeated(planner: _Planner, before: Draft, after: Draft) -> str:
    """Why what one kernel makes would be computed again and again in the other, before a kernel is written."""
    first, second = planner.operators(before.operators), planner.operators(after.operators)
    products = [op for op in (*first, *second) if op.kind in KINDS]
    if len(products) > MOST_PRODUCTS:
        return f"they are {len(products)} products, and a kernel holds {MOST_PRODUCTS}"
    if len(products) > 2 and any(op.kind == "softmax" for op in (*first, *second)):
        return f"they are {len(products)} products, and attention holds two"
    costly = [op for op in first if op.kind in KINDS or op.kind in STEPS or is_row(op)]
    window = next((op for op in second if op.kind in STEPS and not is_row(op)), None)
    if costly and window is not None:
        return f"{costly[0].name} would be computed for every element of the windows of {window.name}"
    rows = [op for op in second if is_row(op)]
    if costly and costly[0].kind in KINDS and rows and not any(op.kind in KINDS for op in second):
        return f"a block of the product {costly[0].name} does not hold the whole rows of {rows[0].name}"
    return ""
