"""`map --fuse`: chains of networks and of lines of einsum."""

import json

import onnx
import pytest
from click.testing import CliRunner

from tests.helpers.graphs import Net
from tests.helpers.small_tree import small_tree
from tilestitch import FuseOptions, map_fused
from tilestitch.api import load_graph
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.cli.main import main
from tilestitch.commands.map import fused_run
from tilestitch.commands.map.chains import chains_of
from tilestitch.commands.map.einsum_lines import einsum_chain
from tilestitch.commands.map.fused_page import drawn_chain
from tilestitch.commands.simulate.fused_layers import simulate_fused
from tilestitch.ir.choices import Objective, Values
from tilestitch.mapping.fused.chain import Reading
from tilestitch.passes import simplify

ATTENTION = "S[m,n] += I[m,d] * W[n,d]; O[m,e] += softmax(S[m,n]) * V[n,e]; m=4 n=4 d=2 e=2 S:8 V:8"


def test_parts_of_a_fused_mapping_add_up(tmp_path):
    """The JSON has flows that sum to the energy, which is less than unfused and not below the bound."""
    machine = small_tree(tmp_path)
    run = CliRunner().invoke(
        main, ["map", ATTENTION, "--machine", str(machine), "--fuse", "2", "--objective", "energy", "--json", "-"]
    )
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    (chain,) = found["chains"]
    assert found["proven_best"]
    assert chain["energy_pj"] == pytest.approx(found["bound_pj"], rel=1e-12)
    assert chain["energy_pj"] < chain["unfused_pj"]
    (group,) = chain["groups"]
    mapping = group["mapping"]
    assert mapping["homes"] == ["buffer"]
    moved = sum(flow["energy_pj"] for one in mapping["operators"] for flow in one["flows"])
    macs = 0.04 * (4 * 4 * 2) * 2
    softmax = 16 * (8 * 20 / 256 + 8 * 25 / 256)  # each element read and written once in the buffer
    assert moved + macs + softmax == pytest.approx(group["energy_pj"], rel=1e-9)


def test_a_line_whose_products_are_no_row_is_a_tree():
    """Which operator reads what, and how results meet; of those that wait for a later line as well."""
    line = (
        "K[n,d] += Y[n,c] * B[c,d]; S[m,n] += Q[m,d] * K[n,d]; V[n,e] += Y[n,c] * W[c,e]; U[n,e] += Y[n,c] * X[c,e]; "
        "O[m,e] += softmax(S[m,n]) * ( V[n, e] + U[n,e] ); m=4 n=4 d=2 e=2 c=2 U:4"
    )
    found = einsum_chain(line)
    assert found.readers == (1, 4, 4, 4)
    assert found.label == "(K > S, V, U) > O"
    assert [(link.read, link.passes, sorted(link.whole), link.is_factor) for link in found.links] == [
        (1, 0, [], False),
        (0, 1, [1], False),
        (1, 0, [], False),
        (1, 0, [], False),
    ]
    assert found.nests[3].write.element_bits == 4
    assert found.nests[4].reads[1].name == "(V+U)"
    assert einsum_chain(line.replace(" + U", " * U")).links[2].is_factor


def test_a_gated_mlp_of_a_network_is_a_tree():
    """Two products meet in a third one, and run together in less energy than two of them."""
    graph = simplify(load_graph("llama-block-prefill-8:small"), fold_bn=True)
    (mlp,) = [chain for chain in chains_of(graph) if chain.readers]
    assert mlp.label == "(mlp.gate, mlp.up) > mlp.down"
    assert mlp.between == (("swish", "mul"), ("mul",))
    assert all(link.is_factor and link.read == 0 for link in mlp.links)
    options = [FuseOptions(count) for count in (2, 3)]
    two, three = (map_fused("llama-block-prefill-8:small", "tpu-v4i", one, layers=["mlp.up"]) for one in options)
    assert three.energy_pj < two.energy_pj < three.unfused_pj
    ((chain, found),) = three.chains
    assert drawn_chain(three, chain, found)["groups"][0]["readers"] == [2, 2]
    assert [group.numbers for group in found.groups] == [(0, 1, 2)]
    assert "C of mlp.up stays in vmem, in one of them, mul there, where it meets that of mlp.gate" in str(three)
    told = json.loads(three.to_json())["chains"][0]
    assert told["readers"] == told["groups"][0]["mapping"]["readers"] == [2, 2]


RESIDUAL = "P[m,d] += X[m,c] * W[c,d]; E[m,f] += P[m,d] * V[d,f]; R[m,d] += E[m,f] * U[f,d] + P[m,d]; "


