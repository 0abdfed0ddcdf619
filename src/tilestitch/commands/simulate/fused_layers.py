"""Chains in their best fused mappings, simulated, beside what the model estimates and beside the unfused mappings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.base.progress import Progress
from tilestitch.base.shown import Brief
from tilestitch.base.units import format_energy
from tilestitch.commands.map.fused_run import FusedChains
from tilestitch.commands.map.named_chain import NamedChain
from tilestitch.commands.simulate.tree_layers import run_of, simulated_mapping
from tilestitch.ir.choices import Values
from tilestitch.mapping.fused.chain import Chain
from tilestitch.mapping.fused.mapping import FusedMapping
from tilestitch.mapping.fused.search import FoundChain, FoundGroup, best_chain
from tilestitch.mapping.optimum import value_of
from tilestitch.mapping.tree.bound import wired
from tilestitch.mapping.tree.choices import Ragged
from tilestitch.sim.tree.chain import ChainRun, rooms_of
from tilestitch.sim.tree.chain_simulated import SimulatedChain, run_chain
from tilestitch.sim.tree.chain_values import chain_operands, expect_right, met, padded, passed_on
from tilestitch.sim.tree.run import TreeRun, Window, expect_simulated
from tilestitch.sim.tree.simulated import SimulatedOnTree, run_on_tree, simulate_on_tree
from tilestitch.sim.tree.wiring import ChainLink, Reading, Wiring


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedGroup(Brief):
    """Operators that run together, or one alone: what was found, and what the simulator made of it."""

    found: FoundGroup
    simulated: SimulatedChain | SimulatedOnTree


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedFused(Brief):
    """A chain in its best fused mapping, group by group, and its operators in their best mappings without fusion.

    `instead` says which other mapping it is where the best one is not simulated, and why; else nothing. What is done
    to intermediates between groups, in the outermost memory, takes what the model says, and so does what leaves a group
    in which it stays.
    """

    chain: NamedChain
    found: FoundChain
    groups: tuple[SimulatedGroup, ...]
    unfused: tuple[SimulatedOnTree, ...]
    values: Values
    instead: str = ""

    @property
    def cycles(self) -> int:
        """Of all groups, one after another."""
        return sum(group.simulated.cycles for group in self.groups) + self.found.outside_cycles

    @property
    def energy_pj(self) -> float:
        return sum(group.simulated.energy_pj for group in self.groups) + self.found.outside_pj

    @property
    def unfused_cycles(self) -> int:
        return sum(one.cycles for one in self.unfused) + self.found.unfused_outside_cycles

    @property
    def unfused_pj(self) -> float:
        return sum(one.energy_pj for one in self.unfused) + self.found.unfused_outside_pj

    @property
    def cycle_error(self) -> float:
        """Of the estimate, relative to what was simulated."""
        return self.found.latency_cycles / self.cycles - 1

    @property
    def of_unfused(self) -> float:
        """The objective, simulated: the part that fused operators have of that of unfused ones."""
        objective = self.found.objective
        unfused = value_of(objective, self.unfused_pj, self.unfused_cycles)
        return value_of(objective, self.energy_pj, self.cycles) / unfused

    @property
    def macs(self) -> int:
        return sum(one.nest.macs for one in self.found.chain.operators)


def simulate_fused(mapped: FusedChains, values: Values, progress: Progress) -> tuple[SimulatedFused, ...]:
    """Every chain in its best fused mapping, on values that go from each operator to the next.

    Raises `InputError` for what is not simulated, `InvalidIR` where a result is not numpy's.
    """
    for one in mapped.unmapped:
        raise InputError(f"chain {one.label} has no mapping to simulate: {one.reason}")
    return tuple(_simulated(mapped, chain, found, values, progress) for chain, found in mapped.chains)


def _simulated(
    mapped: FusedChains, chain: NamedChain, found: FoundChain, values: Values, progress: Progress
) -> SimulatedFused:
    found, instead = _simulated_chain(mapped, chain, found)
    name, wiring = chain.label, _wiring(found)
    show = partial(progress, f"simulate {name}")
    operands = None if values is Values.NONE else chain_operands(wiring, values)
    groups: list[SimulatedGroup] = []
    said = [instead] if instead else []
    result: np.ndarray | None = None
    results: dict[int, np.ndarray] = {}  # of operators whose results go out, as others read them
    for group in found.groups:
        own: list[list[np.ndarray | None]] | None = None
        beside: dict[tuple[int, int], np.ndarray] = {}
        if operands is not None:
            own = [list(operands[number]) for number in group.numbers]
            beside = _made_before(wiring, group, results)
            for at, read in [one for one in beside if _is_all_read(wiring, group, one)]:
                own[at][read] = beside.pop((at, read))
        if group.mapping is not None:
            run = chain_run(group.mapping)
            simulated: SimulatedChain | SimulatedOnTree = run_chain(run, own, show, beside)
        else:
            assert group.alone is not None
            chosen, why = simulated_mapping(group.alone, mapped.task.space)
            said += [f"{chain.names[group.last]}: {why}"] if why else []
            alone_run = run_of(chosen.placed, chosen.mapping)
            expect_simulated(alone_run)
            arrays = None if own is None else [array for array in own[0] if array is not None]
            simulated = run_on_tree(alone_run, arrays, show)
        result = simulated.result
        if result is not None:  # the axes of a grouped convolution's channels as one
            result = result.reshape(wiring.nests[group.last].write.shape)
        if result is not None and group.mapping is None:
            added = beside.get((0, len(wiring.nests[group.last].reads)))
            result = result if added is None else result + added[tuple(map(slice, result.shape))]
        if result is not None and group.last < len(wiring.links):
            results[group.last] = passed_on(result, wiring.links[group.last])
        if isinstance(simulated, SimulatedChain):
            results |= {group.numbers[at]: array for at, array in simulated.left.items()}
        groups.append(SimulatedGroup(group, simulated))
    if operands is not None:
        assert result is not None
        expect_right(f"{name} on {mapped.task.tree.name}", result, wiring, operands)
    unfused = [simulated_mapping(one, mapped.task.space)[0] for one in found.unfused]
    alone = tuple(simulate_on_tree(run_of(one.placed, one.mapping), values=Values.NONE) for one in unfused)
    return SimulatedFused(
        chain, found, tuple(groups), alone, values, f"chain {name}: {'; '.join(said)}" if said else ""
    )


def _wiring(found: FoundChain) -> Wiring:
    links = [ChainLink(one.read, "", 0, one.passes, one.whole, is_factor=one.is_factor) for one in found.chain.links]
    nests = tuple(one.nest for one in found.chain.operators)
    return Wiring(nests, tuple(links), found.chain.readers, _more(found.chain))


def _more(chain: Chain) -> tuple[Reading, ...]:
    return tuple(Reading(one.link, one.reader, one.read, one.is_factor) for one in chain.more)


def _made_before(
    wiring: Wiring, group: FoundGroup, results: Mapping[int, np.ndarray]
) -> dict[tuple[int, int], np.ndarray]:
    """What a group reads of groups before it, by its place in the group and its read; what meets as one array.

    And what is added to a result in it.
    """
    made = dict[tuple[int, int], np.ndarray]()
    for number in sorted(results):
        for one in wiring.readings(number):
            if one.reader in group.numbers and number not in group.numbers:
                key, operand = (group.numbers.index(one.reader), one.read), wiring.nests[one.reader].operands[one.read]
                array = padded(results[number], operand.shape)
                made[key] = met(made[key], array, one) if key in made else array
    return made


def _is_all_read(wiring: Wiring, group: FoundGroup, key: tuple[int, int]) -> bool:
    """Whether what an operator of a group reads was made before as a whole, and is not added to what it makes."""
    at, read = key
    makers = [one.link for one in wiring.read_by(group.numbers[at]) if one.read == read]
    return bool(makers) and not any(link in group.numbers for link in makers)


def _simulated_chain(mapped: FusedChains, chain: NamedChain, found: FoundChain) -> tuple[FoundChain, str]:
    """The fused mappings that are simulated: those that were found, or the best of factors that divide, and why."""
    full = [text for group in found.groups if group.mapping is not None for text in _too_full(group.mapping)]
    if not full:
        return found, ""
    task = mapped.task
    exact = replace(task.space, ragged=Ragged.NONE)
    spaces = [wired(one, exact) for one in found.chain.operators]
    other = best_chain(found.chain, mapped.sums, spaces, most=task.most, objective=task.objective)
    price = f"{found.latency_cycles:,} cycles, {format_energy(found.energy_pj)}, estimated"
    own = f"{other.latency_cycles:,} cycles, {format_energy(other.energy_pj)}, estimated"
    return other, (
        f"in the fullest step of its best mapping ({price}) {full[0]}, and fewer on average over the steps; simulated "
        f"instead: the best of factors that divide ({own})"
    )


def _too_full(mapping: FusedMapping) -> list[str]:
    """The memories that the fullest step of a mapping does not fit, as "acc needs 40 of 32 bits"."""
    if all(one.factor.denominator == 1 for own in mapping.unrolled for one in own):
        return []
    rooms = rooms_of(chain_run(mapping))
    return [f"{one.memory} needs {one.bits:,} of {one.size_bits:,} bits" for one in rooms if one.bits > one.size_bits]


def chain_run(fused: FusedMapping) -> ChainRun:
    """A fused mapping as the simulator takes it."""
    chain = fused.chain
    placed = [replace(one, unrolled=own) for one, own in zip(chain.operators, fused.unrolled, strict=True)]
    links = tuple(
        ChainLink(link.read, home, shared, link.passes, link.whole, ahead, link.is_factor, link.leaves)
        for link, home, shared, ahead in zip(chain.links, fused.homes, fused.shared, fused.kept_ahead(), strict=True)
    )
    runs = [run_of(one, own) for one, own in zip(placed, fused.mappings, strict=True)]
    operators = tuple(_in_windows(fused, number, one) for number, one in enumerate(runs))
    return ChainRun(operators, links, chain.readers, _more(chain))


def _in_windows(fused: FusedMapping, number: int, run: TreeRun) -> TreeRun:
    """An operator with the loops that go over its windows."""
    part, _ = fused.inside(number, min(fused.own_loops(number)))
    windows = [
        Window(place, step, fused.inside(number, place + 1)[0][run.loops[place][0]])
        for place, step in fused.windows(number)
    ]
    if fused.kept_visits():  # each operator has as many as there are rows to make
        place = len(run.loops) - min(fused.shared)
        loops = list(run.loops)
        loops[place] = loops[place][0], fused.kept_visits()[number]
        run = replace(run, loops=tuple(loops))
    return replace(run, part=part if part != run.nest.extents else (), windows=tuple(windows))
