"""The page over HTTP. Every request needs the token of the server, and is for its own address; answers stay here."""

import secrets
from collections.abc import Callable
from html import escape
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from tilestitch.base.errors import InvalidIR, TilestitchError
from tilestitch.base.json_values import Json
from tilestitch.serve.protocol import body, compile_request, save_request
from tilestitch.serve.workbench import Exists, Workbench

if TYPE_CHECKING:
    from starlette.applications import Starlette  # pyright: ignore[reportMissingImports]
    from starlette.types import ASGIApp, Message, Receive, Scope, Send  # pyright: ignore[reportMissingImports]

TOKEN_HEADER = "x-tilestitch-token"
MOST_BYTES = 2**20  # of a request
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The page of a run has its script and its style in itself, and asks nobody for anything.
RUN_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_STATIC = {"serve.js": "text/javascript", "serve.css": "text/css"}
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)

_Result = TypeVar("_Result")


class Stopped(TilestitchError):
    """The server ends, and what it computes is given up."""


class Guard:
    """Lets requests through that are for this server and know its token, and refuses all others with 403.

    The `Host` has to be the loopback address: a name that somebody else makes point here is not ours. A request that
    changes anything says the token in a header, which no other site can send without being asked first, and nobody
    answers that.
    """

    def __init__(self, app: "ASGIApp", token: str, port: int) -> None:
        self.app, self.token = app, token.encode()
        self.hosts = frozenset(f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost"))
        self.origins = frozenset(b"http://" + host for host in self.hosts)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            return  # lifespan and websockets are not offered

        async def answer(message: "Message") -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                more = [*_HEADERS, (b"content-security-policy", b"default-src 'none'")]
                message = {**message, "headers": [*message["headers"], *(one for one in more if one[0] not in own)]}
            await send(message)

        refused = self._refused(scope)
        if refused:
            await _text(answer, 403, refused)
        else:
            await self.app(scope, receive, answer)

    def _refused(self, scope: "Scope") -> str:
        """Why a request is not answered; nothing where it is."""
        from urllib.parse import parse_qs

        headers = dict(scope["headers"])
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return "This server answers to 127.0.0.1 and localhost alone."
        if headers.get(b"origin", next(iter(self.origins))) not in self.origins:
            return "This server does not answer to other sites."
        given = headers.get(TOKEN_HEADER.encode(), b"")
        if not given and scope["method"] in ("GET", "HEAD"):
            query = parse_qs(scope["query_string"].decode("latin-1"))
            given = query.get("token", [""])[0].encode("latin-1", "replace")
        if not secrets.compare_digest(given, self.token):
            return "The token is missing or wrong: open the address that tilestitch serve printed."
        return ""


async def _text(send: Callable, status: int, text: str) -> None:
    content = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def application(bench: Workbench, token: str, port: int) -> "ASGIApp":
    """The server of one workbench, behind its guard."""
    return Guard(_routed(bench, token), token, port)


def _routed(bench: Workbench, token: str) -> "Starlette":
    from starlette.applications import Starlette  # pyright: ignore[reportMissingImports]
    from starlette.concurrency import run_in_threadpool  # pyright: ignore[reportMissingImports]
    from starlette.requests import Request  # pyright: ignore[reportMissingImports]
    from starlette.responses import HTMLResponse, JSONResponse, Response  # pyright: ignore[reportMissingImports]
    from starlette.routing import Route  # pyright: ignore[reportMissingImports]

    turn = Lock()  # one thing at a time is computed, in a thread, so that the rest is answered meanwhile

    async def worked(work: Callable[[], _Result]) -> _Result:
        def in_turn() -> _Result:
            with turn:
                return work()

        return await run_in_threadpool(in_turn)

    async def answered(work: Callable[[], Json]) -> Response:
        try:
            return JSONResponse(await worked(work))
        except Stopped as error:
            return JSONResponse({"error": str(error)}, 503)
        except Exists as error:
            return JSONResponse({"error": str(error), "exists": True}, 409)
        except InvalidIR as error:
            return JSONResponse({"error": f"{error} (a bug of Tilestitch; please report it)"}, 500)
        except (TilestitchError, OSError) as error:
            return JSONResponse({"error": str(error)}, 400)

    async def posted(request: Request) -> str | Response:
        content = b""
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                return JSONResponse({"error": f"request: has more than {MOST_BYTES:,} bytes"}, 413)
        return content.decode("utf-8", "replace")

    async def first(request: Request) -> Response:
        text = _part("serve.html").replace("{{token}}", escape(token))
        return HTMLResponse(text, headers={"content-security-policy": PAGE_POLICY})

    async def static(request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        return Response(_part(name), media_type=_STATIC[name])

    async def choices(request: Request) -> Response:
        return await answered(bench.choices)

    async def compile_(request: Request) -> Response:
        text = await posted(request)
        if not isinstance(text, str):
            return text

        def work() -> Json:
            asked = compile_request(body(text))
            return bench.answer(bench.edited(*asked) if isinstance(asked, tuple) else bench.compiled(asked))

        return await answered(work)

    async def save(request: Request) -> Response:
        text = await posted(request)
        if not isinstance(text, str):
            return text

        def work() -> Json:
            key, name, replace = save_request(body(text))
            return bench.save(key, name, replace=replace)

        return await answered(work)

    async def page(request: Request) -> Response:
        key = request.path_params["key"]
        try:
            text = await worked(lambda: bench.page(key))
        except TilestitchError as error:
            return Response(str(error), 400, media_type="text/plain")
        return HTMLResponse(text, headers={"content-security-policy": RUN_POLICY})

    return Starlette(
        routes=[
            Route("/", first),
            *(Route(f"/{name}", static) for name in _STATIC),
            Route("/choices", choices),
            Route("/compile", compile_, methods=["POST"]),
            Route("/save", save, methods=["POST"]),
            Route("/page/{key:int}", page),
        ]
    )


def _part(name: str) -> str:
    return files("tilestitch.serve").joinpath(name).read_text(encoding="utf-8")
