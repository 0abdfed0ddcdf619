"""Mappings of other programs on machine trees: words and energies are those of the programs."""

from dataclasses import replace

import pytest

from tests.helpers.given_trees import (
    CHANNELS_SPREAD,
    FILTERS_SPREAD,
    FORGE_ARCH,
    FORGE_BITS,
    FORGE_MAPPING,
    FORGE_PJ,
    FORGE_WORKLOAD,
    TIMELOOP_ARCH,
    TIMELOOP_ERT,
    TIMELOOP_PROBLEM,
    TIMELOOP_WORDS,
)
from tilestitch.base.errors import InputError
from tilestitch.formats.accelforge.mapping import accelforge_row
from tilestitch.formats.accelforge.read_workload import accelforge_layers
from tilestitch.formats.accelforge.tree_machine import accelforge_tree
from tilestitch.formats.foreign_price import foreign_price
from tilestitch.formats.foreign_tree import energy_table
from tilestitch.formats.timeloop.nest import timeloop_problem
from tilestitch.formats.timeloop.tree_machine import timeloop_tree, with_sliding_windows
from tilestitch.formats.timeloop.tree_mapping import timeloop_row
from tilestitch.formats.tree_row import mapping_of_row, room_faults
from tilestitch.hardware.tree import Flow
from tilestitch.mapping.tree.chain import price
from tilestitch.mapping.tree.placed import PlacedNest

WORD = 8


def _on_timeloop(mapping, arch=TIMELOOP_ARCH):
    found = timeloop_tree(arch, "arch.yaml", energy_table(TIMELOOP_ERT, "ert.yaml"))
    nest = timeloop_problem(TIMELOOP_PROBLEM, "problem.yaml")
    reads = tuple(replace(array, element_bits=WORD) for array in nest.reads)
    nest = replace(nest, reads=reads, write=replace(nest.write, element_bits=WORD))
    bare = PlacedNest(nest, WORD, tuple(array.name for array in nest.operands), (), with_sliding_windows(found.tree))
    return mapping_of_row(bare, *timeloop_row(mapping, "mapping.yaml", bare, found.meshes))


def _on_forge(mapping=FORGE_MAPPING, workload=FORGE_WORKLOAD):
    tree = accelforge_tree(FORGE_ARCH, "arch.yaml", names={"I": "input", "O": "output"}).tree
    (nest,) = accelforge_layers(workload, "workload.yaml")
    bare = PlacedNest(nest, WORD, ("I", "W", "O"), (), tree)
    return mapping_of_row(bare, *accelforge_row(mapping, "mapping.yaml", bare))


def _moved(placed, priced):
    """Bits by memory, operand and direction, of all instances."""
    found = {}
    for flow in priced.flows:
        memory = next(one for one in placed.tree.memories if one.name == flow.memory)
        key = flow.memory, placed.operands[flow.operand].name, flow.flow
        found[key] = found.get(key, 0) + flow.accesses * memory.ports[0].width_bits
    return found


@pytest.mark.parametrize("mapping", TIMELOOP_WORDS, ids=["channels", "filters"])
def test_a_mapping_moves_the_words_that_timeloop_counts(mapping):
    """Every memory and data space; what neighbouring windows share is not moved again."""
    placed, found = _on_timeloop(mapping)
    moved = _moved(placed, foreign_price("Timeloop", placed, found))
    for (memory, space), (reads, fills, updates) in TIMELOOP_WORDS[mapping].items():
        instances = 1 if memory == "MainMemory" else 16
        words = [moved.get((memory, space, flow), 0) / WORD / instances for flow in Flow]
        by_flow = dict(zip(Flow, words, strict=True))
        assert by_flow[Flow.FEED] + by_flow[Flow.DRAIN] == reads, (memory, space)
        assert (by_flow[Flow.FILL], by_flow[Flow.COLLECT]) == (fills, updates), (memory, space)


def test_a_mapping_costs_what_timeloop_says():
    """13,011.43 fJ a multiply-accumulate without 8.83 of leakage; 36 words of a buffer round up to 5 accesses there."""
    placed, found = _on_timeloop(CHANNELS_SPREAD)
    rounded = 0.5 * 30.878292 * 16
    leakage = 42.32 + 391.84
    theirs = foreign_price("Timeloop", placed, found).energy_pj + rounded + leakage
    assert theirs / placed.nest.macs * 1000 == pytest.approx(13_011.43, abs=0.005)


