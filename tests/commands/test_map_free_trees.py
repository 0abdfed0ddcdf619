"""`tilestitch map` on a tree without a spatial mapping: sources, what is searched, constraints."""

import json
from pathlib import Path

import pytest

from tests.helpers.command import run
from tests.helpers.pages import summary_of
from tests.helpers.pairs import first
from tests.helpers.zigzag_trees import LAYERS, TREE
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.preset_files import preset_text

ZIGZAG = Path(__file__).parent.parent / "data" / "zigzag" / "hardware" / "tpu_like.yaml"
PRODUCT = "C[M,N] += A[M,K] * B[K,N]; M=16 N=12 K=32"
WIDE_SUMS = """
- id: 0
  operator_type: Gemm
  equation: O[b][k]+=W[k][c]*I[b][c]
  dimension_relations: []
  loop_dims: [B, K, C]
  loop_sizes: [16, 12, 32]
  operand_precision: {W: 8, I: 8, O: 32, O_final: 8}
  operand_source: {W: 0, I: 0}
"""  # PRODUCT in ZigZag's words
ROWS = "O[m,x] += I[c,x+f] * W[m,c,f]; m=48 c=96 x=56 f=3"


@pytest.fixture
def machine(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(TREE.replace(", loops: [C]", ""))
    return path


def mapped(model, machine, *more):
    return run("map", model, "--machine", machine, "--objective", "energy", *more)


def only_layer(model, machine, *more):
    result = mapped(model, machine, "--json", "-", *more)
    assert result.exit_code == 0, result.output
    (layer,) = json.loads(result.output)["layers"]
    assert layer["proven_best"]
    return layer


def test_free_factors_cost_no_more_than_fixed_ones(machine):
    """Any factors that a user fixes cost at least as much; operands are bound by their role."""
    free = only_layer(PRODUCT, machine)
    assert free["memories"] == {"A": ["buffer", "dram"], "B": ["buffer", "dram"], "C": ["rf", "buffer", "dram"]}
    assert 1 <= free["spatial_choices_opened"] <= free["spatial_choices"]
    energies = []
    for axis, loop in (("D1", "M"), ("D1", "N"), ("D2", "K")):
        machine.with_name("fixed.yaml").write_text(f"spatial: {{{axis}: {{{loop}: 2}}}}")
        fixed = only_layer(PRODUCT, machine, "--constraints", machine.with_name("fixed.yaml"))
        assert {"axis": axis, "loop": loop, "factor": 2.0} in fixed["spatial"]
        energies.append(fixed["energy_pj"])
    assert free["energy_pj"] <= min(energies)
    assert free["energy_pj"] < max(energies)


@pytest.mark.parametrize("effort", [1, 20, 60])
def test_a_search_that_stops_early_says_the_gap(machine, effort):
    """The bound holds for the best of a whole search, and what was found is no more than the gap above the bound."""
    best = only_layer(PRODUCT, machine)
    assert effort < best["labels"]
    result = mapped(PRODUCT, machine, "--effort", effort, "--json", "-")
    (layer,) = json.loads(result.output)["layers"]
    assert not layer["proven_best"]
    assert layer["bound_pj"] <= best["energy_pj"] <= layer["energy_pj"]
    assert layer["gap"] == pytest.approx(layer["energy_pj"] / layer["bound_pj"] - 1)
    text = mapped(PRODUCT, machine, "--effort", effort).output
    assert "proven" not in text
    assert f"at most {layer['gap']:.2%} too much" in text


@pytest.mark.parametrize("objective", first(1, ["edp", "latency", "ed2p"]))
def test_a_search_in_time_that_stops_early_says_the_gap(machine, objective):
    searched = ("map", PRODUCT, "--machine", machine, "--objective", objective, "--json", "-")
    (best,) = json.loads(run(*searched).output)["layers"]
    (layer,) = json.loads(run(*searched, "--effort", 20).output)["layers"]
    assert best["proven_best"]
    assert not layer["proven_best"]
    values = [
        one["latency_cycles"] ** {"latency": 1, "edp": 1, "ed2p": 2}[objective]
        * (1 if objective == "latency" else one["energy_pj"])
        for one in (best, layer)
    ]
    assert values[1] / (1 + layer["gap"]) <= values[0] * (1 + 1e-9)
    assert values[0] <= values[1]


def test_more_factors_cost_no_more_and_more_use_no_less(machine):
    free, ragged = only_layer(PRODUCT, machine), only_layer(PRODUCT, machine, "--ragged")
    used = only_layer(PRODUCT, machine, "--utilization", "0.75")
    assert ragged["spatial_choices"] > free["spatial_choices"] > used["spatial_choices"]
    assert ragged["energy_pj"] <= free["energy_pj"] <= used["energy_pj"]
    assert used["units_with_work"] >= 0.75


def test_the_front_over_all_choices(machine, tmp_path):
    """Each point with what it spreads, in text, JSON and page; its ends are the least of both objectives."""
    line = "C[m,n] += A[m,k] * B[k,n]; m=4 n=3 k=4"
    asked = ("map", line, "--machine", machine, "--objective", "pareto")
    result = run(*asked, "--json", tmp_path / "front.json", "--html", tmp_path / "front.html")
    assert result.exit_code == 0, result.output
    (layer,) = json.loads((tmp_path / "front.json").read_text())["layers"]
    front = layer["front"]
    assert layer["proven_best"]
    assert layer["spatial_choices"] >= layer["spatial_choices_opened"] >= 1
    assert [one["energy_pj"] for one in front] == sorted(one["energy_pj"] for one in front)
    least = {
        name: json.loads(run("map", line, "--machine", machine, "--objective", name, "--json", "-").output)["layers"][0]
        for name in ("energy", "latency", "edp")
    }
    assert front[0]["energy_pj"] == pytest.approx(least["energy"]["energy_pj"], rel=1e-12)
    assert front[-1]["latency_cycles"] == least["latency"]["latency_cycles"]
    assert layer["edp_pj_cycles"] == pytest.approx(least["edp"]["edp_pj_cycles"], rel=1e-12)
    assert any(one["spatial"] == layer["spatial"] for one in front)
    assert f"front of {len(front)} mapping" in result.output
    assert "choices of what is spread" in result.output
    for one in front:
        spread = ", ".join(f"{part['loop']} {part['factor']:g} along {part['axis']}" for part in one["spatial"])
        assert f"{spread or 'nothing'}\n" in result.output
    drawn = summary_of((tmp_path / "front.html").read_text())["layers"][0]["mappings"]
    assert [one["spread"] for one in drawn] == [
        [{**part, "factor": f"{part['factor']:g}"} for part in one["spatial"]] for one in front
    ]


def test_layers_of_a_network_are_counted(machine):
    """Of a network every different layer once, as often as it runs it."""
    result = mapped("resnet18:small", machine, "--layer", "2", "--layer", "fc", "--json", "-")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert [one["times"] for one in found["layers"]] == [4, 1]
    assert found["energy_pj"] == pytest.approx(sum(one["times"] * one["energy_pj"] for one in found["layers"]))


def test_a_layer_that_does_not_fit_does_not_stop_the_others(machine, tmp_path):
    """The others are mapped; the error names it with the reason, and the command ends with 2."""
    layers = tmp_path / "layers.yaml"
    layers.write_text(LAYERS.replace("56", "8"))
    machine.write_text(machine.read_text().replace("size: 4 GiB", "size: 40 KB"))
    result = mapped(layers, machine, "--json", tmp_path / "found.json", "--quiet")
    assert result.exit_code == 2
    assert result.output == (
        "error: layer conv2_2: conv2_2: every mapping needs at least 378,880 bits in dram (W 294,912, I 51,200, O "
        "32,768), which has 320,000. Try: a larger memory; a smaller layer.\n"
    )
    found = json.loads((tmp_path / "found.json").read_text())
    assert [one["name"] for one in found["layers"]] == ["Layer1"]
    assert [one["name"] for one in found["unmapped"]] == ["conv2_2"]


OURS = """
spatial: {D1: {M: 4}, D2: [K, N]}
memories:
  buffer: {bypass: [W], tile: {K: [1, 8]}, share: {I: 0.001}}
  rf: {tile: {M: 1}}
"""


def test_a_star_in_an_order_means_all_steps_that_are_left(machine):
    fixed = machine.with_name("fixed.yaml")
    layers = []
    for order in ("[M]", '[[M, "*"]]'):
        fixed.write_text(f"order: {order}")
        layers.append(only_layer(PRODUCT, machine, "--constraints", fixed))
    assert layers[0]["temporal"] == layers[1]["temporal"]


def test_an_empty_list_of_loops_spreads_nothing_along_its_axis(machine):
    fixed = machine.with_name("fixed.yaml")
    fixed.write_text("spatial: {D1: []}")
    layer = only_layer(PRODUCT, machine, "--constraints", fixed)
    assert {one["axis"] for one in layer["spatial"]} == {"D2"}


def test_constraints_hold(machine):
    """Factors, loops of an axis, bypasses, tiles and shares are as the file says."""
    machine.with_name("fixed.yaml").write_text(OURS)
    layer = only_layer(PRODUCT, machine, "--constraints", machine.with_name("fixed.yaml"))
    assert [(one["loop"], one["factor"]) for one in layer["spatial"] if one["axis"] == "D1" and one["loop"] == "M"] == [
        ("M", 4.0)
    ]
    assert {one["loop"] for one in layer["spatial"] if one["axis"] == "D2"} <= {"K", "N"}
    assert layer["memories"]["B"] == ["dram"]
    (inside, _) = layer["temporal"]["A"]
    spread = {one["loop"]: one["factor"] for one in layer["spatial"]}
    tile = dict.fromkeys("MNK", 1)
    for loop, factor in inside:
        tile[loop] *= factor
    assert tile["K"] <= 8
    held = tile["M"] * spread.get("M", 1) * tile["K"] * spread.get("K", 1)
    assert held * 16 <= 0.001 * 128 * 1024 * 8
    assert layer["energy_pj"] > only_layer(PRODUCT, machine)["energy_pj"]


def test_timeloops_constraints_say_the_same(machine):
    """Factors at memories are those of tiles: of the memory, and of all that lie inside it."""
    ours, theirs = machine.with_name("ours.yaml"), machine.with_name("theirs.yaml")
    ours.write_text(
        "{spatial: {D1: {M: 4}}, memories: {buffer: {bypass: [W], tile: {N: 6}}, rf: {tile: {N: 2, M: [1, 2]}}}}"
    )
    theirs.write_text(
        """
architecture_constraints:
  targets:
    - {target: D1, type: spatial, factors: [M=4]}
    - {target: buffer, type: dataspace, bypass: [Weights], keep: [Inputs, Outputs]}
mapspace_constraints:
    - {target: rf, type: temporal, factors: "N=2 M<=2 K=0"}
    - {target: buffer, type: temporal, factors: [N=3]}
"""
    )
    one, other = (only_layer(PRODUCT, machine, "--constraints", file) for file in (ours, theirs))
    assert one == other


PLAIN = """
name: plain
mac_pj: 1
latches: false
memories:
  - {name: dram, size: 4 GiB, operands: [A, B, C], read_pj: 7, write_pj: 7, serves: [], ports: [{width_bits: 16}]}
"""


@pytest.mark.parametrize("order", ["MKN", "NKM", "KNM"])
def test_loops_between_two_cuts_stand_in_the_order_of_a_permutation(tmp_path, order):
    """Where nothing stays anywhere all orders cost the same."""
    machine, file = tmp_path / "plain.yaml", tmp_path / "order.yaml"
    machine.write_text(PLAIN)
    file.write_text(f"mapspace_constraints: [{{target: dram, type: temporal, permutation: {order}}}]")
    layer = only_layer(PRODUCT, machine, "--constraints", file)
    (loops,) = layer["temporal"]["C"]
    assert [loop for loop, _ in loops] == list(order)
    assert layer["notes"] == ["loops run in the order of the permutations of dram"]


@pytest.mark.parametrize("order", ["MKN", "NKM", "KNM", "KMN"])
def test_timeloops_permutations_are_kept_or_a_note_says_that_they_are_not(machine, order):
    """What is found costs the same; where it keeps to an order, the loops of that memory stand in it."""
    file = machine.with_name("order.yaml")
    file.write_text(f"mapspace_constraints: [{{target: buffer, type: temporal, permutation: {order}}}]")
    free, layer = only_layer(PRODUCT, machine), only_layer(PRODUCT, machine, "--constraints", file)
    assert layer["energy_pj"] == pytest.approx(free["energy_pj"], rel=1e-12)
    assert layer["latency_cycles"] == free["latency_cycles"]
    (note,) = layer["notes"]
    reached = [
        [loop for level in layer["temporal"][operand][: memories.index("buffer") + 1] for loop, _ in level]
        for operand, memories in layer["memories"].items()
    ]
    here = max(reached, key=len)[len(layer["temporal"]["C"][0]) :]  # of the buffer: outside the tiles of rf
    ranks = [order.index(loop) for loop in here]
    assert len(ranks) > 1
    if ranks == sorted(ranks):
        assert note == "loops run in the order of the permutations of buffer"
    else:
        assert note.startswith(
            f"the permutation of buffer ({', '.join(order)} from the innermost) is not kept; nothing"
        )


@pytest.mark.parametrize(
    "text, words",
    [
        ("spatial: {D7: {M: 4}}", "no axis has this name; known: D1, D2"),
        ("spatial: {D1: {P: 4}}", "no layer has a loop P; known: M, N, K"),
        ("memories: {buffer: {bypass: [X]}}", "expected an operand that this memory holds: I, W, O, found 'X'"),
        ("memories: {dram: {bypass: [I]}}", "dram is the outermost memory of I, which begins there"),
        ("memories: {buffer: {tile: {M: [4, 2]}}}", "expected a least and a most, as in [1, 14]"),
        ("mapspace: [{target: buffer, type: temporal, factors: [N=2]}]", "only if rf, further inside, has one too"),
        ("memories: {buffer: {share: {I: 2}}}", "expected a share of at most 1, found 2"),
        ("memories: {rf: {tile: {N: 12}}}", "no mapping fits the memories within the limits that are given"),
        ("spatial: {D1: {M: 5, K: 2}}", "M 5 x K 2 along D1 needs 10 units, of which D1 has 8; fix smaller factors"),
        ("spatial: {D1: {N: 8}, D2: {N: 2}}", "N has 12 iterations, of which 16 are fixed along D1 and D2; fix"),
        ("order: [[M, 3], [M, 2]]", "the order has 3 x 2 of M, which has 16 iterations: that divides its steps in no"),
        ("limits: []", "unknown field; known: spatial, memories, order"),
        ("order: []", "expected a list of loops, found an empty list"),
        ("order: [[M, 2, 3]]", "expected a loop, or a loop and its factor, as in [K, 4]"),
        ("order: [P]", "no layer has a loop P; known: M, N, K"),
        ("order: [N, M, [N, 2]]", "order[2]: all steps of N that are left stand in front of this already; remove one"),
    ],
)
def test_constraints_that_say_nothing_are_refused_in_one_line(machine, text, words):
    machine.with_name("fixed.yaml").write_text(text)
    result = mapped(PRODUCT, machine, "--constraints", machine.with_name("fixed.yaml"))
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "given, words",
    [
        (("--mode", "published"), "leave out --mode"),
        (("--utilization", "nan"), "nan is not in the range 0<=x<=1"),
        (("--utilization", "1", "--layer", "1"), "no choice of what to spread uses 100% of 64 units"),
    ],
)
def test_what_cannot_be_asked_is_refused(machine, given, words):
    result = mapped("C[m,n] += A[m,k] * B[k,n]; m=3 n=5 k=3", machine, *given)
    assert result.exit_code == 2
    assert words in result.output


