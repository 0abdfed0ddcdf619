"""Tests that notice mistakes in several parts of the compiler."""

PARTS = "test_kernels::test_a_reduction_in_parts_adds_up_and_takes_its_bias_once"
READERS = "test_boxes::test_a_tile_needs_the_same_compiled_and_interpreted"
STORED = "test_blocks::test_a_result_that_is_read_inside_and_leaves_is_stored_once_and_not_read_back"
KEPT = "test_homes::test_what_stays_on_chip_is_right_and_does_not_pass_ddr"