def test_a_line_may_read_a_result_in_several_lines_and_add_it():
    """Of each result the last that takes it, and those before; the label leaves out what is added."""
    line = "A[m,d] += X[m,c] * W[c,d]; G[m,f] += A[m,d] * V[d,f]; U[m,f] += softmax(G[m,f]) * B[f]; "
    found = einsum_chain(f"{line} O[m,e] += (softmax(G[m,f]) + U[m,f]) * C[f,e] + A[m,e]; m=4 c=2 d=4 e=4 f=4")
    assert found.label == "(G, A > G > U) > O"
    assert found.readers == (3, 3, 3)
    assert found.more == (Reading(0, 1, 0), Reading(1, 2, 0))
    assert found.added == (Reading(0, 3, 2),)
    assert [(link.read, link.passes) for link in found.links] == [(2, 0), (0, 1), (0, 0)]
    assert [sorted(link.whole) for link in found.links] == [[], [1], []]
    assert found.between == ((), ("softmax",), ())


def test_operators_that_share_a_result_are_told_with_where_it_stays():
    """In text and as JSON: which lines read it, and to what it is added."""
    found = map_fused(f"{RESIDUAL}m=16 c=8 d=8 f=8", "tpu-v4i", FuseOptions(3))
    text = str(found)
    assert "1 P > E > R: together" in text
    assert "P of P stays in vmem, in one of them, and is added to that of R" in text
    (chain,) = json.loads(found.to_json())["chains"]
    mapping = chain["groups"][0]["mapping"]
    for told in (chain, mapping):
        assert (told["readers"], told["more_readers"], told["added"]) == ([2, 2], [[0, 1]], [[0, 2]])


def test_residual_additions_of_a_network_are_followed():
    """What a block adds to its result waits at home, where the block before has made it, so that all four cost less."""
    name = "resnet18:small"
    graph = simplify(load_graph(name), fold_bn=True)
    (chain, *_) = [chain for chain in chains_of(graph) if chain.more]
    assert chain.label == "layer1.0.conv1 > layer1.0.conv2 > layer1.1.conv1 > layer1.1.conv2"
    assert chain.more == (Reading(1, 2, 0),)
    assert chain.added == (Reading(1, 3, 2),)
    three, four = (map_fused(name, "tpu-v4i", FuseOptions(most), layers=["layer1.1.conv1"]) for most in (3, 4))
    assert four.energy_pj < three.energy_pj < three.unfused_pj
    assert [group.numbers for group in three.chains[0][1].groups] == [(0,), (1, 2, 3)]
    assert [group.numbers for group in four.chains[0][1].groups] == [(0, 1, 2, 3)]
    assert "and is added to that of layer1.1.conv2" in str(four)


@pytest.mark.parametrize(
    ("added", "chains"),
    [(False, [("first", "grouped"), ("point",)]), (True, [("first",), ("grouped",), ("point",)])],
    ids=["alone", "added"],
)
def test_a_grouped_convolution_ends_a_chain(tmp_path, added, chains):
    """An axis of its result has two loops: nothing is followed behind it, nor added to it. Values are right."""
    net = Net()
    first = net.op("Conv", net.input(1, 2, 6, 6), net.random(6, 2, 1, 1), name="first")
    grouped = net.op("Conv", first, net.random(6, 2, 3, 3), name="grouped", group=3, pads=[1] * 4)
    behind = net.op("Add", grouped, first) if added else grouped
    network = tmp_path / "net.onnx"
    onnx.save(net.model(net.op("Conv", behind, net.random(4, 6, 1, 1), name="point")), network)
    mapped = map_fused(network, "tpu-v4i", FuseOptions(3, objective=Objective.ENERGY))
    assert [chain.names for chain, _ in mapped.chains] == chains
    assert [len(found.groups) for _, found in mapped.chains] == [1] * len(chains)
    assert len(simulate_fused(mapped, Values.INTEGERS, lambda *_: None)) == len(chains)


def test_nothing_is_added_to_a_result_whose_axis_has_several_loops():
    """A line that says so is refused."""
    line = "P[c,x] += X[c,x] * U[c]; R[2*g+m,x] += P[2*g+c,x] * W[g,m,c] + P[2*g+m,x]; c=4 g=2 m=2 x=4"
    with pytest.raises(InputError, match="P to R: an axis of what the result is added to has several loops"):
        map_fused(line, "tpu-v4i", FuseOptions(2))


