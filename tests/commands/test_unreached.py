"""Names in a machine's file that no layer reaches, and what networks say of operands that they do not carry."""

import json
from dataclasses import replace

import pytest

from tests.helpers.command import run
from tests.helpers.zigzag_trees import TREE
from tilestitch.commands.map.unreached import unreached_notes
from tilestitch.hardware.preset_files import preset_names
from tilestitch.hardware.tree_load import load_tree, parse_tree
from tilestitch.ir.loop_nest import product
from tilestitch.mapping.tree.bound import bound

PRODUCT = "C[M,N] += A[M,K] * B[K,N]; M=8 N=8 K=8"
PLAIN = TREE.replace(", loops: [C]", "")


def notes(model, text, tmp_path, *more):
    (tmp_path / "small.yaml").write_text(text)
    result = run("map", model, "--machine", tmp_path / "small.yaml", "--objective", "energy", "--json", "-", *more)
    assert result.exit_code == 0, result.output
    return [note for note in json.loads(result.stdout)["notes"] if note.startswith(("memory", "axis"))]


@pytest.mark.parametrize(
    "old, new, note",
    [
        (
            "operands: [O]",
            "operands: [o]",
            "memory rf: it holds o, and no operand of these layers has that name; they are I, O, W",
        ),
        (
            "operands: [O]",
            "operands: [O, X]",
            "memory rf: it holds X, and no operand of these layers has that name; they are I, O, W",
        ),
        (
            "name: D2, size: 8",
            "name: D2, size: 8, loops: [k]",
            "axis D2: no layer has a loop k, which it takes, so that nothing is spread along it; they have M, N, K",
        ),
        ("name: D2, size: 8", "name: D2, size: 8, loops: [K, c]", None),
        (
            "name: D2, size: 8",
            "name: D2, size: 8, networks: [{operands: [O], forwarding: true, multicast: false}]",
            "axis D2: its network of O says multicast and forwarding, which is of inputs alone",
        ),
        (
            "name: D2, size: 8",
            "name: D2, size: 8, networks: [{operands: [I, W], passes_sums: true}]",
            "axis D2: its network of I, W says passes_sums, which is of results alone",
        ),
        ("name: D2, size: 8", "name: D2, size: 8, networks: [{operands: [W, O], passes_sums: true}]", None),
    ],
)
def test_what_no_layer_reaches_is_noted(old, new, note, tmp_path):
    assert old in PLAIN
    assert notes(PRODUCT, PLAIN.replace(old, new), tmp_path) == ([note] if note else [])


def test_fused_operators_have_the_same_notes(tmp_path):
    chain = "S[M,N] += Q[M,K] * R[K,N]; O[M,E] += S[M,N] * V[N,E]; M=8 N=8 K=8 E=8"
    (note,) = notes(chain, PLAIN.replace("operands: [O]", "operands: [o]"), tmp_path, "--fuse", "2")
    assert note.startswith("memory rf: it holds o, and no operand")


def test_an_operand_of_a_role_that_the_layers_lack_is_no_slip():
    """Layers without weights leave the memories of these empty, and nothing is said of them."""
    tree = parse_tree(PLAIN, "small.yaml")
    placed = bound(product("one", m=4, n=4, k=4), 8, tree)
    assert unreached_notes(tree, [replace(placed, homes=("I", "O"))], ["m"]) == ()


@pytest.mark.parametrize("name", preset_names())
def test_machines_that_come_along_are_reached(name):
    tree = load_tree(name)
    placed = bound(product("one", m=4, n=4, k=4), 8, tree)
    assert unreached_notes(tree, [placed], ["m", "n", "k"]) == ()
