"""Break the compiler on purpose, in one way at a time: the tests must notice every one.

    python -m tests.mutants            all of them, on two processes
    python -m tests.mutants wait halo  those whose name contains one of these words

Each mutant is one plausible mistake: a text that occurs once in one file of `src`, and what it becomes. It is made in a
temporary copy, and the tests that should notice run there. It is caught where a test fails; where the broken code
cannot even be imported the mutant shows nothing, and counts as broken. First the same tests pass on the code as it is.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = 2
SECONDS = 600  # for one mutant; none comes near, but where other work shares the machine
SECONDS_WHOLE = 1800  # for all tests of all mutants on the code as it is
ELSEWHERE = 70  # exit status: the copy cannot be imported, or is not what was imported


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: in `file` of the package, `before` becomes `after`; some of `tests` must fail then."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]  # a file without its folder and ending, or a test of it: `test_tiles`, `test_tiles::test_x`

    @property
    def interpreted(self) -> bool:
        """Whether to run without compiled code: a changed file of compiled functions would be compiled anew."""
        return self.file == "sim/chip/timing.py" or self.file.startswith("sim/array/")


BY_HAND = "test_kernels::test_a_product_in_one_tile_takes_what_it_takes_by_hand"
OVERLAP = "test_kernels::test_a_tile_loads_while_the_one_before_is_computed"
PARTS = "test_kernels::test_a_reduction_in_parts_adds_up_and_takes_its_bias_once"
READERS = "test_kernels::test_a_tile_has_what_all_its_readers_need"
WINDOWS = "test_kernels::test_a_window_may_read_what_a_window_made"
ITERATIONS = "test_kernels::test_every_iteration_has_its_own_inputs_and_outputs"
BROADCAST = "test_kernels::test_what_all_cores_need_is_broadcast"
RAGGED = "test_kernels::test_rows_are_divided_evenly_and_the_last_tile_is_ragged"
IN_PLACE = "test_kernels::test_a_result_takes_no_place_that_somebody_still_reads"
STRIDES = "test_kernels::test_a_copy_pays_for_the_shape_of_what_it_moves"
ESTIMATE = "test_kernels::test_the_estimate_is_near_the_simulation"
MANY_USES = "test_hazards::test_many_uses_of_a_buffer_are_waited_for_like_few"
EARLY = "test_hazards::test_no_byte_is_touched_too_early"
OPERATORS = "test_frontend::test_a_node_means_what_onnxruntime_computes"
CLOCK = "test_chip_timing::test_a_naive_simulator_agrees_to_the_tick"

STORED = "test_blocks::test_a_result_that_is_read_inside_and_leaves_is_stored_once_and_not_read_back"
KEPT = "test_homes::test_what_stays_on_chip_is_right_and_does_not_pass_ddr"

MUTANTS = (
    # What a tile needs, and what it is.
    Mutant(
        "a halo is ignored",
        "ir/graph.py",
        "for dim, stride in axis.terms:\n                first, last",
        "for dim, stride in axis.terms[:1]:\n                first, last",
        (READERS,),
    ),
    Mutant(
        "only the first reader's window is loaded",
        "kernels/shape.py",
        "region = found if region is None else region.hull(found)",
        "region = found if region is None else region",
        (READERS,),
    ),
    Mutant(
        "only the last reader's window is loaded",
        "kernels/shape.py",
        "region = found if region is None else region.hull(found)",
        "region = found",
        (READERS,),
    ),
    Mutant(
        "an inner operator computes what its last reader needs",
        "ir/tiles.py",
        "needed[read.tensor] = region.hull(needed[read.tensor]) if read.tensor in needed else region",
        "needed[read.tensor] = region",
        (
            "test_tiles::test_operators_compute_what_the_last_one_needs_and_no_more",
            "test_kernels::test_an_inner_tile_is_what_all_its_readers_need",
        ),
    ),
    Mutant(
        "of several heads only the channels of the first are computed",
        "ir/tiles.py",
        "            if first != last:\n                break\n",
        "",
        ("test_tiles::test_the_box_that_writes_a_region_is_the_smallest",),
    ),
    Mutant(
        "the ragged last tile is forgotten",
        "ir/region.py",
        "for at in range(start, stop, extent))",
        "for at in range(start, max(start + 1, stop - extent + 1), extent))",
        (RAGGED,),
    ),
    Mutant(
        "the ragged last tile is as long as the others",
        "ir/region.py",
        "(at, min(at + extent, stop))",
        "(at, at + extent)",
        (RAGGED,),
    ),
    Mutant(
        "the last piece goes to no core",
        "ir/tiles.py",
        "for piece in product(*axes)]",
        "for piece in product(*(axis[: max(1, len(axis) - 1)] for axis in axes))]",
        (RAGGED,),
    ),
    Mutant(
        "the last core takes all that does not divide",
        "ir/region.py",
        "step * (units * i // count)",
        "step * (units // count * i)",
        ("test_tiles::test_even_pieces_cover_a_range_evenly", RAGGED),
    ),
    Mutant(
        "a cut falls inside a step",
        "ir/region.py",
        "min(extent, step * (units * i // count))",
        "extent * i // count",
        ("test_tiles::test_even_pieces_cover_a_range_evenly",),
    ),
    Mutant(
        "tiles follow the dims and not the loop order",
        "ir/tiles.py",
        "for choice in product(*(cuts[dim] for dim in tiling.order)):",
        "for choice in (tuple(c[d] for d in tiling.order) for c in product(*cuts)):",
        ("test_tiles::test_every_iteration_belongs_to_one_tile_of_one_core",),
    ),
    Mutant(
        "an operator that is read elsewhere is hidden inside a kernel",
        "ir/tiles.py",
        "leaves = bool(readers - members) or any(name in graph.outputs for name in op.outputs)",
        "leaves = False",
        ("test_tiles::test_an_operator_that_is_read_elsewhere_ends_a_kernel_of_its_own",),
    ),
    # Waits.
    Mutant(
        "a reader does not wait for the writer",
        "lower/hazards.py",
        "or not (writes or uses.writes[use]):",
        "or not writes:",
        ("test_hazards::test_a_reader_waits_for_the_writer_of_its_part", EARLY),
    ),
    Mutant(
        "a writer does not wait for the readers",
        "lower/hazards.py",
        "or not (writes or uses.writes[use]):",
        "or not uses.writes[use]:",
        ("test_hazards::test_a_writer_waits_for_the_readers_and_writers_of_its_part", EARLY),
    ),
    Mutant(
        "a new owner of a place does not wait for the old one",
        "lower/hazards.py",
        "before_ends[buffer + 1] if text.writes[at] else 0",
        "0",
        (EARLY,),
    ),
    Mutant(
        "a new owner waits for the first user of its place, not for the last",
        "lower/hazards.py",
        "latest.instruction[engine] = max(latest.instruction[engine], instruction)",
        "latest.instruction[engine] = latest.instruction[engine] if latest.instruction[engine] >= 0 else instruction",
        ("test_hazards::test_the_latest_of_several_uses_counts", EARLY),
    ),
    Mutant(
        "a region that is used again counts by its first use",
        "lower/hazards.py",
        "uses.instruction[use] = number\n        return known",
        "return known",
        (MANY_USES,),
    ),
    Mutant(
        "a use that covers many cells of the grid is forgotten",
        "lower/hazards.py",
        "use = int(uses.first_wide[buffer])\n    while use >= 0:\n        _conflict",
        "use = -1\n    while use >= 0:\n        _conflict",
        (MANY_USES,),
    ),
    Mutant(
        "a use that covers several cells lies in the first alone",
        "lower/hazards.py",
        "for cell in range(cells):\n        at =",
        "for cell in range(min(1, cells)):\n        at =",
        (MANY_USES,),
    ),
    Mutant(
        "what is left of a place behind its new owner is forgotten",
        "lower/hazards.py",
        "if behind > first and stop < owners[behind - 1, 1]:",
        "if behind > first and stop < 0:",
        ("test_hazards::test_what_is_left_of_an_old_owner_is_still_its_own",),
    ),
    Mutant(
        "a launch waits for nobody",
        "lower/hazards.py",
        "if last[other] > barrier and other != text.control:",
        "if last[other] > number and other != text.control:",
        (EARLY, "test_kernels::test_a_kernel_begins_when_the_one_before_has_ended"),
    ),
    Mutant(
        "the first instructions of a kernel do not wait for its launch",
        "lower/hazards.py",
        "_note(latest, text.control, barrier)",
        "pass",
        ("test_kernels::test_a_kernel_begins_when_the_one_before_has_ended",),
    ),
    Mutant(
        "an iteration does not wait for the one before",
        "lower/program.py",
        "np.concatenate([before + length * (i - 1), waits + length * i])",
        "np.concatenate([before, waits + length * i])",
        (ITERATIONS,),
    ),
    Mutant(
        "waits of repeated iterations name the first one",
        "lower/program.py",
        "waits + length * i])",
        "waits])",
        (ITERATIONS,),
    ),
    Mutant(
        "the second cluster waits for the first one's instructions",
        "lower/clusters.py",
        "waits=blocks(program.waits, length),",
        "waits=blocks(program.waits),",
        ("test_clusters::test_a_cluster_waits_for_none_of_another",),
    ),
    # Places.
    Mutant(
        "the second slot lies on the next buffer",
        "lower/places.py",
        "self._own_bytes[space] += aligned(size_bytes) * count",
        "self._own_bytes[space] += aligned(size_bytes)",
        (EARLY,),
    ),
    Mutant(
        "buffers begin before the one below ends",
        "lower/places.py",
        "self._own_bytes[space] += aligned(size_bytes) * count",
        "self._own_bytes[space] += aligned(size_bytes // 2) * count",
        (EARLY,),
    ),
    Mutant(
        "both slots are one place",
        "lower/places.py",
        "(self.used % self.count) * self.size_bytes",
        "0",
        (OVERLAP,),
    ),
    Mutant(
        "what changes has one slot",
        "lower/places.py",
        "count = 1 if changes == 1 else 2",
        "count = 1",
        (OVERLAP,),
    ),
    Mutant(
        "a tile's results have one slot",
        "lower/places.py",
        "count = 2 if tiles > 1 else 1",
        "count = 1",
        (OVERLAP, "test_kernels::test_a_core_has_two_places_for_what_changes_and_one_for_what_stays"),
    ),
    Mutant(
        "a result takes the place of an operand with another reader",
        "kernels/shape.py",
        "len(graph.consumers[read.tensor]) == len(graph.producers[read.tensor]) == 1",
        "len(graph.producers[read.tensor]) == 1",
        (IN_PLACE,),
    ),
    Mutant(
        "a part of a tensor takes the place of a smaller operand",
        "kernels/shape.py",
        "if len(graph.producers[write.tensor]) > 1:",
        "if len(graph.producers[write.tensor]) > 99:",
        ("test_kernels::test_a_part_of_a_tensor_takes_no_place_of_a_smaller_one",),
    ),
    Mutant(
        "all iterations read and write the first one's slice",
        "lower/program.py",
        "copy[:, 1] += np.where(moves, plan.stride_bytes * i, 0)",
        "copy[:, 1] += np.where(moves, plan.stride_bytes * 0, 0)",
        (ITERATIONS,),
    ),
    Mutant(
        "the slices of two iterations overlap",
        "lower/program.py",
        "return _Plan(address, frozenset(per_iteration), top - begin)",
        "return _Plan(address, frozenset(per_iteration), (top - begin) // 2)",
        (ITERATIONS,),
    ),
    # Transfers.
    Mutant(
        "a broadcast misses its last target",
        "lower/kernel.py",
        "self._copy(tensor, part, source, targets, EngineKind.MOVER, mover)",
        "self._copy(tensor, part, source, targets[: max(1, len(targets) - 1)], EngineKind.MOVER, mover)",
        (BROADCAST,),
    ),
    Mutant(
        "each core loads for itself what all need",
        "lower/kernel.py",
        "for ordinal, (region, cores) in enumerate(wanted.items()):",
        "for ordinal, (region, cores) in enumerate((region, [core]) for region in wanted for core in wanted[region]):",
        (BROADCAST,),
    ),
    Mutant(
        "what a core holds already is loaded again",
        "lower/kernel.py",
        "if which is not operand or (held is not None and held[0] == region):",
        "if which is not operand:",
        ("test_kernels::test_what_stays_at_the_core_is_not_loaded_again",),
    ),
    Mutant(
        "what is kept in GB is loaded for every tile",
        "lower/kernel.py",
        "missing.remove(slab)",
        "pass",
        ("test_kernels::test_what_stays_in_gb_is_read_from_ddr_once",),
    ),
    Mutant(
        "set-up is paid once however many descriptors",
        "lower/kernel.py",
        "cycles=per_descriptor * descriptors,",
        "cycles=per_descriptor,",
        ("test_kernels::test_each_descriptor_has_its_set_up",),
    ),
    Mutant(
        "a descriptor has any number of strides",
        "ir/transfers.py",
        "            if loops > MAX_STRIDES:",
        "            if loops > MAX_STRIDES + 1:",
        ("test_tiles::test_five_loops_take_a_descriptor_for_each_turn_of_the_outer_two",),
    ),
    Mutant(
        "runs follow the axes and not the layout",
        "ir/transfers.py",
        "for axis in tensor.layout)",
        "for axis in range(len(tensor.layout)))",
        (STRIDES, "test_tiles::test_a_layout_orders_the_axes_of_a_transfer"),
    ),
    Mutant(
        "a run goes on past an axis that is cut",
        "ir/transfers.py",
        "contiguous = extent == source[axis] and extent == target[axis]",
        "contiguous = extent == target[axis]",
        ("test_tiles::test_runs_and_descriptors_are_those_of_the_addresses", STRIDES),
    ),
    Mutant(
        "rows are gathered one further on",
        "sim/chip/values.py",
        "index = np.where(indices < 0, indices + size, indices)",
        "index = np.where(indices < 0, indices + size, indices + 1)",
        ("test_kernels::test_rows_are_gathered_from_ddr",),
    ),
    # Arithmetic, and what a reduction in parts adds up.
    Mutant(
        "a compute takes one cycle",
        "lower/kernel.py",
        "cycles=self.machine.setup.compute_cycles + self.shape.cycles(op, box.extents),",
        "cycles=self.machine.setup.compute_cycles + 1,",
        (BY_HAND, OVERLAP),
    ),
    Mutant(
        "sums are never cleared",
        "lower/kernel.py",
        "flags |= Flag.FIRST if step.first or not anchored else 0",
        "flags |= 0",
        (PARTS,),
    ),
    Mutant(
        "sums are cleared by every part",
        "lower/kernel.py",
        "flags |= Flag.FIRST if step.first or not anchored else 0",
        "flags |= Flag.FIRST",
        (PARTS,),
    ),
    Mutant(
        "a reduction never ends",
        "lower/kernel.py",
        "flags |= Flag.LAST if finishes else 0",
        "flags |= 0",
        (PARTS,),
    ),
    Mutant(
        "each part of a reduction has sums of its own",
        "lower/kernel.py",
        "operands.append(self._accumulator(op, core, box, first=step.first or not anchored))",
        "operands.append(self._accumulator(op, core, box, first=True))",
        (PARTS,),
    ),
    Mutant(
        "a product of integers forgets what stands for zero",
        "ops/contraction.py",
        "a, b = first - zeros[0], second - zeros[1]",
        "a, b = first, second",
        ("test_quantised::test_a_quantised_network_is_verified",),
    ),
    Mutant(
        "an integer may be two steps off",
        "sim/chip/steps.py",
        "if self.largest <= 1 else 1.0",
        "if self.largest <= 2 else 1.0",
        ("test_quantised::test_one_element_in_a_thousand_may_be_one_step_off",),
    ),
    Mutant(
        "every part of a reduction adds the bias",
        "sim/chip/execute.py",
        "if flags & Flag.LAST:",
        "if len(op.reads) > 2:",
        (PARTS,),
    ),
    Mutant(
        "no part of a reduction adds the bias",
        "sim/chip/execute.py",
        "if flags & Flag.LAST:",
        "if flags & Flag.LAST and len(op.reads) < 3:",
        (PARTS,),
    ),
    Mutant(
        "an operand of a reduction in parts comes with the last part",
        "lower/waves.py",
        "if operand.from_the_start or last",
        "if operand.in_parts or last",
        ("test_kernels::test_an_operand_of_a_reduction_in_parts_may_have_another_reader",),
    ),
    Mutant(
        "padding of a maximum is zero",
        "frontend/operators/pooling.py",
        'float("-inf") if network.is_float',
        'float("0") if network.is_float',
        (OPERATORS,),
    ),
    Mutant(
        "an average divides by the whole window at the border",
        "frontend/operators/pooling.py",
        "window.elements(position, count_padding=count_padding)",
        "window.elements(position, count_padding=True)",
        (OPERATORS,),
    ),
    Mutant(
        "a softmax may overflow",
        "ops/normalise.py",
        "exponential = np.exp(x - x.max(axis=axes, keepdims=True))",
        "exponential = np.exp(x)",
        ("test_kernels::test_a_softmax_of_large_numbers_is_finite",),
    ),
    # Execution.
    Mutant(
        "starts come before ends of the same moment",
        "sim/chip/execute.py",
        "phase[0::2] = 1",
        "phase[0::2] = -1",
        ("test_hazards::test_ends_come_before_starts_of_the_same_moment",),
    ),
    Mutant(
        "freed memory keeps its values",
        "sim/chip/execute.py",
        "        self._bytes_of(buffer)[...] = POISON\n        self.views.pop(buffer, None)",
        "        self.views.pop(buffer, None)",
        ("test_hazards::test_what_was_there_before_is_gone_once_nobody_needs_it",),
    ),
    Mutant(
        "memory that is being written keeps its values",
        "sim/chip/execute.py",
        "                if mode != Mode.READ:\n                    self._poison(buffer, region)",
        "                if mode != Mode.READ:\n                    pass",
        ("test_hazards::test_what_is_being_written_is_gone_already",),
    ),
    Mutant(
        "memory begins with zeros",
        "sim/chip/execute.py",
        "np.full(size, POISON, np.uint8) for size",
        "np.full(size, 0, np.uint8) for size",
        ("test_hazards::test_what_nobody_wrote_is_no_number",),
    ),
    Mutant(
        "poison is no NaN",
        "sim/chip/execute.py",
        "POISON = 0xFF",
        "POISON = 0x00",
        ("test_hazards::test_what_was_there_before_is_gone_once_nobody_needs_it",),
    ),
    Mutant(
        "axes in memory are permuted the wrong way round",
        "sim/chip/execute.py",
        "inverse = sorted(range(len(layout)), key=layout.__getitem__)",
        "inverse = list(layout)",
        (READERS,),
    ),
    Mutant(
        "a float32 error of 1e-4 passes",
        "sim/chip/check.py",
        "FLOAT32_TOLERANCE = 1e-5",
        "FLOAT32_TOLERANCE = 1e-4",
        ("test_hazards::test_twenty_millionths_are_too_much_for_float32",),
    ),
    Mutant(
        "any float16 error passes",
        "sim/chip/check.py",
        "FLOAT16_FACTOR = 4.0",
        "FLOAT16_FACTOR = 4000.0",
        ("test_hazards::test_half_a_percent_is_too_much_for_float16",),
    ),
    Mutant(
        "a float16 check that zeros would meet passes",
        "ir/report.py",
        "return self.allowed < 1",
        "return True",
        ("test_range::test_what_float16_cannot_carry_is_no_proof",),
    ),
    Mutant(
        "an error of NaN passes",
        "ir/report.py",
        "return self.conclusive and self.error <= self.allowed",
        "return self.conclusive and not self.error > self.allowed",
        ("test_hazards::test_a_missing_number_never_passes",),
    ),
    # Time, bytes and energy.
    Mutant(
        "bursts are not rounded up",
        "sim/chip/timing.py",
        "bursts = runs * ((run_bytes + burst_bytes - 1) // burst_bytes)",
        "bursts = runs * run_bytes // burst_bytes",
        ("test_chip_timing::test_runs_round_up_to_the_burst_of_each_resource",),
    ),
    Mutant(
        "a granule has passed when its last resource is through",
        "sim/chip/timing.py",
        "passed = max(passed, free[r])",
        "passed = free[r]",
        ("test_chip_timing::test_a_copy_takes_its_setup_and_its_slowest_resource", CLOCK),
    ),
    Mutant(
        "a transfer passes one resource after another",
        "sim/chip/timing.py",
        "free[r] = max(time, free[r]) + ticks",
        "free[r] = max(passed, free[r]) + ticks",
        ("test_chip_timing::test_a_copy_takes_its_setup_and_its_slowest_resource",),
    ),
    Mutant(
        "of two requests at one moment the higher engine goes first",
        "sim/chip/timing.py",
        "(times[parent] == time and engines[parent] < engine)",
        "(times[parent] == time and engines[parent] > engine)",
        ("test_chip_timing::test_copies_share_a_resource_granule_by_granule", CLOCK),
    ),
    Mutant(
        "a copy ends within a cycle",
        "sim/chip/timing.py",
        "time = (time + ticks_per_cycle - 1) // ticks_per_cycle * ticks_per_cycle",
        "pass",
        ("test_chip_timing::test_a_copy_ends_on_a_whole_cycle",),
    ),
    Mutant(
        "a fold waits for no weights",
        "hardware/units.py",
        "fold = max(rows, array[3]) if array[4] else rows + array[3]",
        "fold = rows if array[4] else rows + array[3]",
        ("test_machines::test_the_time_of_a_tile_on_a_matrix_unit",),
    ),
    Mutant(
        "half a fold takes half the time",
        "hardware/units.py",
        "cycles = groups * -(-k // array[1]) * -(-n // array[2]) * fold",
        "cycles = -(-groups * k * n * fold // (array[1] * array[2]))",
        ("test_machines::test_the_time_of_a_tile_on_a_matrix_unit",),
    ),
    Mutant(
        "constants are compulsory in every iteration",
        "cost/bounds.py",
        "compulsory_bytes=constants + borders * iterations,",
        "compulsory_bytes=(constants + borders) * iterations,",
        ("test_kernels::test_bounds_of_a_product_by_hand",),
    ),
    Mutant(
        "the elements that a stride leaves out are compulsory",
        "cost/needs.py",
        "found.append(indices[(indices >= 0) & (indices < size)])",
        "found.append(np.arange(size))",
        ("test_kernels::test_bounds_count_only_what_is_touched",),
    ),
    Mutant(
        "what a slice leaves out is compulsory",
        "cost/needs.py",
        "loops[dim], places = np.unique(places // stride), places % stride",
        "places = places % stride",
        ("test_kernels::test_bounds_leave_out_what_no_output_needs",),
    ),
    Mutant(
        "parts of a tensor that nobody reads are compulsory",
        "cost/needs.py",
        "places = places[(places >= 0) & (places < reach)]",
        "places = np.arange(reach)",
        ("test_kernels::test_bounds_leave_out_what_no_output_needs",),
    ),
    Mutant(
        "stores do not count as traffic",
        "report/summarise.py",
        "ddr_bytes=sum(row.ddr_read_bytes + row.ddr_written_bytes for row in kernels),",
        "ddr_bytes=sum(row.ddr_read_bytes for row in kernels),",
        ("test_report::test_kernels_add_up_to_the_whole", "test_report::test_nothing_beats_its_bound"),
    ),
    Mutant(
        "the energy of the vector units is left out",
        "sim/chip/energy.py",
        "vector_pj += count * vector.operation_pj",
        "pass",
        ("test_chip_timing::test_energy_is_that_of_the_links_and_of_the_arithmetic",),
    ),
    Mutant(
        "the energy of the links is left out",
        "sim/chip/energy.py",
        "links_pj += int(size_bytes) * resource.pj_per_byte",
        "pass",
        ("test_chip_timing::test_energy_is_that_of_the_links_and_of_the_arithmetic", "test_energy"),
    ),
    Mutant(
        "a write costs what a read costs",
        "sim/chip/energy.py",
        "read * memory.read_pj_per_byte + written * memory.write_pj_per_byte",
        "(read + written) * memory.read_pj_per_byte",
        ("test_energy",),
    ),
    # What the search believes.
    Mutant(
        "the estimate forgets DDR",
        "cost/kernel.py",
        "ddr / (numerator / denominator) // 1 + dma_copies * rates.dma_cycles // 2 - ddr_rim,",
        "dma_copies * rates.dma_cycles // 2,",
        (ESTIMATE,),
    ),
    Mutant(
        "the estimate forgets the links",
        "cost/kernel.py",
        "link / rates.link // 1 + mover_copies * rates.mover_cycles - link_rim,",
        "mover_copies * rates.mover_cycles,",
        (ESTIMATE,),
    ),
    Mutant(
        "the estimate forgets GB",
        "cost/kernel.py",
        "gb / rates.gb // 1 if has_gb else 0.0,",
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
        "a repeated kernel computes the operators of the first",
        "lower/link.py",
        "(here.operators[name] for name in block.operators)",
        "block.operators",
        ("test_kernels::test_kernels_that_differ_only_in_names_are_lowered_once",),
    ),
    Mutant(
        "a repeated kernel has the buffers of the first",
        "lower/link.py",
        "self._buffer_count += len(rows)",
        "pass",
        ("test_kernels::test_kernels_that_differ_only_in_names_are_lowered_once",),
    ),
    Mutant(
        "a repeated kernel uses the operands of the first",
        "lower/link.py",
        "self._operand_ends.append(block.operand_ends + self._operand_count)",
        "self._operand_ends.append(block.operand_ends)",
        ("test_kernels::test_kernels_that_differ_only_in_names_are_lowered_once",),
    ),
    Mutant(
        "the estimate forgets the place of what a result takes over",
        "kernels/nest.py",
        "name in in_place, name in shape.results",
        "name in set(shape.in_place.values()), name in shape.results",
        ("test_kernels::test_a_result_may_take_the_place_of_more_than_it_is",),
    ),
    Mutant(
        "the estimate forgets the set-ups of the last store",
        "cost/kernel.py",
        "+ last_setups * rates.dma_cycles",
        "+ 0 * last_setups",
        (ESTIMATE,),
    ),
    # What machines may have or lack.
    Mutant(
        "a kernel on one core draws from all channels",
        "lower/cluster.py",
        "if alone and self.machine.ddr.channels > 1",
        "if False and self.machine.ddr.channels > 1",
        ("test_machine_parts::test_a_kernel_on_one_core_draws_from_one_channel",),
    ),
    Mutant(
        "every kernel draws from one channel",
        "lower/cluster.py",
        "if alone and self.machine.ddr.channels > 1",
        "if self.machine.ddr.channels > 1",
        ("test_machine_parts::test_a_kernel_on_several_cores_draws_from_all_channels",),
    ),
    Mutant(
        "the estimate forgets that one core has one channel",
        "cost/kernel.py",
        "rates.channel if cores == 1 else rates.ddr",
        "rates.ddr if cores == 1 else rates.ddr",
        ("test_machine_parts::test_the_search_knows_that_one_core_has_one_channel",),
    ),
    Mutant(
        "only the first of the cores that work in GB gets what all need",
        "lower/kernel.py",
        "self._copy(tensor, part, source, targets, EngineKind.DMA_IN, None)",
        "self._copy(tensor, part, source, targets[:1], EngineKind.DMA_IN, None)",
        ("test_machine_parts::test_each_core_that_works_in_gb_has_a_place_of_its_own",),
    ),
    Mutant(
        "a broadcast into one memory occupies it once",
        "lower/cluster.py",
        "return (*places, *links)",
        "return (*dict.fromkeys(places), *links)",
        ("test_machine_parts::test_each_core_that_works_in_gb_has_a_place_of_its_own",),
    ),
    Mutant(
        "cores that work in GB share the places of what they make",
        "lower/places.py",
        "self.inner[core, name] = self._take(self.cluster.space(self.shape.home, core), size, count)",
        "self.inner[core, name] = self.inner.get((min(steps), name)) or self._take("
        "self.cluster.space(self.shape.home, core), size, count)",
        ("test_machine_parts::test_each_core_that_works_in_gb_has_a_place_of_its_own",),
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
        "a reduction has parts without accumulators",
        "kernels/nest.py",
        "cut = second if sums and machine.local",
        "cut = second if machine.local",
        ("test_machine_parts::test_without_accumulators_a_reduction_is_one_part",),
    ),
    Mutant(
        "every core is like the first",
        "lower/kernel.py",
        "self.machine.cores[kernel.cores[0]]",
        "self.machine.cores[0]",
        ("test_machine_parts::test_a_kernel_runs_on_the_cores_that_have_its_units",),
    ),
    Mutant(
        "a kernel of unlike units is not cut where they meet",
        "schedule/plan.py",
        "(number + (other != matrix) for number, other in before)",
        "(number for number, other in before)",
        ("test_machine_parts::test_work_that_goes_back_and_forth_is_cut_each_time",),
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
        "folds += min(_peak(unit) * least_folds(op, box, unit) / rate for unit, rate in able) / macs_per_cycle",
        "folds += _peak(able[0][0]) * least_folds(op, box, able[0][0]) / able[0][1] / macs_per_cycle",
        ("test_machine_parts::test_bounds_of_unlike_cores_by_hand",),
    ),
    Mutant(
        "utilization counts units that do not exist",
        "report/summarise.py",
        "/ max(1, kinds.count(EngineKind.MATRIX))",
        "/ kinds.count(EngineKind.MOVER)",
        ("test_machine_parts::test_utilization_is_that_of_the_units_that_exist",),
    ),
    # The network.
    Mutant(
        "a folded batch normalisation forgets the bias",
        "passes/fold.py",
        "(bias - mean) * factor + shift",
        "-mean * factor + shift",
        ("test_passes::test_batch_norm_folds_into_any_convolution",),
    ),
    Mutant(
        "a folded batch normalisation forgets its epsilon",
        "passes/fold.py",
        "np.sqrt(variance + epsilon)",
        "np.sqrt(variance)",
        ("test_passes::test_batch_norm_folds_into_any_convolution",),
    ),
    Mutant(
        "a GELU is recognised by about the right constants",
        "passes/recognise.py",
        "_TOLERANCE = 1e-4",
        "_TOLERANCE = 1e-1",
        ("test_passes::test_what_is_no_form_stays",),
    ),
    Mutant(
        "a form is recognised although others read its inside",
        "passes/recognise.py",
        "and _is_closed(match, root, graph):",
        ":",
        ("test_passes::test_what_is_no_form_stays",),
    ),
    Mutant(
        "views compose without their offsets",
        "passes/views.py",
        "        offset += stride * value.offset\n",
        "",
        ("test_passes::test_slices_read_where_the_elements_are",),
    ),
    Mutant(
        "feature maps have their rows innermost",
        "passes/layouts.py",
        "return tuple(axis for axis in range(rank) if axis not in axes) + axes",
        "return axes + tuple(axis for axis in range(rank) if axis not in axes)",
        ("test_passes::test_feature_maps_have_their_channels_innermost",),
    ),
    Mutant(
        "anchors take what follows them in the second sweep",
        "partition/groups/fuse_ops.py",
        "sweep == 0\n",
        "sweep == 1\n",
        ("test_partition",),
    ),
    Mutant(
        "views move in the first sweep",
        "partition/groups/fuse_ops.py",
        "and sweep == 1",
        "and sweep >= 0",
        ("test_partition",),
    ),
    Mutant(
        "an anchor takes what another anchor made",
        "partition/groups/fuse_ops.py",
        "self.pattern[target] = max(self.pattern[target], Pattern.OUT_ELEMENTWISE_FUSABLE)",
        "pass",
        ("test_partition",),
    ),
    Mutant(
        "what lies too high stays where it is in the order",
        "schedule/packing.py",
        "too_high[number] += at + one.size_bytes > target_bytes",
        "too_high[number] += 0",
        ("test_allocation::test_few_blocks_are_packed_as_well_as_they_can_be",),
    ),
    Mutant(
        "blocks that meet at one kernel may lie in one place",
        "schedule/packing.py",
        "taken[n].first <= one.last and one.first <= taken[n].last",
        "taken[n].first < one.last and one.first < taken[n].last",
        ("test_allocation::test_few_blocks_are_packed_as_well_as_they_can_be",),
    ),
    Mutant(
        "a set that grows does not look at what both halves read from outside",
        "partition/subgraphs/liveness.py",
        "default=len(first.stretches))\n",
        "default=len(first.stretches)) + 1\n",
        ("test_liveness",),
    ),
    Mutant(
        "an operator that leaves more live runs at once",
        "partition/subgraphs/stretch.py",
        "if step <= peak and after <= now:",
        "if step <= peak:",
        ("test_liveness",),
    ),
    Mutant(
        "a tensor that follows along another axis counts",
        "partition/subgraphs/splitting.py",
        "axis = along.inputs.get(tensor)",
        "axis = 0",
        ("test_liveness",),
    ),
    Mutant(
        "the factor may grow by merging",
        "partition/subgraphs/coarse.py",
        "factor = self.groups[consumer].split.factor",
        "factor = 1 << 29",
        ("test_graphturbo::test_resnet50_is_cut_where_its_stages_end",),
    ),
    # What stays on chip, and in which order pieces run.
    Mutant(
        "pieces run in the order in which they become ready",
        "schedule/orders.py",
        "for i in reversed(range(len(ready)))",
        "for i in range(len(ready))",
        ("test_graphturbo::test_pieces_run_depth_first",),
    ),
    Mutant(
        "what the next piece reads is parked",
        "schedule/orders.py",
        "place[consumer] != place[number] + 1 for consumer",
        "place[consumer] != place[number] + 2 for consumer",
        ("test_graphturbo::test_seven_pieces_are_joined_and_seven_wait_in_gb",),
    ),
    Mutant(
        "a piece is of the extent of its number",
        "kernels/instances.py",
        "pairwise(accumulate(cut, initial=0))",
        "pairwise(range(len(cut) + 1))",
        ("test_by_hand::test_pieces_may_be_uneven",),
    ),
    Mutant(
        "a piece goes to the core that holds least of what it needs",
        "kernels/division.py",
        'np.argsort(-held, kind="mergesort")',
        'np.argsort(held, kind="mergesort")',
        ("test_by_hand::test_new_owners_are_some_of_the_old_ones",),
    ),
    Mutant(
        "what several cores hold counts for each of them",
        "kernels/division.py",
        "one[0, axis], one[1, axis] = low[axis], high[axis]",
        "one[1, axis] = high[axis]",
        ("test_division::test_parts_go_to_the_cores_that_hold_them_and_the_rest_is_counted_where_it_lies",),
    ),
    Mutant(
        "scopes written by hand are not looked at",
        "schedule/pieces.py",
        "scope=scope if leaves else Level.LB",
        "scope=Level.LB",
        ("test_by_hand::test_a_scope_is_where_the_results_wait",),
    ),
    Mutant(
        "an axis along which results are joined is bound to cores",
        "schedule/binding.py",
        "return False  # joined along this axis",
        "pass",
        ("test_binding::test_axes_that_are_joined_or_normalised_along_are_not_free",),
    ),
    Mutant(
        "a result that is wanted otherwise stays in LB",
        "schedule/binding.py",
        "in_gb.add(producer)",
        "pass",
        ("test_binding::test_a_result_that_two_readers_want_otherwise_waits_in_gb",),
    ),
    Mutant(
        "a dim never takes all cores that are left",
        "schedule/binding.py",
        "if left % n == 0 and extent % n == 0)",
        "if left % n == 0 and extent % n == 0 and n < left)",
        ("test_binding::test_the_plain_binding_divides_the_outermost_dims_evenly",),
    ),
    Mutant(
        "bindings are not handed on",
        "schedule/binding.py",
        "factors[producer] = wanted",
        "factors[producer] = ()",
        ("test_binding::test_a_producer_is_bound_as_its_reader_where_its_dims_follow",),
    ),
    Mutant(
        "the option of the binding does not reach the planning",
        "pipeline/stages.py",
        "binding=options.binding,",
        "",
        ("test_cli::test_the_binding_reaches_the_schedule",),
    ),
    Mutant(
        "the option of the grouping does not reach the planning",
        "pipeline/stages.py",
        "cuts = _cuts(graph, parts, machine, options.grouping)",
        "cuts = _cuts(graph, parts, machine, GroupingRule.PAPER)",
        ("test_cli::test_the_grouping_reaches_the_schedule",),
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
        "time in which kernels overlap is counted for each",
        "report/summarise.py",
        "(added, spans))",
        "(spans, spans))",
        ("test_report::test_kernels_add_up_to_the_whole",),
    ),
    Mutant(
        "what pieces make several times is not counted",
        "partition/subgraphs/cuts.py",
        "found.append(cut if again <= MADE_AGAIN else",
        "found.append(cut if again >= 0 else",
        ("test_whole::test_a_sub_graph_is_cut_where_its_pieces_make_little_twice",),
    ),
    Mutant(
        "weights that pieces read again cost nothing",
        "partition/subgraphs/cuts.py",
        "(cut.pieces - 1) * _weight_bytes",
        "(cut.pieces - cut.pieces) * _weight_bytes",
        ("test_whole::test_staying_whole_is_looked_at_where_pieces_read_more_weights_again",),
    ),
    Mutant(
        "sub-graphs are always cut",
        "pipeline/batches.py",
        "if strategy.instances and job.whole.get(batch, False):",
        "if False:",
        ("test_whole::test_a_strategy_of_instances_leaves_sub_graphs_whole_where_that_is_faster",),
    ),
    Mutant(
        "a batch is cut into uneven pieces where even ones fit",
        "partition/subgraphs/splitting.py",
        "if extent % factor == 0), least)",
        "if extent % factor == 1), least)",
        ("test_graphturbo::test_a_number_of_pieces_divides_the_extent_where_one_little_larger_does",),
    ),
    Mutant(
        "what is live across the fewest tasks gives way",
        "schedule/spilling.py",
        "else stay.last - stay.first",
        "else stay.first - stay.last",
        ("test_residency::test_where_a_kernel_does_not_fit_the_policy_decides_what_gives_way",),
    ),
    Mutant(
        "the policy of spilling is not looked at where a result finds no room",
        "schedule/residency.py",
        "if self.spill is Spill.NEWEST or not there:",
        "if self.spill is not Spill.NEWEST or not there:",
        ("test_residency::test_where_a_result_finds_no_room_the_policy_decides_what_goes_to_gb",),
    ),
    Mutant(
        "the largest gives way where the one that is read last should",
        "schedule/spilling.py",
        "return stay.next_reader if spill is Spill.BELADY",
        "return stay.size_bytes if spill is Spill.BELADY",
        ("test_homes::test_what_gives_way_is_what_stays_longest_is_largest_or_is_read_last",),
    ),
    # Fused blocks.
    Mutant(
        "a core stores what its neighbour stores too",
        "lower/kernel.py",
        "        return left\n",
        "        return [region]\n",
        (STORED,),
    ),
    Mutant(
        "what stays for a reader in the block does not leave it",
        "lower/kernel.py",
        "if buffer in kept.values() and not stored:",
        "if buffer in kept.values():",
        (STORED,),
    ),
    Mutant(
        "results of a block stay on chip for the next one",
        "schedule/tasks.py",
        "if tasks[maker].block == task.block:",
        "if task.block is not None or tasks[maker].block == task.block:",
        (STORED,),
    ),
    Mutant(
        "strips of two results are counted, not placed",
        "schedule/fused.py",
        "(shape[axis] * at // cores for at in (core, core + 1))",
        "(min(shape[axis] * at // min(cores, shape[axis]), shape[axis]) for at in (core, core + 1))",
        ("test_blocks::test_results_beside_each_other_are_cut_at_the_same_height",),
    ),
    Mutant(
        "an operand of two kernels of a block is loaded twice",
        "schedule/tasks.py",
        "        if len(tasks_of) < 2:\n",
        "        if len(tasks_of) < 3:\n",
        ("test_blocks::test_a_block_moves_no_more_than_the_model_says",),
    ),
    Mutant(
        "every operator of a block launches",
        "schedule/fused.py",
        "Task(names, hull, not found, block=number",
        "Task(names, hull, True, block=number",
        ("test_blocks::test_a_block_is_one_launch_and_its_times_add_up",),
    ),
    Mutant(
        "the option of spilling does not reach the planning",
        "pipeline/stages.py",
        "spill=options.spill,",
        "",
        ("test_cli::test_the_policy_of_spilling_reaches_the_schedule",),
    ),
    Mutant(
        "loads wait for the place of the load before",
        "lower/addresses.py",
        "found, self.address = self.address, self.address + aligned(size_bytes)",
        "found = self.address = low",
        ("test_residency::test_loads_run_far_ahead_where_kernels_are_stitched",),
    ),
    Mutant(
        "a result leaves its place before its last reader",
        "lower/homes.py",
        "if home.last >= number]",
        "if home.last > number]",
        (KEPT,),
    ),
    Mutant(
        "a core computes from a part that holds only some of what it needs",
        "kernels/surroundings.py",
        "if near and source.region.contains(region):",
        "if near and source.region.overlaps(region):",
        (KEPT,),
    ),
    Mutant(
        "the order in which more bytes wait is taken",
        "schedule/orders.py",
        "change[place[number] + 1] += size",
        "change[place[number] + 1] += 0",
        ("test_graphturbo::test_what_waits_at_a_time_is_least_depth_first",),
    ),
    Mutant(
        "a core without the units takes over a place",
        "schedule/splits.py",
        "if order and set(order) <= set(numbers))",
        "if order)",
        ("test_homes::test_a_result_takes_no_place_in_a_core_that_cannot_make_it",),
    ),
    Mutant(
        "a batch is ruled out by what it only may take",
        "cost/bounds.py",
        "carried = constants * constant_loads + (borders + 2 * passed) * sharers * iterations",
        "carried = 3 * (constants * constant_loads + (borders + 2 * passed) * sharers * iterations)",
        ("test_homes::test_no_schedule_is_faster_than_what_rules_its_batch_out",),
    ),
    Mutant(
        "half of the rate is enough work for a core",
        "partition/blocks/synthetic.py",
        "SATURATED = 0.9",
        "SATURATED = 0.5",
        ("test_reproduce_dlfusion::test_each_reading_of_enough_work_has_its_speed_up",),
    ),
    Mutant(
        "slow layers say when a core is saturated",
        "partition/blocks/synthetic.py",
        "if not rising or operations / time > rising[-1][0] / rising[-1][1]:",
        "if not rising or operations > rising[-1][0]:",
        ("test_fusion::test_saturation_is_read_off_the_fastest_layers",),
    ),
    Mutant(
        "a certificate may be off by one",
        "partition/blocks/checker.py",
        "potentials[upper] > potentials[lower] + cost:",
        "potentials[upper] > potentials[lower] + cost + 1:",
        ("test_certificate::test_numbers_that_say_too_much_are_rejected",),
    ),
    Mutant(
        "a certificate's plan keeps the price that it says",
        "partition/blocks/checker.py",
        "if found[0] != costs[number] or found[1] != choices[number]:",
        "if found[1] != choices[number]:",
        ("test_certificate::test_a_block_that_costs_otherwise_is_rejected",),
    ),
    Mutant(
        "windows of CNML have no stride",
        "formats/cnml/calls.py",
        "            stride = factor\n",
        "            stride = 1\n",
        ("test_emit::test_the_calls_mean_the_network",),
    ),
    Mutant(
        "every result leaves its block of CNML",
        "formats/cnml/program.py",
        "[call.output for call in calls if call.output in others]",
        "[call.output for call in calls]",
        ("test_emit::test_the_program_is_this_text",),
    ),
    Mutant(
        "an engine takes the shortest path first",
        "lower/reorder.py",
        "ranked = np.argsort(-paths",
        "ranked = np.argsort(paths",
        ("test_reorder::test_the_schedule_is_that_of_the_definition",),
    ),
    Mutant(
        "in another order only the first of each engine is waited for",
        "lower/reorder.py",
        "latest[other] = max(latest[other], place[needs[row]])",
        "latest[other] = place[needs[row]] if latest[other] < 0 else min(latest[other], place[needs[row]])",
        ("test_reorder::test_no_byte_is_touched_too_early_in_another_order",),
    ),
    # Validations.
    Mutant(
        "validate: loops get no factor but the smallest",
        "commands/validate/draw.py",
        "found[loop] = int(options[rng.randrange(fitting)])",
        "found[loop] = int(options[0])",
        ("test_validate::test_every_tiling_that_fits_is_drawn_and_no_other",),
    ),
    Mutant(
        "validate: what takes cycles along explains them",
        "commands/validate/mechanisms.py",
        " and 2 * abs(trial.error) <= abs(case.error)",
        "",
        ("test_validate::test_a_model_with_a_mistake_is_caught",),
    ),
    Mutant(
        "validate: errors have no signs",
        "commands/validate/summary.py",
        "sum(one.error for one in found) / count",
        "sum(abs(one.error) for one in found) / count",
        ("test_validate::test_numbers_of_errors_by_hand",),
    ),
    Mutant(
        "validate: what is too long is not counted",
        "commands/validate/compare.py",
        "            too_long += 1\n",
        "",
        ("test_validate::test_what_is_drawn_is_compared_or_counted",),
    ),
    # Explorations.
    Mutant(
        "explore: a point is not stored",
        "explore/run.py",
        "                store.keep(record, outcome)\n",
        "",
        ("test_explore_run::test_what_is_stored_is_not_evaluated_again",),
    ),
    Mutant(
        "explore: points of another program are taken for its own",
        "explore/identity.py",
        "[machine_digest, network_digest, evaluator, program]",
        "[machine_digest, network_digest, evaluator]",
        ("test_explore_run::test_another_evaluator_and_another_program_are_other_points",),
    ),
    Mutant(
        "explore: what is as good as another is beaten",
        "explore/front.py",
        "(kept < row).any(axis=1)",
        "(kept <= row).any(axis=1)",
        ("test_explore_run::test_the_front_is_that_of_brute_force",),
    ),
    Mutant(
        "explore: a machine that can run one network of two counts for both",
        "explore/front.py",
        "if any(one.infeasible for one in outcomes)",
        "if all(one.infeasible for one in outcomes)",
        ("test_explore_run::test_networks_on_one_machine_add_up_and_its_size_does_not",),
    ),
    Mutant(
        "explore: random designs come twice",
        "explore/methods.py",
        ".sample(range(space.size), self.trials(space))",
        ".choices(range(space.size), k=self.trials(space))",
        ("test_explore_run::test_random_designs_are_different_and_depend_on_the_seed_alone",),
    ),
    Mutant(
        "explore: a search is told in another order than it asked in",
        "explore/run.py",
        "for design in designs]\n            try:",
        "for design in sorted(designs)]\n            try:",
        ("test_explore_run::test_a_method_is_told_what_its_designs_came_to_in_their_order",),
    ),
    Mutant(
        "explore: the energy of a scratchpad grows as its size",
        "explore/space.py",
        "_SCRATCHPAD_GROWTH = 1.5",
        "_SCRATCHPAD_GROWTH = 2.0",
        ("test_explore_space::test_energies_grow_with_sizes_where_that_is_asked_for",),
    ),
    Mutant(
        "mapping: results stall the array for nothing",
        "mapping/published.py",
        "            cycles += (compute + sums) * passes // each\n",
        "            cycles += sums * passes // each\n",
        ("test_mapping::test_published_mode_is_the_published_model",),
    ),
    Mutant(
        "mapping: loops that move an operand do not end its stay",
        "mapping/price.py",
        "                    break\n                runs[k, loop] = 1\n",
        "                    continue\n                runs[k, loop] = 1\n",
        ("test_mapping::test_published_mode_is_the_published_model",),
    ),
    Mutant(
        "mapping: gaps between windows are thought to be loaded",
        "mapping/search.py",
        "            touched = np.unique(touched[:, None] + abs(step) * np.arange(nest.extents[loop]))\n",
        "            touched = np.arange((len(touched) - 1) + abs(step) * (nest.extents[loop] - 1) + 1)\n",
        ("test_mapping::test_brute_force_finds_nothing_better",),
    ),
    Mutant(
        "mapping: a bound of passes forgets which operand stays",
        "mapping/bounds.py",
        "            if k == stays:\n                energy += least[k]\n",
        "            if k < 0:\n                energy += least[k]\n",
        ("test_mapping::test_brute_force_finds_nothing_better",),
    ),
    Mutant(
        "mapping: two operands that stay at once are not looked for",
        "mapping/factors.py",
        "    return all(sum(at not in operand.indexed_by for operand in nest.operands) <= 1 for at in _moving(nest))\n",
        "    return True\n",
        (
            "test_mapping::test_brute_force_finds_nothing_better",
            "test_mapping::test_two_operands_that_stay_at_once_are_seen",
        ),
    ),
    Mutant(
        "mapping: the checker believes the number of tilings",
        "mapping/certificate.py",
        "    if found[TILINGS] != certificate.tilings:\n",
        "    if found[TILINGS] < 0:\n",
        ("test_mapping_certificate::test_a_proof_that_was_tampered_with_is_refused",),
    ),
    Mutant(
        "mapping: the checker believes that nothing is better",
        "mapping/certificate.py",
        "    if found[BETTER]:\n",
        "    if found[BETTER] > 1:\n",
        ("test_mapping_certificate::test_proofs_of_small_searches_are_accepted_on_any_machine",),
    ),
    Mutant(
        "array: results go before the pipeline is empty",
        "sim/array/clock.py",
        "            slot[SUM_RELEASE] = numbers[DRAIN] + (0 if doubled else slot[ISSUE])\n",
        "            slot[SUM_RELEASE] = 0 if doubled else slot[ISSUE]\n",
        ("test_array_by_hand::test_one_pass",),
    ),
    Mutant(
        "array: inputs of the next pass come into the buffer in use",
        "sim/array/clock.py",
        "controller.new_buffer[operand] = controller.buffer[operand] ^ 1\n",
        "controller.new_buffer[operand] = controller.buffer[operand]\n",
        (
            "test_array_simulator::test_any_mapping_gives_what_the_nest_means_in_as_many_cycles_with_and_without_repeated_slots",
        ),
    ),
    Mutant(
        "array: results stay in the registers when they have gone",
        "sim/array/network.py",
        "                registers[at] = 0\n",
        "                registers[at] += 0\n",
        (
            "test_array_simulator::test_any_mapping_gives_what_the_nest_means_in_as_many_cycles_with_and_without_repeated_slots",
        ),
    ),
    Mutant(
        "array: DMA overwrites the tile that the networks read",
        "sim/array/dma.py",
        "queue[READ_TILES] <= queue[LIST]:",
        "queue[READ_TILES] < queue[LIST]:",
        (
            "test_array_simulator::test_any_mapping_gives_what_the_nest_means_in_as_many_cycles_with_and_without_repeated_slots",
        ),
    ),
    Mutant(
        "array: a bank serves any number of words a cycle",
        "sim/array/network.py",
        "    if array.bank_until[port, bank] >= now:\n",
        "    if array.bank_until[port, bank] > now:\n",
        ("test_array_by_hand::test_one_pass",),
    ),
    Mutant(
        "array: results of DiRAC go a cycle early",
        "sim/array/dirac_clock.py",
        "COLLECTED_AFTER = 4 ",
        "COLLECTED_AFTER = 3 ",
        ("test_reproduce_dirac::test_every_row_matches",),
    ),
    Mutant(
        "array: DiRAC's requests follow one another at once",
        "sim/array/dirac_clock.py",
        "ACKNOWLEDGED = 2 ",
        "ACKNOWLEDGED = 1 ",
        ("test_reproduce_dirac::test_every_row_matches",),
    ),
    Mutant(
        "chip: an array computes two things at a time",
        "lower/cluster.py",
        "            if parts.vector is not None and not parts.only_array:\n",
        "            if parts.vector is not None:\n",
        ("test_array_chip",),
    ),
)


class Verdict(StrEnum):
    """What became of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    BROKEN = "broken"  # no test failed and none passed: the mutant, or the table, is wrong


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of tests on one copy."""

    status: int | None  # of pytest; None when it ran out of time
    seconds: float
    output: str

    @property
    def verdict(self) -> Verdict:
        known = {0: Verdict.SURVIVED, 1: Verdict.CAUGHT}
        return known.get(self.status, Verdict.BROKEN) if self.status is not None else Verdict.BROKEN

    @property
    def by(self) -> str:
        """The first test that failed, or what went wrong instead."""
        failed = re.search(r"^(?:FAILED|ERROR) tests/(.+?)(?: - .*)?$", self.output, re.MULTILINE)
        if failed is not None and self.status == 1:
            return failed[1]
        lines = self.output.strip().splitlines() or ["no output"]
        return "" if self.status == 0 else f"status {self.status}: {lines[-1]}"


START = f"""
import pathlib, sys
try:
    import tilestitch.pipeline.compile, pytest
    found = pathlib.Path(tilestitch.__file__).resolve()
    if not found.is_relative_to(pathlib.Path(sys.argv[1]).resolve()):
        raise ImportError(f"{{found}} was imported, not the copy in {{sys.argv[1]}}")
