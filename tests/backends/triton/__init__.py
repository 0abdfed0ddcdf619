"""Triton kernels as text."""
