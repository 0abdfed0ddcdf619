"""Clusters that are there already, Dask and Ray. Their packages are imported where they are used.

Dask is asked directly: joblib 1.6 has a backend for it too, which waits for ever for a task whose worker died.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from joblib import Parallel, delayed

from tilestitch.base.errors import InputError, printable
from tilestitch.exploration.identity import program_digest

if TYPE_CHECKING:
    from distributed import Client

Call: TypeAlias = tuple[Any, ...]  # arguments of one call
Pool: TypeAlias = Callable[[Callable[..., Any], Sequence[Call]], Iterator[Any]]  # results as they come

DASK = "dask://"
RAY = "ray"
CONNECT_SECONDS = 5
FORMS = "expected dask://HOST:PORT, the address of a Dask scheduler, or ray, for the Ray cluster of this machine"
_AHEAD = 4  # calls that a cluster is given at a time, for each of its processors
_AGAIN = "give the same command again: what is in the store is not repeated"


def expect_cluster(cluster: str) -> None:
    """Refuse what names no cluster."""
    host, _, port = cluster.removeprefix(DASK).rpartition(":")
    good = cluster == RAY or (cluster.startswith(DASK) and host and port.isascii() and port.isdecimal())
    if not good:
        raise InputError(f"--cluster {printable(cluster, 100)}: {FORMS}")


@contextmanager
def on_cluster(cluster: str) -> Iterator[Pool]:
    """Calls that run there, while the context lasts."""
    with _on_ray() if cluster == RAY else _on_dask(cluster) as pool:
        yield pool


@contextmanager
def _on_dask(cluster: str) -> Iterator[Pool]:
    with _dask_client(cluster) as client:
        from distributed import CancelledError, KilledWorker, as_completed

        sent: dict[int, Any] = {}  # arrays by identity: each goes to every worker once

        def submit(function: Callable[..., Any], call: Call) -> Any:
            for argument in call:
                if isinstance(argument, np.ndarray) and id(argument) not in sent:
                    sent[id(argument)] = client.scatter(argument, broadcast=True, hash=False)
            arguments = [sent.get(id(argument), argument) for argument in call]
            return client.submit(function, *arguments, pure=False)

        def run(function: Callable[..., Any], calls: Sequence[Call]) -> Iterator[Any]:
            left = iter(calls)
            cores: Any = client.ncores()  # a dict, as this client is not asynchronous
            width = _AHEAD * max(1, sum(cores.values()))
            waiting = as_completed([submit(function, call) for call in islice(left, width)], loop=client.loop)
            for future in waiting:
                try:
                    result = future.result()
                except (KilledWorker, CancelledError, OSError) as error:
                    reason = (
                        "a task ended its worker, several times"
                        if isinstance(error, KilledWorker)
                        else "a worker or the scheduler is gone"
                    )
                    raise InputError(
                        f"--cluster {cluster}: the work was abandoned, because {reason}; {_AGAIN}"
                    ) from None
                yield result
                for call in islice(left, 1):
                    waiting.add(submit(function, call))

        yield run


@contextmanager
def _dask_client(cluster: str) -> Iterator["Client"]:
    """A connection to the scheduler at dask://HOST:PORT, every worker of which runs this very program."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            f"--cluster {cluster}: needs the package distributed, which is not installed; "
            "install it with: pip install 'tilestitch[dask]'"
        ) from None
    for logger in ("distributed", "distributed.client"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)  # what goes wrong is said once, by us
    try:
        client = Client(
            f"tcp://{cluster.removeprefix(DASK)}",
            timeout=CONNECT_SECONDS,
            set_as_default=False,
            heartbeat_interval="5s",
        )
    except (OSError, ValueError):  # TimeoutError is an OSError
        raise InputError(
            f"--cluster {cluster}: no Dask scheduler answers there; start one with: dask scheduler"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            versions: Any = client.run(program_digest)
        except TimeoutError:
            raise InputError(
                f"--cluster {cluster}: the scheduler has no workers; start some with: "
                f"dask worker {cluster.removeprefix(DASK)} --nthreads 1"
            ) from None
        except ImportError:
            raise InputError(f"--cluster {cluster}: its workers have no tilestitch; install it there") from None
        for worker, version in sorted(versions.items()):
            if version != program_digest():
                raise InputError(
                    f"--cluster {cluster}: worker {worker} runs a different tilestitch; install the same version there"
                )
        yield client


@contextmanager
def _on_ray() -> Iterator[Pool]:
    """Through joblib, on the Ray cluster of this machine or the one that RAY_ADDRESS names."""
    try:
        import ray  # pyright: ignore[reportMissingImports]
        from ray.util.joblib.ray_backend import RayBackend  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError(
            "--cluster ray: needs the package ray, which is not installed; install it with: pip install ray"
        ) from None
    try:
        ray.init(address="auto", logging_level=logging.CRITICAL, log_to_driver=False)
    except ConnectionError:
        raise InputError("--cluster ray: no Ray cluster answers; start one with: ray start --head") from None
    try:
        step = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        with Parallel(n_jobs=-1, backend=RayBackend()) as parallel:

            def run(function: Callable[..., Any], calls: Sequence[Call]) -> Iterator[Any]:
                """Ray's backend returns lists alone: a few calls for each processor, and then the next few."""
                for first in range(0, len(calls), step):
                    try:
                        done = parallel(delayed(function)(*call) for call in calls[first : first + step])
                    except ray.exceptions.RayError as error:
                        reason = printable(str(error).strip().splitlines()[-1], 200)
                        raise InputError(f"--cluster ray: the work was abandoned ({reason}); {_AGAIN}") from None
                    yield from done

            yield run
    finally:
        ray.shutdown()
