"""From a network to sub-graphs: which operators are scheduled together. Every strategy starts from one of these."""

from tilestitch.partition.fuse_ops import fuse_ops
from tilestitch.partition.layerwise import layerwise

__all__ = ["fuse_ops", "layerwise"]
