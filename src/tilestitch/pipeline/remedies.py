"""Ways out of a machine that is too small: each is tried, and only those that help are shown."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from tilestitch.base.errors import (
    EVERY_OPERATOR_ALONE,
    FEWER_BATCHES,
    LARGER_SHARE,
    SMALLER_BATCH,
    DoesNotFit,
    InputError,
)
from tilestitch.base.progress import quiet
from tilestitch.ir.choices import Stage
from tilestitch.lower.program import expect_fits
from tilestitch.pipeline.batches import iteration_batches
from tilestitch.pipeline.compilation import given
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stages import Request, compile_batch
from tilestitch.pipeline.strategies import Strategy, strategy_named

WITH_OPTIONS = (SMALLER_BATCH, LARGER_SHARE, FEWER_BATCHES, EVERY_OPERATOR_ALONE)  # which the file of a stage has
Divide: TypeAlias = Callable[[Options], Request]


def with_remedies_that_work(
    request: Request, networks: Networks, strategy: Strategy, error: DoesNotFit, divided: Divide
) -> DoesNotFit:
    """The error with those of its remedies that change something here, and with which there is a program that fits.

    `divided` says how the samples are divided with other options. Those that name no option stay.
    """
    options = request.options
    ways: dict[str, tuple[Options, Strategy] | None] = {
        SMALLER_BATCH: (_at_smallest(request), strategy) if (options.batch or 1) > request.smallest else None,
        LARGER_SHARE: (replace(options, batch_per_cluster=request.share), strategy),
        FEWER_BATCHES: (replace(options, batches=1), strategy) if options.batches > 1 else None,
        EVERY_OPERATOR_ALONE: (options, strategy_named(EVERY_OPERATOR_ALONE.removeprefix("strategy "))),
    }

    def works(remedy: str) -> bool:
        if remedy not in ways:
            return True
        way = ways[remedy]
        return way is not None and _fits(replace(divided(way[0]), progress=quiet), networks, way[1])

    return DoesNotFit(error.problem, *filter(works, error.remedies))


def _fits(request: Request, networks: Networks, strategy: Strategy) -> bool:
    """Whether there is a program for one of the batches of an iteration; it is simulated where clusters share DDR."""
    alone = request.machine.private_ddr or request.clusters == 1
    try:
        for batch in iteration_batches(request, networks, strategy):
            with suppress(DoesNotFit):
                done = compile_batch(request, networks, strategy, batch, Stage.SCHEDULE if alone else Stage.SIMULATE)
                expect_fits(given(done.schedule), request.machine)
                return True
    except InputError:  # which the user would see instead
        return False
    return False


def _at_smallest(request: Request) -> Options:
    return replace(request.options, batch=request.smallest, batch_per_cluster=Options().batch_per_cluster)
