"""`python -m tests.mutants [WORD]...`."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.mutant import stale
from tests.mutants.run import run_all
from tests.mutants.table import MUTANTS


def main(words: Sequence[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    wrong = stale(MUTANTS)
    if wrong or not chosen:
        print("\n".join(wrong or [f"no mutant has any of these words in its name: {', '.join(words)}"]))
        return 2
    with tempfile.TemporaryDirectory() as folder:
        return run_all(chosen, Path(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
