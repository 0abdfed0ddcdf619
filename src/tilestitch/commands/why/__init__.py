"""Why a network is not faster on a machine: the parts of the gap between its latency and its bound."""
