"""What may be asked for, by name: the choices among a few that a user has, and the largest batch.

The first of each is what is taken where nothing is asked for. Nothing is imported here, so that the command line can
list the choices without loading what they choose between.
"""

from enum import StrEnum

MAX_BATCH = 10**9  # samples in all


class Stage(StrEnum):
    """Where a compilation can be stopped; each names the value that it ends with."""

    LOAD = "load"
    SIMPLIFY = "simplify"
    PARTITION = "partition"
    SCHEDULE = "schedule"
    LOWER = "lower"
    SIMULATE = "simulate"


class Spill(StrEnum):
    """Who goes to the next level where a result finds no room beside those that stay already."""

    NEWEST = "newest"  # the result itself; where the kernel does not fit at any level either, as LONGEST
    LONGEST = "longest"  # whoever stays for the most kernels
    LARGEST = "largest"
    BELADY = "belady"  # whose next reader is furthest away


class BindingRule(StrEnum):
    """Who decides over how many cores each dim of a kernel is divided; which core takes which part follows."""

    NEAREST = "nearest"  # each kernel for itself: the least estimate, of which what cores hold already is a part
    PAPER = "paper"  # Algorithm 4, kernel by kernel from the last to the first
    EVEN = "even"  # likewise, where no division takes less than half the time; as NEAREST elsewhere


class GroupingRule(StrEnum):
    """Which operators become one sub-graph of GraphTurbo's schedule."""

    PAPER = "paper"  # by Algorithm 2
    EXACT = "exact"  # so that the costs of all sub-graphs are the least together


class Effort(StrEnum):
    """How long the strategy `best` searches, counted in what it simulates."""

    MEDIUM = "medium"
    LOW = "low"
    HIGH = "high"


class Objective(StrEnum):
    """What a mapping is best in."""

    EDP = "edp"  # energy times latency
    ED2P = "ed2p"  # energy times latency squared
    ENERGY = "energy"  # on arrays the faster of two with the same, on trees any of several
    LATENCY = "latency"  # the one with less energy of two with the same
    PARETO = "pareto"  # every mapping that none beats in both


class CostMode(StrEnum):
    """Which cost of a mapping: our own, or dMazeRunner's to the digit."""

    DEFAULT = "default"
    PUBLISHED = "published"


class Values(StrEnum):
    """What the array simulator computes with."""

    INTEGERS = "integers"
    FLOATS = "floats"
    NONE = "none"
