"""Chains of operators mapped together on a machine tree."""
