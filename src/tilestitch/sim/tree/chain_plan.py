"""The streams of several operators as one plan, with what is done to intermediates in between as streams of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, prod

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.hardware.tree import Flow, Port, TreeMemory
from tilestitch.sim.tree.chain import ChainRun, Moment
from tilestitch.sim.tree.streams import NONE, Plan, Streams, plan_of, port_cycles


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass over an intermediate at home takes: cycles of ports, and accesses with their pJ, by direction."""

    link: int
    memory: str
    times: int  # in all
    cycles: tuple[tuple[str, int], ...]
    accesses: tuple[tuple[Flow, Fraction, float], ...]


def pass_of(run: ChainRun, link: int) -> Pass:
    """Between two operators: every element of the tile at home is read there, and written, so many times."""
    has, one, fed = run.links[link], run.runs[link], run.wiring.fed(link)
    other = run.runs[fed.reader]
    memory = one.chains[one.written][-1]
    homes = prod(factor for axis, _, factor in one.spread if axis not in memory.serves)
    bits = prod(run.written_shape(link)) // homes * other.nest.reads[fed.read].element_bits
    shared = one.loops[len(one.loops) - run.common(link) :]
    cycles: dict[str, int] = {}
    accesses: list[tuple[Flow, Fraction, float]] = []
    ends = ((other.homes[fed.read], Flow.FEED, memory.read_pj), (one.homes[-1], Flow.COLLECT, memory.write_pj))
    for home, flow, pj in ends:
        port = _port(memory, home, flow)
        name = f"{memory.name}.{port.name}"
        cycles[name] = cycles.get(name, 0) + has.passes * port_cycles(port, bits)
        granules = ceil(Fraction(bits, port.granule_bits)) * port.granule_bits
        accesses.append((flow, has.passes * homes * Fraction(granules, port.width_bits), pj))
    return Pass(link, memory.name, prod(factor for _, factor in shared), tuple(cycles.items()), tuple(accesses))


def _port(memory: TreeMemory, home: str, flow: Flow) -> Port:
    found = memory.port(home, flow)
    if found is None:
        raise InvalidIR(f"{memory.name} has no port for {home} ({flow})")
    return found


def joined(run: ChainRun, every: Sequence[Streams], passes: Sequence[Pass]) -> tuple[Plan, tuple[str, ...]]:
    """One plan of all streams, operator by operator, then of all passes; and the names of its ports."""
    plans = [plan_of(one) for one in every]
    names = [name for one in every for name in one.ports] + [name for one in passes for name, _ in one.cycles]
    ports = tuple(dict.fromkeys(names))
    first = np.cumsum([0, *(len(plan.up) for plan in plans)])
    loops = np.cumsum([0, *(len(plan.factors) for plan in plans)])
    rows = np.cumsum([0, *(len(plan.work) for plan in plans)])
    ends = np.cumsum([0, *(plan.ends.shape[1] for plan in plans)])
    operands = np.cumsum([0, *(len(one.operands) for one in run.runs)])
    count, more, nests = int(first[-1]), len(passes), len(plans)
    width = max([*(plan.port.shape[1] for plan in plans), *(len(one.cycles) for one in passes)])
    steps = max(plan.end_kinds.shape[2] for plan in plans)

    def column(name: str, after: int, offsets: np.ndarray | None = None) -> np.ndarray:
        parts = []
        for at, plan in enumerate(plans):
            own = getattr(plan, name)
            parts.append(own if offsets is None else np.where(own == NONE, NONE, own + offsets[at]))
        return np.concatenate([*parts, np.full(more, after, parts[0].dtype)])

    port, work = np.zeros((count + more, width), np.int64), np.zeros((rows[-1] + more, width), np.int64)
    is_end = np.zeros((count + more, ends[-1]), np.bool_)
    kinds = np.zeros((count + more, ends[-1], steps), np.int64)
    until = np.full_like(kinds, steps)
    for at, (plan, one) in enumerate(zip(plans, every, strict=True)):
        number_of = np.array([ports.index(name) for name in one.ports] or [0], np.int64)
        here, own = slice(first[at], first[at + 1]), plan.port.shape[1]
        port[here, :own] = number_of[plan.port]
        work[rows[at] : rows[at + 1], :own] = plan.work
        of_nest, deep = slice(ends[at], ends[at + 1]), plan.end_kinds.shape[2]
        is_end[here, of_nest] = plan.ends
        kinds[here, of_nest, :deep] = plan.end_kinds
        until[here, of_nest, :deep] = plan.end_until
    for at, one in enumerate(passes):
        for place, (name, cycles) in enumerate(one.cycles):
            port[count + at, place], work[rows[-1] + at, place] = ports.index(name), cycles
    turns, turn, begins = _turns(run)
    periods = np.zeros((nests + 1, max(plan.periods.shape[1] for plan in plans)), np.int64)
    for at, plan in enumerate(plans):
        periods[at, : plan.periods.shape[1]] = plan.periods[0]
    table = dict[str, np.ndarray](
        up=column("up", 0),
        tile=column("tile", 0),
        tiles=np.concatenate([column("tiles", 0)[:count], [one.times for one in passes]]).astype(np.int64),
        buffers=column("buffers", 1),
        due=column("due", 0),
        urgent=column("urgent", 0),
        source=column("source", NONE, first),
        ratio=column("ratio", 1),
        room=column("room", NONE, first),
        room_ratio=column("room_ratio", 1),
        room_buffers=column("room_buffers", 1),
        gate=column("gate", NONE, first),
        even=column("even", 0),
        units=column("units", 0),
        first=column("first", 0),
        place=column("place", int(loops[-1]), loops),
        outer=np.concatenate(
            [np.repeat(loops[:-1], np.diff(first)) + column("outer", 0)[:count], np.full(more, loops[-1])]
        ),
        operand=column("operand", 0, operands),
        factors=np.concatenate([plan.factors for plan in plans]),
        reduces=np.concatenate([plan.reduces for plan in plans]),
        port=port,
        work=work,
        kind=np.concatenate([column("kind", 0, rows)[:count], rows[-1] + np.arange(more)]),
        ends=is_end,
        end_of=np.concatenate(
            [np.where(plan.end_of == NONE, NONE, plan.end_of + ends[at]) for at, plan in enumerate(plans)]
        ),
        end_steps=np.concatenate([plan.end_steps for plan in plans]),
        end_kinds=kinds,
        end_until=until,
        nest=np.concatenate([np.repeat(np.arange(nests), np.diff(first)), np.full(more, nests)]),
        turn=turn,
        turns=turns,
        first_turn=np.concatenate([[0], np.cumsum(turns)[:-1]]),
        begins=begins,
        periods=periods,
    )
    return Plan(**table), ports


def _turns(run: ChainRun) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Turns of each operator, their steps, and when each begins; behind them one for passes, whenever they are."""
    begins: list[list[int]] = [[] for _ in run.runs]
    turn = [1] * len(run.runs)
    now = 0
    for moment, block in run.events():
        if moment is Moment.STEPS:
            one = run.operators[block.first]
            turn[block.first] = one.steps_inside(len(one.loops) - block.outside)
            begins[block.first].append(now)
            now += turn[block.first]
    every = [*begins, [0]]
    flat = np.array([step for some in every for step in some], np.int64)
    return np.array([len(some) for some in every], np.int64), np.array([*turn, 1], np.int64), flat