def test_factors_that_leave_too_many_units_without_work_are_named(machine):
    machine.with_name("fixed.yaml").write_text("spatial: {D1: {M: 3}}")
    result = mapped(PRODUCT, machine, "--constraints", machine.with_name("fixed.yaml"), "--utilization", "1")
    assert result.exit_code == 2
    assert "uses 100% of 64 units and has M 3 along D1; fix other factors, or fewer" in result.output


def test_operands_have_the_places_of_their_names(tmp_path):
    """ZigZag's layers read W first, and its machines call that operand I2."""
    layers = tmp_path / "layers.yaml"
    layers.write_text(LAYERS.replace("64", "4").replace("56", "4"))
    layer = json.loads(mapped(layers, ZIGZAG, "--spatial", "free", "--layer", "conv2_2", "--json", "-").output)[
        "layers"
    ][0]
    assert layer["memories"]["W"] == ["rf_128B", "dram"]
    assert layer["memories"]["I"] == ["sram_2MB", "dram"]


def test_operands_without_a_role_are_refused(machine):
    result = mapped("D[m,n] += A[m,k] * B[k,n] * S[k]; m=3 n=5 k=3", machine)
    assert result.exit_code == 2
    assert "expected those names in the machine, or I, W and O for two inputs and a result" in result.output