def test_what_we_charge_besides_is_named():
    """First sums at the innermost memory, and what is read to be handed upwards."""
    placed, found = _on_timeloop(FILTERS_SPREAD)
    ours, theirs = _moved(placed, price(placed, found)), _moved(placed, foreign_price("Timeloop", placed, found))
    different = {key for key in ours if ours[key] != theirs.get(key, 0)}
    assert different == {
        ("RegisterFile", "Outputs", Flow.FEED),
        ("RegisterFile", "Outputs", Flow.DRAIN),
        ("GlobalBuffer", "Outputs", Flow.DRAIN),
    }


def test_a_mapping_of_accelforge_moves_the_bits_that_it_counts():
    """Also where a loop outside a place leaves its tensor alone: it is moved again."""
    placed, found = _on_forge()
    assert room_faults(placed, found) == []
    theirs = foreign_price("AccelForge", placed, found)
    moved = _moved(placed, theirs)
    for (memory, tensor), (read, written) in FORGE_BITS.items():
        by_flow = [moved.get((memory, tensor, flow), 0) for flow in (Flow.FEED, Flow.DRAIN, Flow.FILL, Flow.COLLECT)]
        assert (sum(by_flow[:2]), sum(by_flow[2:])) == (read, written), (memory, tensor)
    assert theirs.energy_pj == pytest.approx(FORGE_PJ, rel=1e-7)  # it prints single precision
    again = _moved(placed, price(placed, found))
    assert again["Main", "W", Flow.FEED] < moved["Main", "W", Flow.FEED]


def test_what_is_not_kept_goes_past():
    text = CHANNELS_SPREAD + "- {target: GlobalBuffer, type: dataspace, bypass: [Weights], keep: [Inputs, Outputs]}\n"
    placed, found = _on_timeloop(text)
    assert [memory.name for memory in placed.chain(1)] == ["RegisterFile", "MainMemory"]
    assert [len(cuts) for cuts in found.cuts] == [3, 2, 3]


def test_the_split_of_a_mesh_says_what_goes_along_x_and_along_y():
    arch = TIMELOOP_ARCH.replace("{meshX: 16}", "{meshX: 8, meshY: 2}")
    mapping = CHANNELS_SPREAD.replace("C=16", "C=8").replace("K=1,C=8", "K=2,C=8").replace("K=32,C=2", "K=16,C=4")
    text = mapping.replace("C=8, permutation", "C=8, permutation").replace(
        'K=2,C=8", permutation: PRKC', 'K=2,C=8", permutation: CPRK, split: 1'
    )
    placed, _ = _on_timeloop(text, arch)
    assert [(one.axis, placed.nest.loops[one.loop].name, one.factor) for one in placed.unrolled] == [
        ("PE_X", "C", 8),
        ("PE_Y", "K", 2),
    ]
    with pytest.raises(InputError, match="the field split is missing"):
        _on_timeloop(mapping, arch)


