"""`tilestitch build`: a schedule as kernels that run."""
