"""Whether two values are the same in every field, arrays to the byte."""

from dataclasses import fields

import numpy as np

from tilestitch.ir.graph import Graph
from tilestitch.ir.program import Buffers, Program


def assert_same_graph(found: Graph, expected: Graph) -> None:
    """Also the order of tensors and constants; a NaN is as good as another."""
    assert repr((found.name, found.operators)) == repr((expected.name, expected.operators))
    assert (found.inputs, found.outputs) == (expected.inputs, expected.outputs)
    assert list(found.tensors.items()) == list(expected.tensors.items())
    assert list(found.constants) == list(expected.constants)
    for name, value in expected.constants.items():
        assert_same_array(found.constants[name], value, name)


def assert_same_program(found: Program, expected: Program) -> None:
    """All but the graphs, which may be two that are the same."""
    assert_same_graph(found.graph, expected.graph)
    assert_same_fields(found, expected)
    assert_same_fields(found.buffers, expected.buffers)


def assert_same_fields(found: object, expected: Buffers | Program) -> None:
    for field in fields(expected):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, np.ndarray):
            assert_same_array(one, other, field.name)
        elif not isinstance(other, Graph | Buffers):
            assert one == other, field.name


def assert_same_array(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    assert found.dtype == expected.dtype, name
    assert found.shape == expected.shape, name
    assert found.tobytes() == expected.tobytes(), name
