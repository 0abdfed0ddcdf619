"""A few values of every output, as the program and onnxruntime have them."""

from collections.abc import Mapping

import numpy as np

from tilestitch.ir.graph import Graph
from tilestitch.ir.samples import OutputSamples, Sample
from tilestitch.sim.chip.compare import decides, excess

CORNER = 8  # rows and columns
WORST = 16
SPREAD = 32
OUTPUTS = 16  # of a network

Values = Mapping[str, np.ndarray]  # by output, of one iteration


def samples(graph: Graph, found: Values, expected: Values, bounds: Values, precision: str) -> list[OutputSamples]:
    """Samples of the first outputs, of one iteration; those of another shape than expected are left out."""
    rows: list[OutputSamples] = []
    for name in graph.outputs[:OUTPUTS]:
        ours, theirs, bound = found[name], expected[name], bounds[name]
        if ours.shape == theirs.shape == bound.shape and ours.size:
            dtype = str(graph.tensors[name].dtype)
            rows.append(_of_output(name, precision, dtype, ours, theirs, bound))
    return rows


def _of_output(
    name: str, precision: str, dtype: str, found: np.ndarray, expected: np.ndarray, bound: np.ndarray
) -> OutputSamples:
    share, decided = excess(found, expected, bound).reshape(-1), decides(expected, bound).reshape(-1)

    def sample(number: int) -> Sample:
        place = tuple(int(index) for index in np.unravel_index(number, found.shape))
        ours, theirs, limit = (float(array.flat[number]) for array in (found, expected, bound))
        return Sample(place, ours, theirs, limit, float(share[number]), bool(decided[number]))

    rows, columns = (1, 1, *found.shape)[-2:]
    corner = min(rows, CORNER), min(columns, CORNER)
    first = [row * columns + column for row in range(corner[0]) for column in range(corner[1])]
    most = min(WORST, found.size)
    order = np.argpartition(-share, most - 1)[:most]
    order = order[np.lexsort((order, -share[order]))]
    steps = np.unique(np.linspace(0, found.size - 1, min(SPREAD, found.size)).astype(np.int64))
    return OutputSamples(
        name,
        precision,
        dtype,
        found.shape,
        found.size,
        corner,
        tuple(map(sample, first)),
        tuple(sample(number) for number in order.tolist() if share[number] > 0),
        tuple(map(sample, steps.tolist())),
    )
