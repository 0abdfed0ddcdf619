"""A network for a batch: read for all its samples, or as it was exported, as often as the batch needs it."""

from collections.abc import Mapping
from dataclasses import dataclass

from tilestitch.api import Model, load_graph
from tilestitch.base.units import counted
from tilestitch.frontend.rebatch import FixedBatch
from tilestitch.ir.graph import Graph
from tilestitch.passes import simplify


@dataclass(frozen=True, slots=True)
class NetworkRuns:
    """A network, and how often a batch runs it: more than once where it can be read for no other batch than its own."""

    graph: Graph
    runs: int = 1
    note: str = ""  # why it is more than once


def open_network(
    model: Model, *, batch: int | None, dims: Mapping[str, int], fold_bn: bool = True, simplified: bool = True
) -> NetworkRuns:
    """A network for a batch, simplified; where nothing but the exported batch can be read, for that.

    So does `compile`, whose iterations then take the exported batch. Raises `InputError` as `load_graph` does, also for
    a batch that is no multiple of the exported one.
    """
    try:
        found = NetworkRuns(load_graph(model, batch=batch, dims=dims))
    except FixedBatch as error:
        found = _as_exported(load_graph(model, dims=dims), error)
    return NetworkRuns(simplify(found.graph, fold_bn=fold_bn), found.runs, found.note) if simplified else found


def _as_exported(graph: Graph, error: FixedBatch) -> NetworkRuns:
    runs = error.batch // error.exported
    problem = error.problem.removeprefix(f"{graph.name}: ")
    note = (
        f"{counted(error.batch, 'sample')} are {runs:,} runs of {counted(error.exported, 'sample')}, the batch that "
        f"the network was exported for, as it can be read for no other: {problem}"
    )
    return NetworkRuns(graph, runs, note)
