"""Fused blocks of a network on a machine: a plan by name or from a file, its time by the block model, the best plan."""
