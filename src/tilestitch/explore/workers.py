"""Points evaluated side by side: by processes of this machine, or by a Dask or Ray cluster that is there already.

Results come in the order in which they are done; nothing that depends on this order leaves `explore.run`.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from joblib import Parallel, cpu_count, delayed
from threadpoolctl import threadpool_limits

from tilestitch.errors import DoesNotFit, InputError, InvalidIR
from tilestitch.explore.clusters import RAY, dask_backend, dask_client, ray_backend
from tilestitch.explore.evaluator import Evaluator, Outcome, machine_metrics
from tilestitch.explore.identity import digest_of, program_digest
from tilestitch.hardware.load import parse_machine

_NETWORKS_KEPT = 8  # parsed, in each process
_RAY_ROUND = 4  # calls for each processor of a Ray cluster


@dataclass(frozen=True, slots=True)
class Network:
    """A network by name, and the digest of its bytes."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Task:
    """One point to evaluate."""

    number: int
    network: int  # its position among those of the exploration
    machine_text: str
    where: str


Evaluate: TypeAlias = Callable[[Sequence[Task]], Iterator[tuple[int, Outcome]]]  # numbers of tasks, as they are done


def packed(model: onnx.ModelProto, name: str) -> tuple[Network, np.ndarray]:
    """A network as it travels: joblib and Dask pass an array on once, however many tasks name it."""
    try:
        content = model.SerializeToString(deterministic=True)
    except ValueError:  # protobuf's limit
        raise InputError(f"{name}: has more than 2 GiB, which cannot be passed to other processes") from None
    return Network(name, digest_of(content)), np.frombuffer(content, np.uint8)


@dataclass(frozen=True, slots=True)
class Workers:
    """Who evaluates. `count` 0: as many as there are processors, or what the cluster has."""

    count: int = 0
    cluster: str = ""  # dask://HOST:PORT, or ray

    @contextmanager
    def opened(self, evaluator: Evaluator, networks: Sequence[tuple[Network, np.ndarray]]) -> Iterator[Evaluate]:
        """A function that evaluates tasks, while the context lasts; connections are closed behind it."""
        with ExitStack() as stack:
            pool = None

            def evaluate(tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
                nonlocal pool
                if not self.cluster and min(self.count or cpu_count(), len(tasks)) <= 1:
                    for task in tasks:
                        network, content = networks[task.network]
                        yield _own(*evaluated(task, evaluator, network, content))
                    return
                if pool is None:
                    pool = self._pool(stack)
                calls = [delayed(evaluated)(task, evaluator, *networks[task.network]) for task in tasks]
                with self._told():
                    for done in pool(calls):
                        yield _own(*done)

            yield evaluate

    def _pool(self, stack: ExitStack) -> Callable[[Sequence[Any]], Iterator[tuple[int, str, Outcome]]]:
        """What runs joblib's calls; results are passed on as they come, so that each is stored at once."""
        options: dict[str, Any] = {"n_jobs": -1, "batch_size": 1}  # which joblib's types do not allow
        if self.cluster == RAY:
            options |= {"backend": stack.enter_context(ray_backend())}
        elif self.cluster:
            options |= {"backend": dask_backend(stack.enter_context(dask_client(self.cluster)))}
        else:
            options |= {"n_jobs": self.count or cpu_count()}
        if self.cluster != RAY:
            options |= {"return_as": "generator_unordered"}
        pool: Any = stack.enter_context(Parallel(**options))
        if self.cluster != RAY:
            return pool

        def in_rounds(calls: Sequence[Any]) -> Iterator[tuple[int, str, Outcome]]:
            """Ray's backend returns lists alone: a few calls for each of its processors, and then the next few."""
            step = _RAY_ROUND * pool.n_jobs
            for first in range(0, len(calls), step):
                yield from pool(calls[first : first + step])

        return in_rounds

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What befalls workers, in our words."""
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        try:
            with warnings.catch_warnings():  # that tasks are given up when the work is interrupted, as was wanted
                warnings.filterwarnings("ignore", ".*tasks which were still being processed")
                warnings.filterwarnings("ignore", ".*tasks have been successfully executed but not used")
                yield
        except TerminatedWorkerError:
            raise InputError(
                "a worker process was ended from outside, perhaps for want of memory; take fewer --workers, and give "
                "the same command again: what is in the store is not repeated"
            ) from None


def evaluated(task: Task, evaluator: Evaluator, network: Network, content: np.ndarray) -> tuple[int, str, Outcome]:
    """One point, wherever this runs: its number, the program that evaluated it, and the outcome."""
    with threadpool_limits(1):
        try:
            machine = parse_machine(task.machine_text, task.where)
            metrics = evaluator(machine, _parsed(network, content), network.name)
        except (DoesNotFit, InputError) as error:
            return task.number, program_digest(), Outcome((), str(error))
        except InvalidIR as error:  # one machine for which our own values go wrong does not end an exploration
            return task.number, program_digest(), Outcome((), str(error), bug=True)
    return task.number, program_digest(), Outcome((*metrics, *machine_metrics(machine)))


_models: dict[str, onnx.ModelProto] = {}  # by digest, so that a process parses a network once and not for each point


def _parsed(network: Network, content: np.ndarray) -> onnx.ModelProto:
    if network.digest not in _models:
        if len(_models) >= _NETWORKS_KEPT:
            _models.clear()
        _models[network.digest] = onnx.ModelProto.FromString(content.tobytes())
    return _models[network.digest]


def _own(number: int, version: str, outcome: Outcome) -> tuple[int, Outcome]:
    """Refuse what another program evaluated."""
    if version != program_digest():
        raise InputError("a worker runs another tilestitch than this one; install the same version there")
    return number, outcome
