"""A simulated group of a chain against numpy, its estimate and a second clock."""

from collections import Counter

import pytest

from tests.helpers.tree_cycles import chain_cycles
from tilestitch.commands.simulate.fused_layers import chain_run
from tilestitch.ir.choices import Values
from tilestitch.sim.tree.chain_simulated import simulate_chain


def check_group(group):
    """Values, traffic, energy, rooms, and cycles of a second clock."""
    run, price = chain_run(group.mapping), group.price
    found = simulate_chain(run)  # holds the values against numpy's
    assert simulate_chain(run, values=Values.FLOATS).cycles == found.cycles
    assert found.cycles == chain_cycles(run) == sum(found.cycles_by_cause.values())
    assert found.cycles >= max(sum(one.iterations for one in run.runs), *(one.cycles for one in found.ports))
    priced, moved = Counter(), Counter()
    for number, flows in enumerate(price.flows):
        for flow in flows:
            priced[number, flow.operand, flow.memory.split(" (")[0], flow.flow] += flow.accesses
    for number, flows in enumerate(found.flows):
        names = [array.name for array in run.operators[number].operands]
        for flow in flows:
            moved[number, names.index(flow.operand), flow.memory, flow.flow] += flow.accesses
    assert +priced == +moved
    passes = [sum(flow.energy_pj for flow in flows) for flows in found.passes]
    for counted, estimated in zip(passes, price.passes_pj, strict=True):
        assert counted >= estimated * (1 - 1e-12)  # whole granules of tiles, and a part of one of all
    assert found.energy_pj - sum(passes) == pytest.approx(sum(price.operators_pj), rel=1e-9)
    return found