def test_a_tile_that_is_too_large_is_said():
    placed, found = _on_timeloop(
        CHANNELS_SPREAD.replace("R=3,P=1,K=32", "R=3,P=1,K=1").replace("P=0,K=1", "P=0,K=32").replace("RPKC", "RPKC")
    )
    (fault,) = room_faults(placed, found)
    assert "RegisterFile holds 512 bits; the mapping puts 4,480 there (Inputs 128, Weights 256, Outputs 4,096)" in fault


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("target: GlobalBuffer", "target: L2", "no such target for temporal; known: RegisterFile, GlobalBuffer"),
        ("R=3,P=1,K=32", "R=2,P=1,K=32", "the factors of R multiply to 2; expected its extent, 3"),
        ("P=0", "P=0,K=0", "twice"),
        ("K=1,C=16", "K=1,C=32", "the factors of C multiply to 64"),
        ("bypass: [Weights, Inputs, Outputs]", "factors: C=2", "a mesh alone runs nothing"),
        ("type: dataspace", "type: datatypes", "expected temporal, spatial"),
        ("RPKC", "RPK", ""),
        ("target: RegisterFile, type: temporal", "target: MainMemory, type: temporal", "MainMemory are there twice"),
        ("mapping:", "map:", "the field mapping is missing"),
    ],
)
def test_a_mapping_of_timeloop_that_is_none_is_refused_with_its_place(old, new, message):
    assert old in CHANNELS_SPREAD
    text = CHANNELS_SPREAD.replace(old, new)
    if not message:
        _on_timeloop(text)  # C has the factor 1 there
        return
    with pytest.raises(InputError, match=message) as refused:
        _on_timeloop(text)
    assert str(refused.value).startswith("mapping.yaml: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("component: Register}", "component: Rf}", "does not keep W in Rf; it does in Register, Main"),
        ("tensors: [W]", "tensors: [V]", "V is no tensor of the layer; known: I, W, O"),
        ("rank_variable: m, tile_shape: 8", "rank_variable: m, tile_shape: 5", "5 does not divide the 16 iterations"),
        ("rank_variable: m, tile_shape: 1", "rank_variable: m, tile_shape: 2", "the factors of m multiply to 8"),
        ("rank_variable: k", "rank_variable: q", "there is no loop 'q'; known: m, k, n"),
        ("name: rows", "name: row", "has no fan-out row of PE; known: PE_rows, PE_columns"),
        ("tile_shape: 4, name: rows", "tile_shape: 2, name: rows", "8 along PE_rows, which has 4"),
        ("!Storage {tensors: [W], component: Register}", "!Toll {tensors: [W], component: Register}", "has no tolls"),
        ("  - !Compute {einsum: product, component: MAC}", "", "expected !Compute as the last node"),
        ("tensors: [O], component: Buffer", "tensors: [W], component: Buffer", "does not keep W in Buffer"),
        ("  - !Storage {tensors: [I, W, O], component: Main}", "", "I is not kept in Main, its outermost memory"),
        ("tensors: [I, O], component: Register", "tensors: [I, O, W], component: Register", "kept in Register twice"),
        ("tile_shape: 12}", "tile_shape: 12, initial_tile_shape: 4}", "does not divide its loop"),
        (
            "  - !Temporal {rank_variable: n, tile_shape: 12}",
            "  - !Storage {tensors: [W], component: Register}",
            "Register is inside PE_rows",
        ),
    ],
)
def test_a_mapping_of_accelforge_that_is_none_is_refused_with_its_place(old, new, message):
    assert old in FORGE_MAPPING
    text = FORGE_MAPPING.replace(old, new)
    if new.startswith("  - !Storage {tensors: [W]"):
        text = text.replace(
            "  - !Storage {tensors: [W], component: Register}\n  - !Temporal {rank_variable: n, t",
            "  - !Temporal {rank_variable: n, t",
        )
    with pytest.raises(InputError, match=message) as refused:
        _on_forge(text)
    assert str(refused.value).startswith("mapping.yaml: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("0 <= m < 16, ", "", "the bounds of m are missing"),
        ("0 <= m < 16", "m < 16", "expected bounds such as 0 <= m < 64"),
        ("output: true", "output: false", "expected one tensor with output: true"),
        ("{M: m, K: k}", "{M: m / 2, K: k}", "a rank variable or a sum"),
        ("einsums:", "einsum:", "unknown field"),
    ],
)
def test_a_workload_of_accelforge_that_is_none_is_refused_with_its_place(old, new, message):
    with pytest.raises(InputError, match=message) as refused:
        accelforge_layers(FORGE_WORKLOAD.replace(old, new, 1), "workload.yaml")
    assert str(refused.value).startswith("workload.yaml: ")


def test_a_workload_of_accelforge_may_have_sums_and_sizes_of_ranks():
    text = """
workload:
  rank_sizes: {P: 16, R: 3, K: 4}
  bits_per_value: {All: 8}
  einsums:
  - name: conv
    tensor_accesses:
    - {name: filters, projection: [k, r]}
    - {name: image, projection: {X: 2 * p + r}}
    - {name: sums, projection: [k, p], output: true}
    renames: {input: image, weight: filters, output: sums}
"""
    (nest,) = accelforge_layers(text, "workload.yaml")
    assert [array.name for array in nest.operands] == ["image", "filters", "sums"]
    assert nest.reads[0].shape == (33,)
    assert {array.element_bits for array in nest.operands} == {8}


def test_one_file_of_timeloop_s_front_end_has_the_problem_beside_all_else():
    more = "dumped_by_timeloop_front_end: true\narchitecture_constraints: {targets: []}\ncompound_components: {}\n"
    nest = timeloop_problem(TIMELOOP_PROBLEM, "parsed-processed-input.yaml")
    assert timeloop_problem(TIMELOOP_PROBLEM + more, "parsed-processed-input.yaml") == nest
