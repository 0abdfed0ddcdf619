"""Everything of a network that is not understood, at once."""

from collections.abc import Mapping

import onnx

from tilestitch.base.errors import InputError
from tilestitch.frontend.binding import exported_batch, faults_of_inputs, with_sizes
from tilestitch.frontend.network import Faults
from tilestitch.frontend.reader import read_onnx
from tilestitch.frontend.rebatch import FixedBatch
from tilestitch.frontend.structure import STANDARD, check_node, check_structure, node_names, opsets_of
from tilestitch.ir.graph import Graph

_CONTROL_FLOW = ("If", "Loop", "Scan")  # the reader says whether what decides is known


def read_or_problems(
    model: onnx.ModelProto, name: str, *, batch: int | None, dims: Mapping[str, int]
) -> Graph | tuple[str, ...]:
    """The network as `read_onnx` reads it, or all that keeps it from it.

    What depends on a node that is not understood is not looked at. While inputs have no shape, only what each node is
    on its own can be said. Without `batch` it is the network's own, else 1. Raises `FixedBatch` where it can be read
    for its own, and not for `batch`.
    """
    if not model.HasField("graph"):
        return (f"{name}: is not an ONNX model; it holds no graph.",)
    try:
        opsets = opsets_of(name, model)
    except InputError as error:
        return (str(error),)
    found: list[str] = []
    try:
        model = with_sizes(name, model, dims)
    except InputError as error:
        found.append(str(error))
    try:
        check_structure(name, model.graph)
    except InputError as error:
        return (*found, str(error))
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    try:
        batch = batch or exported_batch(inputs) or 1
    except InputError as error:
        found.append(str(error))
    found += faults_of_inputs(name, inputs, batch=batch)
    if found:
        return (*found, *_faults_of_nodes(model.graph, name, opsets))
    try:
        return read_onnx(model, name=name, batch=batch, every_fault=True)
    except Faults as error:
        return error.texts
    except FixedBatch:
        raise
    except InputError as error:
        return (str(error),)


def _faults_of_nodes(graph: onnx.GraphProto, name: str, opsets: Mapping[str, int]) -> list[str]:
    """What is wrong with nodes whatever they read: unknown operators, domains and attributes."""
    found: list[str] = []
    for node, called in zip(graph.node, node_names(graph), strict=True):
        if node.op_type in _CONTROL_FLOW and node.domain in STANDARD:
            continue
        try:
            check_node(f"{name}: node '{called}' ({node.op_type})", node, opsets)
        except InputError as error:
            found.append(str(error))
    return found
