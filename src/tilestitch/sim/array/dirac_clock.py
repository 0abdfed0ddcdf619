"""The controller of DiRAC."""

from tilestitch.sim.array.clock import run_overlapped

run_dirac = run_overlapped
