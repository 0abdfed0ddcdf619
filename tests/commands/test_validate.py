"""The model against the simulation: what is drawn, what is said of errors, and what is missed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from tests.helpers.nests import DMAZERUNNER, every_mapping, random_machine, random_nest
from tests.helpers.pairs import first
from tilestitch.base.errors import DoesNotFit
from tilestitch.cli import main as cli
from tilestitch.commands.validate import compare as comparing
from tilestitch.commands.validate.compare import Compared, LayerCompared, compare_layers
from tilestitch.commands.validate.draw import Draw
from tilestitch.commands.validate.mechanisms import explain
from tilestitch.commands.validate.summary import buckets_of, energy_of, errors_of, worst_of
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopNest, SlidingWindow, convolution, product
from tilestitch.mapping.evaluate import Pricer
from tilestitch.mapping.json_lines import mapping_of
from tilestitch.mapping.network import RepeatedNest

LINE = "O[m,n] += A[m,k] * B[k,n]; m=16 n=12 k=24"
CONV = convolution("conv", n=1, m=8, c=8, output=(6, 6), window=SlidingWindow((3, 3)))


def validated(nest: LoopNest, machine: ArrayMachine, mappings: int, *, ragged: bool = False) -> LayerCompared:
    """Random mappings of one nest."""
    layers = (RepeatedNest(nest, (nest.name,)),)
    (found,) = compare_layers(layers, machine, mappings, seed=3, ragged=ragged, progress=lambda *_: None)
    return found


def command(*arguments: str) -> str:
    result = CliRunner().invoke(cli.main, ["validate", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("ragged", first(1, [False, True]), ids=["exact", "ragged"])
def test_every_tiling_that_fits_is_drawn_and_no_other(ragged: bool) -> None:
    """Exact ones all, ragged ones of those that searches look at; in every order."""
    nest, machine = product("p", m=4, n=2, k=3), replace(DMAZERUNNER, elements=4, register_bytes=16, banks=4)
    pricer = Pricer(nest, machine)
    draws = Draw.of(nest, machine, ragged=ragged).mappings(Random(0))
    found = [next(draws) for _ in range(20_000)]
    assert all(mapping.covers(nest) and not pricer(mapping).misfit for mapping in found)
    tilings = {(one.dram, one.spm, one.rf, one.spatial) for one in found}
    if ragged:
        assert any(not mapping.is_exact(nest) for mapping in found)
    else:
        fitting = [one for one in every_mapping(nest, ragged=False) if not pricer(one).misfit]
        assert tilings == {(one.dram, one.spm, one.rf, one.spatial) for one in fitting}
    assert len({one.dram_order for one in found}) == len({one.spm_order for one in found}) == 6


def test_what_is_drawn_is_compared_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mappings that are too long are left out, and said to be."""
    monkeypatch.setattr(comparing, "MOST_PASSES", 20)
    done = validated(CONV, DMAZERUNNER, 50)
    assert len(done.found) == 50
    assert done.drawn == len(done.found) + done.misfits + done.too_long
    assert done.too_long > 0


