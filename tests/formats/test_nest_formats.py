"""Loop nests, mappings and machines from the files of other programs mean what they mean there."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.nest_files import (
    DMAZERUNNER_LAYERS,
    DMAZERUNNER_MACHINE,
    DMAZERUNNER_MAPPING,
    EINSUM,
    TIMELOOP_LAYER,
    TIMELOOP_PROBLEM,
    ZIGZAG_LAYERS,
    spoilt,
)
from tilestitch.base.errors import InputError
from tilestitch.formats.dmazerunner.machine import dmazerunner_machine
from tilestitch.formats.dmazerunner.nest import dmazerunner_layers, dmazerunner_mapping
from tilestitch.formats.einsum import einsum_nest
from tilestitch.formats.timeloop.machine import timeloop_machine
from tilestitch.formats.timeloop.mapping import timeloop_mapping
from tilestitch.formats.timeloop.nest import timeloop_problem
from tilestitch.formats.zigzag.machine import zigzag_machine
from tilestitch.formats.zigzag.mapping import zigzag_mapping
from tilestitch.formats.zigzag.nest import zigzag_layers
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution, depthwise, product

CONV5_2 = convolution("conv5_2", n=4, m=512, c=512, output=(7, 7), window=SlidingWindow((3, 3)))


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(InputError) as error:
        read()
    return str(error.value)


def same_loops(nest: LoopNest, other: LoopNest) -> bool:
    """Equal in all that a cost depends on."""
    return replace(nest, name="", kind="") == replace(other, name="", kind="")


@pytest.mark.parametrize(
    "text, nest",
    [
        (
            EINSUM,
            convolution(
                "", n=1, m=64, c=3, output=(112, 112), window=SlidingWindow((7, 7), stride=(2, 2)), padded=(230, 230)
            ),
        ),
        (
            "O[N,C,Ox,Oy] += I[N,C,Ox+2*Fx,3*Oy+Fy] * W[M-0,C,Fx,Fy]; N=2, M=1, C=8, Ox=5, Oy=6, Fx=3, Fy=2",
            replace(
                depthwise("", n=2, c=8, output=(5, 6), window=SlidingWindow((3, 2), stride=(1, 3), dilation=(2, 1))),
                reads=(
                    depthwise(
                        "", n=2, c=8, output=(5, 6), window=SlidingWindow((3, 2), stride=(1, 3), dilation=(2, 1))
                    ).reads[0],
                    replace(
                        depthwise("", n=2, c=8, output=(5, 6), window=SlidingWindow((3, 2))).reads[1],
                        axes=(((1, 1),), ((2, 1),), ((5, 1),), ((6, 1),)),
                    ),
                ),
            ),
        ),
        ("C[B,M,N]+=A[B,M,K]*B[B,K,N];B=3;M=4;N=5;K=6", product("", m=4, n=5, k=6, batch=3)),
        (" C [ M , N ] += A[M,K] * B[K,N] ; M = 4 N = 5 K = 6 ", product("", m=4, n=5, k=6)),
    ],
)
def test_a_line_of_einsum_is_the_nest_of_the_constructor(text, nest):
    """One line of text describes the same loops and arrays as the function for that operator."""
    assert same_loops(einsum_nest(text), nest)


def test_an_einsum_line_may_have_any_number_of_arrays_and_say_their_bits():
    """One array that is read, or four; bits and shapes stand where they are said and nowhere else."""
    nest = einsum_nest("S[] += A[i]; i=5 A:8")
    assert [operand.element_bits for operand in nest.operands] == [8, 16]
    assert nest.write.shape == ()
    nest = einsum_nest("Z[i,l] += A[i,j]*B[j,k]*C[k,l]*D[l]; i=2 j=3 k=4 l=5 Z:32 B[3,7]:4")
    assert [operand.name for operand in nest.operands] == ["A", "B", "C", "D", "Z"]
    assert [operand.element_bits for operand in nest.operands] == [16, 4, 16, 16, 32]
    assert nest.reads[1].shape == (3, 7)


@pytest.mark.parametrize(
    "index, shape",
    [
        ("x+f", 9),
        ("x+f-1", 9),
        ("x+f+2", 11),
        ("2*x+f", 16),
        ("x+x+f", 16),
        ("f*2+x", 10),
        ("x-f", 10),
        ("7-x", 8),
        ("5", 6),
    ],
)
def test_an_array_without_a_shape_reaches_from_its_least_index_to_its_greatest(index, shape):
    """It begins at 0, or below where an index is below: what is read of padding is in memory."""
    used = index if "f" in index else f"{index}+0"
    nest = einsum_nest(f"O[x] += I[{used}] * W[f,x]; x=8 f={3 if index == 'x-f' else 2}")
    assert nest.reads[0].shape == (shape,)


def test_dmazerunner_layers_are_the_nests_of_its_model():
    """Every kind of layer, each axis with its own stride, instances counted, in the order of its program."""
    assert dmazerunner_layers(DMAZERUNNER_LAYERS, "model.json") == [
        (
            convolution(
                "conv1",
                n=4,
                m=64,
                c=3,
                output=(112, 112),
                window=SlidingWindow((7, 7), stride=(2, 2)),
                padded=(230, 230),
            ),
            1,
        ),
        (CONV5_2, 3),
        (product("fc", m=4, n=1000, k=512), 1),
        (
            depthwise(
                "dw", n=1, c=32, output=(112, 56), window=SlidingWindow((3, 3), stride=(1, 2)), padded=(114, 113)
            ),
            1,
        ),
    ]


def test_a_printed_mapping_of_dmazerunner_is_read_as_it_is_written():
    """Tuples go by level and canonical loop, orders from the outermost; labels and the kind of brackets say nothing."""
    mapping = dmazerunner_mapping(DMAZERUNNER_MAPPING, CONV5_2, "mapping.txt")
    assert mapping == LoopMapping(
        dram=(1, 8, 64, 1, 1, 1, 1),
        spm=(1, 1, 8, 1, 1, 1, 1),
        rf=(4, 16, 1, 1, 1, 3, 3),
        spatial=(1, 4, 1, 7, 7, 1, 1),
        dram_order=(0, 1, 3, 4, 5, 6, 2),
        spm_order=(3, 4, 0, 1, 5, 6, 2),
    )
    bare = "\n".join(line.split(":")[1] for line in DMAZERUNNER_MAPPING.splitlines()).replace("'", "")
    assert dmazerunner_mapping(bare, CONV5_2, "mapping.txt") == mapping


def test_the_loops_of_a_product_have_dmazerunners_names_too():
    """Its X and Y are our M and N."""
    text = "((1,2,4),(2,1,1),(1,5,1),(2,1,1)) (['X','Y','K'],['K','Y','X'])"
    mapping = dmazerunner_mapping(text, product("fc", m=4, n=10, k=4), "mapping.txt")
    assert (mapping.dram_order, mapping.spm_order) == ((0, 1, 2), (2, 1, 0))


def test_dmazerunners_machine_is_our_preset_of_it():
    """The file that its program comes with gives the preset, and so does a file that leaves its defaults out."""
    preset = array_of_core(load_machine("dmazerunner-256"))
    for text in (DMAZERUNNER_MACHINE, '{"arch_details": {}, "arch_basic": {}}'):
        machine, options = dmazerunner_machine(text, "arch.json")
        assert replace(machine, name=preset.name, operand_bits=None) == preset
        assert options == ()


def test_options_of_a_search_are_named():
    """They come back with the machine, so that nobody passes over them in silence."""
    text = '{"arch_details": {}, "arch_basic": {"PRUNE_NO_REDUCTION": true, "PE_UTILIZATION": 0.8}}'
    assert dmazerunner_machine(text, "arch.json")[1] == (("PE_UTILIZATION", "0.8"), ("PRUNE_NO_REDUCTION", "true"))


def reordered(nest: LoopNest, names: str, arrays: dict[str, str]) -> LoopNest:
    """The nest with its loops in another order and under other names, and its arrays under other names."""
    old = [pair.split("=")[0] for pair in names.split()]
    numbers = {next(n for n, loop in enumerate(nest.loops) if loop.name == name): at for at, name in enumerate(old)}
    loops = tuple(
        replace(nest.loops[number], name=pair.split("=")[1])
        for number, pair in zip(numbers, names.split(), strict=True)
    )
    reads = [
        replace(
            array,
            name=arrays[array.name],
            axes=tuple(tuple(sorted((numbers[loop], step) for loop, step in terms)) for terms in array.axes),
        )
        for array in nest.operands
    ]
    return replace(nest, loops=loops, reads=tuple(reads[:-1]), write=reads[-1])


def sorted_terms(nest: LoopNest) -> LoopNest:
    """The nest with the terms of each index in the order of the loops."""
    arrays = [replace(array, axes=tuple(tuple(sorted(terms)) for terms in array.axes)) for array in nest.operands]
    return replace(nest, reads=tuple(arrays[:-1]), write=arrays[-1])


def test_a_problem_of_timeloop_is_the_nest_of_its_projections():
    """A convolution written as sums of products is the convolution of our constructor, under Timeloop's names."""
    conv = convolution("conv2D", n=1, m=32, c=3, output=(112, 112), window=SlidingWindow((3, 3), stride=(2, 2)))
    expected = reordered(conv, "C=C M=M Fx=R Fy=S N=N Ox=P Oy=Q", {"I": "Inputs", "W": "Weights", "O": "Outputs"})
    weights = replace(expected.reads[1], axes=(((0, 1),), ((1, 1),), ((2, 1),), ((3, 1),)), shape=(3, 32, 3, 3))
    outputs = replace(expected.write, axes=(((4, 1),), ((1, 1),), ((6, 1),), ((5, 1),)))
    expected = replace(expected, reads=(expected.reads[0], weights), write=outputs)
    assert same_loops(sorted_terms(timeloop_problem(TIMELOOP_PROBLEM, "p.yaml")), expected)
    older = TIMELOOP_PROBLEM.replace("data_spaces", "data-spaces").replace("read_write", "read-write")
    assert timeloop_problem(older, "p.yaml") == timeloop_problem(TIMELOOP_PROBLEM, "p.yaml")