def test_a_chip_is_mapped_with_its_matrix_unit_as_axes():
    """Along k goes the reduction, along n what weights and results have, and any loop over cores and clusters."""
    layer = only_layer(PRODUCT, "toy")
    assert layer["memories"] == {
        "A": ["lb", "gb", "ddr"],
        "B": ["mme.weights", "weights", "gb", "ddr"],
        "C": ["accumulators", "lb", "gb", "ddr"],
    }
    along = {(one["axis"], one["loop"]) for one in layer["spatial"]}
    assert {("mme.k", "K"), ("mme.n", "N")} <= along
    assert {loop for axis, loop in along if axis == "mme.k"} == {"K"}
    assert {loop for axis, loop in along if axis == "mme.n"} == {"N"}


def test_nothing_is_added_up_across_clusters_with_a_dram_each():
    """A product of one row and one column is spread over the elements of its sum, and not over the clusters."""
    layer = only_layer("C[M,N] += A[M,K] * B[K,N]; M=1 N=1 K=256", "toy")
    assert {one["loop"] for one in layer["spatial"]} == {"K"}
    assert "cluster" not in {one["axis"] for one in layer["spatial"]}


def test_a_loop_of_all_operands_is_not_spread_in_a_matrix_unit():
    """Of groups of their own, as in depthwise layers, each has a product of its own."""
    layer = only_layer("C[g,m] += A[g,m,k] * B[g,k]; g=8 m=8 k=16", "toy")
    inside = [one for one in layer["spatial"] if one["axis"].startswith("mme.")]
    assert {(one["axis"], one["loop"]) for one in inside} <= {("mme.k", "k")}


