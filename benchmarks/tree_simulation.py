"""Cycles a second of the simulator of trees: layers of a network in their best mappings, with and without values.

Processor time of one core, after warm-up, the best of some runs: tables, values, their comparison with numpy's, and the
clock. Searching mappings is not in it.
"""

import time
from collections.abc import Sequence

from tilestitch.base.progress import quiet
from tilestitch.commands.map.tree_run import map_on_tree
from tilestitch.commands.simulate.tree_layers import open_simulated, run_of, simulated_mapping
from tilestitch.ir.choices import Objective, Values
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.simulated import simulate_on_tree

NETWORK, MACHINES = "resnet50", ("gemmini", "nvdla", "tpu-like", "eyeriss-like")
AIM = 5e6  # cycles a second, with values
RUNS = 3


def main() -> None:
    """Print a line for each machine."""
    for machine in MACHINES:
        runs = _runs(machine)
        simulate_on_tree(runs[0])
        cycles, seconds = _measured(runs, Values.INTEGERS)
        _, bare = _measured(runs, Values.NONE)
        print(
            f"  {NETWORK}, {machine}: {cycles:,} cycles, {seconds:.2f} s, {cycles / seconds / 1e6:.1f} million cycles "
            f"a second with values (aim {AIM / 1e6:.0f}), {cycles / bare / 1e6:.0f} million without"
        )


def _runs(machine: str) -> list[TreeRun]:
    """The different layers of the network in their best mappings."""
    task = open_simulated(NETWORK, machine, (), batch=1, dims={}, fold_bn=True)
    mapped = map_on_tree(task, progress=quiet, objective=Objective.EDP)
    chosen = [simulated_mapping(one.found, task.space)[0] for one in mapped.layers]
    return [run_of(one.placed, one.mapping) for one in chosen]


def _measured(runs: Sequence[TreeRun], values: Values) -> tuple[int, float]:
    """Cycles of all runs together, and the processor seconds that they take."""
    cycles, least = 0, float("inf")
    for _ in range(RUNS):
        begin = time.process_time()
        cycles = sum(simulate_on_tree(run, values=values).cycles for run in runs)
        least = min(least, time.process_time() - begin)
    return cycles, least


if __name__ == "__main__":
    main()