def test_a_layer_of_cosa_has_the_shape_of_timeloops_cnn_layer():
    """Sizes alone mean the seven loops of a convolution with stride and dilation."""
    nest = timeloop_problem(TIMELOOP_LAYER, "conv1.yaml", "conv1")
    assert [(loop.name, loop.extent) for loop in nest.loops] == [
        *(("R", 7), ("S", 7), ("P", 112), ("Q", 112), ("C", 3), ("K", 64), ("N", 1))
    ]
    assert nest.reads[0].axes == (((6, 1),), ((4, 1),), ((0, 1), (2, 2)), ((1, 1), (3, 2)))
    assert [array.shape for array in nest.operands] == [(1, 3, 229, 229), (3, 64, 7, 7), (1, 64, 112, 112)]
    assert timeloop_problem(TIMELOOP_LAYER.replace("  Wstride: 2\n", ""), "x").reads[0].shape == (1, 3, 118, 229)


def test_layers_of_zigzag_are_the_nests_of_their_equations():
    """Windows come from the relations, padding from the sizes before it, and an array without bits is none."""
    conv, pool, add = zigzag_layers(ZIGZAG_LAYERS, "layers.yaml")
    expected = convolution(
        "", n=1, m=64, c=3, output=(112, 112), window=SlidingWindow((7, 7), stride=(2, 2)), padded=(230, 229)
    )
    names = "N=B M=K C=C Ox=OY Oy=OX Fx=FY Fy=FX"
    expected = sorted_terms(reordered(expected, names, {"I": "I", "W": "W", "O": "O"}))
    reads = tuple(replace(array, element_bits=8) for array in expected.reads)
    assert same_loops(sorted_terms(conv), replace(expected, reads=reads))
    assert [array.name for array in pool.operands] == ["I", "O"]
    assert (pool.name, pool.macs, pool.reads[0].shape) == ("layer1", 64 * 56 * 56 * 9, (1, 64, 113, 113))
    assert [array.name for array in add.operands] == ["I", "W", "O"]
    assert add.macs == 64 * 56 * 56


