"""The server itself: on the loopback address, at a port and with a token that nobody can guess."""

import asyncio
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tilestitch.base.errors import InputError, MissingPackage
from tilestitch.serve.app import Stopped, application
from tilestitch.serve.workbench import Workbench

HOST = "127.0.0.1"
_GRACE_SECONDS = 2  # for answers that are on their way when the server ends


def serve(folder: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve a folder until an interruption; `ready` is told the address as soon as it answers.

    Port 0 is one that is free. Raises `MissingPackage` without starlette and uvicorn, and `InputError` for a port that
    is taken.
    """
    try:
        import starlette  # noqa: F401  # pyright: ignore[reportMissingImports]
        import uvicorn  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingPackage(
            "tilestitch serve needs the packages starlette and uvicorn, which are not installed; install them with: "
            "pip install 'tilestitch[serve]'"
        ) from None

    stopping = False

    def progress(step: str, done: int, total: int) -> None:
        if stopping:
            raise Stopped("the server ends")

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            nonlocal stopping
            stopping = True  # what is computed ends at its next step
            super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready(address)  # only now: an interruption that comes any earlier leaves what has connected unanswered

    with _bound(port) as listening:
        found = listening.getsockname()[1]
        token = secrets.token_urlsafe(24)
        address = f"http://{HOST}:{found}/?token={token}"
        app = application(Workbench(folder, progress), token, found)
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        serving = Server(config).serve(sockets=[listening])
        try:
            asyncio.run(serving)  # an interruption comes again when it has ended
        finally:
            serving.close()  # where the interruption came first, it never began


def _bound(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        raise InputError(
            f"--port {port}: cannot be opened ({error.strerror}); leave it out to use any free port"
        ) from None
    return listening
