"""Machines, loop nests, mappings and programs of other tools, in and out: one folder a tool."""
