"""Run ONNX's tests of single nodes, or those with a text in their names; or list the operators.

python -m tilestitch.onnx_backend [TEXT ... | --operators]
"""

import sys

from tilestitch.onnx_backend.node_tests import NodeVerdict, cases, results, summary
from tilestitch.onnx_backend.operators import listing


def main() -> int:
    """Print the counts and the reasons; 1 where a test is wrong."""
    if sys.argv[1:] == ["--operators"]:
        sys.stdout.write(listing())
        return 0
    selected = [case for case in cases() if all(text in case.name for text in sys.argv[1:])]
    if not selected:
        sys.stderr.write(f"no test of the installed onnx has {' '.join(sys.argv[1:])!r} in its name\n")
        return 2
    found = []
    for number, one in enumerate(results(selected), start=1):
        found.append(one)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{number:,} of {len(selected):,}")
    if sys.stderr.isatty():
        sys.stderr.write("\r")
    if len(sys.argv) > 1:
        sys.stdout.write("".join(f"{one.name}: {one.outcome}: {one.reason}\n" for one in found) + "\n")
    sys.stdout.write(summary(found))
    return 1 if any(one.outcome is NodeVerdict.WRONG for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