def test_a_chain_that_cannot_be_mapped_is_divided_where_several_read(monkeypatch):
    """An operator that fits nowhere keeps no more from being mapped than what hangs together without forks."""

    def mapped(chain, *given, **options):
        if chain.operators[0].nest.name == "P":
            raise DoesNotFit("P fits nowhere")
        return best_chain(chain, *given, **options)

    best_chain = fused_run.best_chain
    monkeypatch.setattr(fused_run, "best_chain", mapped)
    found = map_fused(f"{RESIDUAL}m=4 c=2 d=2 f=2", "tpu-v4i", FuseOptions(3))
    assert [(one.names, one.reason) for one in found.unmapped] == [(("P",), "P fits nowhere")]
    assert [chain.names for chain, _ in found.chains] == [("E", "R")]


def test_attention_of_a_network_is_a_chain():
    """Scores, softmax and context of BERT follow one another in each layer; rows of scores are read whole."""
    graph = simplify(load_graph("bert-base-128:small"), fold_bn=True)
    chains = chains_of(graph)
    attention = next(chain for chain in chains if "softmax" in sum(chain.between, ()))
    names = [name.rsplit(".", 1)[1] for name in attention.names]
    assert names == ["matmul", "matmul", "scores", "matmul", "context", "matmul"]
    assert attention.readers == (2, 2, 4, 4, 5)
    link = attention.links[2]
    assert link.passes == 1
    assert link.whole == {len(attention.nests[2].write.axes) - 1}
    assert sum(one.passes for one in attention.links) == 1
    assert sum(chain.times * len(chain.nests) for chain in chains) == sum(
        op.kind in ("matmul", "conv") for op in graph.operators
    )


@pytest.mark.parametrize(("index", "whole"), [("x+f", frozenset()), ("x-f", frozenset({1}))])
def test_an_axis_that_is_read_backwards_is_not_shared(index, whole):
    """Its windows begin at their last row, so that none of what was made for one before is there."""
    line = f"A[k,x] += I[k,x] * V[k]; B[m,x] += A[k,{index}] * W[m,k,f]; k=4 m=4 x=8 f=3"
    (link,) = einsum_chain(line).links
    assert link.whole == whole


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("S[m,n] += Q[m,d] * K[n,d]; m=4 n=4 d=2", "expected products one after another"),
        ("S[m] += Q[m]; O[m] += T[m]; m=4", "what 'S[m] += Q[m]' makes is read 0 times"),
        ("S[m] += Q[m]; S[m] += T[m]; O[m] += S[m]; m=4", "what 'S[m] += Q[m]' makes is read 0 times"),
        ("S[m] += Q[m]; T[m] += S[m]; R[m] += S[m]; O[m] += T[m]; m=4", "what 'R[m] += S[m]' makes is read 0 times"),
        ("S[m,n] += Q[m]; O[m,n] += S[m,d] * S[n,d]; m=4 n=4 d=4", "give what is read twice two names"),
        ("S[m] += Q[m]; T[m] += softmax(S[m]); O[m] += S[m] * T[m]; m=4", "in all or none"),
        ("S[m] += Q[m]; O[m] += S[m] + T[m]; m=4", "T is added in 'O[m] += S[m] + T[m]', but no line before it"),
        ("S[m] += Q[m]; O[m] += S[m] + S[m] + S[m]; m=4", "adds S twice"),
        ("S[m] += Q[m]; T[n] += S[m] + S[m]; O[n] += T[n]; m=4 n=4", "S[m] is added to T[n]; expected the same"),
        ("S[m] += Q[m]; O[m] += P[m] + S[m]; m=4", "what 'S[m] += Q[m]' makes is read 0 times"),
        ("S[m] += Q[m]; O[m] += softmax(T[m]) * S[m]; m=4", "softmax(T) is not of a result that a line before"),
        ("S[m] += Q[m]; O[m] += (S[m] * T[m]); m=4", "no line before it makes T"),
        ("S[m] += Q[m]; T[m] += Q[m]; O[m,n] += (S[m] + T[n]) * W[m,n]; m=4 n=4", "the same indices everywhere"),
        ("S[m] += Q[m]; O[m] += (S[m] + S[m]); m=4", "expected every array once"),
        ("S[m] += Q[m]; T[m] += Q[m]; O[m] += (S[m] + T[m] * T[m]); m=4", "column"),
    ],
)
def test_a_line_that_is_no_chain_is_refused(text, said):
    """Each mistake by name."""
    with pytest.raises(InputError) as caught:
        einsum_chain(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--machine", "tpu-v4i", "--objective", "pareto"], "--fuse has no front"),
        (["--machine", "eyeriss", "--objective", "energy"], "--storage uneven"),
        (["--machine", "tpu-v4i", "--objective", "energy", "--top", "2"], "--top"),
    ],
)
def test_what_fusing_cannot_do_is_said(options, said):
    """One line, and no traceback."""
    run = CliRunner().invoke(main, ["map", ATTENTION, "--fuse", "2", *options])
    assert run.exit_code == 2
    assert said in run.output


