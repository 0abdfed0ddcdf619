"""Operators that are computed again for later readers, so that their results need not wait for these.

A twin of the operator writes a tensor of its own, right before those that read it. Both are ordinary operators, so that
tiles, places, waits and prices are those of any others, and the twin can be part of the kernel that reads it. Bounds
count it as no work: the network does not need it.
"""

from collections.abc import Sequence
from dataclasses import replace

from tilestitch.base.errors import InputError, printable
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.rewriting import Again
from tilestitch.ops import is_contraction
from tilestitch.ops.partial_sums import is_partial_sum
from tilestitch.ops.recomputed import AGAIN, is_again
from tilestitch.ops.streaming import CARRY, is_block
from tilestitch.passes.fold import fresh_name
from tilestitch.passes.split_k import Split


def can_be_again(graph: Graph, op: Operator) -> bool:
    """Whether an operator can be computed again: it makes one tensor, alone, and is no part of a product or softmax."""
    alone = len(op.writes) == 1 and len(graph.producers[op.outputs[0]]) == 1
    return alone and not (is_partial_sum(op) or is_block(op) or op.kind == CARRY)


def with_operators_again(graph: Graph, asked: Sequence[Again]) -> Split:
    """The same network, of which views are composed away, with some operators computed once more for some readers.

    What is computed once more is named `<operator>.again`, and does the work of the first of its readers. Each entry
    is of the network as those before it leave it. Raises `InputError` for what makes no tensor alone, for what does not
    read it, and where the operator itself would have no reader left.
    """
    became: dict[str, tuple[str, ...]] = {op.name: (op.name,) for op in graph.operators}
    for one in asked:
        op, readers = _expected(graph, one)
        twin = fresh_name(f"{op.name}.again", graph.by_name)
        graph = _with_twin(graph, op, twin, [reader.name for reader in readers])
        first = readers[0].name
        for old, names in became.items():
            if first in names:
                at = names.index(first)
                became[old] = (*names[:at], twin, *names[at:])
    return graph, became


def ends_of_again(graph: Graph) -> frozenset[str]:
    """Operators behind which a kernel ends: what is computed again and comes to its reader from outside.

    That is the second operand of a product, or what rows are picked of.
    """
    return frozenset(
        op.name
        for op in graph.operators
        if is_again(op) and any(_from_outside(reader, op.outputs[0]) for reader in graph.readers[op.name])
    )


def _from_outside(reader: Operator, tensor: str) -> bool:
    several = reader.reads[1:2] if is_contraction(reader) else ()
    picked = (read for read in reader.reads if read.indirect_axis is not None)
    return any(read.tensor == tensor for read in (*several, *picked))


def _expected(graph: Graph, one: Again) -> tuple[Operator, list[Operator]]:
    """What is to be computed again, and for which operators, in the order of the network; or why it cannot be."""
    where = f"again of {printable(one.operator)}"
    op = graph.by_name.get(one.operator)
    if op is None or not can_be_again(graph, op):
        raise InputError(f"{where}: expected an operator with one result that it alone makes")
    able = graph.consumers.get(op.outputs[0], ())
    known = ", ".join(printable(reader.name) for reader in able) or "none"
    if not one.readers or not set(one.readers) <= {reader.name for reader in able}:
        names = ", ".join(map(printable, one.readers)) or "nobody"
        raise InputError(f"{where}: for {names}; expected some of those that read its result: {known}")
    readers = [reader for reader in able if reader.name in one.readers]
    if len(readers) == len(able) and op.outputs[0] not in graph.outputs:
        raise InputError(
            f"{where}: for all that read its result; expected that some of these go on reading it: {known}"
        )
    return op, readers


def _with_twin(graph: Graph, op: Operator, name: str, readers: Sequence[str]) -> Graph:
    """The network with an operator once more, under a name, which some read instead."""
    (write,) = op.writes
    result = graph.tensors[write.tensor]
    tensor = fresh_name(f"{result.name}.again", graph.tensors)
    mark = () if is_again(op) else ((AGAIN, 1),)
    twin = replace(op, name=name, writes=(replace(write, tensor=tensor),), attributes=(*op.attributes, *mark))
    operators = list[Operator]()
    for old in graph.operators:
        if old.name == readers[0]:
            operators.append(twin)
        reads = tuple(replace(read, tensor=tensor) if read.tensor == result.name else read for read in old.reads)
        operators.append(replace(old, reads=reads) if old.name in readers else old)
    tensors = {**graph.tensors, tensor: replace(result, name=tensor)}
    return replace(graph, operators=tuple(operators), tensors=tensors)
