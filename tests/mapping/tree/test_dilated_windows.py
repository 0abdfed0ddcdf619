"""Windows whose taps lie further apart than a tile has iterations: counted as the values that there are."""

import json

import pytest

from tests.helpers.command import run
from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.mapping.tree.placed import distinct

DILATED = "O[m,x] += I[c,2*x+3*f] * W[m,c,f]; m=4 c=4 x=6 f=3"


@pytest.mark.parametrize("steps", [(1, 1), (1, 2), (2, 1), (2, 3), (3, 2), (2, 4), (4, 6), (1, 5)], ids=str)
def test_an_index_of_two_loops_is_counted_as_a_set(steps):
    """The formula is the number of different values, also of a tile of one pixel."""
    window = LoopOperand("I", (((0, steps[0]), (1, steps[1])),), (1000,))
    for a in range(1, 8):
        for b in range(1, 8):
            values = {steps[0] * x + steps[1] * f for x in range(a) for f in range(b)}
            assert distinct(window, (a, b)) == len(values), (a, b)


@pytest.mark.parametrize("machine", ["gemmini", "nvdla"])
def test_random_mappings_of_a_dilated_layer_cost_what_is_simulated(machine):
    """Every energy is that of the simulation."""
    done = run("validate", DILATED, "--machine", machine, "--mappings", "20", "--json", "-")
    assert done.exit_code == 0, done.output
    energy = json.loads(done.stdout)["energy"]["all"]
    assert energy["mappings_that_agree"] == 20
    assert energy["worst_absolute_error"] < 1e-9


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_the_best_mapping_of_a_dilated_layer_is_simulated_and_checked(objective, tmp_path):
    """The proof is found again by the checker, and the simulator says the same energy."""
    given = (DILATED, "--machine", "gemmini", "--objective", objective)
    found = run("map", *given, "--certificate", tmp_path / "proof.json", "--json", "-")
    assert found.exit_code == 0, found.output
    checked = run("map", *given, "--check", tmp_path / "proof.json")
    assert checked.exit_code == 0, checked.output
    simulated = run("simulate", *given, "--json", "-")
    energies = [json.loads(one.stdout)["layers"][0] for one in (found, simulated)]
    assert energies[0]["energy_pj"] == pytest.approx(energies[1]["simulated"]["energy_pj"], rel=1e-9)
