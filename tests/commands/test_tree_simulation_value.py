"""Simulations and validations on trees, as Python has them."""

import json

import pytest

import tilestitch
from tests.helpers.command import run
from tests.helpers.pages import expect_alone, summary_of
from tilestitch import InputError, SimulateOptions, TreeOptions, ValidateOptions
from tilestitch.mapping.network import MapOptions

PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=24 n=16 k=32"
GROUPED = "O[3*g+m,x] += I[2*g+c,x+f] * W[g,m,c,f]; g=4 m=3 c=2 x=9 f=3"


def test_a_simulation_is_that_of_the_command():
    """The same JSON from a name and from a tree's value; the page says how to make it again."""
    written = run("simulate", PRODUCT, "--machine", "nvdla", "--objective", "energy", "--json", "-").stdout
    options = SimulateOptions(tree=TreeOptions("energy"))
    for machine in ("nvdla", tilestitch.load_tree("nvdla")):
        assert tilestitch.simulate(PRODUCT, machine, options).to_json() == written
    page = tilestitch.simulate(PRODUCT, "nvdla", options).to_html()
    expect_alone(page)
    assert summary_of(page)["command"] == (
        f"tilestitch.simulate('{PRODUCT}', 'nvdla', "
        "tilestitch.SimulateOptions(tree=tilestitch.TreeOptions(objective='energy'))).to_html()"
    )


def test_a_validation_is_that_of_the_command():
    written = run("validate", PRODUCT, "--machine", "nvdla", "--mappings", 12, "--worst", 1, "--json", "-").stdout
    found = tilestitch.validate(PRODUCT, "nvdla", ValidateOptions(12, worst=1))
    assert found.to_json() == written
    expect_alone(found.to_html())
    assert summary_of(found.to_html())["report"] == json.loads(written)


def test_grouped_channels_are_simulated():
    """`3*g + m` says each channel once, so that it is no sum; values equal numpy's, and so do energies."""
    [layer] = tilestitch.simulate(GROUPED, "gemmini")
    assert layer.simulated.result.size == 4 * 3 * 9
    assert layer.simulated.energy_pj == pytest.approx(layer.estimated_pj, rel=1e-9)
    overlapping = "O[2*g+m] += I[g,c] * W[g,m,c]; g=4 m=3 c=2"
    with pytest.raises(InputError, match="indexed by a sum"):
        tilestitch.simulate(overlapping, "gemmini")


@pytest.mark.parametrize(
    "machine, options, said",
    [
        ("nvdla", SimulateOptions(extrapolate=True), "the others are of PE arrays"),
        ("nvdla", SimulateOptions(mapping=MapOptions("energy")), "the others are of PE arrays"),
        ("nvdla", SimulateOptions(tree=TreeOptions("pareto")), "leave out pareto"),
        ("nvdla", SimulateOptions(tree=TreeOptions(effort=9)), "objective, ragged and utilization"),
        ("eyeriss", SimulateOptions(tree=TreeOptions("energy")), "of an array mapping says it"),
    ],
)
def test_options_of_the_other_kind_of_machine_are_refused(machine, options, said):
    with pytest.raises(InputError, match=said):
        tilestitch.simulate(PRODUCT, machine, options)