WRONG_LINES = (
    "",
    "O",
    "O[n",
    "O[n] = I[n]; n=3",
    "O[n] += ; n=3",
    "O[n] += I[n]",
    "O[n] += I[n] W[n]; n=3",
    "O[n] += I[q*n]; n=4",
    "O[n] += I[n*n]; n=4",
    "O[n] += I[(n)]; n=4",
    "O[n] += I[n+]; n=4",
    "O[n] += I[n,]; n=4",
    "O[n] += I[0*n]; n=4",
    "O[n] += I[n-n]; n=4",
    "O[n] += I[9999999*n]; n=4",
    "O[n] += I[k]; n=4",
    "O[n] += O[n]; n=4",
    "O[n] += I[n]*I[n]; n=4",
    "O[n] += I[n]; n=4 n=5",
    "O[n] += I[n]; n=4 k=5",
    "O[n] += I[n]; n=0",
    "O[n] += I[n]; n=-1",
    "O[n] += I[n]; n=99999999999999999999",
    "O[n] += I[n]; n 4",
    "O[n] += I[n]; n=4 W:8",
    "O[n] += I[n]; n=4 I:65",
    "O[n] += I[n]; n=4 I:8 I[4]",
    "O[n] += I[n]; n=4 I[3]",
    "O[n] += I[n]; n=4 I[4,4]",
    "O[i,j,k,l] += A[i]*B[j]*C[k]*D[l]; i=16777216 j=16777216 k=16777216 l=1",
    "O[n] += I[a+b+c+d+e+f+g+h+i+j+k+l+m+o+p+q]; n=1 a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 o=1 p=1 q=1",
    "O[n] += I[n] § 2; n=4",
    "x" * 5000,
)

