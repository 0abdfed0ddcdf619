"""The page of mappings on a machine tree without a browser: the nest, its energies and its ports are the mapping's."""

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from math import ceil, prod

import pytest

import tilestitch
from tests.helpers.pages import expect_alone, summary_of
from tests.helpers.small_tree import small_tree
from tilestitch.commands.map.sources import Nests
from tilestitch.commands.map.tree_json import tree_json
from tilestitch.commands.map.tree_machines import uneven_array
from tilestitch.commands.map.tree_page import tree_result
from tilestitch.commands.map.tree_run import map_on_tree, open_free_task
from tilestitch.formats.einsum import einsum_nest
from tilestitch.ir.choices import Objective
from tilestitch.mapping.network import RepeatedNest
from tilestitch.mapping.tree.chain import pace_of
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
from tilestitch.mapping.tree.tables import Sums
from tilestitch.report.html.page import Origin, result_page

WINDOW = "O[k,p] += I[c,p+r] * W[k,c,r]; k=8 c=4 p=12 r=3"


def mapped_on(folder, objective, sums=Sums.FULL):
    """A convolution on the small tree."""
    nest = einsum_nest(WINDOW)
    nests = Nests("window", (RepeatedNest(nest, (nest.name,) * 3),))
    task = open_free_task("window", str(small_tree(folder)), SpatialSpace(Ragged.NONE, 0.0), (), lambda _: nests)
    layer = replace(task.layers[0], final_bits=8)
    return map_on_tree(replace(task, layers=(layer,)), sums, objective=objective)


@pytest.fixture(scope="module", params=[(Objective.ENERGY, Sums.FULL), (Objective.EDP, Sums.FINAL)], ids=str)
def mapped(request, tmp_path_factory):
    """It, for two objectives."""
    return mapped_on(tmp_path_factory.mktemp("tree"), *request.param)


def drawn_in(mapped):
    """What the page draws of its layer."""
    [layer] = summary_of(result_page(tree_result(mapped), Origin("", (), ())))["layers"]
    return layer["mappings"]


def test_a_page_of_a_tree_is_the_report_and_asks_nobody_for_anything(mapped):
    """Every number of the JSON, unchanged, and the picture of the machine; two calls give the same bytes."""
    page = result_page(tree_result(mapped), Origin("tilestitch map", (), ()))
    assert page == result_page(tree_result(mapped), Origin("tilestitch map", (), ()))
    expect_alone(page)
    summary = summary_of(page)
    assert summary["report"] == json.loads(tree_json(mapped))
    assert summary["picture"].startswith("<svg")
    for memory in mapped.task.tree.memories:
        assert f">{memory.name}</text>" in summary["picture"]


def touched(array, sizes):
    """The indices of an operand that a tile touches, one by one."""
    return {
        tuple(sum(step * at[loop] for loop, step in terms) for terms in array.axes)
        for at in product(*(range(size) for size in sizes))
    }


def test_each_memory_holds_what_its_inner_loops_touch(mapped):
    """Counted index by index; the blocks together have all loops, and everything that is held fits."""
    [layer] = mapped.layers
    placed, found = layer.found.placed, layer.found
    nest, tree = placed.nest, placed.tree
    names = [loop.name for loop in nest.loops]
    [drawn] = drawn_in(mapped)
    loops = [(loop["name"], loop["count"]) for block in drawn["blocks"] for loop in block["loops"]]
    assert loops == [(names[loop], factor) for loop, factor in reversed(found.mapping.loops)]
    memories = {memory.name: memory for memory in tree.memories}
    room, seen = Counter(), set()
    inside = [prod(factor for loop, factor in found.mapping.loops if loop == at) for at in range(len(names))]
    for block in drawn["blocks"]:
        memory = memories[block["memory"]]
        for held in block["holds"]:
            array = placed.operands[held["operand"]]
            sizes = list(inside)
            for one in placed.unrolled:
                if one.axis in memory.serves:
                    sizes[one.loop] *= int(one.factor)
            count = len(touched(array, sizes))
            assert prod(held["extents"]) == count
            widths = {array.element_bits, placed.final_bits} if array is nest.write else {array.element_bits}
            assert held["room_bits"] in {count * width for width in widths}
            room[memory.name] += held["room_bits"]
            seen.add((held["operand"], memory.name))
        for loop in block["loops"]:
            inside[names.index(loop["name"])] //= loop["count"]
    assert inside == [1] * len(names)
    assert seen == {(at, one.name) for at in range(len(placed.operands)) for one in placed.chain(at)}
    for name, used in room.items():
        assert used <= memories[name].size_bits


