"""Judges the proof of a mapping on a tree by a search of its own, which shares the price of a cut and nothing else.

The chain that is claimed is priced and must fit. Then every choice of what is spread is looked at: tables, potentials
and counts are made anew, and where the potential does not settle it all beginnings of chains below the claim are
followed from the outermost cuts inwards. If one of them becomes a chain the claim is wrong.
"""

from collections.abc import Sequence
from math import prod

from tilestitch.base.errors import InvalidIR, printable
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import Optimum
from tilestitch.mapping.tree import outside_in
from tilestitch.mapping.tree.certificate import (
    ChoiceProof,
    TreeCertificate,
    counts_chains,
    mac_value,
    problem_digest,
    spread_texts,
)
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.checker_tables import CheckerTables, checker_tables
from tilestitch.mapping.tree.claim import MOST_LABELS, Claim, Verdict
from tilestitch.mapping.tree.outside_in import NEVER
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import Sums
from tilestitch.mapping.tree.walk_checking import check_walked_chain, walker_of
from tilestitch.mapping.tree.walk_tables import WalkTables, walk_tables, with_windows

MOST_STATES = 2**26  # tiles times which cuts are left: 8 bytes each for every operand
_MOST_VALUE = 2**60  # so that the cost of a label and of a cut are added in 64 bits
_PRIMES = (2**61 - 1, 2**62 - 57, 2**62 - 87, 2**62 - 117, 2**62 - 143, 2**62 - 153, 2**62 - 167, 2**62 - 171)


def check_certificate(
    certificate: TreeCertificate,
    placements: Sequence[PlacedNest],
    sums: Sums,
    objective: Objective = Objective.ENERGY,
) -> Verdict:
    """Judge a proof. Raises `InputError` that says which claim is wrong."""
    claim = Claim(placements[0].nest.name, Optimum(objective, certificate.value))
    if certificate.problem != problem_digest(placements, sums, objective):
        raise claim.wrong("it is of another nest, machine, spatial mapping, width of sums or objective")
    ways = ways_of(claim, certificate.choices, placements)
    if objective is Objective.ENERGY and counts_chains(placements[0]):
        judged = _judged_inwards(claim, certificate, ways, sums)
    else:
        chosen = walk_tables(ways[certificate.chosen], sums)
        check_walked_chain(claim, certificate.value, certificate.mapping, chosen)
        judged = judged_outwards(claim, certificate.choices, ways, sums)
    return verdict_of(certificate.choices, sum(judged))


def ways_of(claim: Claim, choices: Sequence[ChoiceProof], placements: Sequence[PlacedNest]) -> list[PlacedNest]:
    """Every way to spread loops and to let windows slide; refuses a proof that has others."""
    ways = [way for placed in placements for way in with_windows(placed)]
    if len(choices) != len(ways):
        raise claim.wrong(f"loops are spread in {len(ways):,} ways, it says what became of {len(choices):,}")
    for number, (proof, placed) in enumerate(zip(choices, ways, strict=True)):
        if proof.spread != spread_texts(placed):
            right, shown = (", ".join(one) or "nothing" for one in (spread_texts(placed), proof.spread))
            raise claim.wrong(f"choice {number} spreads {right}, it says {printable(shown, 80)}")
    return ways


def verdict_of(choices: Sequence[ChoiceProof], labels: int) -> Verdict:
    """What was done with all choices."""
    opened = [proof for proof in choices if proof.is_opened]
    return Verdict(len(choices), len(opened), sum(proof.chains or 0 for proof in opened), labels)


def _judged_inwards(claim: Claim, certificate: TreeCertificate, ways: Sequence[PlacedNest], sums: Sums) -> list[int]:
    """The labels that each choice took, from the outermost cuts inwards."""
    if not certificate.value < _MOST_VALUE:
        raise claim.wrong("its value is 2^60 or more")
    chosen = checker_tables(ways[certificate.chosen], sums)
    check_chain(claim, certificate.mapping, chosen)
    return [
        _judged(claim, f"choice {at}", proof, chosen if at == certificate.chosen else checker_tables(placed, sums))
        for at, (proof, placed) in enumerate(zip(certificate.choices, ways, strict=True))
    ]


def judged_outwards(claim: Claim, choices: Sequence[ChoiceProof], ways: Sequence[PlacedNest], sums: Sums) -> list[int]:
    """The labels that each choice took, from the units outwards: in time, and where loops between cuts matter."""
    named = ((f"choice {number}", proof) for number, proof in enumerate(choices))
    return [
        _walked_outwards(claim, where, proof, walk_tables(placed, sums))
        for (where, proof), placed in zip(named, ways, strict=True)
    ]


def _walked_outwards(claim: Claim, where: str, proof: ChoiceProof, tables: WalkTables) -> int:
    walker = walker_of(claim, lambda: where, tables)
    if _is_settled(claim, where, proof, walker.bound):
        return 0
    if counts_chains(tables.checked.placed):
        check_count(claim, where, proof.chains, tables.checked)
    return walker.labels_below()


