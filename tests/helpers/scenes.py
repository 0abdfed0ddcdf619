"""What moves of the search look at, of small networks."""

import onnx

from tests.helpers.verified import machine_named
from tilestitch import api
from tilestitch.pipeline.compilation import given
from tilestitch.pipeline.compile import requested
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.search.candidate import Candidate, candidate_of
from tilestitch.pipeline.search.evaluate import Evaluator
from tilestitch.pipeline.search.scene import Scene


def begun(network: onnx.ModelProto, machine: str, batch: int = 1) -> tuple[Evaluator, Candidate]:
    """What evaluates candidates of a network on a machine, and what GraphTurbo makes of it as one."""
    done = api.compile(network, machine_named(machine), strategy="graphturbo", batch=batch)
    request = requested(network, "network", machine_named(machine), done.options)
    return Evaluator(request, Networks(network, "network", fold_bn=True)), given(candidate_of(done))


def scene_of(network: onnx.ModelProto, machine: str = "toy") -> tuple[Evaluator, Scene]:
    """What evaluates candidates of a network on a machine, and one with what its kernels lose."""
    evaluator, begin = begun(network, machine)
    one = given(evaluator.evaluate(begin))
    return evaluator, Scene(begin, evaluator.graph(begin), machine_named(machine), one.lost_cycles, (1,))
