"""From a network to what is scheduled together: groups (TVM), sub-graphs (GraphTurbo) or blocks (DLFusion)."""
