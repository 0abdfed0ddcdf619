"""The vendor's hand schedule of ResNet-50 at 16 images a cluster, as its compiler's public manual has it.

The manual writes it for ResNet-50 v2; the groups end after the same blocks here, which are those of v1.5.
"""

from tilestitch.ir.by_hand import HandGroup, HandItem, HandSchedule

IMAGES = 16
# Cores of the parts of the outermost dim. The new owners of an image are some of its old ones.
_CORES: dict[str, tuple[int | tuple[int, ...], ...]] = {
    "g0": ((0, 1, 2, 3), (4, 5, 6, 7)),
    "g1": ((1, 3), (5, 7), (0, 2), (4, 6)),
    "g2": (3, 7, 2, 6, 1, 5, 0, 4),
    "g3": (7, 6, 5, 4, 3, 2, 1, 0),
}
_ORDER = "g0[0] g0[1] g1[0] g0[2] g0[3] g1[1] g2[0] g0[4] g0[5] g1[2] g0[6] g0[7] g1[3] g2[1] g3[0]"  # depth first


def hand_schedule() -> HandSchedule:
    """Four groups, cut after the first block of stages 2, 3 and 4, in 8, 4, 2 and 1 pieces."""
    groups = (
        HandGroup("g0", ("layer2.0.relu",), pieces=8),
        HandGroup("g1", ("layer3.0.relu",), pieces=4),
        HandGroup("g2", ("layer4.0.relu",), pieces=2),
        HandGroup("g3"),
    )
    items = tuple(HandItem(name, cores=_CORES[name.partition("[")[0]]) for name in _ORDER.split())
    return HandSchedule("vendor", groups, items)