def test_energies_and_ports_are_those_of_the_flows(mapped):
    """By memory and operand they add up to the report's; a port is occupied by its accesses, one after another."""
    [layer] = mapped.layers
    report = json.loads(tree_json(mapped))["layers"][0]
    [drawn] = drawn_in(mapped)
    names = drawn["operands"]
    cells = Counter()
    for flow in report["flows"]:
        cells[flow["memory"], flow["operand"]] += flow["energy_pj"]
    for row in drawn["energy"][:-1]:
        assert row["operands_pj"] == pytest.approx([cells[row["name"], name] for name in names])
    assert drawn["energy"][-1]["energy_pj"] == report["mac_pj"]
    assert sum(row["energy_pj"] for row in drawn["energy"]) == pytest.approx(report["energy_pj"])
    tree = mapped.task.tree
    for port in drawn["ports"]:
        assert 0 < port["busy_cycles"] <= drawn["latency_cycles"]
        [memory] = [one for one in tree.memories if one.name == port["memory"]]
        [own] = memory.ports
        accesses = sum(flow["accesses"] for flow in report["flows"] if flow["memory"] == memory.name)
        used = prod(int(one.factor) for one in layer.found.placed.unrolled if one.axis not in memory.serves)
        assert port["bits_per_cycle"] == own.width_bits
        # Accesses of less than the width count in part as energy, and each takes a cycle.
        assert port["busy_cycles"] >= ceil(accesses / used)
    assert {port["memory"] for port in drawn["ports"]} == {"rf", "buffer", "dram"}


def test_a_front_has_all_its_mappings(tmp_path):
    """In the order of the report, with the one of least EDP marked."""
    task = mapped_on(tmp_path, Objective.ENERGY)
    fixed = replace(task.task, space=None)
    placed = task.layers[0].found.placed
    from tilestitch.mapping.tree.search import pareto_front

    points = pareto_front((placed,), Sums.FULL, 10**6).points
    least = min(points, key=lambda one: one.price.edp_pj_cycles)
    layer = replace(task.layers[0], found=least, front=points)
    mapped = replace(task, task=fixed, layers=(layer,), objective=Objective.PARETO)
    [drawn] = summary_of(result_page(tree_result(mapped), Origin("", (), ())))["layers"]
    assert len(points) > 1
    assert [one["energy_pj"] for one in drawn["mappings"]] == [one.price.energy_pj for one in points]
    assert drawn["mappings"][drawn["chosen"]]["edp_pj_cycles"] == least.price.edp_pj_cycles


def test_a_page_of_an_array_has_its_networks_and_boxes():
    """Energies of all rows are the mapping's, networks have rates, and strided tiles are drawn with their gaps."""
    nest = einsum_nest("O[k,p] += I[c,3*p+r] * W[k,c,r]; k=8 c=4 p=12 r=2")
    nests = Nests("strided", (RepeatedNest(nest, (nest.name,)),))
    opened = uneven_array("eyeriss")
    task = open_free_task("strided", opened, SpatialSpace(Ragged.NONE, 0.0), (), lambda _: nests)
    mapped = map_on_tree(task)
    [drawn] = drawn_in(mapped)
    assert sum(row["energy_pj"] for row in drawn["energy"]) == pytest.approx(drawn["energy_pj"], rel=1e-12)
    assert "network inside lb" in [row["name"] for row in drawn["energy"]]
    rates = {(row["memory"], row["port"]): row["bits_per_cycle"] for row in drawn["ports"]}
    assert rates["network along pes.elements", "I"] == 16.0
    outermost = drawn["blocks"][0]["holds"]
    assert [one["extents"] for one in outermost if one["operand"] == 0] == [[4, 35]]


def test_engines_are_among_the_ports_of_a_page(tmp_path):
    """Each tile occupies them for their set-up and for its bits; they are busy for as long as the model says."""
    path = small_tree(tmp_path)
    engine = "dma: [{name: mover, joins: [dram, buffer], count: 2, setup_cycles: 5, bandwidth: 2 B/cycle}]\n"
    path.write_text(path.read_text() + engine)
    found = tilestitch.map(WINDOW, path)
    [drawn] = summary_of(found.to_html())["layers"][0]["mappings"]
    [mover] = [port for port in drawn["ports"] if port["port"] == "mover"]
    assert (mover["memory"], mover["bits_per_cycle"]) == ("dram to buffer", 32)
    pace = pace_of(found[0].found.placed, found[0].found.mapping)
    engines = len(found[0].found.placed.tree.memories)
    assert mover["busy_cycles"] == pace.busy[engines, 0] > 0