def test_python_gives_what_the_command_gives(tmp_path):
    """The value has the same text; a number that is none is refused."""
    machine = str(small_tree(tmp_path))
    run = CliRunner().invoke(main, ["map", ATTENTION, "--machine", machine, "--fuse", "2", "--objective", "energy"])
    found = map_fused(ATTENTION, machine, FuseOptions(2))
    assert run.stdout == str(found)
    assert found.energy_pj < found.unfused_pj
    with pytest.raises(InputError):
        map_fused(ATTENTION, machine, FuseOptions(5))


def test_a_machine_without_a_home_says_so():
    """On gemmini results and inputs have only DRAM in common: nothing is fused, and a note says why."""
    found = map_fused(
        "S[m,n] += Q[m,d] * K[n,d]; O[m,e] += S[m,n] * V[n,e]; m=4 n=4 d=4 e=4", "gemmini", FuseOptions(2)
    )
    assert found.energy_pj == found.unfused_pj
    assert "nothing runs together" in str(found)


def test_windows_are_shared_in_a_row_alone_and_a_note_says_so(tmp_path):
    """All rows of what two branches make are at home, where they are read through windows."""
    machine = str(small_tree(tmp_path))
    line = "B[p] += A[p] * V[p]; D[p] += A[p] * W[p]; C[x] += (B[x+r] + D[x+r]) * X[r]; p=5 x=4 r=2"
    found = map_fused(line, machine, FuseOptions(3))
    assert "(B, D) > C: operators that are not in a row share no loops over windows" in str(found)
    ((_, chain),) = found.chains
    assert found.energy_pj < found.unfused_pj
    assert found.is_proven
    assert all(set(group.mapping.shared) == {0} for group in chain.groups if len(group.numbers) > 2)
    row = map_fused("B[p] += A[p] * V[p]; C[x] += B[x+r] * X[r]; p=5 x=4 r=2", machine, FuseOptions(2))
    assert "windows" not in str(row)


@pytest.mark.parametrize("objective", ["latency", "edp", "ed2p"])
def test_other_objectives_are_no_worse_than_unfused(tmp_path, objective):
    """Text and JSON say the latency fused and unfused, and a bound of the objective that is reached."""
    machine = str(small_tree(tmp_path))
    options = ["map", ATTENTION, "--machine", machine, "--fuse", "2", "--objective", objective]
    told = CliRunner().invoke(main, options)
    assert told.exit_code == 0, told.output
    assert "proven best" in told.stdout
    found = json.loads(CliRunner().invoke(main, [*options, "--json", "-"]).stdout)
    (chain,) = found["chains"]
    assert f"{found['latency_cycles']:,} cycles, {found['unfused_cycles']:,} cycles unfused" in told.stdout
    name = {"latency": "bound_cycles", "edp": "bound_pj_cycles", "ed2p": "bound_pj_cycles2"}[objective]
    energy, cycles = {"latency": (0, 1), "edp": (1, 1), "ed2p": (1, 2)}[objective]
    value = chain["energy_pj"] ** energy * chain["latency_cycles"] ** cycles
    assert value <= chain["unfused_pj"] ** energy * chain["unfused_cycles"] ** cycles
    assert chain[name] == pytest.approx(value, rel=1e-9)


def test_a_search_that_stops_says_how_far_it_may_be_from_the_best(tmp_path):
    """With few labels nothing is proven, and the bound is below what was found."""
    machine = str(small_tree(tmp_path))
    found = map_fused(ATTENTION, machine, FuseOptions(2, effort=1, objective=Objective.LATENCY))
    assert not found.is_proven
    assert found.bound is not None
    assert found.bound < found.latency_cycles
    assert "too much" in str(found)


def test_the_best_is_proven_where_windows_overlap(tmp_path):
    """Text and JSON say so, and the bound is reached, as of chains without windows."""
    machine = str(small_tree(tmp_path))
    line = "B[p,c] += A[p,d] * V[d,c]; C[x] += B[x+r,c] * W[r,c]; c=2 d=2 p=5 x=4 r=2"
    found = map_fused(line, machine, FuseOptions(2))
    assert found.is_proven
    assert "proven best" in str(found)
    told = json.loads(found.to_json())
    assert told["proven_best"]
    assert told["bound_pj"] == pytest.approx(told["energy_pj"], rel=1e-9)
