"""An ONNX model as a `Graph`: names, shapes and constants resolved, one loop nest per operator."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import defs

from tilestitch.base.errors import InputError, printable
from tilestitch.base.storage import STORAGE
from tilestitch.frontend.binding import bind_shapes, element_type, exported_batch, with_sizes
from tilestitch.frontend.budget import Budget
from tilestitch.frontend.composed.definitions import COMPOSED
from tilestitch.frontend.element_types import known_types, numpy_type, schema_type, type_name, type_text
from tilestitch.frontend.folding import MAY_BE_RANDOM, RANDOM, evaluate
from tilestitch.frontend.functions import Definition, chosen_branch, definition
from tilestitch.frontend.loading import load_model, tensors_of
from tilestitch.frontend.loops import scanned, turns
from tilestitch.frontend.microsoft.definitions import DEFINITIONS
from tilestitch.frontend.microsoft.schemas import is_microsofts
from tilestitch.frontend.network import Faults, Node, NotCovered, Reading, SequenceOutput
from tilestitch.frontend.operators.accesses import Shape
from tilestitch.frontend.operators.generic import generic
from tilestitch.frontend.operators.handlers import ALWAYS_KNOWN, HANDLERS
from tilestitch.frontend.operators.reductions import KNOWN_OF_NOTHING
from tilestitch.frontend.operators.sequences import SEQUENCES, reads_sequence, sequence
from tilestitch.frontend.rebatch import expect_independent_samples, rebatched_inputs, rebatching
from tilestitch.frontend.structure import (
    STANDARD,
    check_node,
    check_structure,
    needed_outputs,
    node_names,
    opsets_of,
    read_by,
)
from tilestitch.frontend.weights import checked_weight
from tilestitch.ir.graph import Graph, Operator

# Quantised weights are not evaluated, but multiplied as integers where that is possible.
_STAYING = MAY_BE_RANDOM | {"DequantizeLinear"}


def read_onnx(
    source: Path | onnx.ModelProto,
    *,
    name: str | None = None,
    batch: int | None = None,
    dims: Mapping[str, int] = {},
    weights: dict[str, np.ndarray] | None = None,
    every_fault: bool = False,
    evaluated: list[str] | None = None,
) -> Graph:
    """Read a model from a file or from memory; `batch` and `dims` give sizes to symbolic dims.

    A network that was exported for another batch than `batch` is re-batched (`frontend.rebatch`). `name` is what the
    graph and every complaint call the network (by default its own name, or its file). What depends on nothing but
    constants is evaluated, and what no output depends on is left out. Tensors keep their ONNX names, and their axes
    lie in memory in natural order. `weights` keeps what was converted, for the next reading of the same model at
    another batch; to `evaluated` it adds the operators whose values, of constants alone, came from onnxruntime. Raises
    `InputError` for whatever is not understood, where `every_fault` a `Faults` with all nodes that are not.
    """
    if isinstance(source, onnx.ModelProto):
        model, where = source, f"network '{source.graph.name}'" if source.graph.name else "the network"
    else:
        model, where = load_model(source), printable(str(source))
    where = name or where
    if not model.HasField("graph"):
        raise InputError(f"{where}: is not an ONNX model; it holds no graph.")
    opsets = opsets_of(where, model)
    model = with_sizes(where, model, dims)
    graph = model.graph
    if isinstance(source, onnx.ModelProto):
        _refuse_external_data(where, model)
    check_structure(where, graph)
    weights = {} if weights is None else weights
    for tensor in graph.initializer:
        if tensor.name not in weights:
            found = checked_weight(where, tensor)
            if found is not None:
                weights[tensor.name] = found

    listed = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in listed]
    title = name or graph.name or (source.stem if isinstance(source, Path) else "network")
    exported = exported_batch(inputs)
    if exported is None:
        shapes = bind_shapes(where, inputs, batch=batch)
        return _read_graph(
            where, graph, title, opsets, inputs, shapes, weights, every_fault=every_fault, evaluated=evaluated
        )
    shapes = bind_shapes(where, inputs, batch=None)
    alone = _read_graph(
        where, graph, title, opsets, inputs, shapes, weights, every_fault=every_fault, evaluated=evaluated
    )
    if batch is None or batch == exported:
        return alone
    grown = rebatched_inputs(where, shapes, exported, batch)
    with rebatching(exported, batch):
        exported_shapes = {key: tensor.shape for key, tensor in alone.tensors.items()}
        together = _read_graph(where, graph, title, opsets, inputs, grown, weights, exported_shapes=exported_shapes)
        expect_independent_samples(where, together, alone, exported, batch)
    return together


def _read_graph(
    where: str,
    graph: onnx.GraphProto,
    title: str,
    opsets: Mapping[str, int],
    inputs: Sequence[onnx.ValueInfoProto],
    shapes: Mapping[str, Shape],
    known: dict[str, np.ndarray],
    *,
    exported_shapes: Mapping[str, Shape] = {},
    every_fault: bool = False,
    evaluated: list[str] | None = None,
) -> Graph:
    """Read every node, with inputs of the given shapes.

    `known` are weights that an earlier reading converted, to which this one adds; `exported_shapes` are the shapes of
    tensors before re-batching. Where `every_fault`, reading goes on behind a node that is not understood, with all that
    does not depend on it, and ends in one `Faults`.
    """
    names = node_names(graph)
    weights = {tensor.name for tensor in graph.initializer}
    taken = {value.name for value in graph.input} | weights | {name for node in graph.node for name in node.output}
    network = Reading(where, taken.union(names), Budget.of(graph.initializer), exported_shapes)
    for tensor in graph.initializer:
        if tensor.name in known:
            network.add_constant(tensor.name, known[tensor.name])
        else:
            network.add_weight(tensor.name, tensor)
    for value in inputs:
        shape, elements = shapes[value.name], element_type(where, value)
        if 0 in shape:
            network.add_constant(value.name, np.zeros(shape, elements))  # known, as it has no elements
        else:
            network.add_input(value.name, shape, elements)
    outputs = tuple(value.name for value in graph.output)
    faults: list[str] = []
    lost: set[str] = set()  # tensors of which nothing is known behind a fault
    for proto, node, wanted in zip(graph.node, names, needed_outputs(graph.node, outputs), strict=True):
        if not any(wanted):
            continue
        if not lost.isdisjoint(read_by(proto)):
            lost.update(wanted)
            continue
        mark = network.mark()
        try:
            _read_node(f"{where}: node '{node}' ({proto.op_type})", proto, node, wanted, network, opsets)
        except InputError as error:
            if not every_fault:
                raise
            network.rollback(mark)
            faults.append(str(error))
            lost.update(wanted)
    if faults:
        raise Faults(faults)
    for value in graph.output:
        if value.name in network.sequences:
            raise SequenceOutput(where, value.name, len(network.sequences[value.name]))
        network.keep_output(value.name)
        declared, found = value.type.tensor_type.elem_type, network.element_type(value.name)
        if declared and numpy_type(declared) != found:
            raise InputError(
                f"{where}: output '{value.name}' is declared with elements of type {type_name(declared)}, and computed "
                f"with those of type {type_text(found)}; declare it so, or add a Cast."
            )
    known.update(network.converted(weights))
    if evaluated is not None:
        evaluated += network.evaluated
    fed = tuple(value.name for value in inputs if 0 not in shapes[value.name])
    return _finished(title, network, fed, outputs)


def _read_node(
    where: str,
    proto: onnx.NodeProto,
    name: str,
    outputs: tuple[str, ...],
    network: Reading,
    opsets: Mapping[str, int],
) -> None:
    """Evaluate a node of constants, or append its operators."""

    def fresh() -> Node:
        attributes = {attribute.name: attribute for attribute in proto.attribute}
        return Node(where, name, proto.op_type, opsets, tuple(proto.input), outputs, attributes)

    node = fresh()
    if proto.op_type == "If" and proto.domain in STANDARD:
        branch = chosen_branch(node, proto, network)
        if branch is not None:
            _read_nodes(node, branch, network)
            return
    if proto.op_type in ("Loop", "Scan") and proto.domain in STANDARD:
        for turn in (turns if proto.op_type == "Loop" else scanned)(node, proto, network):
            _read_nodes(node, turn, network)
        return
    check_node(where, proto, opsets)
    if proto.op_type in SEQUENCES or reads_sequence(proto, network):
        _read_nodes(node, sequence(node, proto, network), network)
    elif proto.op_type in ALWAYS_KNOWN:
        ALWAYS_KNOWN[proto.op_type](node, network)
        node.expect_nothing_left()
    elif proto.op_type in RANDOM:
        raise node.fault("its results differ from run to run, so that nothing could be compared; feed them as inputs.")
    elif is_microsofts(proto):
        _append(fresh, proto, network)
    elif proto.op_type == "Identity" and network.is_known(proto.input[0]):
        network.add_constant(outputs[0], network.known_value(proto.input[0]))
    elif _is_evaluated(proto, network):
        values = [network.value(operand) if operand else None for operand in proto.input]
        found = evaluate(node, proto, values, network.budget)
        if any(value.size for value in found):
            network.evaluated.append(proto.op_type)
        for output, value in zip(outputs, found, strict=True):
            if output:
                network.add_constant(output, value)
    else:
        _append(fresh, proto, network)


def _is_evaluated(proto: onnx.NodeProto, network: Reading) -> bool:
    """Whether a node of constants has its value from onnxruntime; what nothing adds up to, the rules know."""
    if proto.op_type in _STAYING or not all(network.is_known(x) for x in proto.input if x):
        return False
    return proto.op_type not in KNOWN_OF_NOTHING or 0 not in network.shape(proto.input[0])


def _read_nodes(node: Node, inside: Definition, network: Reading) -> None:
    """The nodes that stand for one."""
    wanted = needed_outputs(inside.nodes, inside.results)
    for inner, outputs in zip(inside.nodes, wanted, strict=True):
        if any(outputs):
            where = f"{node.where}: inside it, node '{inner.name}' ({inner.op_type})"
            for name in filter(None, inner.input):
                if not network.has(name):
                    raise InputError(f"{where}: reads '{name}', which no node before it writes.")
            _read_node(where, inner, inner.name, outputs, network, inside.opsets)


def _append(fresh: Callable[[], Node], proto: onnx.NodeProto, network: Reading) -> None:
    """The operators of a node: by the rule for it, else by the standard's definition, else one generic operator."""
    mark, node = network.mark(), fresh()
    domain, microsofts = "" if proto.domain in STANDARD else proto.domain, is_microsofts(proto)
    composed = DEFINITIONS.get(proto.op_type) if microsofts else COMPOSED.get((domain, proto.op_type))
    try:
        if composed is not None:
            if not microsofts:
                _check_types(node, domain, network)
            _read_nodes(node, composed(node, network), network)
            return
        if domain or proto.op_type not in HANDLERS:
            raise node.not_covered(f"operator {proto.op_type} has no rule of its own.")
        _check_types(node, domain, network)
        HANDLERS[proto.op_type](node, network)
        node.expect_nothing_left()
        return
    except NotCovered as error:
        uncovered = error.unraised()
    network.rollback(mark)
    if proto.op_type in MAY_BE_RANDOM:
        raise uncovered.unraised()
    written_out = None if microsofts else definition(node, proto, network)
    if written_out is not None:
        try:
            _read_nodes(node, written_out, network)
            return
        except InputError:  # the operator itself may still have a value
            network.rollback(mark)
    try:
        generic(fresh(), proto, network)
    except NotCovered as error:
        if uncovered.depends_on:
            raise uncovered.unraised() from None
        text = f"{uncovered.text} Nor can it be generic: {error.text}"
        raise node.not_covered(text, depends_on=error.depends_on) from None


