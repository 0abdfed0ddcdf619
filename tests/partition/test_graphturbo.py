"""GraphTurbo's decisions on the networks of its paper: sub-graphs, factors, order, parking.

The numbers are derived from the algorithms as Zhao et al., OSDI 2023, give them, at 1.25 MiB of local buffer in each of
8 cores (10 MiB), and agree with the paper's Figs. 3 and 7.
"""

import pytest

from tests.helpers.paper_networks import MIB, network, pieces_of_resnet50
from tilestitch.base.units import ceil_div
from tilestitch.partition.subgraphs.coarse import coarse_groups
from tilestitch.partition.subgraphs.liveness import least_peak
from tilestitch.partition.subgraphs.splitting import factors, least_factor
from tilestitch.schedule.orders import breadth_first, depth_first, joined, parked, waiting_bytes

RESNET_BLOCKS = [3, 4, 6, 3]


def sizes_and_factors(name: str, batch: int, capacity_bytes: int, *, fold_bn: bool = True) -> list[tuple[int, int]]:
    groups = coarse_groups(network(name, batch, fold_bn=fold_bn), capacity_bytes)
    return [(len(group.operators), group.split.factor) for group in groups]


@pytest.mark.parametrize(
    ("batch", "capacity_mib", "fold_bn", "expected"),
    [
        (16, 10, False, [(35, 8), (42, 4), (62, 2), (35, 1)]),
        (16, 10, True, [(24, 8), (29, 4), (43, 2), (25, 1)]),
        (8, 10, True, [(24, 4), (29, 2), (68, 1)]),
        (16, 8, True, [(53, 8), (43, 4), (25, 2)]),
    ],
)
def test_resnet50_is_cut_where_its_stages_end(batch, capacity_mib, fold_bn, expected):
    assert sizes_and_factors("resnet50", batch, capacity_mib * MIB, fold_bn=fold_bn) == expected


def test_a_stage_of_resnet50_ends_with_its_addition():
    """The ReLU behind it goes to the next sub-graph."""
    groups = coarse_groups(network("resnet50", 16), 10 * MIB)
    assert [group.operators[-1] for group in groups] == ["layer1.2.add", "layer2.3.add", "layer3.5.add", "fc"]


@pytest.mark.parametrize(
    ("name", "batch", "layers", "expected"),
    [
        pytest.param("bert-base-128", 8, 1, {1}, marks=pytest.mark.slow),  # its peak is in a test of its own
        pytest.param("bert-base-128", 16, 48, {1, 2}, marks=pytest.mark.slow),
        pytest.param("bert-base-256", 4, 36, {1}, marks=pytest.mark.slow),
        ("bert-base-512", 2, 24, {1, 2}),
        pytest.param("bert-large-384", 2, 48, {1, 2}, marks=pytest.mark.slow),
    ],
)
def test_bert_is_cut_where_its_scores_do_not_fit(name, batch, layers, expected):
    """`layers` sub-graphs in the encoder; the mask and the embeddings are two more where it is cut at all."""
    found = sizes_and_factors(name, batch, 10 * MIB)
    assert len(found) == (layers if layers == 1 else layers + 2)
    assert {factor for _, factor in found} == expected


@pytest.mark.parametrize(
    ("block", "megabytes"),
    [("layer1.0", 3.61), ("layer1.1", 3.61), ("layer2.0", 2.61), ("layer2.2", 1.81), ("layer3.0", 1.30),
     ("layer3.3", 0.90), ("layer4.0", 0.65), ("layer4.2", 0.45)],
)  # fmt: skip
def test_a_block_of_resnet50_needs_what_is_live_in_its_best_order(block, megabytes):
    """For one image, the block's input included."""
    graph = network("resnet50", 1)
    operators = [op for op in graph.operators if op.name.startswith(block + ".")]
    assert least_peak(graph, operators).peak_bytes / 1e6 == pytest.approx(megabytes, abs=0.005)


def test_all_of_bert_at_8_sentences_needs_9_mebibytes():
    graph = network("bert-base-128", 8)
    assert round(least_peak(graph, graph.operators).peak_bytes / MIB, 2) == 9.0


@pytest.mark.parametrize(("capacity_kib", "expected"), [(512, [111, 80, 56, 40, 28, 20, 14])])
def test_64_kib_a_core_would_need_far_more_pieces(capacity_kib, expected):
    """Peak / capacity of the blocks at 16 images: the paper's 64 KiB cannot have been what it split for."""
    graph = network("resnet50", 16)
    blocks = ["layer1.0", "layer2.0", "layer2.1", "layer3.0", "layer3.1", "layer4.0", "layer4.1"]
    found = []
    for block in blocks:
        operators = [op for op in graph.operators if op.name.startswith(block + ".")]
        found.append(ceil_div(least_peak(graph, operators).peak_bytes, capacity_kib * 1024))
    assert found == expected


def test_pieces_that_eight_cores_cannot_share_are_left_out():
    assert list(factors(12)) == [1, 2, 4, 8, 9, 10, 11, 12]
    assert list(factors(3)) == [1, 2]


@pytest.mark.parametrize(
    ("extent", "at_least", "expected"),
    [(16, 5, 8), (32, 10, 16), (12, 5, 12), (31, 10, 10), (22, 9, 11), (4, 5, None), (100, 8, 10), (127, 8, 8)],
)
def test_a_number_of_pieces_divides_the_extent_where_one_little_larger_does(extent, at_least, expected):
    assert least_factor(extent, at_least) == expected


def letters(numbers) -> str:
    """`a8` is piece 8 of the first sub-graph, as in the paper's figures."""
    found = [pieces_of_resnet50().instances[number] for number in numbers]
    return " ".join("abcd"[one.group] + str(int(one.name[3:-1]) + 1) for one in found)


def test_a_piece_reads_two_of_the_sub_graph_before():
    producers = pieces_of_resnet50().producers
    assert [letters(one) for one in producers] == [""] * 8 + [
        "a1 a2",
        "a3 a4",
        "a5 a6",
        "a7 a8",
        "b1 b2",
        "b3 b4",
        "c1 c2",
    ]


def test_pieces_run_depth_first():
    """Zhao et al., Fig. 7f."""
    instances = pieces_of_resnet50()
    order = depth_first(instances)
    assert letters(order) == "a8 a7 b4 a6 a5 b3 c2 a4 a3 b2 a2 a1 b1 c1 d1"
    assert letters(breadth_first(instances)) == "a1 a2 a3 a4 a5 a6 a7 a8 b1 b2 b3 b4 c1 c2 d1"


def test_seven_pieces_are_joined_and_seven_wait_in_gb():
    instances = pieces_of_resnet50()
    assert len(joined(instances)) == 7
    assert len(parked(instances, depth_first(instances))) == 7
    assert len(parked(instances, breadth_first(instances))) > 7


def test_what_waits_at_a_time_is_least_depth_first():
    """One result of each of the first three stages, 3.2 MB each: 9.6 MB; breadth first, seven pieces of the first."""
    graph, instances = network("resnet50", 16), pieces_of_resnet50()
    piece = 2 * 56 * 56 * 256 * 2
    assert waiting_bytes(graph, instances, depth_first(instances)) == 3 * piece
    assert waiting_bytes(graph, instances, breadth_first(instances)) == 7 * piece
