"""Every element type has a place in memory, at both widths, and keeps its values there."""

import numpy as np
import pytest

from tests.graphs import Net
from tilestitch.dtypes import STORAGE, DType
from tilestitch.frontend.reader import read_onnx
from tilestitch.sim.chip.interpret import interpret


@pytest.mark.parametrize("dtype", DType)
def test_a_stored_type_has_a_partner_of_twice_its_width(dtype):
    """Which the execution in float32 needs, as it doubles every address."""
    narrow, wide = dtype.numpy(wide=False), dtype.numpy(wide=True)
    assert wide.itemsize == 2 * narrow.itemsize == 2 * dtype.size_bytes


@pytest.mark.parametrize("element_type", [t for t in STORAGE if t.itemsize == 1], ids=str)
def test_every_value_of_a_byte_is_stored_exactly_at_both_widths(element_type):
    """Also of the types that share their array type with another one."""
    bits = np.arange(256, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        values = bits.view(element_type).astype(np.float64)
        for wide in (False, True):
            stored = values.astype(STORAGE[element_type].numpy(wide=wide)).astype(np.float64)
            assert np.array_equal(stored, values, equal_nan=True)


@pytest.mark.parametrize("wide", [False, True])
def test_integers_wrap_around_at_their_own_width(wide):
    """Although the wide execution has twice as many bits."""
    net = Net()
    y = net.op("Add", net.input(2, name="x", dtype=2), net.constant(np.array([3, 250], np.uint8)))
    found = interpret(read_onnx(net.model(y)), {"x": np.array([1, 10], np.uint8)}, wide=wide)
    assert found[y].tolist() == [4, 4]