def test_constraints_and_the_wiring_of_a_unit_hold_together(tmp_path):
    """A loop that a file asks for along an axis on which it cannot go leaves that axis free."""
    fixed = tmp_path / "fixed.yaml"
    fixed.write_text("spatial: {mme.k: [M], core: [M]}")
    layer = only_layer(PRODUCT, "toy", "--constraints", fixed)
    assert not [one for one in layer["spatial"] if one["axis"] == "mme.k"]


def test_elements_are_as_wide_as_on_the_machine(tmp_path):
    """Whatever layers say: an array of 8 bits, with sums of 32, takes products of 16 as if they were said so."""
    silent, said = tmp_path / "silent.yaml", tmp_path / "product.yaml"
    silent.write_text("".join(line for line in preset_text("gemmini").splitlines(True) if "bits: " not in line[:11]))
    said.write_text(WIDE_SUMS)
    found = json.loads(mapped(PRODUCT, "gemmini", "--json", "-").stdout)
    assert found["notes"] == ["elements have 8 bits, and 32 while they are added to, as on gemmini"]
    assert found["proven_best"]
    assert mapped(PRODUCT, silent).exit_code != 0
    same = only_layer(said, silent)
    assert same["energy_pj"] == found["layers"][0]["energy_pj"]
    said.write_text(WIDE_SUMS.replace("W: 8, I: 8, O: 32, O_final: 8", "W: 4, I: 16, O: 16, O_final: 16"))
    assert only_layer(said, "gemmini")["energy_pj"] == same["energy_pj"]
    said.write_text(WIDE_SUMS.replace("O: 32", "O: 16"))
    assert only_layer(said, silent)["energy_pj"] < same["energy_pj"]


