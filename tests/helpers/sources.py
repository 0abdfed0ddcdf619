"""The syntax of modules, for tests of the code's shape."""

import ast
from functools import cache


@cache
def syntax_of(source: str) -> ast.Module:
    """Parsed once for all tests: the whole package takes seconds."""
    return ast.parse(source)
