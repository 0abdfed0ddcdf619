"""The analytical model of an array against the simulation of it, over mappings drawn at random."""
