"""The process of an agent: what it is asked over HTTP, and what it does by itself.

It is the same on all clusters. A Kubernetes pod serves it over TLS to controllers, which have a
token; under Ray it is on a socket in the folder of the node, to the actor there.
"""

import os
import secrets
import signal
import threading
from asyncio import wrap_future
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import uvicorn

from treadle.engines.agent.agent_host import AgentHost, Post
from treadle.engines.agent.agent_keeper import BEAT_EVERY_S
from treadle.engines.agent.wire import TOKEN_HEADER
from treadle.engines.node.ranks import KILL, PR_SET_PDEATHSIG, prctl
from treadle.files import replace

BODY_BYTES_MAX = 64 << 20

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
T = TypeVar("T")


class Reply(NamedTuple):
    status: int
    body: bytes = b""


class KeptPost:
    """What the last controller said, in a file: an agent that died goes on with it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Post | None:
        """Raises OSError."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Post)
        except FileNotFoundError:
            return None

    def write(self, post: Post) -> None:
        replace(self._path, msgspec.json.encode(post), mode=0o600)


class Service:
    """What is asked of the agent (ASGI)."""

    def __init__(self, host: AgentHost, kept: KeptPost, *, token: bytes = b"") -> None:
        self._host, self._kept, self._token = host, kept, token
        self._server: uvicorn.Server | None = None

    def serve(self, **options: Any) -> None:  # noqa: ANN401
        """Until it was told to leave. options: of uvicorn; sockets: those to listen on."""
        sockets = options.pop("sockets", None)
        plain = uvicorn.Config(
            self,
            lifespan="off",
            access_log=False,
            log_level="warning",
            timeout_keep_alive=300,
            timeout_graceful_shutdown=1,
            **options,
        )
        self._server = uvicorn.Server(plain)
        self._server.run(sockets=sockets)

    def leave(self) -> None:
        """End the process, as it was meant; from any thread. What runs keeps running."""
        if self._server is not None:
            self._server.should_exit = True

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        reply = await self._reply(scope, receive)
        head = {"type": "http.response.start", "status": reply.status, "headers": []}
        await send(head)
        await send({"type": "http.response.body", "body": reply.body})

    async def _reply(self, scope: Mapping[str, Any], receive: Receive) -> Reply:
        words = scope["path"].strip("/").split("/")
        if words == ["alive"]:
            return Reply(200, b"ok")
        given = dict(scope["headers"]).get(TOKEN_HEADER.encode(), b"")
        if not secrets.compare_digest(given, self._token):
            return Reply(401)
        body = await _body(receive)
        if body is None:
            return Reply(413)
        answer = await self._asked(words, body)
        return Reply(404) if answer is None else Reply(200, answer)

    async def _asked(self, words: Sequence[str], body: bytes) -> bytes | None:
        match words:
            case ["call", incarnation, verb]:
                return await self._run(self._host.call(incarnation, verb, body))
            case ["attend"]:
                return await self._attend(msgspec.json.decode(body, type=Post))
            case ["others"]:
                post = msgspec.json.decode(body, type=Post)
                return (await self._run(self._host.others(post))).encode()
            case ["running"]:
                return msgspec.json.encode(await self._run(self._host.running()))
            case ["hold"]:
                await self._run(self._host.hold(body.decode()))
                return b""
            case ["revoke" | "leave" as verb]:
                await self._run(self._host.revoke() if verb == "revoke" else self._host.close())
                self.leave()
                return b""
        return None

    async def _attend(self, post: Post) -> bytes:
        answer = await self._run(self._host.attend(post))
        if answer.node is not None:
            self._kept.write(post)
        return msgspec.json.encode(answer)

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return await wrap_future(self._host.run(work))


async def _body(receive: Receive) -> bytes | None:
    """None: it is too long."""
    found = bytearray()
    while True:
        message = await receive()
        found += message.get("body", b"")
        if len(found) > BODY_BYTES_MAX:
            return None
        if not message.get("more_body"):
            return bytes(found)


def beat(host: AgentHost, descriptor: int) -> None:
    """Write there as long as the loop of the agent runs; end with the process that reads it."""
    prctl(PR_SET_PDEATHSIG, KILL, 0, 0, 0)

    def beats() -> None:
        while True:
            threading.Event().wait(BEAT_EVERY_S)
            host.run(_nothing()).result()
            try:
                os.write(descriptor, b".")
            except BrokenPipeError:  # It ended before the line above.
                os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=beats, name="beat", daemon=True).start()


async def _nothing() -> None: ...
