"""Analytical time and energy of a loop nest on an array of processing elements."""
