"""Frozen values that flow from stage to stage, and their invariants; no decisions, no input or output."""
