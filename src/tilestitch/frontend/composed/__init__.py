"""Operators of the standard that are composed of others, written out in those."""
