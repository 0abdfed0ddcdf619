"""Blocks of steps as products of matrices: the values that numpy has, of every form of block."""

import random

from tilestitch.commands.map.tree_sources import bound_nest
from tilestitch.commands.simulate.tree_layers import open_simulated, run_of
from tilestitch.commands.validate.tree_draw import TreeDraw
from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.tree_load import parse_tree
from tilestitch.ir.choices import Values
from tilestitch.mapping.tree.rooms import fullest, too_full
from tilestitch.sim.array.values import random_operands
from tilestitch.sim.tree import values
from tilestitch.sim.tree.move import COLUMNS, LANES
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.simulated import simulate_on_tree
from tilestitch.sim.tree.streams import streams_of

LINES = (
    "O[m,n] += A[m,k] * B[k,n]; m=40 n=60 k=23",
    "O[b,m,n] += A[b,m,k] * B[b,k,n]; b=3 m=32 n=33 k=10",
    "O[n,m,x,y] += I[n,c,x+fx,y+fy] * W[m,c,fx,fy]; n=1 m=24 c=18 x=9 y=8 fx=3 fy=2",
)


def some(line, machine, seed, count):
    """Random mappings, ragged ones among them, whose blocks are products of matrices."""
    task = open_simulated(line, machine, (), batch=None, dims={}, fold_bn=True)
    bare = bound_nest(task.layers[0], task.tree)
    found = []
    for placed, mapping in TreeDraw(bare, {}, is_ragged=True).mappings(random.Random(seed)):
        if mapping is None or too_full(fullest(placed), mapping):
            continue
        run = run_of(placed, mapping)
        matrices = values.values_of(streams_of(run), random_operands(run.nest, Values.INTEGERS)).moves.matrices
        if len(matrices.short) > 0:
            found.append((run, matrices))
        if len(found) == count:
            return found


def test_products_of_matrices_are_those_of_numpy():
    """Either operand long, sums of any length, more rows of either than are multiplied at a time; compared inside."""
    forms, lengths, parts, columns = set(), set(), set(), set()
    for line in LINES:
        for machine in ("gemmini", "nvdla"):
            for run, matrices in some(line, machine, 1, 4):
                forms.add(matrices.is_swapped)
                lengths.add(len(matrices.sums) % 4)
                parts.add(len(matrices.long) > LANES)
                columns.add(len(matrices.short) % COLUMNS == 0)
                simulate_on_tree(run)
    assert forms == {False, True}
    assert len(lengths) >= 3
    assert parts == columns == {False, True}


def test_floats_through_matrices_are_within_rounding():
    """Compared inside."""
    for run, _ in some(LINES[0], "gemmini", "floats", 3):
        simulate_on_tree(run, values=Values.FLOATS)


SUMS_OF_EIGHT = """
name: sums-of-eight
mac_pj: 1
axes: [{name: A, size: 8}, {name: B, size: 4}]
memories:
  - {name: sums, size: 256 B, operands: [O], read_pj: 1, write_pj: 1, serves: [A], ports: [{width_bits: 512}]}
  - {name: dram, size: 1 GiB, operands: [I, W, O], read_pj: 9, write_pj: 9, serves: [A, B], ports: [{width_bits: 64}]}
"""


def test_rows_in_the_order_of_results_need_not_stand_so_in_what_is_read():
    """Eight columns go to each memory of sums: of B column 0 stands before 1, of the sums before 8; compared inside."""
    nest = einsum_nest("O[m,n] += A[m,k] * B[k,n]; m=4 n=16 k=3")
    tree = parse_tree(SUMS_OF_EIGHT, "sums-of-eight.yaml")
    spread = (("A", 1, 8), ("B", 0, 2), ("B", 1, 2))
    run = TreeRun(nest, tree, ("I", "W", "O"), 16, spread, ((0, 2), (2, 3)), ((2,), (2,), (1, 2)))
    simulate_on_tree(run)
