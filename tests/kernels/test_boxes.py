"""The compiled search sees the same boxes and regions as the program that is made of its tilings."""

import numpy as np
import pytest

from tests.helpers.kernel_boxes import NETWORKS, region
from tests.helpers.pairs import slow_for
from tilestitch import api
from tilestitch.hardware.load import load_machine
from tilestitch.ir.region import Region
from tilestitch.ir.tiles import operator_boxes
from tilestitch.kernels.boxes import boxes_of, bytes_of, operand_region, part_of
from tilestitch.kernels.nest import RANK, TENSOR_OF, flatten
from tilestitch.kernels.shape import kernel_shape, part_box
from tilestitch.kernels.shape import operand_region as region_of_operand
from tilestitch.pipeline.options import Options


@pytest.mark.quick
@pytest.mark.parametrize("network", slow_for(["densenet121:small"], NETWORKS))
def test_a_tile_needs_the_same_compiled_and_interpreted(network: str) -> None:
    """For every kernel, boxes at random: iterations of every operator, and what is needed of every operand."""
    machine, random = load_machine("stcp920"), np.random.default_rng(1)
    schedule = api.compile(network, machine, strategy="tvm", batch=4, options=Options(stop_after="schedule")).schedule
    assert schedule is not None
    graph = schedule.graph
    for kernel in schedule.kernels:
        operators = tuple(graph.by_name[name] for name in kernel.operators)
        shape = kernel_shape(graph, operators, machine, machine.cores[0])
        nest = flatten(shape, machine)
        for _ in range(10):
            start = [int(random.integers(dim.extent)) for dim in shape.sink.dims]
            stop = [int(random.integers(at, dim.extent)) + 1 for at, dim in zip(start, shape.sink.dims, strict=True)]
            expected = operator_boxes(graph, operators, Region(tuple(start), tuple(stop)))
            sink = np.zeros((2, nest.dims.shape[1]), np.int64)
            sink[:, : len(start)] = start, stop
            boxes = np.zeros((len(operators), 2, nest.dims.shape[1]), np.int64)
            needed = np.zeros((len(nest.tensors), 2, nest.places.shape[1]), np.int64)
            boxes_of(nest, sink, boxes, needed, np.zeros(len(nest.tensors), np.int64))
            for op, box in zip(operators, boxes, strict=True):
                assert region(box, len(op.dims)) == expected[op.name], op.name
            part, cut = np.zeros((2, nest.dims.shape[1]), np.int64), np.ones(nest.dims.shape[1], np.int64)
            expected_part = None
            if shape.anchor is not None:
                extents = [int(random.integers(dim.extent)) + 1 for dim in shape.anchor.dims]
                cut[: len(extents)] = extents
                part_of(nest, boxes, cut, part)
                expected_part = part_box(shape.anchor, expected[shape.anchor.name], extents)
                assert region(part, len(extents)) == expected_part
            found = np.zeros((2, nest.places.shape[1]), np.int64)
            for at, operand in enumerate(shape.operands):
                operand_region(nest, at, boxes, part, found)
                wanted = region_of_operand(shape, operand, expected, expected_part)
                tensor = nest.operands[at, TENSOR_OF]
                assert region(found, nest.tensors[tensor, RANK]) == wanted, operand.tensor
                assert bytes_of(nest, tensor, found) == graph.tensors[operand.tensor].bytes_of(wanted)
