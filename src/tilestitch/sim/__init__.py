"""The judges: simulators that say how long a program takes, and what it computes; they never ask the cost model."""
