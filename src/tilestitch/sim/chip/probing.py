"""A few tiles of the results between operators: as onnxruntime has them, and as an executed program writes them.

onnxruntime gives the chosen values alone, so that no result is kept for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ir.samples import TensorSamples, TileSamples
from tilestitch.ops.conversion import FORMATS

SIDE = 4  # rows and columns of a tile
TILES = 3  # of a tensor: its first, one in the middle, its last
TENSORS = 240  # of a network; of more, so many at equal distances


@dataclass(frozen=True, slots=True)
class Chosen:
    """Tiles of a tensor, and the places of all their values tile by tile: indices, one row a value, and row-major."""

    tiles: tuple[Region, ...]
    points: np.ndarray
    flat: np.ndarray


Places = Mapping[str, Chosen]
NOWHERE: Places = {}


def places_of(model: onnx.ModelProto, graph: Graph, exported_batch: int | None = None) -> dict[str, Chosen]:
    """The places of the chosen tiles of every result that a node of the file gives and an operator reads.

    Where the network was exported for another batch, those within the first run of so many samples.
    """
    given = {name for node in model.graph.node for name in node.output}
    names = [
        write.tensor
        for op in graph.operators
        for write in op.writes
        if write.tensor in given and write.tensor in graph.consumers and write.tensor not in graph.outputs
    ]
    names = [name for name in dict.fromkeys(names) if _is_compared(graph, name)]
    if len(names) > TENSORS:
        names = [names[at] for at in np.linspace(0, len(names) - 1, TENSORS).astype(np.int64).tolist()]
    found: dict[str, Chosen] = {}
    for name in names:
        shape = graph.tensors[name].shape
        if exported_batch is not None:
            shape = (min(shape[0], exported_batch), *shape[1:])
        tiles = _tiles(shape)
        points = np.concatenate([np.indices(one.extents).reshape(len(shape), -1).T + one.start for one in tiles])
        flat = np.asarray(np.ravel_multi_index(tuple(points.T), graph.tensors[name].shape), np.int64)
        found[name] = Chosen(tiles, points, flat)
    return found


def _is_compared(graph: Graph, name: str) -> bool:
    tensor = graph.tensors[name]
    return tensor.dtype.is_float and tensor.dtype not in FORMATS and len(tensor.shape) > 0 and prod(tensor.shape) > 0


def _tiles(shape: tuple[int, ...]) -> tuple[Region, ...]:
    """The first, a middle and the last tile, each different one once."""
    sizes = [min(SIDE, extent) if axis >= len(shape) - 2 else 1 for axis, extent in enumerate(shape)]
    found: dict[Region, None] = {}
    for at in range(TILES):
        start = tuple((extent - size) * at // (TILES - 1) for extent, size in zip(shape, sizes, strict=True))
        found[Region(start, tuple(a + b for a, b in zip(start, sizes, strict=True)))] = None
    return tuple(found)


class Probes:
    """Nodes that give the chosen values of a network, and what their outputs are called."""

    def __init__(self, places: Places, model: onnx.ModelProto) -> None:
        taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
        self._prefix = "probe"
        while any(name.startswith(self._prefix) for name in taken):
            self._prefix += "_"
        self.places = places
        self._names = {name: f"{self._prefix}{number}" for number, name in enumerate(places)}

    @property
    def outputs(self) -> list[str]:
        """The values of each tensor, and its shape."""
        return [given for name in self._names.values() for given in (name, f"{name}.shape")]

    def add_to(self, model: onnx.ModelProto) -> None:
        """Add them to a network, each directly behind the node that gives its tensor, which is forgotten after it."""
        behind = {name: self._nodes(name) for name in self.places}
        initializers = [numpy_helper.from_array(np.array([-1], np.int64), self._prefix)]
        initializers += [
            numpy_helper.from_array(chosen.flat, f"{self._names[name]}.places") for name, chosen in self.places.items()
        ]
        nodes: list[onnx.NodeProto] = []
        for node in model.graph.node:
            nodes.append(node)
            for name in node.output:
                nodes += behind.get(name, ())
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(initializers)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.outputs)

    def _nodes(self, tensor: str) -> list[onnx.NodeProto]:
        name = self._names[tensor]
        return [
            helper.make_node("Shape", [tensor], [f"{name}.shape"]),
            helper.make_node("Reshape", [tensor, self._prefix], [f"{name}.flat"]),
            helper.make_node("Gather", [f"{name}.flat", f"{name}.places"], [name]),
        ]

    def values(self, given: Mapping[str, np.ndarray], graph: Graph) -> dict[str, np.ndarray]:
        """The chosen values, of the first run of several; without tensors that have another shape in the file."""
        found: dict[str, np.ndarray] = {}
        for tensor, name in self._names.items():
            if name in given:
                shape = graph.tensors[tensor].shape
                if tuple(given[f"{name}.shape"][1 : len(shape)].tolist()) == shape[1:]:
                    found[tensor] = given[name][: len(self.places[tensor].points)]
        return found


def read_values(op: Operator, stored: Sequence[np.ndarray], places: Places) -> dict[str, np.ndarray]:
    """The chosen values among what an operator reads."""
    return {
        access.tensor: values[tuple(places[access.tensor].points.T)]
        for access, values in zip(op.reads, stored, strict=True)
        if access.tensor in places
    }


@dataclass(slots=True)
class Taken:
    """What a program wrote at chosen places in its first iteration, and which instruction was the first to."""

    places: Places
    values: dict[str, np.ndarray] = field(default_factory=dict)
    writers: dict[str, np.ndarray] = field(default_factory=dict)
    _within: dict[tuple[str, Region], np.ndarray] = field(default_factory=dict)

    def see(self, number: int, tensor: str, written: Region, held: np.ndarray, origin: Sequence[int]) -> None:
        """An instruction has written a region; `held` are the elements of its buffer, which begins at `origin`."""
        if tensor not in self.places:
            return
        chosen = self.places[tensor].points
        within = self._within.get((tensor, written))
        if within is None:
            inside = (chosen >= written.start) & (chosen < written.stop)
            within = self._within[tensor, written] = np.flatnonzero(inside.all(axis=1))
        if not len(within):
            return
        if tensor not in self.values:
            self.values[tensor] = np.full(len(chosen), np.nan)
            self.writers[tensor] = np.full(len(chosen), -1, np.int64)
        fresh = within[self.writers[tensor][within] < 0]
        self.writers[tensor][fresh] = number
        self.values[tensor][fresh] = held[tuple((chosen[fresh] - origin).T)].astype(np.float64)


@dataclass(frozen=True, slots=True)
class Probed:
    """What is expected at chosen places: onnxruntime's values, and what rounding may do to each at both widths."""

    places: Places
    expected: Mapping[str, np.ndarray]
    wide: Mapping[str, np.ndarray]
    narrow: Mapping[str, np.ndarray]


def tensor_samples(graph: Graph, probed: Probed, taken: Taken, *, wide: bool) -> list[TensorSamples]:
    """The tensors of which a program wrote every chosen value, tile by tile, in the order of the network."""
    found: list[TensorSamples] = []
    bounds = probed.wide if wide else probed.narrow
    for name, expected in probed.expected.items():
        written = taken.writers.get(name)
        if written is None or (written < 0).any() or name not in bounds:
            continue
        tensor = graph.tensors[name]
        columns = (taken.values[name], expected, bounds[name])
        tiles: list[TileSamples] = []
        begin = 0
        for tile in probed.places[name].tiles:
            own = slice(begin, begin := begin + tile.size)
            found_here, expected_here, bound = (tuple(map(_short, column[own].tolist())) for column in columns)
            writers = tuple(written[own].tolist())
            tiles.append(TileSamples(tile.start, tile.stop, found_here, expected_here, bound, writers))
        precision = "float32" if wide else "float16"
        found.append(TensorSamples(name, precision, str(tensor.dtype), tensor.shape, tuple(tiles)))
    return found


def _short(value: float) -> float:
    """As many digits as tell float32 values apart."""
    return float(f"{value:.9g}")