def test_an_axis_takes_loops_of_its_operands_whatever_they_are_called(tmp_path):
    """Where weights lie still: along rows those of the reduction, along columns those of results."""
    product = "Y[p,q] += X[p,r] * V[r,q]; p=16 q=12 r=32"
    layer = only_layer(product, "gemmini")
    assert {(one["axis"], one["loop"]) for one in layer["spatial"]} == {("rows", "r"), ("columns", "q")}
    named = tmp_path / "named.yaml"
    named.write_text(preset_text("gemmini").replace("operands: [I, W]}", "operands: [I, W], loops: [p, q]}"))
    assert [one["axis"] for one in only_layer(product, named)["spatial"]] == ["columns"]


def test_an_array_has_its_own_mapper_for_even_storage():
    found = json.loads(run("map", PRODUCT, "--machine", "eyeriss", "--json", "-").stdout)
    assert (found["search"], found["dataflow"]) == ("exact", None)
    said = json.loads(run("map", PRODUCT, "--machine", "eyeriss", "--storage", "even", "--json", "-").stdout)
    assert said == found


def test_uneven_storage_of_an_array_costs_no_more_than_even():
    """By default on the array of dMazeRunner; with its constraints and the width of its words."""
    question = ("map", ROWS, "--storage", "uneven", "--objective", "energy", "--json", "-")
    for machine, least in (("dmazerunner-256", 0.9), ("eyeriss", 0.9)):
        even = json.loads(run("map", ROWS, "--machine", machine, "--objective", "energy", "--json", "-").stdout)
        (layer,) = json.loads(run(*question, "--machine", machine).stdout)["layers"]
        assert layer["proven_best"]
        ratio = layer["energy_pj"] / even["layers"][0]["mappings"][0]["energy_pj"]
        assert least < ratio < 0.9999
    assert json.loads(run(*question).stdout)["machine"] == "dmazerunner-256"