WRONG_LAYERS = (
    "",
    "[]",
    "{}",
    '{"CONV": [], "CONV": []}',
    '{"CONV": [{"name": NaN}]}',
    '{"POOL": []}',
    '{"GEMM": [{"name": "a", "size_tensor_A": [4, 5]}]}',
    '{"GEMM": [{"name": "a", "size_tensor_A": [4, 5], "size_tensor_B": [6, 7]}]}',
    '{"GEMM": [{"name": "a", "size_tensor_A": [4, 5], "size_tensor_B": [5, 0]}]}',
    '{"GEMM": [{"name": "a", "size_tensor_A": [4, 5, 6], "size_tensor_B": [5, 6]}]}',
    '{"GEMM": [{"name": "a", "size_tensor_A": [4, 5.5], "size_tensor_B": [5, 6]}]}',
    '{"GEMM": [{"name": "a", "size_tensor_A": [4, 5], "size_tensor_B": [5, 6], "instances": 0}]}',
    '{"GEMM": [{"name": "a", "size_tensor_A": [4, 5], "size_tensor_B": [5, 6], "strides": [1, 1]}]}',
    '{"CONV": [{"name": "a", "size_tensor_A": [1, 3, 9, 9], "size_tensor_B": [4, 2, 3, 3], "strides": [1, 1]}]}',
    '{"CONV": [{"name": "a", "size_tensor_A": [1, 3, 2, 9], "size_tensor_B": [4, 3, 3, 3], "strides": [1, 1]}]}',
    '{"CONV": [{"name": "a", "size_tensor_A": [1, 3, 9, 9], "size_tensor_B": [4, 3, 3, 3], "stride": [1, 1]}]}',
    '{"DW_CONV": [{"name": "a", "size_tensor_A": [1, 3, 9, 9], "size_tensor_B": [4, 3, 3, 3], "strides": [1, 1]}]}',
    '{"GEMM": [{"name": "a", "size_tensor_A": [16777216, 16777216], "size_tensor_B": [16777216, 16777216]}]}',
)

WRONG_MACHINES = (
    "{",
    '{"arch_details": {}}',
    '{"arch_details": {"pe_pipelined": false}, "arch_basic": {}}',
    '{"arch_details": {"pe_pipeline_stages": 3}, "arch_basic": {}}',
    '{"arch_details": {"data_type_size_in_bytes": 1}, "arch_basic": {}}',
    '{"arch_details": {"dma_frequency": 0}, "arch_basic": {}}',
    '{"arch_details": {"rf_energy": -1}, "arch_basic": {}}',
    '{"arch_details": {"rf_energie": 1}, "arch_basic": {}}',
    '{"arch_details": {}, "arch_basic": {"CGRA_SIZE": "256"}}',
    '{"arch_details": {}, "arch_basic": {"RF_SIZE": 1e999999999}}',
)

