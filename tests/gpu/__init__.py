"""Kernels that run in Triton's interpreter on the CPU (`make test-gpu`)."""