def test_uneven_storage_of_an_array_is_proven(tmp_path):
    """The proof is accepted, and refused for a value below it, another bound, and another machine."""
    proof, wrong = tmp_path / "proof.json", tmp_path / "wrong.json"
    question = ("map", "C[m,n] += A[m,k] * B[k,n]; m=12 n=8 k=12", "--storage", "uneven", "--objective", "energy")
    assert run(*question, "--machine", "eyeriss", "--certificate", proof).exit_code == 0
    checked = run(*question, "--machine", "eyeriss", "--check", proof)
    assert checked.exit_code == 0, checked.stderr
    assert "proven: no mapping has less energy than" in checked.stdout
    (certificate,) = json.loads(proof.read_text())["proofs"]
    bounded = next(block for block in certificate["blocks"] if "bound" in block)
    for said, tampered in (
        (f'"value": {certificate["value"]}', f'"value": {certificate["value"] - 1}'),
        (f'"bound": {bounded["bound"]}', f'"bound": {bounded["bound"] + 1}'),
    ):
        text = proof.read_text()
        assert said in text
        wrong.write_text(text.replace(said, tampered, 1))
        refused = run(*question, "--machine", "eyeriss", "--check", wrong)
        assert refused.exit_code == 2
        assert "the certificate of 'einsum' is wrong" in refused.stderr
    assert "proves nothing that is checked" in run(*question, "--machine", "dmazerunner-256", "--check", proof).stderr


