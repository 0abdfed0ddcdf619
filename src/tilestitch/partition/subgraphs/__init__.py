"""GraphTurbo's sub-graphs: which operators each has, and into how many pieces it is cut."""
