"""Mappings on trees of memories and fan-outs, simulated cycle by cycle, with values."""
