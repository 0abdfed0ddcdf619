"""Published tables and figures beside what Tilestitch gives for the same networks and machines."""

from collections.abc import Sequence

from tilestitch.base.errors import InputError, printable
from tilestitch.base.progress import Progress, quiet
from tilestitch.reproduction.dirac import dirac_rows
from tilestitch.reproduction.dlfusion import dlfusion_rows
from tilestitch.reproduction.dmazerunner import dmazerunner_rows
from tilestitch.reproduction.graphturbo import graphturbo_rows
from tilestitch.reproduction.rows import Reproduction, Row, rows_json, rows_text

__all__ = ["NAMES", "Reproduction", "reproduce", "rows_json", "rows_text"]

NAMES = ("graphturbo", "dlfusion", "dmazerunner", "dirac")


def reproduce(
    name: str,
    *,
    networks: Sequence[str] = (),
    machines: Sequence[str] = (),
    must_match: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Reproduction:
    """Every row of one publication, or those of some of its networks and machines, where any are given.

    `must_match` leaves out what need not match. `jobs` networks are simulated at once; the rows do not depend on that,
    and what is not simulated takes seconds without. Raises `InputError` for an unknown name.
    """
    if name not in NAMES:
        raise InputError(f"reproduce '{printable(name)}': expected one of: {', '.join(NAMES)}")
    return Reproduction(name, _rows(name, networks, machines, must_match, jobs, progress or quiet))


def _rows(
    name: str, networks: Sequence[str], machines: Sequence[str], must_match: bool, jobs: int, progress: Progress
) -> tuple[Row, ...]:
    if name == "dlfusion":
        return dlfusion_rows(networks=networks, machines=machines, must_match=must_match, progress=progress)
    if name == "dmazerunner":
        return dmazerunner_rows(networks=networks, machines=machines, must_match=must_match, progress=progress)
    if name == "dirac":
        return dirac_rows(networks=networks, machines=machines, progress=progress)
    return graphturbo_rows(networks=networks, machines=machines, must_match=must_match, jobs=jobs, progress=progress)
