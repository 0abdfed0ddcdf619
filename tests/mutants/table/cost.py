"""What the search believes that a kernel takes."""

from tests.mutants.mutant import Mutant

ESTIMATE = "test_estimate::test_the_estimate_is_near_the_simulation"

COST = (
    Mutant(
        "constants are compulsory in every iteration",
        "cost/bounds.py",
        "compulsory_bytes=constants + borders * iterations,",
        "compulsory_bytes=(constants + borders) * iterations,",
        ("test_estimate::test_bounds_of_a_product_by_hand",),
    ),
    Mutant(
        "the elements that a stride leaves out are compulsory",
        "cost/needs.py",
        "found.append(indices[(indices >= 0) & (indices < size)])",
        "found.append(np.arange(size))",
        ("test_estimate::test_bounds_count_only_what_is_touched",),
    ),
    Mutant(
        "what a slice leaves out is compulsory",
        "cost/needs.py",
        "return [(dim, np.unique(places // stride))]",
        "return [(dim, np.arange(op.dims[dim].extent))]",
        ("test_estimate::test_bounds_leave_out_what_no_output_needs",),
    ),
    Mutant(
        "of two loops that write an axis, rows count that hold a part of what is needed",
        "cost/needs.py",
        "np.flatnonzero(rows[:, kind].all(axis=1))",
        "np.flatnonzero(rows[:, kind].any(axis=1))",
        ("test_needs::test_what_is_needed_of_an_axis_that_loops_share_writes_it",),
    ),
    Mutant(
        "parts of a tensor that nobody reads are compulsory",
        "cost/needs.py",
        "return places[(places >= 0) & (places < reach)], reach",
        "return np.arange(reach), reach",
        ("test_estimate::test_bounds_leave_out_what_no_output_needs",),
    ),
    Mutant(
        "of several readers of a tensor the neediest counts",
        "cost/needs.py",
        "both = _union(rest[at], new)",
        "both = max(rest[at], new, key=_size)",
        ("test_estimate::test_bounds_join_what_several_operators_read",),
    ),
    Mutant(
        "a table is gathered from in one iteration only",
        "cost/bounds.py",
        "* min(size, asked * iterations)",
        "* min(size, asked)",
        ("test_estimate::test_bounds_count_no_more_rows_than_a_table_has",),
    ),
    Mutant(
        "the sums of the second of two tiles need no room of their own",
        "cost/kernel.py",
        """            if two:
                hull(nest, first, far_boxes[op], other)""",
        """            if two and not two:
                hull(nest, first, far_boxes[op], other)""",
        ("test_best::test_the_sums_of_the_largest_tile_fit",),
    ),
    Mutant(
        "the estimate forgets DDR",
        "cost/kernel.py",
        "np.floor(ddr / (numerator / denominator)) + np.floor(dma_copies * rates.dma_cycles / 2) - ddr_rim,",
        "np.floor(dma_copies * rates.dma_cycles / 2),",
        (ESTIMATE,),
    ),
    Mutant(
        "the estimate forgets the links",
        "cost/kernel.py",
        "np.floor(link / rates.link) + mover_copies * rates.mover_cycles - link_rim,",
        "mover_copies * rates.mover_cycles,",
        (ESTIMATE,),
    ),
    Mutant(
        "the estimate forgets GB",
        "cost/kernel.py",
        "np.floor(gb / rates.gb) if has_gb else 0.0,",
        "0.0,",
        (ESTIMATE,),
    ),
    Mutant(
        "the estimate forgets all tiles but one",
        "cost/kernel.py",
        "tiles * whole[MATRIX_CYCLES] - whole[MATRIX_CYCLES],",
        "0.0,",
        (ESTIMATE,),
    ),
    Mutant(
        "the estimate forgets the set-ups of the last store",
        "cost/kernel.py",
        "+ last_setups * rates.dma_cycles",
        "+ 0 * last_setups",
        (ESTIMATE,),
    ),
    Mutant(
        "the estimate forgets that one core has one channel",
        "cost/kernel.py",
        "rates.channel if cores == 1 else rates.ddr",
        "rates.ddr if cores == 1 else rates.ddr",
        ("test_machine_parts::test_the_search_knows_that_one_core_has_one_channel",),
    ),
    Mutant(
        "the estimate forgets what is made in GB",
        "cost/kernel.py",
        "made_bytes if in_gb else 0.0",
        "0.0",
        ("test_machine_parts::test_a_kernel_that_does_not_fit_in_gb_is_told",),
    ),
    Mutant(
        "the estimate forgets the loads into GB",
        "cost/kernel.py",
        "gb += loads * cores * size",
        "pass",
        ("test_machine_parts::test_the_estimate_of_a_core_that_works_in_gb_is_near_the_simulation",),
    ),
    Mutant(
        "the bound takes the peak of the largest unit for all",
        "cost/bounds.py",
        "macs_per_cycle = sum(map(_peak, multipliers))",
        "macs_per_cycle = len(multipliers) * max(map(_peak, multipliers), default=1)",
        ("test_machine_parts::test_bounds_of_unlike_cores_by_hand",),
    ),
    Mutant(
        "the bound takes the folds of the first unit for all",
        "cost/bounds.py",
        "folds = min(_peak(unit) * steps[unit] / rate for unit, rate in able) / macs_per_cycle",
        "folds = _peak(able[0][0]) * steps[able[0][0]] / able[0][1] / macs_per_cycle",
        ("test_machine_parts::test_bounds_of_unlike_cores_by_hand",),
    ),
    Mutant(
        "what crosses a border costs nothing",
        "cost/sub_graph.py",
        "cycles = border + (max(",
        "cycles = (max(",
        ("test_grouping::test_apart_the_border_is_paid_and_written_and_read",),
    ),
    Mutant(
        "pieces read the weights once",
        "cost/sub_graph.py",
        "constants += pieces * loaded",
        "constants += loaded",
        ("test_grouping::test_every_piece_reads_the_weights",),
    ),
    Mutant(
        "pieces need no halo",
        "cost/sub_graph.py",
        "(max(0.0, indices) + tables.follows[row, along, 2]) / ",
        "(max(0.0, indices) + 1) / ",
        ("test_grouping::test_pieces_of_rows_read_their_halo",),
    ),
    Mutant(
        "a batch is ruled out by what it only may take",
        "cost/bounds.py",
        "carried = constants * constant_loads + tables + (borders + 2 * passed) * sharers * iterations",
        "carried = 3 * (constants * constant_loads + tables + (borders + 2 * passed) * sharers * iterations)",
        ("test_homes::test_no_schedule_is_faster_than_what_rules_its_batch_out",),
    ),
)
