"""The least traffic of operators by the capacity of a buffer (docs/traffic.md)."""
