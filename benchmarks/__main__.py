"""Run the benchmarks that are named on the command line, or all but those that take long or install something."""

import sys
from importlib import import_module

BENCHMARKS = (
    "array_simulation",
    "chip_timing",
    "compilation",
    "fusion",
    "growth",
    "mapping",
    "partition",
    "tree_simulation",
    "trees",
    "wide",
)
BY_NAME = (
    "best_elsewhere",
    "peers",
    "zigzag_networks",
    "stream_network",
    "gpu_case_study",
)  # take long, install other programs, or need a GPU


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in (*BENCHMARKS, *BY_NAME)]
    if unknown:
        sys.exit(f"no benchmark {', '.join(map(repr, unknown))}; known: {', '.join((*BENCHMARKS, *BY_NAME))}")
    for name in names or BENCHMARKS:
        print(f"{name}:")
        import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
