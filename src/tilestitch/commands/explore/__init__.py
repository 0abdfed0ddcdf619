"""The command explore: networks priced on many machines, and those machines that no other beats."""