def _check_types(node: Node, domain: str, network: Reading) -> None:
    """Refuse operands of a type that the operator does not take, or of several where it takes them of one."""
    formal = defs.get_schema(node.op_type, node.opsets[domain], domain).inputs
    first: dict[str, str] = {}  # per type variable the operand that it stands for
    for number, operand in enumerate(node.inputs):
        expected = formal[min(number, len(formal) - 1)]
        if not operand and expected.option == defs.OpSchema.FormalParameterOption.Variadic:
            raise node.fault(f"operand {number} has no name; {node.op_type} reads every operand that it lists.")
        if not operand:
            continue
        found = network.element_type(operand)
        where = f"operand '{operand}' has elements of type {type_text(found)}"
        if found not in STORAGE:
            raise node.fault(f"{where}; supported: {known_types()}.")
        if schema_type(found) not in expected.types:
            raise node.fault(f"{where}, which {node.op_type} does not take there; add a Cast.")
        other = first.setdefault(expected.type_str, operand) if expected.is_homogeneous else operand
        if network.element_type(other) != found:
            raise node.fault(f"{where}, and '{other}' of {type_text(network.element_type(other))}; add a Cast.")


def _finished(name: str, network: Reading, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Graph:
    """The graph without operators that no output depends on: some had only their shapes read."""
    needed = set(outputs)
    operators: list[Operator] = []
    for op in reversed(network.operators):
        if needed.isdisjoint(op.outputs):
            continue
        operators.append(op)
        needed.update(op.inputs)
    tensors = {key: tensor for key, tensor in network.tensors.items() if key in needed or key in inputs}
    constants = {key: value for key in tensors if (value := network.value(key)) is not None}
    return Graph(name, tensors, tuple(reversed(operators)), inputs, outputs, constants)


def _refuse_external_data(where: str, model: onnx.ModelProto) -> None:
    for tensor in tensors_of(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise InputError(
                f"{where}: tensor '{tensor.name}' is kept in another file; give the path of the model's file instead."
            )
