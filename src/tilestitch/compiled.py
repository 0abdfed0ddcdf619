"""Functions of numbers and arrays, compiled by numba and kept on disk.

numba compiles a function anew when its own file has changed, but not when one that it calls has: that is part of the
compiled code and may stand in another file. So what is kept is kept under the contents of all files that have such
functions.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba.core.config
from numba import njit

from tilestitch.interruption import undisturbed

_Function = TypeVar("_Function", bound=Callable)

PACKAGE = Path(__file__).parent
SOURCES = (
    "contest/price.py",
    "cost/arithmetic.py",
    "cost/boxes.py",
    "cost/division.py",
    "cost/fused.py",
    "cost/kernel.py",
    "cost/nest.py",
    "cost/place.py",
    "cost/sub_graph.py",
    "hardware/units.py",
    "ir/transfers.py",
    "lower/hazards.py",
    "lower/reorder.py",
    "mapping/bounds.py",
    "mapping/checker.py",
    "mapping/parts.py",
    "mapping/price.py",
    "mapping/published.py",
    "mapping/tables.py",
    "mapping/tiles.py",
    "mapping/timing.py",
    "mapping/walk.py",
    "mapping/whole.py",
    "schedule/search.py",
    "sim/array/clock.py",
    "sim/array/dirac_clock.py",
    "sim/array/dma.py",
    "sim/array/dram.py",
    "sim/array/element.py",
    "sim/array/events.py",
    "sim/array/jobs.py",
    "sim/array/loops.py",
    "sim/array/network.py",
    "sim/array/plan.py",
    "sim/array/repeats.py",
    "sim/array/slot.py",
    "sim/array/state.py",
    "sim/array/tally.py",
    "sim/array/waiting.py",
    "sim/chip/timing.py",
)


def compiled(function: _Function) -> _Function:
    """The function, compiled when it is first called; from disk where that was done before."""
    return _kept(function)


def lending(function: _Function) -> _Function:
    """A compiled function that makes no array, and so need not count who holds those that it is lent.

    Counting takes some nanoseconds for each array of each call: much, where every cycle makes some calls.
    """
    return _kept(function, _nrt=False)


def _kept(function: _Function, **options: Any) -> _Function:
    config: Any = numba.core.config
    given = config.CACHE_DIR  # read when a function is decorated
    config.CACHE_DIR = str((Path(given) if given else PACKAGE / "__pycache__") / f"compiled-{_contents()}")
    try:
        found: Any = njit(cache=True, **options)(function)
        if found is not function:  # as it is where compiling is switched off
            found._cache.load_overload = _undisturbed(found._cache.load_overload)
        return cast(_Function, found)
    finally:
        config.CACHE_DIR = given


def _undisturbed(load: Callable) -> Callable:
    """Code is loaded by callbacks of LLVM, in which an interruption is lost with what they were to give: a crash."""

    def whole(*arguments: Any) -> Any:
        with undisturbed():
            return load(*arguments)

    return whole


@cache
def _contents() -> str:
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update((PACKAGE / source).read_bytes())
    return digest.hexdigest()[:16]
