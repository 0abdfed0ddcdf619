"""How much room there is for results on the chip: what tells the search that something must run in parts."""

from tilestitch.hardware.accelerator import Accelerator, Level

HELD_SHARE = 0.9  # of the memories that hold results, at most for what a part holds
MOST_PARTS = 32


def room_for_results(machine: Accelerator) -> float:
    """Of all memories of a cluster that hold results, the bytes that these may take."""
    shared = machine.memory(Level.GB)
    local = any(machine.home(core) is Level.LB for core in machine.cores)
    return HELD_SHARE * (machine.local_capacity_bytes + (shared.size_bytes if shared is not None and local else 0))
