"""Clusters that are there already: Dask and Ray, through joblib. Their packages are imported where they are used."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from joblib.parallel import ParallelBackendBase

from tilestitch.errors import InputError, printable
from tilestitch.explore.identity import program_digest

if TYPE_CHECKING:
    from distributed import Client

DASK = "dask://"
RAY = "ray"
CONNECT_SECONDS = 5
FORMS = "expected dask://HOST:PORT, the address of a Dask scheduler, or ray, for the Ray cluster of this machine"


def expect_cluster(cluster: str) -> None:
    """Refuse what names no cluster."""
    host, _, port = cluster.removeprefix(DASK).rpartition(":")
    good = cluster == RAY or (cluster.startswith(DASK) and host and port.isascii() and port.isdecimal())
    if not good:
        raise InputError(f"--cluster {printable(cluster, 100)}: {FORMS}")


@contextmanager
def dask_client(cluster: str) -> Iterator["Client"]:
    """A connection to the scheduler at dask://HOST:PORT, every worker of which runs this very program."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            f"--cluster {cluster}: needs the package distributed, which is not installed; "
            "install it with: pip install 'tilestitch[dask]'"
        ) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is said once, by us
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
            versions: Any = client.run(program_digest)  # a dict, as this client is not asynchronous
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
                    f"--cluster {cluster}: worker {worker} has another tilestitch than this one; install the same there"
                )
        yield client


def dask_backend(client: "Client") -> ParallelBackendBase:
    """What joblib calls a backend."""
    from joblib._dask import DaskDistributedBackend

    return DaskDistributedBackend(client=client)


@contextmanager
def ray_backend() -> Iterator[Any]:
    """Joblib's backend for the Ray cluster of this machine, or the one that RAY_ADDRESS names."""
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
        yield RayBackend()
    finally:
        ray.shutdown()