WRONG_PROBLEMS = (
    "",
    "problem: [",
    "problem: 3",
    "problem: {{ layer }}",
    "problem: &layer {C: 3}",
    "problem: !Component {C: 3}",
    "layer: {C: 3}",
    "problem: {C: 3, shape: cnn-layer}",
    "problem: {C: 3, shape: gemm-layer}",
    TIMELOOP_LAYER.replace("C: 3", "C: 3.5"),
    TIMELOOP_LAYER.replace("Wstride: 2", "Padding: 2"),
    TIMELOOP_PROBLEM.replace("M: 32, ", ""),
    TIMELOOP_PROBLEM.replace("M: 32", "M: 0"),
    TIMELOOP_PROBLEM.replace("H: 224", "height: 224"),
    TIMELOOP_PROBLEM.replace("H: 224", "densities: {Inputs: 0.5}"),
    TIMELOOP_PROBLEM.replace("- Wstride\n", "- stride\n"),
    TIMELOOP_PROBLEM.replace("- Wstride\n", "- R\n"),
    TIMELOOP_PROBLEM.replace("name: Wdilation", "name: Dilation"),
    TIMELOOP_PROBLEM.replace("[[M]]", "[[K]]"),
    TIMELOOP_PROBLEM.replace("[[M]]", "[M]"),
    TIMELOOP_PROBLEM.replace("read_write: True", "read_write: False"),
    TIMELOOP_PROBLEM.replace("name: Weights", "name: Inputs"),
    TIMELOOP_PROBLEM.replace("[C, M, R", "[C, M, M, R"),
    TIMELOOP_PROBLEM.replace("[C, M, R", "[C, M, K, R").replace("M: 32", "M: 32, K: 5"),
)

WRONG_WORKLOADS = (
    "",
    "[]",
    "- 3",
    ZIGZAG_LAYERS.replace("equation:", "equations:", 1),
    ZIGZAG_LAYERS.replace("+=W[k]", "=W[k]-", 1),
    ZIGZAG_LAYERS.replace("W[k][c]", "I[k][c]", 1),
    ZIGZAG_LAYERS.replace("iy=2*oy+1*fy]", "iz=2*oy+1*fy]", 1),
    ZIGZAG_LAYERS.replace("iy=2*oy+1*fy]", "iy=2*oy]", 1),
    ZIGZAG_LAYERS.replace("iy=2*oy+1*fy]", "iy=2*oy+1*fz]", 1),
    ZIGZAG_LAYERS.replace("[1, 64, 3, 112", "[1, 64, 112", 1),
    ZIGZAG_LAYERS.replace("[1, 64, 3, 112", "[1, 64, -3, 112", 1),
    ZIGZAG_LAYERS.replace("[B, K, C, OY", "[B, K, B, OY", 1),
    ZIGZAG_LAYERS.replace("{W: 8, I: 8,", "{W: 8,", 1),
    ZIGZAG_LAYERS.replace("{W: 8, I: 8,", "{W: 0, I: 0,", 1),
    ZIGZAG_LAYERS.replace("[[3, 3], [3, 2]]", "[[3, 3], [0, 0]]"),
    ZIGZAG_LAYERS.replace("[[3, 3], [3, 2]]", "[[3, 3]]"),
    ZIGZAG_LAYERS.replace("  pr_loop_dims: [IY, IX]\n", ""),
)

ORDERS = "(['N','M','C','Ox','Oy','Fx','Fy'],['N','M','C','Ox','Oy','Fx','Fy'])"
WRONG_MAPPINGS = (
    "",
    "((1,2),(3,4)) ([], [])",
    f"((4,512,512,7,7,3,3),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1)) {ORDERS}",
    f"((4,512,512,7,7,3),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1)) {ORDERS}",
    f"((4,512,512,7,7,3,0),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1)) {ORDERS}",
    f"((4,512,512,7,7,3,3),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1),(1,1,1,1,1,1,2)) {ORDERS}",
    f"((4,512,512,7,7,3,3),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1)) {ORDERS.replace('M', 'K')}",
    f"((4,512,512,7,7,3,3),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1)) {ORDERS.replace('M', 'N')}",
    f"cost 12 ((4,512,512,7,7,3,3),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1),(1,1,1,1,1,1,1)) {ORDERS}",
)


