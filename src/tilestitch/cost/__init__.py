"""Estimates that search uses, and lower bounds; the simulator never looks at them."""
