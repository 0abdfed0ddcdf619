"""Nests and mappings as `map --json` prints them read back as the same nests and mappings."""

import json
from dataclasses import replace
from random import Random

import pytest

from tests.helpers.nests import NESTS, random_machine, random_mapping, random_nest
from tilestitch import api
from tilestitch.commands.map.map_json import evaluated_json, mapped_json
from tilestitch.commands.map.sources import MachineSource, Nests
from tilestitch.formats.einsum import einsum_nest, einsum_text
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, LoopOperand, SlidingWindow, convolution
from tilestitch.mapping.evaluate import price
from tilestitch.mapping.json_lines import mapping_of
from tilestitch.mapping.network import MapOptions, RepeatedNest, layers_of, map_layers
from tilestitch.passes import simplify


def assert_reads_back(nest: LoopNest) -> None:
    """But for the kind, on which nothing depends but printing."""
    found = einsum_nest(einsum_text(nest), nest.name)
    assert replace(found, kind=nest.kind) == nest
    assert einsum_text(found) == einsum_text(nest)


@pytest.mark.parametrize("seed", range(100))
def test_a_printed_mapping_reads_back(seed: int):
    """Random nests of every kind, exact and ragged factors in any order, and the same price again."""
    rng = Random(seed)
    nest, machine = random_nest(rng), random_machine(rng)
    assert_reads_back(nest)
    for ragged in (False, True):
        mapping = random_mapping(nest, rng, ragged=ragged)
        for mode in (CostMode.DEFAULT,) if ragged else CostMode:
            priced = price(nest, machine, mapping, mode)
            found = json.loads(evaluated_json(nest, MachineSource(machine), mapping, priced, mode))
            again = einsum_nest(found["nest"])
            assert mapping_of(again, found, mode) == mapping
            assert price(again, machine, mapping, mode) == priced


@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
def test_a_printed_nest_reads_back(nest: LoopNest):
    """Strides and dilations, more padding than is read, elements of several sizes, steps backwards."""
    assert_reads_back(nest)
    reads = [replace(read, element_bits=bits) for read, bits in zip(nest.reads, (4, 16), strict=True)]
    assert_reads_back(replace(nest, reads=tuple(reads), write=replace(nest.write, element_bits=32)))


def test_a_printed_nest_with_steps_backwards_reads_back():
    nest = convolution("back", n=1, m=2, c=2, output=(4, 4), window=SlidingWindow((3, 3), dilation=(2, 1)))
    index = ((3, 1), (5, -2))
    image = LoopOperand("I", (*nest.reads[0].axes[:2], index, nest.reads[0].axes[3]), (1, 2, 12, 6), 8)
    turned = replace(nest, reads=(image, nest.reads[1]))
    assert "I[N,C,Ox-2*Fx,Oy+Fy]" in einsum_text(turned)
    assert einsum_text(turned).endswith(" I[1,2,12,6]:8")
    assert_reads_back(turned)


@pytest.mark.parametrize("name", ["resnet18:small", "mobilenet-v2:small", "bert-base-16:small", "unet:small"])
def test_the_layers_of_a_network_read_back(name: str):
    """Grouped, depthwise and strided convolutions, products and their batches."""
    layers, _ = layers_of(simplify(api.load_graph(name, batch=2)))
    for layer in layers:
        assert_reads_back(layer.nest)


def test_what_map_prints_of_a_network_reads_back():
    """The best three mappings of two layers."""
    nests = [convolution("a", n=1, m=4, c=3, output=(6, 6), window=SlidingWindow((3, 3)), padded=(9, 9)), NESTS[-2]]
    layers = tuple(RepeatedNest(nest, (nest.name,)) for nest in nests)
    source, options = MachineSource(random_machine(Random(0))), MapOptions(top=3)
    mapped = map_layers(layers, source.machine, options)
    found = json.loads(mapped_json(Nests("two", layers), source, options, mapped))
    for one, layer in zip(mapped, found["layers"], strict=True):
        nest = einsum_nest(layer["nest"], layer["name"])
        assert replace(nest, kind=layer["kind"]) == one.layer.nest
        mappings: list[LoopMapping] = [mapping_of(nest, row, options.mode) for row in layer["mappings"]]
        assert mappings == [each.mapping for each in one.found]
