"""How long work reports how far it is."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]  # step, done, total


def quiet(step: str, done: int, total: int) -> None:
    """Show nothing."""
