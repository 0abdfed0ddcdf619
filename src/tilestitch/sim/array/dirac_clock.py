from tilestitch.sim.array.clock import run_overlapped as run_dirac
