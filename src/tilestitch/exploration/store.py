"""The database of evaluated points: one row for each, written as soon as it is known, found again by its key.

A point is a network on a machine, priced by an evaluator of one version of the program: its key is the digest of these
four, so what a row says never changes, whichever exploration asks. A process that is killed loses the points that it
had not finished; several processes may use one store at a time.
"""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType

from tilestitch.base.errors import InputError, printable
from tilestitch.exploration.evaluator import Metric, Origin, PointResult

APPLICATION = 0x54535058  # marks a database as ours
VERSION = 1
WAIT_SECONDS = 60.0  # for another process that writes
_MAGIC = b"SQLite format 3\0"
_TABLES = """
CREATE TABLE machines (digest TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE points (
    key TEXT PRIMARY KEY,
    machine TEXT NOT NULL,
    parameters TEXT NOT NULL,
    machine_digest TEXT NOT NULL REFERENCES machines,
    network TEXT NOT NULL,
    network_digest TEXT NOT NULL,
    evaluator TEXT NOT NULL,
    program TEXT NOT NULL,
    infeasible TEXT NOT NULL,
    bug INTEGER NOT NULL,
    metrics TEXT NOT NULL
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Record:
    """What a row holds beside the outcome: what was evaluated, for readers; the key says it all in one digest."""

    key: str
    machine: str  # its name
    parameters: Mapping[str, str]  # of the exploration that came first
    machine_digest: str
    machine_text: str
    network: str
    network_digest: str
    evaluator: str
    program: str


class Store:
    """An open database; without a path one in memory, which is gone afterwards."""

    def __init__(self, path: Path | None) -> None:
        self.where = "points" if path is None else printable(str(path))
        if path is not None:
            _expect_database(path, self.where)
        with self._told():
            self._rows = sqlite3.connect(":memory:" if path is None else path, WAIT_SECONDS, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._rows.close()
                raise

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(sqlite3.Error):  # every row is safe already
            self._rows.close()

    def outcome(self, key: str) -> PointResult | None:
        """What is known of a point, None where it was not evaluated."""
        with self._told():
            row = self._rows.execute("SELECT infeasible, bug, metrics FROM points WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            metrics = tuple(
                Metric(str(name), _number(value), str(unit), Origin(origin))
                for name, value, unit, origin in json.loads(row[2])
            )
        except (TypeError, ValueError):
            raise self._damaged("a point cannot be read") from None
        return PointResult(metrics, str(row[0]), bool(row[1]))

    def keep(self, record: Record, outcome: PointResult) -> None:
        """Write one point, all of it or nothing; where another process was faster, its row stays."""
        metrics = json.dumps([astuple(one) for one in outcome.metrics], allow_nan=False)
        parameters = json.dumps(record.parameters, ensure_ascii=False)
        shown = (record.machine, parameters, record.machine_digest, record.network, record.network_digest)
        row = (record.key, *shown, record.evaluator, record.program, outcome.infeasible, outcome.bug, metrics)
        with self._told(), self._transaction():
            machine = (record.machine_digest, record.machine_text)
            self._rows.execute("INSERT OR IGNORE INTO machines VALUES (?, ?)", machine)
            self._rows.execute(f"INSERT OR IGNORE INTO points VALUES ({', '.join('?' * len(row))})", row)

    def __len__(self) -> int:
        with self._told():
            return self._rows.execute("SELECT count(*) FROM points").fetchone()[0]

    def _prepare(self) -> None:
        """Refuse what is not ours or damaged, and make the tables of what is new."""
        ours = self._expect_ours()  # first, because whatever follows writes
        self._write_ahead()
        self._rows.execute("PRAGMA synchronous = FULL")
        if ours:
            return
        with self._transaction():
            if not self._expect_ours():  # another process may have made them in between
                for statement in _TABLES.split(";\n")[:-1]:
                    self._rows.execute(statement)
                self._rows.execute(f"PRAGMA application_id = {APPLICATION}")
                self._rows.execute(f"PRAGMA user_version = {VERSION}")

    def _write_ahead(self) -> None:
        """Readers see a store while it is written. SQLite does not wait by itself where two processes ask for this."""
        for attempt in range(200):
            try:
                self._rows.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or attempt == 199:
                    raise
                time.sleep(0.05)

    def _expect_ours(self) -> bool:
        """Whether the tables are there; refuses those of somebody else."""
        # Tables are counted first: where another process makes them behind that, its numbers are there as well.
        tables, application, version = (
            self._rows.execute(query).fetchone()[0]
            for query in ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
        )
        if application == 0 and tables == 0:
            return False
        if application != APPLICATION:
            raise InputError(f"{self.where}: is a database of another program; choose another path for the store")
        if version != VERSION:
            raise InputError(f"{self.where}: is a store of version {version}, not {VERSION}; choose another path")
        found = self._rows.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise self._damaged(str(found))
        return True

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._rows.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._rows.execute("COMMIT")
        finally:
            if self._rows.in_transaction:
                self._rows.execute("ROLLBACK")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's errors in our words."""
        try:
            yield
        except sqlite3.OperationalError as error:
            reason = printable(str(error))
            raise InputError(
                f"{self.where}: the store cannot be used ({reason}); choose another path, or free some space"
            ) from None
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from None

    def _damaged(self, reason: str) -> InputError:
        shown = printable(reason.splitlines()[-1], 200)
        return InputError(f"{self.where}: the store is damaged ({shown}); move it away, or choose another path")


def _expect_database(path: Path, where: str) -> None:
    """A file that SQLite made, an empty one, or none; its folder is made where it is missing."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{where}: is not a file; expected a store, or a path for one")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            return
        with open(path, "rb") as file:
            begin = file.read(len(_MAGIC))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else printable(str(error))
        raise InputError(f"{where}: the store cannot be opened ({reason}); choose another path") from None
    if begin not in (b"", _MAGIC):
        raise InputError(f"{where}: is not a store of explore; choose another path for the store")


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("no number")
    return value
