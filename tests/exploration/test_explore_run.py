"""An exploration: which designs are evaluated, by whom, what is kept, and which designs nothing beats."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from tests.helpers.exploring import Formula, explored_by, networks, told, toy_space
from tests.helpers.pairs import first
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.exploration.evaluator import Metric, Origin, PointResult
from tilestitch.exploration.explore_text import explored_text
from tilestitch.exploration.front import pareto_front, vector
from tilestitch.exploration.methods import Grid, Nsga2, Random, Rounds
from tilestitch.exploration.objectives import OBJECTIVES, objective_named
from tilestitch.exploration.space import Space
from tilestitch.exploration.store import Record, Store
from tilestitch.exploration.workers import Workers

POINTS = 2 * toy_space().size


@pytest.fixture
def formula(tmp_path) -> Formula:
    return Formula(tmp_path / "calls")


# Which designs


def test_a_grid_is_every_design_with_every_network_once(formula):
    explored = explored_by(formula)
    assert sorted(explored.outcomes) == list(range(toy_space().size))
    assert len(formula.calls) == len(set(formula.calls)) == POINTS
    assert (explored.evaluated, explored.found) == (POINTS, 0)


def test_a_grid_that_is_too_large_is_refused():
    with pytest.raises(InputError, match="1,000,000 designs, and a grid at most 100,000; use --method random"):
        next(Grid()(toy_space("memories.lb.size=1..1000", "clusters=1..1000"), 2))


def test_random_designs_are_different_and_depend_on_the_seed_alone(formula, tmp_path):
    found = [next(Random(20, seed)(toy_space(), 2)) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    assert len(set(found[0])) == 20
    assert sorted(next(Random(1000, 0)(toy_space(), 2))) == list(range(toy_space().size))
    huge = toy_space("memories.lb.size=1..1000", "memories.gb.size=1..1000", "memories.weights.size=1..1000")
    assert len(next(Random(5, 0)(huge, 2))) == 5


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_the_genetic_search_asks_the_same_again_and_comes_nearer(seed):
    """Of 64^4 designs, to two that are close together: the last generation is less than half as far as the first."""
    space = toy_space(*(f"memories.{level}.size=1..64" for level in ("ddr", "gb", "lb", "weights")))

    def distances(design: int) -> tuple[float, ...]:
        return tuple(float(sum(abs(at - target) for at in space.choice(design))) for target in (20, 24))

    def found_by(seed: int) -> list[int]:
        rounds, found = Nsga2(320, seed, 16)(space, 2), []
        designs = next(rounds)
        while designs:
            found += designs
            try:
                designs = rounds.send([distances(design) for design in designs])
            except StopIteration:
                return found
        return found

    found = found_by(seed)
    assert found == found_by(seed) != found_by(seed + 1)
    first, last = (sum(sum(distances(design)) for design in generation) for generation in (found[:16], found[-16:]))
    assert last < 0.5 * first


def test_the_genetic_search_goes_on_where_designs_cannot_be(formula):
    """Infeasible designs count as trials, and have no descendants: later generations have fewer of them."""
    explored = explored_by(formula, Nsga2(64, 0, 16), names=("net",))
    assert 0 < len(explored.outcomes) <= 64
    assert len(formula.calls) == len(set(formula.calls)) == len(explored.outcomes)
    assert explored.infeasible
    assert set(explored.fronts[0]) <= set(explored.outcomes)


@dataclass(frozen=True)
class Asks:
    """A method that asks for these, round by round, and keeps what it is told."""

    rounds: tuple[tuple[int, ...], ...]
    heard: list[tuple[tuple[float, ...] | None, ...]]
    description: str = "asks"

    def trials(self, space: Space) -> int:
        return sum(map(len, self.rounds))

    def __call__(self, space: Space, objectives: int) -> Rounds:
        for designs in self.rounds:
            self.heard.append(tuple((yield designs)))


def test_a_method_is_told_what_its_designs_came_to_in_their_order(formula):
    """Also those that it asks for again, and those that cannot be."""
    rounds, heard = ((41, 3, 3, 17), (3, 50)), []
    explored = explored_by(formula, Asks(rounds, heard))  # pyright: ignore[reportArgumentType]
    vectors = explored.vectors(None)
    assert heard == [tuple(vectors.get(design) for design in designs) for designs in rounds]
    assert None in heard[0]
    assert len(set(heard[0])) == 3
    assert len(formula.calls) == 2 * 4


# What is best


def dominates(one, other) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


@pytest.mark.parametrize("objectives", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [0, 1, 5, 60])
def test_the_front_is_that_of_brute_force(objectives, count):
    """With many ties; equal designs stay together."""
    rng = random.Random(10 * objectives + count)
    vectors = {number: tuple(float(rng.randrange(6)) for _ in range(objectives)) for number in range(count)}
    expected = {
        number for number, values in vectors.items() if not any(dominates(other, values) for other in vectors.values())
    }
    front = pareto_front(vectors)
    assert set(front) == expected
    assert list(front) == sorted(front, key=lambda number: (vectors[number], number))


def test_networks_on_one_machine_add_up_and_its_size_does_not():
    """The product of energy and cycles is that of the sums."""
    outcomes = [
        PointResult(tuple(Metric(name, value, "", Origin.ESTIMATED) for name, value in row.items()))
        for row in (
            {"latency": 1.0, "energy": 2.0, "cycles": 3, "traffic": 4, "memory": 5, "macs": 6, "area": 0.5},
            {"latency": 10.0, "energy": 20.0, "cycles": 30, "traffic": 40, "memory": 5, "macs": 6, "area": 0.5},
        )
    ]
    assert vector(OBJECTIVES, outcomes) == (11, 33, 22, 22 * 33, 44, 5, 6, 0.5)
    assert vector(OBJECTIVES, [*outcomes, PointResult((), "too small")]) is None


def test_a_front_is_that_of_each_network_and_of_all_together(formula):
    explored = explored_by(formula)
    for network in (0, 1, None):
        vectors = explored.vectors(network)
        front = set(explored.fronts[network])
        assert front == {
            one for one, values in vectors.items() if not any(dominates(v, values) for v in vectors.values())
        }
    alone = explored_by(formula, names=("other",))
    assert alone.fronts[0] == explored.fronts[1]


def test_designs_that_cannot_be_are_told_with_their_reason(formula):
    """Those that contradict themselves, and those on which a network does not fit."""
    explored = explored_by(formula, names=("net",))
    reasons = {design: reason for design, _, reason in explored.infeasible}
    assert reasons
    for design in range(toy_space().size):
        values = toy_space().values(design)
        small = int(values["memories.lb.size"]) < 2048 * int(values["clusters"])
        assert (design in reasons) == small
    assert "points: 1,024 B are too few for net on 1 clusters" in explored_text(explored, store="")


def test_nothing_feasible_is_an_error():
    contradictory = toy_space("cores.0.count=3")
    with pytest.raises(
        DoesNotFit,
        match=r"no design of 1 can run; the first: toy.yaml: cores: expected 2 cores, as axis core",
    ):
        explored_in(contradictory)


def explored_in(space):
    from tilestitch.exploration.run import explore

    with Store(None) as points:
        return explore(
            space,
            networks("net"),
            Formula(Path(os.devnull)),
            Grid(),
            [objective_named("latency")],
            store=points,
            progress=lambda step, done, total: None,
        )


def test_two_designs_that_are_one_machine_are_evaluated_once(tmp_path):
    formula = Formula(tmp_path / "calls")
    space = toy_space("pes=128,16x8")
    from tilestitch.exploration.run import explore

    with Store(None) as points:
        explored = explore(
            space, networks("net"), formula, Grid(), [OBJECTIVES[0]], store=points, progress=lambda *step: None
        )
    assert len(formula.calls) == 1
    assert explored.fronts[0] == (0, 1)


# Who evaluates


@pytest.mark.parametrize("method", [Random(20, 3), Nsga2(32, 3, 8)], ids=["random", "optuna"])
def test_results_do_not_depend_on_who_evaluates(formula, method):
    """One process or two, in whatever order they end."""
    explored = [explored_by(formula, method, workers=Workers(count)) for count in (1, 2)]
    assert told(explored[0]) == told(explored[1])


# What is kept


def test_what_is_stored_is_not_evaluated_again(formula, tmp_path):
    """By whichever method and for whichever networks it was evaluated first; only what is new is added."""
    store = tmp_path / "points.sqlite"
    first = explored_by(formula, Random(20, 0), store=store, names=("net",))
    assert len(formula.calls) == 20
    second = explored_by(formula, store=store)
    assert (second.evaluated, second.found) == (POINTS - 20, 20)
    third = explored_by(formula, store=store)
    assert (third.evaluated, third.found) == (0, POINTS)
    assert len(formula.calls) == len(set(formula.calls)) == POINTS
    assert told(second) == told(third)
    assert {design: outcomes[0] for design, outcomes in third.outcomes.items()}.items() >= {
        design: outcomes[0] for design, outcomes in first.outcomes.items()
    }.items()


def test_another_evaluator_and_another_program_are_other_points(formula, tmp_path, monkeypatch):
    store = tmp_path / "points.sqlite"
    explored_by(formula, store=store, names=("net",))
    other = Formula(formula.log, identity="another formula")
    assert explored_by(other, store=store, names=("net",)).found == 0
    monkeypatch.setattr("tilestitch.exploration.run.program_digest", lambda: "0.0.0")
    assert explored_by(formula, store=store, names=("net",)).found == 0


def test_nobody_is_left_of_a_killed_exploration(tmp_path):
    """SIGKILL of the command alone: its workers notice, also those without work, and what they shared is removed."""
    log, store = tmp_path / "calls", tmp_path / "points.sqlite"
    command = f"from tests.helpers.exploring import main; main({str(log)!r}, {str(store)!r}, '0.1', '3')"
    process = subprocess.Popen([sys.executable, "-c", command], start_new_session=True)
    while len(Formula(log).calls) < 4:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    process.wait()
    try:
        for _ in range(300):  # seconds, unless the machine is busy
            if not is_there(process.pid) and not shared_by(process.pid):
                return
            time.sleep(0.1)
        pytest.fail(f"processes were left behind, or {shared_by(process.pid)}")
    finally:
        if is_there(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


def is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def shared_by(pid: int) -> list[str]:
    """Semaphores and memory, which joblib names after the process."""
    memory = Path("/dev/shm")
    found = [one.name for one in memory.iterdir()] if memory.is_dir() else []
    return [name for name in found if f"-{pid}-" in name or f"_{pid}_" in name]


@pytest.mark.slow
@pytest.mark.parametrize(
    "workers, moments",
    [(2, (POINTS // 2,)), (1, (POINTS // 3, 2 * POINTS // 3))],
)
def test_a_killed_exploration_goes_on_where_it_was(tmp_path, workers, moments):
    """SIGKILL after so many points: what was stored is not evaluated again, and nothing is missing."""
    log, store = tmp_path / "calls", tmp_path / "points.sqlite"
    whole = explored_by(Formula(tmp_path / "undisturbed"))
    command = f"from tests.helpers.exploring import main; main({str(log)!r}, {str(store)!r}, '0.01', '{workers}')"
    for kills, enough in enumerate(moments, 1):
        process = subprocess.Popen([sys.executable, "-c", command], start_new_session=True)
        while len(Formula(log).calls) < enough:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert stored(store) >= enough - kills * 2 * workers
    assert subprocess.run([sys.executable, "-c", command]).returncode == 0
    explored = explored_by(Formula(log), store=store)
    assert (explored.evaluated, explored.found) == (0, POINTS)
    assert (
        len(Formula(log).calls) <= POINTS + len(moments) * 2 * workers
    )  # those in flight, of which joblib begins a few early
    assert told(explored) == told(whole)


def stored(path: Path) -> int:
    if not path.exists():
        return 0
    with Store(path) as points:
        return len(points)


def test_two_processes_at_once_share_a_store(tmp_path):
    """Both end well, and every point is there once."""
    log, store = tmp_path / "calls", tmp_path / "points.sqlite"
    command = f"from tests.helpers.exploring import main; main({str(log)!r}, {str(store)!r}, '0', '1')"
    both = [subprocess.Popen([sys.executable, "-c", command]) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert stored(store) == POINTS
    assert explored_by(Formula(log), store=store).found == POINTS


@pytest.mark.parametrize("statement", range(12))
def test_a_store_that_another_process_makes_meanwhile_is_ours(tmp_path, monkeypatch, statement):
    """Whichever statement of ours it comes before, but for those in a transaction, which keeps it out."""
    path, plain, seen = tmp_path / "points.sqlite", sqlite3.connect, []

    class Overtaken(sqlite3.Connection):
        def execute(self, sql, *arguments):
            if len(seen) == statement and not self.in_transaction:
                monkeypatch.setattr(sqlite3, "connect", plain)
                Store(path).__exit__(None, None, None)
            seen.append(sql)
            return super().execute(sql, *arguments)

    monkeypatch.setattr(sqlite3, "connect", partial(plain, factory=Overtaken))
    with Store(path) as points:
        points.keep(RECORD, PointResult((), "too small"))
        assert len(points) == 1
    assert len(seen) > statement


RECORD = Record("key", "toy", {"a": "1"}, "digest", "text", "net", "network digest", "formula", "0")


def test_a_store_gives_back_what_it_got(tmp_path):
    """Whole numbers stay whole, others keep every bit; the first of two rows for one point stays."""
    outcome = PointResult((Metric("a", 2**60 + 1, "B", Origin.SIMULATED), Metric("b", 0.1 + 0.2, "s", Origin.MACHINE)))
    failed = PointResult((), "too small\nfor it", bug=True)
    with Store(tmp_path / "deep/er/points.sqlite") as points:
        points.keep(RECORD, outcome)
        points.keep(RECORD, failed)
        points.keep(replace(RECORD, key="other"), failed)
    with Store(tmp_path / "deep/er/points.sqlite") as points:
        assert points.outcome("key") == outcome
        assert points.outcome("other") == failed
        assert points.outcome("third") is None
        assert len(points) == 2
    rows = sqlite3.connect(tmp_path / "deep/er/points.sqlite").execute("SELECT machine, parameters FROM points")
    assert set(rows) == {("toy", '{"a": "1"}')}


def damage(path: Path, kind: str) -> None:
    """Make of a good store one that cannot be used."""
    content = path.read_bytes()
    match kind:
        case "a text":
            path.write_text("points\n")
        case "a database of another program":
            path.unlink()
            sqlite3.connect(path).execute("CREATE TABLE t (x)")
        case "cut off":
            path.write_bytes(content[: len(content) // 2])
        case "overwritten in the middle":
            path.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])
        case "a store of a later version":
            rows = sqlite3.connect(path)
            rows.execute("PRAGMA user_version = 99")
            rows.commit()
            rows.close()  # which moves it from the log of writes to the file
        case "a point that is no JSON" | "a point of other numbers":
            rows = sqlite3.connect(path)
            rows.execute(
                "UPDATE points SET metrics = ?", ("[[" if kind.endswith("JSON") else '[["a", "1", "B", "x"]]',)
            )
            rows.commit()
            rows.close()  # which moves it from the log of writes to the file
        case "a folder":
            path.unlink()
            path.mkdir()
        case "a pipe":
            path.unlink()
            os.mkfifo(path)


DAMAGES = (
    "a text",
    "a database of another program",
    "cut off",
    "overwritten in the middle",
    "a store of a later version",
    "a point that is no JSON",
    "a point of other numbers",
    "a folder",
    "a pipe",
)


def test_messages_of_stores_that_cannot_be_used(tmp_path, monkeypatch, golden, formula):
    """One error each, and what was there is left as it was."""
    monkeypatch.chdir(tmp_path)
    lines = []
    for kind in DAMAGES:
        path = Path(f"{kind.replace(' ', '-')}.sqlite")
        explored_by(formula, Random(30, 0), store=path, names=("net",))
        damage(path, kind)
        before = path.read_bytes() if path.is_file() else b""
        with pytest.raises(InputError) as error:
            explored_by(formula, store=path)
        lines.append(f"{kind}: {error.value}")
        assert not path.is_file() or path.read_bytes() == before
    (tmp_path / "file").touch()
    with pytest.raises(InputError) as error:
        Store(Path("file/points.sqlite"))
    lines.append(f"below a file: {error.value}")
    golden("explore-stores.txt", "\n".join(lines) + "\n")


def test_an_empty_file_becomes_a_store(tmp_path, formula):
    """As one that was killed before its first row leaves behind."""
    (tmp_path / "points.sqlite").touch()
    assert explored_by(formula, store=tmp_path / "points.sqlite").evaluated == POINTS


def test_a_network_twice_and_two_of_one_name_are_refused(formula):
    for names in (("net", "net"),):
        with pytest.raises(InputError, match="net: is given twice"):
            explored_by(formula, names=names)
