"""The parts of a certificate that are held against a placement, whatever judges it."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import Bound, Optimum
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.checker_tables import order_reaches
from tilestitch.mapping.tree.placed import PlacedNest

MOST_LABELS = 20_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker did: choices, those that it opened, chains that it counted in them, and labels that it made."""

    choices: int
    opened: int
    chains: int
    labels: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed of a layer."""

    name: str
    best: Optimum

    @property
    def objective(self) -> Objective:
        return self.best.objective

    def wrong(self, what: str) -> InputError:
        """The refusal of a certificate."""
        return InputError(f"the certificate of {self.name!r} is wrong: {what}")

    def better(self, where: str, energy_fj: int, cycles: int) -> InputError:
        """The refusal of a certificate because of a chain that is better than what it claims."""
        found = self.best.said(self.best.bound(energy_fj, cycles))
        if self.objective is Objective.PARETO:
            return self.wrong(f"{where}: a chain costs {found}, and no point of its front is as good in both")
        return self.wrong(f"{where}: a better chain costs {found}, it says {self.best.value:,}")

    def expect_value(self, said: Bound, energy_fj: int, cycles: int) -> None:
        """Refuse a chain that is worth something else than a certificate says."""
        found = self.best.bound(energy_fj, cycles)
        if found != said:
            raise self.wrong(f"its chain costs {self.best.said(found)}, it says {self.best.said(said)}")

    def expect_chain(self, placed: PlacedNest, mapping: TreeMapping) -> None:
        """Refuse loops that are not those of a placement, and cuts that are none."""
        for loop, steps in enumerate(placed.steps):
            product = prod(factor for number, factor in mapping.loops if number == loop)
            if product != steps:
                name = placed.nest.loops[loop].name
                raise self.wrong(f"its factors of loop {name} make {product:,} steps, not {steps:,}")
        for number, array in enumerate(placed.operands):
            ends = mapping.cuts[number]
            levels = len(placed.chain(number))
            rises = all(one <= other for one, other in pairwise(ends))
            if len(ends) != levels or not rises or ends[-1] != len(mapping.loops):
                raise self.wrong(
                    f"its cuts of {array.name} are {list(ends)}; expected {levels} numbers of loops that do not "
                    f"fall and end with {len(mapping.loops)}"
                )
        if placed.order:
            inside = np.ones((len(mapping.loops) + 1, len(placed.steps)), np.int64)
            for at, (loop, factor) in enumerate(mapping.loops):
                inside[at + 1] = inside[at]
                inside[at + 1, loop] *= factor
            if not order_reaches(placed, inside).all():
                raise self.wrong("its loops are not in the order that the constraints say")
