"""ZigZag 3.9.1's files on machine trees: its evaluator's prices, and the least energies."""

import pytest

from tests.helpers.pairs import first
from tests.helpers.zigzag_trees import DATA, placed, recorded
from tilestitch.formats.zigzag.tree_machine import zigzag_tree
from tilestitch.mapping.tree.chain import TreeMapping, price
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.tables import Sums

MACHINES = sorted(path.stem for path in (DATA / "hardware").glob("*.yaml"))
IN_MEMORY = ("aimc", "dimc")


@pytest.mark.parametrize("step", first(1, [5, 1]))
@pytest.mark.parametrize("machine", [one for one in MACHINES if one not in IN_MEMORY])
def test_a_chain_costs_what_zigzag_says(machine, step):
    """Energies of random orders and places equal its evaluator's, on every machine that computes outside memory."""
    chains = [one for one in recorded()["chains"] if one["machine"] == machine]
    assert len(chains) >= 28
    for chain in chains[::step]:
        nest = placed(machine, chain["mapping"], chain["layer"])
        numbers = {loop.name: number for number, loop in enumerate(nest.nest.loops)}
        words = chain["loops"].split()
        loops = tuple((numbers[name], int(size)) for name, size in zip(words[::2], words[1::2], strict=True))
        cuts = tuple(tuple(chain["cuts"][array.name]) for array in nest.operands)
        assert price(nest, TreeMapping(loops, cuts)).energy_pj == pytest.approx(chain["energy_pj"], rel=1e-12), chain


@pytest.mark.parametrize("machine", IN_MEMORY)
def test_in_memory_compute_is_refused_by_its_name(machine):
    with pytest.raises(Exception, match=rf"{machine}.*in-memory compute") as refused:
        zigzag_tree((DATA / "hardware" / f"{machine}.yaml").read_text(), f"{machine}.yaml")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "machine, sums, energy_pj",
    [
        ("tpu_like", Sums.FULL, 68_294_569),
        ("tpu_like", Sums.FINAL, 62_735_871),
        ("eyeriss_like", Sums.FULL, 703_363_157),
    ],
)
def test_the_least_energy_of_conv2_2_is_what_others_found(machine, sums, energy_pj):
    """Optima of an earlier search, priced by ZigZag's evaluator; 14 and 12 units do not divide 64 channels."""
    found = best_mapping(placed(machine, machine, "conv2_2"), sums)
    assert round(found.price.energy_pj) == energy_pj
    assert found.is_proven
