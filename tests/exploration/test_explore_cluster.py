"""An exploration on a Dask cluster of several processes on this machine."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.helpers.command import run
from tests.helpers.exploring import Formula, explored_by, told
from tests.helpers.pairs import first
from tilestitch.base.errors import InputError
from tilestitch.exploration import clusters, workers
from tilestitch.exploration.methods import Grid, Nsga2
from tilestitch.exploration.workers import Workers
from tilestitch.hardware.accelerator import Level


@contextmanager
def cluster_of(*, processes: bool) -> Iterator[str]:
    """Two workers, each a process or both in this one: the address, as `--cluster` takes it."""
    distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=processes,
        protocol="tcp://",
        dashboard_address=None,
        silence_logs=50,
    ) as made:
        yield made.scheduler_address.replace("tcp://", "dask://")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with cluster_of(processes=True) as address:
        yield address


@pytest.fixture
def formula(tmp_path) -> Formula:
    return Formula(tmp_path / "calls")


@dataclass(frozen=True)
class WithProcess(Formula):
    """Notes the process too."""

    def __call__(self, machine, prepared, name):
        with open(f"{self.log}.processes", "a") as file:
            file.write(f"{os.getpid()}\n")
        return super().__call__(machine, prepared, name)


@dataclass(frozen=True)
class Deadly(Formula):
    """Ends the process on one of the machines, as a lack of memory would."""

    def __call__(self, machine, prepared, name):
        local = machine.memory(Level.LB)
        if local is not None and local.size_bytes == 32768:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(machine, prepared, name)


@pytest.mark.parametrize("method", first(1, [Grid(), Nsga2(32, 0, 8)]), ids=["grid", "optuna"])
def test_workers_of_a_cluster_find_what_one_process_finds(tmp_path, method):
    there, here = Formula(tmp_path / "there"), Formula(tmp_path / "here")
    with cluster_of(processes=False) as address:
        assert told(explored_by(there, method, workers=Workers(0, address))) == told(explored_by(here, method))
    assert sorted(there.calls) == sorted(here.calls)


@pytest.mark.slow
@pytest.mark.parametrize("method", [Grid(), Nsga2(32, 0, 8)], ids=["grid", "optuna"])
def test_a_cluster_finds_what_one_process_finds(cluster, tmp_path, method):
    """Its two processes share the work."""
    there, here = WithProcess(tmp_path / "there", 0.005), Formula(tmp_path / "here")
    assert told(explored_by(there, method, workers=Workers(0, cluster))) == told(explored_by(here, method))
    assert sorted(there.calls) == sorted(here.calls)
    processes = set((tmp_path / "there.processes").read_text().split())
    assert len(processes) == 2
    assert str(os.getpid()) not in processes


@pytest.mark.slow
def test_the_command_takes_a_cluster_by_its_address(cluster):
    """And prints what it prints without one."""
    words = (
        "explore",
        "alexnet:small",
        "--machine",
        "toy",
        "--strategy",
        "tvm",
        "--vary",
        "bandwidth=4,8,16",
        "--vary",
        "clusters=1,2",
    )
    there, here = run(*words, "--cluster", cluster), run(*words, "--workers", 1)
    assert there.exit_code == 0, there.output
    assert there.stdout == here.stdout


@pytest.mark.slow
def test_workers_that_run_another_program_are_refused(cluster, formula, monkeypatch):
    """Before the first point, and where one comes later."""
    monkeypatch.setattr(clusters, "program_digest", lambda: str(os.getpid()))
    with pytest.raises(InputError, match="runs a different tilestitch"):
        explored_by(formula, workers=Workers(0, cluster))
    assert not formula.calls
    monkeypatch.undo()
    monkeypatch.setattr(workers, "program_digest", lambda: "other")
    with pytest.raises(InputError, match="a worker runs a different tilestitch"):
        explored_by(formula, workers=Workers(0, cluster))


def test_processes_that_die_are_one_error_and_what_was_stored_stays(tmp_path):
    """Of this machine."""
    store, deadly = tmp_path / "points.sqlite", Deadly(tmp_path / "calls")
    with pytest.raises(InputError, match="a worker process was killed"):
        explored_by(deadly, store=store, workers=Workers(2))
    explored = explored_by(Formula(tmp_path / "again"), store=store)
    assert 0 < explored.found <= len(deadly.calls)


@pytest.mark.slow
def test_workers_of_a_cluster_that_die_are_one_error(cluster, tmp_path):
    """Rather than a wait without end. The last test here: the cluster has lost workers."""
    store, deadly = tmp_path / "points.sqlite", Deadly(tmp_path / "calls")
    with pytest.raises(InputError, match=r"the work was abandoned, because .*; give the same command again"):
        explored_by(deadly, store=store, workers=Workers(0, cluster))
