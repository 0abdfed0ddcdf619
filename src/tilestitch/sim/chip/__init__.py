"""One cluster, event by event: engines in order, transfers that share ports, waits; its time and its energy."""
