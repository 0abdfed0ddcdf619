"""A network's ONNX with what became of each node in the node's metadata, for Netron and for other programs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest

import numpy as np
import onnx

from tilestitch.base.errors import InputError
from tilestitch.base.units import tenths
from tilestitch.frontend.operators.handlers import ALWAYS_KNOWN
from tilestitch.frontend.structure import STANDARD, needed_outputs, node_names, read_by
from tilestitch.ir.gap import Gap
from tilestitch.ir.graph import Graph, Operator
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.waiting import blame_of
from tilestitch.report.html.contents import parts_of
from tilestitch.report.totals import Total, one_batch

PREFIX = "tilestitch."  # then what is said, then its origin: Netron shows the first 18 letters of a key
CONSTANT = "constant"
UNNEEDED = "nothing: no output depends on it"
ABOUT = "Cycles, bytes and arithmetic are simulated: one batch on one cluster. A node's cycles overlap those of others."
_LISTED = 8  # names that are written one by one

_Entries = dict[str, str]  # of metadata


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The nodes of a file with the names that they go by, and who writes each tensor."""

    nodes: Sequence[onnx.NodeProto]
    names: Sequence[str]
    number: Mapping[str, int]  # of the node of a name
    writer: Mapping[str, int]  # of a tensor, the number of its node

    def of(self, op: Operator) -> int:
        """The node that an operator is of, which begins its name; else the one that writes its result; -1 if none."""
        for known, names in ((self.number, (op.name,)), (self.writer, (op.name, *op.outputs))):
            for name in names:
                while name:
                    if name in known:
                        return known[name]
                    name = name.rpartition(".")[0]
        return -1


def annotate(done: Compilation, model: onnx.ModelProto) -> None:
    """Give the network that was compiled `tilestitch.` entries, in its metadata and in that of its nodes.

    Raises `InputError` where nothing was simulated, or where the network is another one.
    """
    if done.report is None:
        raise InputError(f"{done.loaded.name}: was not simulated, so there is nothing to annotate with")
    graph = model.graph
    nodes = _nodes_of(graph)
    _expect_same(done.loaded, graph, nodes)
    for node, entries in zip(graph.node, _of_the_nodes(done, graph, nodes), strict=True):
        _replace(node.metadata_props, entries)
    _replace(model.metadata_props, _of_the_run(done))


def _nodes_of(graph: onnx.GraphProto) -> _Nodes:
    names = node_names(graph)
    writer = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    return _Nodes(graph.node, names, {name: number for number, name in enumerate(names)}, writer)


def _expect_same(loaded: Graph, graph: onnx.GraphProto, nodes: _Nodes) -> None:
    """Refuse another network: its inputs have other names, or an operator is of none of its nodes."""
    inputs = {value.name for value in graph.input}
    strange = [name for name in loaded.inputs if name not in inputs]
    known = {*nodes.writer, *inputs, *(tensor.name for tensor in graph.initializer)}
    strange += [name for name in loaded.outputs if name.removesuffix(".output") not in known and name not in known]
    strange += [op.name for op in loaded.operators if nodes.of(op) < 0 and op.name not in loaded.outputs]
    if strange:
        raise InputError(
            f"{loaded.name}: is not the network that was compiled, which has no '{strange[0]}'; give that one"
        )


def _replace(entries: "Iterable[onnx.StringStringEntryProto]", new: Mapping[str, str]) -> None:
    """Leave entries of others alone, and put ours in place of those of an earlier run."""
    kept = [(one.key, one.value) for one in entries if not one.key.startswith(PREFIX)]
    del entries[:]  # pyright: ignore[reportIndexIssue]  (a field of protobuf)
    for key, value in (*kept, *((f"{PREFIX}{key}", value) for key, value in new.items())):
        entries.add(key=key, value=value)  # pyright: ignore[reportAttributeAccessIssue]


def _of_the_run(done: Compilation) -> _Entries:
    report = given(done.report)
    return {
        "network": report.network,
        "machine": report.machine,
        "strategy": report.strategy,
        "batch": str(report.batch),
        "clusters": str(report.clusters),
        "latency_cycles.simulated": str(report.latency_cycles),
        "largest_cycles.bound": str(report.bound_cycles),
        "about": ABOUT,
    }


def _of_the_nodes(done: Compilation, graph: onnx.GraphProto, nodes: _Nodes) -> list[_Entries]:
    """What is said of each node."""
    report, schedule, final = given(done.report), given(done.schedule), given(done.graph)
    owned: dict[int, list[str]] = {}
    for op in final.operators:
        owned.setdefault(nodes.of(op), []).append(op.name)
    program = given(done.trace).program
    own = np.array([nodes.of(final.by_name[name]) for name in program.operators], np.int64)
    batch = one_batch(schedule, given(done.trace), done.machine, report.iterations)
    label = np.where(batch.served >= 0, own[batch.served], -1)
    totals = batch.by(label, own[[row.operator for row in batch.rows]].tolist(), len(nodes.names))
    gaps = _gaps(done, own, nodes)
    places = _places(done)
    became = _became((final, given(done.simplified)), graph, nodes, owned)
    found: list[_Entries] = []
    for number in range(len(nodes.names)):
        entries = {"became": became[number]}
        if number in owned:
            entries |= places(owned[number]) | _measured(totals[number])
            if gaps is not None:
                entries |= gaps[number]
        found.append(entries)
    return found