def check_chain(claim: Claim, mapping: TreeMapping, tables: CheckerTables) -> None:
    """Refuse a chain that is none, does not fit, or has another energy."""
    placed = tables.placed
    claim.expect_chain(placed, mapping)
    if mapping.rows:
        raise claim.wrong("its mapping has rows of windows, where none slide")
    cuts = tables.cuts
    taken = [0] * len(cuts.limit)
    value = tables.fixed + mac_value(placed)
    for number, operand in enumerate(tables.operands):
        arriving = cuts.from_units if operand.is_write else 0
        ends = mapping.cuts[operand.number]
        inner = () if operand.is_write else (0,)
        for cut, end in enumerate((*inner, *ends), int(cuts.first[number])):
            is_at_units = not operand.is_write and cut == cuts.first[number]
            stays = () if is_at_units and not placed.tree.has_latches else operand.leaves_alone
            tile = tables.tile_number(_stretched(mapping, end, stays, len(placed.steps)))
            price = int(cuts.price[cut, tile])
            leaving = int(cuts.partial[cut, tile])
            room = int(cuts.room[cut, arriving, tile])
            if not cuts.possible[cut, arriving, tile]:
                raise claim.wrong(
                    f"its chain does not fit: cut {cut - int(cuts.first[number])} of {operand.array.name}"
                )
            if cuts.shared[cut] >= 0:
                taken[cuts.shared[cut]] += room
            value, arriving = value + price, leaving
    if any(room > limit for room, limit in zip(taken, cuts.limit.tolist(), strict=True)):
        raise claim.wrong("its chain does not fit: operands take more of a memory together than it has")
    claim.expect_value(claim.best.value, value, 0)


def _stretched(mapping: TreeMapping, end: int, alone: Sequence[int], loops: int) -> tuple[int, ...]:
    """The tile of so many innermost loops, and of those directly outside that leave an operand alone."""
    tile = [1] * loops
    for number, (loop, factor) in enumerate(mapping.loops):
        if number >= end and loop not in alone:
            break
        tile[loop] *= factor
    return tuple(tile)


def _judged(claim: Claim, where: str, proof: ChoiceProof, tables: CheckerTables) -> int:
    """The labels that it took to see that a choice has no chain below the claim."""
    cuts = tables.cuts
    found = outside_in.potentials(cuts)
    if outside_in.broken_edges(cuts, found):
        raise InvalidIR(f"{claim.name}: the potentials of the checker do not hold on every edge")
    beside = tables.fixed + mac_value(tables.placed)
    rows = [int(end) + number for number, end in enumerate(cuts.first[1:])]
    least = [int(found[row, 0, -1]) for row in rows]
    if _is_settled(claim, where, proof, None if max(least, default=0) >= NEVER else (sum(least) + beside, 0)):
        return 0
    check_count(claim, where, proof.chains, tables)
    ended, value, labels = outside_in.survivor(cuts, found, claim.best.value - beside, MOST_LABELS)
    if ended == outside_in.SURVIVED:
        raise claim.better(where, value + beside, 0)
    if ended == outside_in.TOO_MANY:
        raise claim.wrong(f"{where}: is not settled with {labels:,} labels")
    return int(labels)


def _is_settled(claim: Claim, where: str, proof: ChoiceProof, least: tuple[int, int] | None) -> bool:
    """Whether the least energy and latency alone settle a choice; refuses a proof that says something else."""
    bound = None if least is None else claim.best.bound(*least)
    if least is None or bound is None or not claim.best.is_above(*least):
        if proof.is_opened or proof.bound != bound:
            found_bound = "nothing fits" if bound is None else f"its bound is {claim.best.said(bound)}"
            said = "it was opened" if proof.is_opened else _said(claim, proof)
            raise claim.wrong(f"{where}: {found_bound}, it says {said}")
        return True
    if not proof.is_opened or proof.bound is not None:
        said = claim.best.said(bound)
        raise claim.wrong(f"{where}: its bound is {said}, which settles nothing, it says {_said(claim, proof)}")
    return False


def _said(claim: Claim, proof: ChoiceProof) -> str:
    return "nothing fits" if proof.bound is None else claim.best.said(proof.bound)


def check_count(claim: Claim, where: str, chains: int | None, tables: CheckerTables) -> None:
    """Count the chains anew, modulo primes whose product is above the largest count that there can be."""
    if chains is None:
        raise claim.wrong(f"{where}: it does not say how many chains there are")
    if tables.states > MOST_STATES:
        raise claim.wrong(f"{where}: has {tables.states:,} states; at most {MOST_STATES:,} are looked at")
    cuts = tables.cuts
    most = max(chains, prod(cuts.possible.any(axis=1).sum(axis=1).tolist()))
    known = 1
    for prime in _PRIMES:
        if outside_in.chains_modulo(cuts, prime) != chains % prime:
            raise claim.wrong(f"{where}: has not the {chains:,} chains that it says")
        known *= prime
        if known > most:
            return
    raise claim.wrong(f"{where}: has more chains than are counted")
