"""Energy is counted from the events of a real program."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.load import load_machine
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named


def product(m: int, k: int, n: int) -> onnx.ModelProto:
    """One matrix product of an input by a constant, without bias."""
    weights = numpy_helper.from_array(np.ones((k, n), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [m, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [m, n])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def priced(machine: Accelerator, **prices: tuple[float, float]) -> Accelerator:
    """The machine with (read, write) picojoules a byte of each level; levels not named cost nothing."""
    memories = tuple(
        replace(
            m, read_pj_per_byte=prices.get(m.level, (0.0, 0.0))[0], write_pj_per_byte=prices.get(m.level, (0.0, 0.0))[1]
        )
        for m in machine.memories
    )
    return replace(machine, cores=machine.cores[:1], clusters=1, memories=memories)


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ({"ddr": (1.0, 0.0)}, {"ddr": 2 * (16 * 32 + 32 * 8)}),  # operands leave DDR once
        ({"ddr": (0.0, 1.0)}, {"ddr": 2 * 16 * 8}),  # the result arrives once
        ({"gb": (1.0, 0.0)}, {"gb": 2 * (16 * 32 + 32 * 8 + 16 * 8)}),  # everything passes GB
        ({"weights": (0.0, 1.0)}, {"weights": 2 * 32 * 8}),  # the second operand, written once
        ({"weights": (1.0, 0.0)}, {"weights": 2 * 32 * 8}),  # and read by the matrix unit once
        ({"lb": (1.0, 0.0)}, {"lb": 2 * (16 * 32 + 16 * 8)}),  # first operand by the unit, result by the mover
        ({"accumulators": (1.0, 0.0)}, {"accumulators": 0}),  # one part: overwritten, never read
        ({"accumulators": (0.0, 1.0)}, {"accumulators": 4 * 16 * 8}),
    ],
)
def test_each_byte_is_counted_where_it_is_read_and_written(
    prices: dict[str, tuple[float, float]], expected: dict[str, int]
) -> None:
    """A 16 x 32 by 32 x 8 product of float16 in one tile: all runs are multiples of every burst."""
    machine = priced(load_machine("toy"), **prices)
    done = compile_network(product(16, 32, 8), "product", machine, strategy_named("layerwise"), Options())
    assert done.report is not None
    assert done.program is not None
    parts = dict(done.report.energy_pj)
    assert {level: parts[level] for level in expected} == expected
    assert all(parts[str(level)] == 0 for level in Level if str(level) not in expected)


def test_a_reduction_in_parts_reads_its_partial_sums_again() -> None:
    machine = priced(load_machine("toy"), accumulators=(1.0, 0.0))
    done = compile_network(product(16, 2048, 8), "product", machine, strategy_named("layerwise"), Options())
    assert done.report is not None
    assert done.schedule is not None
    kernel = done.schedule.kernels[0]
    parts = -(-2048 // kernel.tiling.reduction[2])
    assert parts > 1
    assert dict(done.report.energy_pj)["accumulators"] == 4 * 16 * 8 * (parts - 1)