def test_text_that_is_not_understood_is_refused_with_its_place(golden):
    """Every way to get a line of einsum or another program's file wrong has one clear message."""
    lines = [refusal(lambda text=text: einsum_nest(text)) for text in WRONG_LINES]
    lines += [refusal(lambda text=text: dmazerunner_layers(text, "model.json")) for text in WRONG_LAYERS]
    lines += [refusal(lambda text=text: dmazerunner_machine(text, "arch.json")) for text in WRONG_MACHINES]
    lines += [refusal(lambda text=text: dmazerunner_mapping(text, CONV5_2, "mapping.txt")) for text in WRONG_MAPPINGS]
    lines += [refusal(lambda text=text: timeloop_problem(text, "problem.yaml")) for text in WRONG_PROBLEMS]
    lines += [refusal(lambda text=text: zigzag_layers(text, "layers.yaml")) for text in WRONG_WORKLOADS]
    golden("nest-messages.txt", "".join(f"{line}\n" for line in lines))


PAGE = (Path(__file__).parent.parent.parent / "docs" / "mapping-formats.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^## ([^\n]+)\n\n```\w*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
PRESET = array_of_core(load_machine("dmazerunner-256"))


def test_the_examples_of_the_page_are_read():
    """Each format's example in docs/mapping-formats.md is what its reader takes."""
    conv = einsum_nest(EXAMPLES["Einsum"].strip())
    assert conv.reads[0].shape == (1, 3, 230, 230)
    layers = dmazerunner_layers(EXAMPLES["dMazeRunner models"], "page")
    assert layers[0] == (CONV5_2, 3)
    assert dmazerunner_machine(EXAMPLES["dMazeRunner machines"], "page")[0].elements == 256
    assert dmazerunner_mapping(EXAMPLES["dMazeRunner mappings"], CONV5_2, "page").dram == (1, 8, 64, 1, 1, 1, 1)
    problem = timeloop_problem(EXAMPLES["Timeloop problems"], "page")
    machine, targets = timeloop_machine(EXAMPLES["Timeloop architectures"], "page", PRESET)
    assert (machine.elements, machine.register_bytes, machine.scratchpad_bytes) == (256, 512, 65536)
    mapping = timeloop_mapping(EXAMPLES["Timeloop mappings"], problem, targets, "page")
    assert (mapping.dram, mapping.spm, mapping.rf, mapping.spatial) == (
        (4, 4, 1, 1),
        (8, 2, 1, 2),
        (1, 1, 3, 1),
        (1, 4, 1, 8),
    )
    (layer,) = zigzag_layers(EXAMPLES["ZigZag layers"], "page")
    assert layer.reads[0].shape == (1, 3, 230, 230)
    accelerator, notes = zigzag_machine(EXAMPLES["ZigZag accelerators"], "page", PRESET)
    assert (accelerator.elements, accelerator.networks, notes) == (256, 2, ())
    assert zigzag_mapping(EXAMPLES["ZigZag mappings"], layer, accelerator, "page").spatial == (1, 16, 3, 1, 1, 1, 1)


READERS: tuple[tuple[str, str, Callable[[str], object]], ...] = (
    ("einsum", EINSUM, einsum_nest),
    ("dmazerunner layers", DMAZERUNNER_LAYERS, lambda text: dmazerunner_layers(text, "x.json")),
    ("dmazerunner machine", DMAZERUNNER_MACHINE, lambda text: dmazerunner_machine(text, "x.json")),
    ("dmazerunner mapping", DMAZERUNNER_MAPPING, lambda text: dmazerunner_mapping(text, CONV5_2, "x.txt")),
    ("timeloop problem", TIMELOOP_PROBLEM, lambda text: timeloop_problem(text, "x.yaml")),
    ("timeloop layer", TIMELOOP_LAYER, lambda text: timeloop_problem(text, "x.yaml")),
    ("zigzag layers", ZIGZAG_LAYERS, lambda text: zigzag_layers(text, "x.yaml")),
)


@pytest.mark.parametrize("name, text, read", READERS, ids=[name for name, _, _ in READERS])
def test_a_spoilt_file_is_read_or_refused(name, text, read):
    """Whatever stands in a file, the answer is a value or an InputError, never another exception."""
    read(text)
    refused = 0
    for seed in range(400):
        try:
            read(spoilt(text, seed))
        except InputError:
            refused += 1
    assert refused > 100, "spoiling does nothing"
