"""Kernels of small networks, to look at their boxes compiled and interpreted."""

import numpy as np

from tilestitch.ir.region import Region

NETWORKS = (
    "resnet18:small",
    "densenet121:small",
    "bert-base-16:small",
    "conformer:small",
    "llama-block-prefill-16:small",
)


def region(box: np.ndarray, rank: int) -> Region:
    return Region(tuple(map(int, box[0, :rank])), tuple(map(int, box[1, :rank])))
