"""Break the compiler on purpose, in one way at a time: the tests must notice every one.

    python -m tests.mutants            all of them, on two processes
    python -m tests.mutants wait halo  those whose name contains one of these words

`table/` lists them, those of `src/tilestitch/lower/` in `lower.py` and so on; small parts share a file.
"""