def test_a_layer_of_which_nothing_can_be_simulated_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than an endless search."""
    monkeypatch.setattr(comparing, "MOST_PASSES", 0)
    with pytest.raises(DoesNotFit, match="2,000 mappings in a row none can be simulated: 0 do not fit, 2,000 have"):
        validated(CONV, DMAZERUNNER, 1)


def test_mappings_are_spread_over_layers_each_drawn_for_itself() -> None:
    """Seven over three; another layer beside it changes nothing."""
    layers = [RepeatedNest(product(name, m=4, n=4, k=size), (name,)) for name, size in (("a", 4), ("b", 6), ("c", 8))]
    done = compare_layers(layers, DMAZERUNNER, 7, seed=0, ragged=False, progress=lambda *_: None)
    assert [len(one.found) for one in done] == [3, 2, 2]
    (alone,) = compare_layers(layers[:1], DMAZERUNNER, 3, seed=0, ragged=False, progress=lambda *_: None)
    assert [one.mapping for one in alone.found] == [one.mapping for one in done[0].found]


def test_numbers_of_errors_by_hand() -> None:
    """Four mappings of 1,000 cycles that the model has 0, 5, 30 and -300 too many of."""
    one = validated(CONV, DMAZERUNNER, 1).found[0]
    found = [replace(one, estimated_cycles=1000 + more, simulated_cycles=1000) for more in (0, 5, -300, 30)]
    errors = errors_of(found)
    assert (errors.mappings, errors.worst, errors.most_of_95) == (4, 0.3, 0.3)
    assert errors.mean == pytest.approx(0.335 / 4)
    assert errors.signed == pytest.approx(-0.265 / 4)
    assert errors.median == pytest.approx(0.0175)
    assert {bucket.limit: bucket.mappings for bucket in buckets_of(found) if bucket.mappings} == {
        0.0: 1,
        0.005: 1,
        0.05: 1,
        None: 1,
    }


def test_a_model_with_a_mistake_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says a tenth too much is a tenth off, and no mechanism of the machine explains that."""
    honest = errors_of(validated(CONV, DMAZERUNNER, 40).found)
    assert honest.mean < 0.02

    class Doctored(Pricer):
        def __call__(self, mapping):
            priced = super().__call__(mapping)
            return replace(priced, cycles=priced.cycles * 11 // 10)

    monkeypatch.setattr(comparing, "Pricer", Doctored)
    done = validated(CONV, DMAZERUNNER, 40)
    assert errors_of(done.found).mean == pytest.approx(0.1, abs=honest.mean + 0.001)
    middle = sorted(done.found, key=lambda one: one.error)[20]
    assert explain(middle, DMAZERUNNER).mechanisms == ()


def misses(machine: ArrayMachine, *, ragged: bool = False) -> Iterator[tuple[Compared, tuple[str, ...]]]:
    """The worst mappings, and what the model misses in each."""
    for case, why in worst_of([validated(CONV, machine, 20, ragged=ragged)], machine, 3):
        assert abs(why.left) <= abs(case.difference) / 2
        yield case, why.mechanisms


@pytest.mark.parametrize(
    "changes, mechanism",
    [
        ({"scratchpad_ports": 1, "scratchpad_port_bytes": 1}, "conflicts of banks"),
        ({"fifo_words": 1, "register_writes_per_cycle": 1, "scratchpad_port_bytes": 64}, "full FIFOs"),
    ],
    ids=["banks", "FIFOs"],
)
def test_the_mechanism_that_makes_the_difference_is_named(changes: dict, mechanism: str) -> None:
    """A machine that is slow in a way that the model does not know; DMA, which would hide it, is fast."""
    machine = replace(DMAZERUNNER, dma_setup_cycles=DMAZERUNNER.dma_cycles_per_byte)
    if mechanism == "full FIFOs":  # only a network of several words a cycle can fill them
        machine = replace(machine, network_bytes_per_cycle=(8 * DMAZERUNNER.reduction_bytes_per_cycle,) * 3)
    machine = replace(machine, micro=replace(machine.micro, **changes))
    found = list(misses(machine))
    assert len(found) == 3
    for case, named in found:
        assert case.difference < 0
        assert mechanism in named


def test_smaller_tiles_at_the_edges_are_a_mechanism() -> None:
    """Without them a mapping is exact, and so is the model."""
    assert any("smaller tiles at the edges" in named for _, named in misses(DMAZERUNNER, ragged=True))


def test_a_case_without_a_difference_has_nothing_to_explain() -> None:
    """And is no worst mapping."""
    machine = replace(DMAZERUNNER, dma_setup_cycles=DMAZERUNNER.dma_cycles_per_byte)
    found = [one for one in validated(CONV, machine, 20).found if one.difference == 0]
    assert found
    assert explain(found[0], machine).mechanisms == ()
    assert worst_of([replace(validated(CONV, machine, 1), found=tuple(found))], machine, 5) == ()


def test_energy_is_compared_by_component() -> None:
    """The model's is what the simulator counts; a component that is doubled is seen to be."""
    found = list(validated(CONV, DMAZERUNNER, 20).found)
    assert all(one.agree == 20 for one in energy_of(found).values())
    found[7] = replace(found[7], estimated_pj={**found[7].estimated_pj, "noc": 2 * found[7].simulated_pj["noc"]})
    wrong = energy_of(found)
    assert (wrong["noc"].agree, wrong["noc"].worst) == (19, 1)
    assert wrong["dram"].agree == 20


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """Text, JSON and picture; another seed gives others."""
    outcomes = []
    for seed, name in (("1", "a"), ("1", "b"), ("2", "c")):
        files = [tmp_path / f"{name}{suffix}" for suffix in (".json", ".svg")]
        text = command(LINE, "--mappings", "20", "--seed", seed, "--json", str(files[0]), "--plot", str(files[1]))
        outcomes.append((text, *(file.read_bytes() for file in files)))
    assert outcomes[0] == outcomes[1]
    assert all(one != other for one, other in zip(outcomes[0], outcomes[2], strict=True))


def test_the_report(golden) -> None:
    """A small product on dMazeRunner's array."""
    golden("validate.txt", command(LINE, "--mappings", "30", "--worst", "2"))


def test_json_says_what_the_text_says_and_its_mappings_can_be_priced() -> None:
    """In the form that map takes, with the same cycles."""
    found = json.loads(command(LINE, "--mappings", "30", "--worst", "2", "--json", "-"))
    assert found["mappings"] == 30
    assert sum(one["mappings"] for one in found["distribution"]) == 30
    assert len(found["worst"]) == 2
    nest = product("x", m=16, n=12, k=24)
    nest = replace(nest, loops=tuple(replace(loop, name=loop.name.lower()) for loop in nest.loops))
    for case in found["worst"]:
        mapping = mapping_of(nest, case["mapping"], CostMode.DEFAULT)
        assert Pricer(nest, DMAZERUNNER)(mapping).cycles == case["estimated_cycles"]
        assert sum(case["simulated_cycles_by_cause"].values()) == case["simulated_cycles"]


def test_the_picture_says_what_its_axes_are(tmp_path: Path) -> None:
    """With units."""
    picture = tmp_path / "errors.svg"
    command(LINE, "--mappings", "10", "--plot", str(picture), "--quiet")
    text = picture.read_text(encoding="utf-8")
    for label in (
        "simulated latency (cycles)",
        "estimated latency (cycles)",
        "absolute error of the estimated latency",
    ):
        assert label in text
    assert text.count("<circle") >= 20


@pytest.mark.parametrize("seed", range(3))
def test_random_nests_on_random_machines_are_explained_or_said_not_to_be(seed: int) -> None:
    """Whatever the machine: nothing breaks, and an explanation is one by its numbers."""
    rng = Random(seed)
    for _ in range(6):
        nest, machine = random_nest(rng), random_machine(rng)
        try:
            done = validated(nest, machine, 5)
        except DoesNotFit:
            continue
        for case, why in worst_of([done], machine, 2):
            if why.mechanisms:
                assert 2 * abs(why.left) <= abs(case.difference)
            else:
                assert all(
                    2 * abs(trial.difference) > abs(case.difference) or 2 * abs(trial.error) > abs(case.error)
                    for trial in why.trials
                )
