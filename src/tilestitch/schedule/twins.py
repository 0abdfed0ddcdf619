"""Two pieces in flight: their kernels alternate, so that one keeps the units busy that the other leaves idle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from tilestitch.schedule.tasks import Task


def alternating(tasks: Sequence[Task], lags: Mapping[int, int]) -> list[Task]:
    """The tasks with those of neighbouring pieces of one sub-graph in turns, two pieces at a time.

    The second of two begins when so many kernels of the first have run, as `lags` say by its piece; 0: all. Pieces of
    one sub-graph do not read each other, and all that they read is there before the first; so all can run.
    """
    runs = [list(run) for _, run in groupby(tasks, key=lambda task: task.piece)]
    found: list[Task] = []
    while runs:
        first, *runs = runs
        lag = lags.get(first[0].piece, 0) if first[0].piece is not None else 0
        if not lag or not runs or [one.operators for one in first] != [one.operators for one in runs[0]]:
            found += first
            continue
        second, *runs = runs
        for at in range(len(first) + lag):
            found += first[at : at + 1]
            found += second[at - lag : at - lag + 1] if at >= lag else []
    return [replace(one, launches=like.launches) for one, like in zip(found, tasks, strict=True)]
