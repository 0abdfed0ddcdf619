"""From groups of operators to a schedule: how each kernel is cut over cores and tiles."""
