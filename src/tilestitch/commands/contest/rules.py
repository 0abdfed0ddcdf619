"""How the contest's description is read. Entrants read it differently, so results compare only within one reading."""

import math
from dataclasses import dataclass

from tilestitch.base.errors import InputError
from tilestitch.commands.contest.instance import Instance, Kind


@dataclass(frozen=True)
class Rules:
    """One reading; docs/contest.md#two-readings says where the two differ, and who said so."""

    name: str
    native_depth: bool  # a base cost pays for the native depth of a product, else for all of its depth
    native_limit: bool  # no granularity above the native one, else it pays once for each native tile
    default_reuses: bool  # a slice stays for the next tile in the default order too, not only in an order that is given

    def ticks(self, instance: Instance) -> int:
        """How many ticks a time unit has, so that every cost of the instance is a whole number of them."""
        width, height = instance.native
        if self.native_depth:
            return instance.bandwidth * math.lcm(width * width, width * height)
        depths = [instance.depth(n) for n, op in enumerate(instance.operators) if op.kind is Kind.MATMUL]
        return instance.bandwidth * math.lcm(1, *depths)


PUBLISHED = Rules("published", native_depth=True, native_limit=True, default_reuses=True)
DESCRIPTION = Rules("description", native_depth=False, native_limit=False, default_reuses=False)
RULES = (PUBLISHED, DESCRIPTION)


def rules_of(name: str) -> Rules:
    """The reading of that name."""
    for rules in RULES:
        if rules.name == name:
            return rules
    raise InputError(f"rules {name!r} are not known. Known: {', '.join(rules.name for rules in RULES)}")
