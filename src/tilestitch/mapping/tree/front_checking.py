"""Judges the proof of a front: its points are what they say, none beats another, and no chain is missing.

As for one mapping, but that beginnings of chains are followed where no point is as good in both energy and latency.
"""

from collections.abc import Sequence
from itertools import pairwise

from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.certificate import counts_chains, problem_digest
from tilestitch.mapping.tree.checking import check_count, judged_outwards, verdict_of, ways_of
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.claim import Claim, Verdict
from tilestitch.mapping.tree.free_certificate import free_digest
from tilestitch.mapping.tree.free_checking import OF_ANOTHER, counted_choices, judged_labels, placement_of
from tilestitch.mapping.tree.front_certificate import (
    FreeFrontCertificate,
    FrontCertificate,
    ProvenPoint,
    TakenChoice,
    front_of,
)
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.spread_count import SpreadList
from tilestitch.mapping.tree.tables import Sums
from tilestitch.mapping.tree.walk_checking import check_walked_chain
from tilestitch.mapping.tree.walk_tables import WalkTables, walk_tables


def check_front(certificate: FrontCertificate, placements: Sequence[PlacedNest], sums: Sums) -> Verdict:
    """Judge the proof of a front over placements. Raises `InputError` that says which claim is wrong."""
    claim = Claim(placements[0].nest.name, front_of(certificate.points))
    if certificate.problem != problem_digest(placements, sums, Objective.PARETO):
        raise claim.wrong("it is of another nest, machine, spatial mapping, width of sums or objective")
    _check_order(claim, certificate.points)
    ways = ways_of(claim, certificate.choices, placements)
    tables = {at: walk_tables(ways[at], sums) for at in sorted({one.chosen for one in certificate.points})}
    _check_points(claim, certificate.points, tables)
    return verdict_of(certificate.choices, sum(judged_outwards(claim, certificate.choices, ways, sums)))


def check_free_front(certificate: FreeFrontCertificate, bare: PlacedNest, space: SpatialSpace, sums: Sums) -> Verdict:
    """Judge the proof of a front over all choices. Raises `InputError` that says which claim is wrong."""
    claim = Claim(bare.nest.name, front_of(certificate.points))
    if certificate.problem != free_digest(bare, space, sums, Objective.PARETO):
        raise claim.wrong(OF_ANOTHER)
    _check_order(claim, certificate.points)
    choices = counted_choices(claim, certificate.choices, bare, space)
    tables = _taken_tables(claim, certificate, choices, sums)
    _check_points(claim, certificate.points, tables)
    labels = judged_labels(claim, choices, sums, certificate.blocks)
    chains = sum(one.chains or 0 for one in certificate.taken)
    return Verdict(len(choices), sum(block.opened for block in certificate.blocks), chains, labels)


def _check_order(claim: Claim, points: Sequence[ProvenPoint]) -> None:
    """Points are in ascending order of energy, and each is faster than the one before: so none beats another."""
    for number, (one, other) in enumerate(pairwise(points), 1):
        if other.energy_fj <= one.energy_fj:
            raise claim.wrong(f"point {number} has no more energy than the one before it; expected ascending energies")
        if other.cycles >= one.cycles:
            raise claim.wrong(f"point {number} is beaten by the one before it, which has less energy and is no slower")


def _taken_tables(
    claim: Claim, certificate: FreeFrontCertificate, choices: SpreadList, sums: Sums
) -> dict[int, WalkTables]:
    """The tables of the choices that points take, each of which is there once and is taken."""
    used = {one.chosen for one in certificate.points}
    missing = min(used.difference(range(len(certificate.taken))), default=None)
    if missing is not None:
        raise claim.wrong(f"a point takes choice {missing} of {len(certificate.taken)} that are taken")
    found: dict[int, WalkTables] = {}
    seen: set[tuple[tuple[str, ...], object]] = set()
    for at, one in enumerate(certificate.taken):
        if at not in used or (one.spread, one.slides) in seen:
            raise claim.wrong(f"choice {at} of those that are taken is taken by no point, or is there twice")
        seen.add((one.spread, one.slides))
        found[at] = walk_tables(placement_of(claim, one.spread, one.slides, choices), sums)
        _check_chains(claim, f"choice {at} of those that are taken", one, found[at])
    return found


def _check_chains(claim: Claim, where: str, taken: TakenChoice, tables: WalkTables) -> None:
    if counts_chains(tables.checked.placed):
        check_count(claim, where, taken.chains, tables.checked)


def _check_points(claim: Claim, points: Sequence[ProvenPoint], tables: dict[int, WalkTables]) -> None:
    """Every point is a chain that fits and costs what it says."""
    for one in points:
        check_walked_chain(claim, (one.energy_fj, one.cycles), one.mapping, tables[one.chosen])
