"""Points evaluated side by side: by processes of this machine, or by a Dask or Ray cluster that is there already.

Results come in the order in which they are done; nothing that depends on this order leaves `explore.run`.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from joblib import Parallel, cpu_count, delayed
from threadpoolctl import threadpool_limits

from tilestitch.base.errors import DoesNotFit, InputError, InvalidIR
from tilestitch.base.interruption import in_worker, with_parent
from tilestitch.exploration.clusters import Call, Pool, on_cluster
from tilestitch.exploration.evaluator import Evaluator, NamedNetwork, Packed, PointResult, machine_metrics
from tilestitch.exploration.identity import program_digest
from tilestitch.hardware.tree_load import parse_either

_NETWORKS_KEPT = 8  # prepared, in each process


@dataclass(frozen=True, slots=True)
class Task:
    """One point to evaluate."""

    number: int
    network: int  # its position among those of the exploration
    machine_text: str
    where: str


Evaluate: TypeAlias = Callable[[Sequence[Task]], Iterator[tuple[int, PointResult]]]  # by number, as they are done


@dataclass(frozen=True, slots=True)
class Workers:
    """Who evaluates. `count` 0: as many as there are processors, or what the cluster has."""

    count: int = 0
    cluster: str = ""  # dask://HOST:PORT, or ray

    @contextmanager
    def opened(self, evaluator: Evaluator, networks: Sequence[Packed]) -> Iterator[Evaluate]:
        """A function that evaluates tasks, while the context lasts; connections are closed behind it."""
        with ExitStack() as stack:
            pool: Pool | None = None

            def evaluate(tasks: Sequence[Task]) -> Iterator[tuple[int, PointResult]]:
                nonlocal pool
                calls = [(task, evaluator, *networks[task.network]) for task in tasks]
                if not self.cluster and min(self.count or cpu_count(), len(tasks)) <= 1:
                    yield from (_own(*evaluated(*call)) for call in calls)
                    return
                if pool is None:  # where everything is in the store, nobody is asked
                    pool = stack.enter_context(self._pool())
                for done in pool(evaluated, calls):
                    yield _own(*done)

            yield evaluate

    def _pool(self) -> AbstractContextManager[Pool]:
        return on_cluster(self.cluster) if self.cluster else _on_processes(self.count or cpu_count())


@contextmanager
def _on_processes(count: int) -> Iterator[Pool]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    options: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1}  # joblib's types know no 1
    with Parallel(n_jobs=count, **options, **with_parent()) as parallel:

        def run(function: Callable[..., Any], calls: Sequence[Call]) -> Iterator[Any]:
            try:
                with warnings.catch_warnings():  # that tasks are given up when the work is interrupted, as was wanted
                    warnings.filterwarnings("ignore", ".*tasks which were still being processed")
                    warnings.filterwarnings("ignore", ".*tasks have been successfully executed but not used")
                    yield from parallel(delayed(in_worker)(function, *call) for call in calls)
            except TerminatedWorkerError:
                raise InputError(
                    "a worker process was killed, perhaps for lack of memory; use fewer --workers, and "
                    "give the same command again: what is in the store is not repeated"
                ) from None

        yield run


def evaluated(
    task: Task, evaluator: Evaluator, network: NamedNetwork, content: np.ndarray
) -> tuple[int, str, PointResult]:
    """One point, wherever this runs: its number, the program that evaluated it, and the outcome."""
    with threadpool_limits(1):
        try:
            machine = parse_either(task.machine_text, task.where)
            metrics = evaluator(machine, _prepared(evaluator, network, content), network.name)
        except (DoesNotFit, InputError) as error:
            return task.number, program_digest(), PointResult((), str(error))
        except InvalidIR as error:  # one machine for which our own values go wrong does not end an exploration
            return task.number, program_digest(), PointResult((), str(error), bug=True)
    return task.number, program_digest(), PointResult((*metrics, *machine_metrics(machine)))


_networks: dict[str, Any] = {}  # by digest, so that a process prepares a network once and not for each point


def _prepared(evaluator: Evaluator, network: NamedNetwork, content: np.ndarray) -> Any:
    if network.digest not in _networks:
        if len(_networks) >= _NETWORKS_KEPT:
            _networks.clear()
        _networks[network.digest] = evaluator.prepared(content.tobytes())
    return _networks[network.digest]


def _own(number: int, version: str, outcome: PointResult) -> tuple[int, PointResult]:
    """Refuse what another program evaluated."""
    if version != program_digest():
        raise InputError("a worker runs a different tilestitch; install the same version there")
    return number, outcome
