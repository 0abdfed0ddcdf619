"""Run the benchmarks that are named on the command line, or all but those that take long or install something."""

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    known = f"one or more of {', '.join(BENCHMARKS)}; only by name {', '.join(BY_NAME)}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=known)
    names = parser.parse_args().names
    unknown = [name for name in names if name not in (*BENCHMARKS, *BY_NAME)]
    if unknown:
        parser.error(f"no benchmark {', '.join(map(repr, unknown))}; {known}")
    for name in names or BENCHMARKS:
        print(f"{name}:")
        import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
