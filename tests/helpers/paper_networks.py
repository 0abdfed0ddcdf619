"""Networks of GraphTurbo's paper, at its sizes."""

from functools import cache

from tests.helpers.unweighted import unweighted
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Graph
from tilestitch.ir.instance import InstanceGraph
from tilestitch.kernels.instances import split_into_instances
from tilestitch.partition.subgraphs.coarse import coarse_groups
from tilestitch.passes import simplify
from tilestitch.passes.views import resolve_views

MIB = 2**20


@cache
def network(name: str, batch: int, *, fold_bn: bool = True) -> Graph:
    graph = simplify(read_onnx(unweighted(name), batch=batch), fold_bn=fold_bn)
    return resolve_views(graph)[0]


@cache
def pieces_of_resnet50() -> InstanceGraph:
    graph = network("resnet50", 16)
    groups = coarse_groups(graph, 10 * MIB)
    return split_into_instances(
        graph, [group.operators for group in groups], [((group.split.axis, group.split.factor),) for group in groups]
    )
