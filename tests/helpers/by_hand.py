"""A schedule of ResNet-18 written by hand."""

from tilestitch import api
from tilestitch.api import HandGroup, HandItem, HandSchedule
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.options import Options

GROUPS = (
    HandGroup("front", ("layer2.0.add",), pieces=4),
    HandGroup("middle", ("layer3.0.add",), pieces=2),
    HandGroup("end"),
)
ORDER = ("front[0]", "front[1]", "middle[0]", "front[2]", "front[3]", "middle[1]", "end[0]")
BY_HAND = HandSchedule("by hand", GROUPS, tuple(HandItem(name) for name in ORDER))


def scheduled(schedule: HandSchedule, *, stop_after: str = "schedule") -> Compilation:
    return api.compile(
        "resnet18:small",
        "stcp920",
        strategy=schedule,
        batch=16,
        options=Options(batch_per_cluster=4, stop_after=stop_after),
        verify=stop_after == "simulate",
    )
