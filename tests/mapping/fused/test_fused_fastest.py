"""Below how many cycles no run of an operator comes, choice by choice; with such bounds a search finds as much."""

from math import inf

import numpy as np
import pytest

from tilestitch.commands.map.fused_run import FuseOptions, map_fused
from tilestitch.ir.choices import Objective
from tilestitch.mapping.fused import group, inner
from tilestitch.mapping.fused.timed_inner import TimedInner
from tilestitch.mapping.fused.timed_sweep import Aim, most_cycles_of
from tilestitch.mapping.tree.labels import NEVER

ATTENTION = "S[m,n] += Q[m,d] * K[n,d]; A[m,e] += S[m,n] * V[n,e]; m=4 n=6 d=4 e=2"
WINDOWS = (
    "T[m,x,y] += D[c,x+fx,y+fy] * F[m,c,fx,fy]; U[k,p,q] += T[m,p+gx,q+gy] * G[k,m,gx,gy]; "
    "m=4 c=2 x=5 y=4 fx=2 fy=1 k=2 p=4 q=4 gx=2 gy=1"
)
WITHOUT = Aim(NEVER, NEVER, inf, 0, 1, 0, 0)


@pytest.mark.parametrize(("line", "machine"), [(ATTENTION, "eyeriss-like"), (WINDOWS, "tpu-like")])
def test_no_run_takes_less_than_its_bound(line, machine, monkeypatch):
    """All visits of every choice that may be joined take at least what the bound says, and some no more."""
    searches = []

    def watched(*args):
        searches.append(TimedInner(*args))
        return searches[-1]

    monkeypatch.setattr(group, "TimedInner", watched)
    map_fused(line, machine, FuseOptions(2, objective=Objective.LATENCY))
    kinds = {id(one.fastest): one for one in searches if one.fastest is not None}
    reached = closer = 0
    for one in kinds.values():
        energies = one.base.bounds_fj()
        for choice in np.flatnonzero(energies < NEVER)[:20].tolist():
            one.least_cycles = NEVER
            one._swept(choice, WITHOUT, 2**62)
            if one.least_cycles == NEVER:
                continue
            assert one.fastest.is_above(choice, one.least_cycles // one.base.times) is False
            bound = int(one.fastest.cycles[choice]) * one.base.times
            assert bound <= one.least_cycles
            reached += bound == one.least_cycles
            closer += bound > one.base.steps()[choice] * one.base.times
    assert reached > 10
    assert closer > 10


@pytest.mark.parametrize("objective", [Objective.LATENCY, Objective.EDP])
@pytest.mark.parametrize(("line", "machine"), [(ATTENTION, "eyeriss-like"), (WINDOWS, "tpu-like")])
def test_the_same_is_found_without_these_bounds(line, machine, objective, monkeypatch):
    """Energy and latency of every chain, proven in both ways."""
    ((_, found),) = map_fused(line, machine, FuseOptions(2, objective=objective)).chains
    monkeypatch.setattr(inner.InnerSearch, "fastest", lambda self: None)
    ((_, without),) = map_fused(line, machine, FuseOptions(2, objective=objective)).chains
    assert found.is_proven
    assert without.is_proven
    assert (found.energy_pj, found.latency_cycles) == (without.energy_pj, without.latency_cycles)


def test_an_aim_says_how_many_cycles_are_left():
    """Of a product the quotient, or its root."""
    assert most_cycles_of(Aim(NEVER, NEVER, 1000.0, 1, 1, 0, 0), 100) == 10
    assert most_cycles_of(Aim(50, NEVER, 1000.0, 1, 1, 0, 0), 100) == -1
    assert most_cycles_of(Aim(NEVER, 7, inf, 0, 1, 0, 0), 100) == 7
    assert most_cycles_of(Aim(NEVER, NEVER, 1000.0, 1, 2, 0, 0), 10) == 10