except BaseException as error:
    print(f"{{type(error).__name__}}: {{error}}")
    sys.exit({ELSEWHERE})
sys.exit(pytest.main(sys.argv[2:]))
"""


def paths_of(tests: Sequence[str]) -> list[str]:
    """`test_x::test_y` as pytest wants it, each once."""
    folders = {path.stem: path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    files = (name.partition("::") for name in dict.fromkeys(tests))
    return [f"{folders[file]}/{file}.py{colons}{test}" for file, colons, test in files]


def run_tests(copy: Path, tests: Sequence[str], seconds: int, *, interpreted: bool) -> Outcome:
    """Run tests on the package in `copy` until one fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",  # by its time and size, a mutant's bytecode might be taken for the original's
        "NUMBA_CACHE_DIR": str(copy.parent / "compiled"),
        "NUMBA_DISABLE_JIT": str(int(interpreted)),
        "HYPOTHESIS_PROFILE": "ci",
    }
    command = [sys.executable, "-c", START, str(copy), "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command + paths_of(tests), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return Outcome(None, time.monotonic() - begin, f"no end after {seconds} s")
    return Outcome(done.returncode, time.monotonic() - begin, done.stdout + done.stderr)


@contextmanager
def broken(copy: Path, mutant: Mutant):
    """The mistake in the copy, undone afterwards, to the time of its last change."""
    file = copy / "tilestitch" / mutant.file
    text, times = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def stale(mutants: Sequence[Mutant]) -> list[str]:
    """What in the table no longer fits the code, one line each."""
    found = []
    for mutant in mutants:
        file = ROOT / "src" / "tilestitch" / mutant.file
        count = file.read_text(encoding="utf-8").count(mutant.before) if file.exists() else 0
        if count != 1 or mutant.before == mutant.after:
            found.append(f"{mutant.name}: its text occurs {count} times in {mutant.file}; once, and a change, is right")
    names = [mutant.name for mutant in mutants]
    found += [f"{name}: several mutants have this name" for name in sorted(set(names)) if names.count(name) > 1]
    return found


def run_all(mutants: Sequence[Mutant], folder: Path) -> int:
    """Run the unbroken code and every mutant; 0 when all tests pass there and every mutant is caught."""
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(PROCESSES):
        copy = folder / str(number) / "src"
        shutil.copytree(ROOT / "src", copy)  # with its bytecode and its times
        copies.put(copy)

    def job(tests: Sequence[str], mutant: Mutant | None, *, interpreted: bool) -> Outcome:
        copy = copies.get()
        try:
            if mutant is None:
                return run_tests(copy, tests, SECONDS_WHOLE, interpreted=interpreted)
            with broken(copy, mutant):
                return run_tests(copy, tests, SECONDS, interpreted=interpreted)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(PROCESSES) as pool:
        whole: list[Future[Outcome]] = []
        for interpreted in (False, True):
            tests = [test for mutant in mutants if mutant.interpreted is interpreted for test in mutant.tests]
            if tests:
                whole.append(pool.submit(job, tests, None, interpreted=interpreted))
        runs = [pool.submit(job, mutant.tests, mutant, interpreted=mutant.interpreted) for mutant in mutants]
        for run in whole:
            if run.result().status != 0:
                pool.shutdown(cancel_futures=True)
                print(f"the code as it is does not pass:\n{run.result().output}")
                return 2
        print(f"{'as it is':9s} {max(run.result().seconds for run in whole):5.1f} s  passes all of these tests")
        for mutant, run in zip(mutants, runs, strict=True):
            outcome = run.result()
            print(f"{outcome.verdict:9s} {outcome.seconds:5.1f} s  {mutant.name:68s} {outcome.by}", flush=True)
    verdicts = [run.result().verdict for run in runs]
    caught = verdicts.count(Verdict.CAUGHT)
    print(f"{len(mutants)} mutants, {caught} caught")
    return 0 if caught == len(mutants) else 1


def main(words: Sequence[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    wrong = stale(MUTANTS)
    if wrong or not chosen:
        print("\n".join(wrong or [f"no mutant has any of these words in its name: {', '.join(words)}"]))
        return 2
    with tempfile.TemporaryDirectory() as folder:
        return run_all(chosen, Path(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
