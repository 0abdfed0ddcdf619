"""Timeloop's architectures, problems and mappings."""
