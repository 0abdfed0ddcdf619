"""Trees, nests and runs that are small enough to be worked out by hand."""

from dataclasses import replace

from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.tree import Flow, MachineTree, Port, TreeMemory
from tilestitch.sim.tree.run import TreeRun


def memory(name, ports, *, size=10**6, operands="AWO", serves=(), **options):
    return TreeMemory(name, size, tuple(operands), tuple(ports), 1.0, 1.0, serves, **options)


def port(name, width, operands="AWO", flows=tuple(Flow)):
    return Port(name, width, 8, tuple((operand, flow) for operand in operands for flow in flows))


def tree(*memories, axes=(), **options):
    return MachineTree("small", axes, memories, 1.0, **options)


def nest(line):
    found = einsum_nest(line)
    reads = tuple(replace(array, element_bits=8) for array in found.reads)
    return replace(found, reads=reads, write=replace(found.write, element_bits=8))


def run(machine, line, loops, cuts, spread=()):
    return TreeRun(nest(line), machine, ("A", "W", "O"), 8, spread, loops, cuts)