def _gaps(done: Compilation, own: np.ndarray, nodes: _Nodes) -> list[_Entries] | None:
    """What is said of the gap of each node; None of several batches, whose bound is that of one.

    Rounded so that they add up, with what is of no node, to the gap of the run and to 100 %.
    """
    report = given(done.report)
    if report.batches > 1:
        return None
    blame = blame_of(report, given(done.schedule), given(done.trace), done.machine)
    all_cycles = blame.whole().gap_cycles
    gaps = blame.by(np.where(blame.owner >= 0, own[blame.owner], -1), nodes.names)
    cycles = [gap.gap_cycles for gap in gaps]
    cycles.append(all_cycles - sum(cycles))
    percents = tenths([100 * one / all_cycles for one in cycles]) if all_cycles > 0 else []
    return [_lost(*one) for one in zip_longest(gaps, tenths(cycles)[:-1], percents[:-1])]


def _places(done: Compilation) -> Callable[[Sequence[str]], _Entries]:
    """What says where operators run: the sub-graph, the pieces, and what runs with them."""
    schedule = given(done.schedule)
    parts = parts_of(schedule)
    kernels: dict[str, list[int]] = {}
    for number, kernel in enumerate(schedule.kernels):
        for name in kernel.operators:
            kernels.setdefault(name, []).append(number)

    def place(operators: Sequence[str]) -> _Entries:
        numbers = sorted({number for name in operators for number in kernels.get(name, ())})
        together = dict.fromkeys(name for number in numbers for name in schedule.kernels[number].operators)
        return {
            "sub_graph.decided": _listed(parts.sub_graphs[parts.sub_graph[number]] for number in numbers),
            "pieces.decided": _listed(parts.instances[parts.instance[number]] for number in numbers),
            "runs_with.decided": _listed(name for name in together if name not in operators) or "nothing else",
        }

    return place


def _measured(total: Total) -> _Entries:
    cycles = total.occupied_cycles
    found = {
        "cores.simulated": str(total.cores),
        "occupied_cycles.simulated": str(cycles),
        "ddr_bytes.simulated": str(total.ddr_bytes),
        "gb_bytes.simulated": str(total.gb_bytes),
        "macs.simulated": str(total.macs),
        "vector_operations.simulated": str(total.vector_operations),
        "instructions.simulated": str(total.instructions),
    }
    if total.matrix_macs and cycles:
        found["macs_per_cycle.simulated"] = f"{total.macs / cycles:.1f}"
        found["peak_percent.simulated"] = f"{float(100 * total.peak_cycles / cycles):.1f}"
    return found


def _lost(gap: Gap, cycles: Fraction, percent: Fraction | None) -> _Entries:
    found = {"gap_cycles.simulated": f"{float(cycles):.1f}"}
    if percent is not None:
        found["gap_percent.simulated"] = f"{float(percent):.1f}"
    largest = max(gap.parts, key=lambda one: one.cycles, default=None)
    if largest is not None and largest.cycles > 0:
        found["gap_mostly.simulated"] = str(largest.part)
    return found


def _became(
    graphs: tuple[Graph, ...], graph: onnx.GraphProto, nodes: _Nodes, owned: Mapping[int, Sequence[str]]
) -> list[str]:
    """Of each node the operators that it became, or what it was folded into."""
    known = {tensor.name for tensor in graph.initializer}
    wanted = needed_outputs(graph.node, [value.name for value in graph.output])
    found = [""] * len(nodes.names)
    for number, (node, outputs) in enumerate(zip(graph.node, wanted, strict=True)):
        given_by_rule = node.domain in STANDARD and node.op_type in ALWAYS_KNOWN
        if given_by_rule or all(name in known for name in node.input if name):
            known.update(node.output)
        if number in owned:
            operators = owned[number]
            found[number] = f"operator{'s' if len(operators) > 1 else ''} {_listed(operators)}"
        elif not any(outputs):
            found[number] = UNNEEDED
        elif known.issuperset(filter(None, node.output)):
            found[number] = CONSTANT
    readers: dict[str, list[int]] = {}
    for number, node in enumerate(graph.node):
        for name in read_by(node):
            readers.setdefault(name, []).append(number)
    for number in range(len(found)):
        if not found[number]:
            names = _merged_into(number, graphs, nodes, owned, readers, found)
            found[number] = f"merged into {_listed(names)}" if names else UNNEEDED
    return found


def _merged_into(
    number: int,
    graphs: Sequence[Graph],
    nodes: _Nodes,
    owned: Mapping[int, Sequence[str]],
    readers: Mapping[str, Sequence[int]],
    found: Sequence[str],
) -> list[str]:
    """Who writes the results of a node without operators, in one of the graphs; else the next that run behind it."""
    for graph in graphs:
        writers = [nodes.of(op) for name in nodes.nodes[number].output for op in graph.producers.get(name, ())]
        merged = [writer for writer in dict.fromkeys(writers) if writer in owned]
        if merged:
            return [nodes.names[writer] for writer in merged]
    behind: list[int] = []
    seen, waiting = {number}, [number]
    while waiting:
        for name in nodes.nodes[waiting.pop(0)].output:
            for reader in readers.get(name, ()):
                if reader in seen or found[reader] in (CONSTANT, UNNEEDED):
                    continue
                seen.add(reader)
                (behind if reader in owned else waiting).append(reader)
    return [nodes.names[reader] for reader in sorted(behind)]


def _listed(names: Iterable[str]) -> str:
    """The names, each once; the first and the last of many."""
    found = list(dict.fromkeys(names))
    if len(found) <= _LISTED:
        return ", ".join(found)
    return f"{found[0]} to {found[-1]} ({len(found)} in all)"
