"""Indices inside a kernel, and how the text of one reads."""

import pytest

from tilestitch.backends.triton.code import Code, identifier
from tilestitch.backends.triton.index import Index, Var, of_var, strides_of

pytestmark = pytest.mark.quick

ROW, COLUMN = Var("row", 0, 6), Var("column", 0, 4)


def test_indices_add_up():
    """Terms of one variable are one term, and none where they cancel."""
    index = of_var(ROW) * 3 + of_var(COLUMN) * -1 + -2
    assert str(index) == "row * 3 - column - 2"
    assert (index.low, index.high) == (-6, 16)
    assert str(index + of_var(COLUMN)) == "row * 3 - 2"
    assert str(Index()) == "0"


def test_strides_follow_the_layout():
    """Channels innermost: neighbours along axis 1 are next to each other."""
    assert strides_of((2, 3, 4, 5), (0, 2, 3, 1)) == (60, 1, 15, 3)


def test_what_does_not_depend_on_a_loop_stands_before_it():
    """And names that nothing takes are left out."""
    code = Code()
    acc = code.let("acc", "0", 0)
    with code.loop("for turn in range(3):"):
        code.let("unused", "1")
        outside = code.let("outside", "load()", 0)
        code.line(f"{acc} += {outside}")
    assert code.lines == [
        "    acc = 0",
        "    outside = load()",
        "    for turn in range(3):",
        "        acc += outside",
    ]


@pytest.mark.parametrize(
    "text, name", [("layer1.0.conv1", "layer1_0_conv1"), ("class", "vclass"), ("1x1", "v1x1"), ("ä/~", "ä")]
)
def test_names_are_names_of_python(text, name):
    """Whatever a tensor is called."""
    assert identifier(text) == name
    assert identifier(text).isidentifier()
