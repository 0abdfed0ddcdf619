"""Small constants in packs: the same values, and one transfer for those of several operators."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.verified import machine_named, model
from tilestitch import api
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.by_hand import HandGroup, HandSchedule
from tilestitch.ir.choices import Stage
from tilestitch.ir.graph import Graph
from tilestitch.ir.transfers import SLAB_BYTES
from tilestitch.ir.verify import verify_graph
from tilestitch.passes import simplify
from tilestitch.passes.packed import SMALL_BYTES, packed
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.compile import resume_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.views import composed_graph
from tilestitch.schedule.tasks import packs_of
from tilestitch.sim.chip.interpret import interpret


def composed(network: str, *, small: bool = True) -> Graph:
    loaded = read_onnx(model(network, small=small), name=network, batch=1, weights={})
    return composed_graph(simplify(loaded, fold_bn=True))[0]


@pytest.mark.parametrize("network", ["resnet50", "vit-b16", "conformer"])
def test_a_packed_network_computes_the_same_to_the_bit(network):
    graph = composed(network)
    found, now = packed(graph)
    verify_graph(found)
    assert now == {op.name: (op.name,) for op in graph.operators}
    (given,) = graph.inputs
    x = np.random.default_rng(0).standard_normal(graph.tensors[given].shape).astype(np.float32)
    before, after = (interpret(one, {given: x}, wide=True) for one in (graph, found))
    for name in graph.outputs:
        np.testing.assert_array_equal(before[name], after[name])


def test_packs_take_one_transfer_each_and_hold_all_small_vectors():
    """In the order of the network, so that those of neighbours come together; their readers see several parts."""
    graph = composed("resnet50", small=False)
    found, _ = packed(graph)
    packs = [name for name in found.constants if name not in graph.constants]
    assert len(packs) > 1
    assert all(found.tensors[name].size_bytes <= SLAB_BYTES for name in packs)
    assert packs_of(found) == frozenset(packs)
    assert not packs_of(graph)
    left = [name for name, value in found.constants.items() if value.ndim == 1 and name not in packs]
    assert all(found.constants[name].nbytes > SMALL_BYTES for name in left)
    places = [read.axes[0].offset for op in found.operators for read in op.reads if read.tensor == packs[0]]
    assert places == sorted(places)
    assert sum(found.constants[name].size for name in packs) >= sum(
        graph.constants[name].size for name in graph.constants if name not in found.constants
    )


def test_a_constant_alone_or_that_is_an_output_is_not_packed():
    graph = composed("resnet50")
    kept = next(name for name, value in graph.constants.items() if value.ndim == 1)
    out = replace(graph, outputs=(*graph.outputs, kept))
    assert kept in packed(out)[0].constants
    alone = replace(graph, operators=graph.operators[:1], outputs=graph.operators[0].outputs)
    assert packed(alone)[0] is alone


def by_hand(network: str, machine: str) -> Compilation:
    """A schedule by hand with packs, and with norms that have no parameters, executed."""
    schedule = HandSchedule("packed", (HandGroup("all"),), folded=True, packed=True)
    done = api.compile(model(network, small=True), machine, strategy=schedule, batch=2, verify=True)
    assert given(done.report).outcome == "passed"
    return done


@pytest.mark.parametrize("machine", ["stcp920-paper", "toy", "ascend910"])
def test_one_transfer_brings_a_pack_for_all_that_read_it(machine):
    done = by_hand("conformer", machine)
    program, graph = given(done.program), given(done.graph)
    (pack,) = packs_of(graph)
    assert sum(len(op.reads) for op in graph.operators if any(read.tensor == pack for read in op.reads)) > 10
    brought = [home for home in given(done.schedule).homes if home.tensor == pack]
    assert len(brought) == 1
    text = program.text(limit=None)
    assert len(re.findall(rf"dma_in +copy [\d,]+ B \d+ cycles +<{re.escape(pack)} in ddr", text)) == 1


def test_a_schedule_with_packs_is_read_back_from_its_text():
    done = by_hand("vit-b16", "toy")
    start = started(stage_text(done, Stage.SCHEDULE), "file.json")
    again = resume_network(model("vit-b16", small=True), start, machine_named("toy"), Options())
    assert given(again.schedule).kernels == given(done.schedule).kernels
    assert packs_of(given(again.graph)) == packs_of(given(done.graph)) != frozenset()
