"""What others published for the five instances that were known during the contest."""

import hashlib
from dataclasses import dataclass

from tilestitch.commands.contest.instance import Instance


@dataclass(frozen=True)
class Published:
    """Results in the reading `published`: the first place's, and those of the entry at rank 5 whose author says that it
    bends some rules."""

    number: int
    timeout_seconds: int
    winner: int
    rank_5: float


RESULTS = {
    "0e86e3264b334822": Published(1, 2, 471_501, 471_500.8),
    "e968957d51c1d5aa": Published(5, 5, 961_195, 885_828.3),
    "e7f5962be92db554": Published(9, 15, 167_530_988, 167_530_987.5),
    "ad1a9e30d3533a98": Published(13, 30, 166_408_847, 166_405_242.9),
    "efd8d7fdfc7c47d4": Published(17, 60, 46_386_493, 46_326_400.0),
}


def published(instance: Instance) -> Published | None:
    """The results for an instance, told by what it holds and not by its name."""
    return RESULTS.get(digest(instance))


def digest(instance: Instance) -> str:
    """The same for the same instance, whatever its file is called and however it is laid out."""
    operators = [(str(op.kind), op.inputs, op.output, op.base_cost) for op in instance.operators]
    values = (instance.widths, instance.heights, operators, instance.capacity, instance.bandwidth, instance.native)
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
