"""Cycle-level simulation of an array of processing elements that runs one mapping of a loop nest."""
