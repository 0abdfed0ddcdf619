"""The bits of ZigZag's layers, for machines with a fixed hierarchy and for trees."""

import pytest

from tests.helpers.zigzag_trees import CONV
from tilestitch.base.errors import InputError
from tilestitch.formats.zigzag.nest import zigzag_layers
from tilestitch.formats.zigzag.tree_workload import zigzag_tree_layers


@pytest.mark.parametrize("read", [zigzag_layers, zigzag_tree_layers], ids=["array", "tree"])
@pytest.mark.parametrize(
    "old, new, message",
    [
        ("I: 8", "I: 0", r"operand_precision\.I: expected at least 1 bit, found 0; only weights \(W\) may have none"),
        ("O: 16", "O: 0", r"operand_precision\.O: expected at least 1 bit"),
        ("O_final: 8", "O_final: 0", r"operand_precision\.O_final: expected at least 1 bit"),
        ("O_final: 8", "O_final: 17", r"operand_precision\.O_final: expected at most the 16 bits of O, .* found 17"),
    ],
)
def test_operands_without_bits_and_complete_sums_wider_than_partial_ones_are_refused(read, old, new, message):
    with pytest.raises(InputError, match=message):
        read(CONV.replace(old, new, 1), "layers.yaml")


@pytest.mark.parametrize("read", [zigzag_layers, zigzag_tree_layers], ids=["array", "tree"])
@pytest.mark.parametrize("old, new", [("W: 8", "W: 0"), ("O_final: 8", "O_final: 16")])
def test_weights_without_bits_and_complete_sums_as_wide_as_partial_ones_are_taken(read, old, new):
    assert read(CONV.replace(old, new, 1), "layers.yaml")
