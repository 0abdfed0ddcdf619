"""The command `check`: what of a network is not understood, and what a machine would do with it."""