def test_the_front_of_uneven_storage_is_proven(tmp_path):
    """Its first point has the least energy, its last one the least latency of a tree."""
    proof = tmp_path / "front.json"
    question = ("map", "C[m,n] += A[m,k] * B[k,n]; m=4 n=3 k=4", "--machine", "eyeriss", "--storage", "uneven")
    asked = run(*question, "--objective", "pareto", "--certificate", proof, "--json", "-")
    assert asked.exit_code == 0, asked.stderr
    front = json.loads(asked.stdout)["layers"][0]["front"]
    for objective, end, field in (("energy", 0, "energy_pj"), ("latency", -1, "latency_cycles")):
        (least,) = json.loads(run(*question, "--objective", objective, "--json", "-").stdout)["layers"]
        assert front[end][field] == pytest.approx(least[field], rel=1e-12)
    checked = run(*question, "--check", proof)
    assert checked.exit_code == 0, checked.stderr
    assert f"no mapping is missing on its front of {len(front)} mapping" in checked.stdout
    elsewhere = run(*question[:3], "dmazerunner-256", *question[4:], "--check", proof)
    assert "proves nothing that is checked" in elsewhere.stderr


def test_constraints_hold_on_the_tree_of_an_array(tmp_path):
    fixed = tmp_path / "fixed.yaml"
    question = ("map", ROWS, "--machine", "eyeriss", "--storage", "uneven", "--objective", "energy", "--json", "-")
    (free,) = json.loads(run(*question).stdout)["layers"]
    fixed.write_text("spatial: {pes.elements: {m: 1, x: 1, c: 1, f: 1}}")
    (layer,) = json.loads(run(*question, "--constraints", fixed).stdout)["layers"]
    assert layer["spatial"] == []
    assert layer["energy_pj"] > free["energy_pj"]
    fixed.write_text("memories: {lb: {bypass: [I]}}")
    (layer,) = json.loads(run(*question, "--constraints", fixed).stdout)["layers"]
    assert layer["memories"]["I"] == ["pes.registers", "ddr"]
    assert layer["energy_pj"] != free["energy_pj"]


def test_words_of_an_array_have_its_bits(tmp_path):
    """Whatever the layers say, as for the array's own mapper."""
    text = load_machine("eyeriss").yaml.replace("rows: 12\n", "rows: 12\n    first_bits: 8\n    result_bits: 32\n")
    machine = tmp_path / "narrow.yaml"
    machine.write_text(text)
    energy = ("--machine", machine, "--objective", "energy", "--json", "-")
    even = json.loads(run("map", PRODUCT, *energy).stdout)["layers"][0]["mappings"][0]["energy_pj"]
    (layer,) = json.loads(run("map", PRODUCT, "--storage", "uneven", *energy).stdout)["layers"]
    assert layer["energy_pj"] == pytest.approx(even, rel=1e-9)


@pytest.mark.parametrize(
    "options, message",
    [
        (("--machine", "eyeriss", "--spatial", "free"), "go with --storage uneven, or a tree as --machine"),
        (("--machine", "eyeriss", "--utilization", "0.5"), "go with --storage uneven, or a tree as --machine"),
        (("--machine", "gemmini", "--storage", "even"), "--storage goes with a PE array; the file of a tree says"),
        (("--machine", "gemmini", "--storage", "uneven"), "--storage goes with a PE array; the file of a tree says"),
        (("--storage", "uneven", "--objective", "energy", "--mode", "published"), "--mode"),
        (
            ("--storage", "uneven", "--objective", "energy", "--emit", "zigzag", "-o", "out"),
            "no words for networks",
        ),
    ],
)
def test_what_makes_no_sense_on_an_array_is_refused(options, message):
    result = run("map", PRODUCT, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
