"""How fast the compiler itself is: `python -m benchmarks [name ...]` times each part on inputs of realistic size."""
