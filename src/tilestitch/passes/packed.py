"""Small constants packed into few, so that one transfer from DDR brings those of several operators.

Biases, scales and shifts take a few hundred bytes each, and their transfers longer to set up than to flow. Packed, they
lie one behind the other in the order of the network, and every operator reads its own part.
"""

from dataclasses import replace

import numpy as np

from tilestitch.base.units import aligned
from tilestitch.ir.graph import Axis, Graph, Tensor
from tilestitch.ir.transfers import SLAB_BYTES
from tilestitch.passes.factors import Folded
from tilestitch.passes.fold import drop_unused, fresh_name

SMALL_BYTES = 8192  # of a constant, at most: it takes longer to set up than to come


def packed(graph: Graph) -> Folded:
    """The same network, of which views are composed away, with small vectors of one type in a constant of each pack."""
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    place: dict[str, tuple[str, int]] = {}  # by constant: its pack, and the number of its first element there
    for pack in _packs(graph):
        first = graph.constants[pack[0]]
        each = [aligned(graph.constants[name].nbytes) // first.itemsize for name in pack]
        name = fresh_name(f"{pack[0]}.packed", tensors)
        value = np.zeros(sum(each), first.dtype)
        begin = 0
        for one, elements in zip(pack, each, strict=True):
            value[begin : begin + graph.constants[one].size] = graph.constants[one]
            place[one], begin = (name, begin), begin + elements
        constants[name] = value
        tensors[name] = Tensor(name, value.shape, tensors[pack[0]].dtype, (0,))
    if not place:
        return graph, {op.name: (op.name,) for op in graph.operators}
    operators = []
    for op in graph.operators:
        reads = list(op.reads)
        for at, read in enumerate(reads):
            if read.tensor in place:
                name, begin = place[read.tensor]
                (axis,) = read.axes
                reads[at] = replace(read, tensor=name, axes=(Axis(axis.terms, axis.offset + begin),))
        operators.append(replace(op, reads=tuple(reads)))
    found = drop_unused(replace(graph, operators=tuple(operators), tensors=tensors, constants=constants))
    return found, {op.name: (op.name,) for op in graph.operators}


def _packs(graph: Graph) -> list[list[str]]:
    """Several constants each, in the order in which operators read them, that one transfer brings together."""
    packs: dict[np.dtype, tuple[list[str], int]] = {}  # by type: the one that is not full yet, and its bytes
    done: list[list[str]] = []
    for name in dict.fromkeys(name for op in graph.operators for name in op.inputs):
        if not _is_small(graph, name):
            continue
        value = graph.constants[name]
        pack, taken = packs.get(value.dtype, ([], 0))
        if taken + aligned(value.nbytes) > SLAB_BYTES:
            done.append(pack)
            pack, taken = [], 0
        packs[value.dtype] = [*pack, name], taken + aligned(value.nbytes)
    return [pack for pack in (*done, *(pack for pack, _ in packs.values())) if len(pack) > 1]


def _is_small(graph: Graph, name: str) -> bool:
    """Whether a constant is a short vector, inside of which all that read it stay."""
    value = graph.constants.get(name)
    if value is None or value.ndim != 1 or name in graph.outputs or value.nbytes > SMALL_BYTES:
        return False
    reads = [(op, read) for op in graph.consumers.get(name, ()) for read in op.reads if read.tensor == name]
    hulls = [read.hull(op.whole) for op, read in reads]
    inside = all(hull.start[0] >= 0 and hull.stop[0] <= value.size for hull in hulls)
    return inside and all(read.indirect_axis is None for _, read in reads)
