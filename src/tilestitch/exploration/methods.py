"""Which designs are evaluated: all, some drawn at random, or those that a search asks for.

A method proposes designs in rounds, and is told after each what they came to. What it proposes depends on its options
and on what it was told, never on the order in which a round was evaluated; so the same search can be run again from
what a store has kept.
"""

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilestitch.base.errors import InputError
from tilestitch.exploration.space import Space

MAX_GRID = 100_000
MAX_TRIALS = 100_000

Told: TypeAlias = Sequence[tuple[float, ...] | None]  # objectives of the designs of a round, None: infeasible
Rounds: TypeAlias = Generator[tuple[int, ...], Told, None]


@dataclass(frozen=True, slots=True)
class Grid:
    """Every design."""

    @property
    def description(self) -> str:
        return "every design"

    def trials(self, space: Space) -> int:
        """How many designs will be proposed."""
        return space.size

    def __call__(self, space: Space, objectives: int) -> Rounds:
        if space.size > MAX_GRID:
            raise InputError(
                f"--method grid: the space has {space.size:,} designs, and a grid at most {MAX_GRID:,}; "
                "use --method random or optuna with --trials, or fewer values"
            )
        yield tuple(range(space.size))


@dataclass(frozen=True, slots=True)
class Random:
    """Some designs, each at most once, all equally likely."""

    count: int
    seed: int

    @property
    def description(self) -> str:
        return f"random designs, seed {self.seed}"

    def trials(self, space: Space) -> int:
        """How many designs will be proposed."""
        return min(self.count, space.size)

    def __call__(self, space: Space, objectives: int) -> Rounds:
        yield tuple(random.Random(self.seed).sample(range(space.size), self.trials(space)))


@dataclass(frozen=True, slots=True)
class Nsga2:
    """The multi-objective genetic search of optuna, NSGA-II, generation by generation; it may ask for a design again.

    Deb et al., A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II, IEEE TEVC 2002.
    """

    count: int
    seed: int
    population: int

    @property
    def description(self) -> str:
        return f"NSGA-II of optuna, generations of {self.population}, seed {self.seed}"

    def trials(self, space: Space) -> int:
        """How many designs will be proposed, repetitions counted."""
        return self.count

    def __call__(self, space: Space, objectives: int) -> Rounds:
        try:
            import optuna
        except ImportError:
            raise InputError(
                "--method optuna needs the package optuna, which is not installed; "
                "install it with: pip install 'tilestitch[dse]'"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.NSGAIISampler(population_size=self.population, seed=self.seed)
        study = optuna.create_study(directions=[optuna.study.StudyDirection.MINIMIZE] * objectives, sampler=sampler)
        # positions of values, which have an order; a parameter's name says nothing to the search
        axes: dict[str, optuna.distributions.BaseDistribution] = {
            str(at): optuna.distributions.IntDistribution(0, size - 1) for at, size in enumerate(space.sizes)
        }
        left = self.count
        while left:
            trials = [study.ask(axes) for _ in range(min(left, self.population))]
            left -= len(trials)
            told = yield tuple(space.number([trial.params[axis] for axis in axes]) for trial in trials)
            for trial, values in zip(trials, told, strict=True):
                # worse than anything that can run, so that it has no descendants while there is something better
                study.tell(trial, [float("inf")] * objectives if values is None else list(values))


Method: TypeAlias = Grid | Random | Nsga2
