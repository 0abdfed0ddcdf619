"""Published tables and figures beside what Tilestitch gives for the same networks and machines."""

from collections.abc import Callable, Sequence

from tilestitch.errors import InputError, printable
from tilestitch.reproduce.graphturbo import graphturbo_rows
from tilestitch.reproduce.rows import Row, rows_json, rows_text

__all__ = ["NAMES", "reproduce", "rows_json", "rows_text"]

Progress = Callable[[str, int, int], None]  # step, done, total
NAMES = ("graphturbo",)


def reproduce(
    name: str,
    *,
    networks: Sequence[str],
    machines: Sequence[str],
    must_match: bool,
    jobs: int,
    progress: Progress,
) -> tuple[Row, ...]:
    """Every row of one publication, or those of some of its networks and machines, where any are given.

    `must_match` leaves out what is simulated.

    `jobs` networks run at once; the rows do not depend on that. Raises `InputError` for an unknown name.
    """
    if name not in NAMES:
        raise InputError(f"reproduce '{printable(name)}': expected one of: {', '.join(NAMES)}")
    return graphturbo_rows(networks=networks, machines=machines, must_match=must_match, jobs=jobs, progress=progress)
