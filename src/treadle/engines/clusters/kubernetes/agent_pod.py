"""What runs in an agent pod: a first process, and the agent below it.

    python -m treadle.engines.clusters.kubernetes.agent_pod

The first process starts the agent, takes in orphans, and starts the agent again when it ends or
hangs: supervisors and ranks are in the same container, and outlive it. When the pod is deleted,
everything in it ends, as on a node whose power is cut.
"""

import os
import secrets
import select
import signal
import ssl
import subprocess
import sys
import threading
from asyncio import wrap_future
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec
import uvicorn

from treadle.engines.agent.agent_host import AgentHost, Post
from treadle.engines.clusters.kubernetes.access import Access, in_pod
from treadle.engines.clusters.kubernetes.agent_pods import API, KEYS
from treadle.engines.clusters.kubernetes.lease import moment
from treadle.engines.clusters.kubernetes.names import PORT, TOKEN_HEADER, lease_of, leases
from treadle.files import replace

ASK_WITHIN_S = 2.0  # the API server; less than the margin of fencing
BEAT_EVERY_S, HUNG_BEATS = 1.0, 15
BODY_BYTES_MAX = 64 << 20
CONFLICT = 409
POST = Path("/tmp/treadle-post.json")  # of the container, and gone with it

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Membership:
    """The lease of this node, which is renewed for as long as it has our name."""

    def __init__(self, access: Access) -> None:
        self.member, self.node = "", ""
        self._access = access
        self._folder = leases(access.namespace)
        self._http = httpx2.Client(
            base_url=access.server, verify=access.trust, timeout=ASK_WITHIN_S, trust_env=False
        )

    def renew(self) -> bool:
        """Whether this node is a member. It blocks, and raises if the API server does not say."""
        path = f"{self._folder}/{lease_of(self.node)}"
        while True:
            found = self._ask("GET", path)
            if found is None or found["spec"].get("holderIdentity") != self.member:
                return False
            found["spec"]["renewTime"] = moment()
            if self._ask("PUT", path, found) is not None:
                return True

    def _ask(self, verb: str, path: str, body: object = None) -> Any:  # noqa: ANN401
        """None if there is none, or it has changed."""
        content = None if body is None else msgspec.json.encode(body)
        for refused in (False, True):
            headers = {
                "Authorization": f"Bearer {self._access.token(refused)}",
                "Content-Type": "application/json",
            }
            answer = self._http.request(verb, path, content=content, headers=headers)
            if answer.status_code != 401:
                break
        if answer.status_code in (404, CONFLICT):
            return None
        answer.raise_for_status()
        return msgspec.json.decode(answer.content)


class Reply(NamedTuple):
    status: int
    body: bytes = b""


class Service:
    """What a controller asks of this pod, over HTTPS with a token (ASGI)."""

    def __init__(self, host: AgentHost, membership: Membership, token: bytes) -> None:
        self._host, self._membership, self._token = host, membership, token

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
        match words:
            case ["call", incarnation, verb]:
                return Reply(200, await self._run(self._host.call(incarnation, verb, body)))
            case ["attend"]:
                return Reply(200, await self._attend(msgspec.json.decode(body, type=Post)))
            case ["others"]:
                post = msgspec.json.decode(body, type=Post)
                return Reply(200, (await self._run(self._host.others(post))).encode())
            case ["running"]:
                return Reply(200, msgspec.json.encode(await self._run(self._host.running())))
            case _:
                return Reply(404)

    async def _attend(self, post: Post) -> bytes:
        self._membership.node, self._membership.member = post.name, post.member
        answer = await self._run(self._host.attend(post))
        if answer.node is not None:
            replace(POST, msgspec.json.encode(post), mode=0o600)
        return msgspec.json.encode(answer)

    async def _run(self, work: Any) -> Any:  # noqa: ANN401
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


def agent(beat: int) -> None:
    """Serve, and write to that descriptor as long as the agent's loop runs."""
    api = Path(API)
    namespace = os.environ["TREADLE_NAMESPACE"]
    membership = Membership(in_pod(os.environ, api / "token", api / "ca.crt", namespace))
    host = AgentHost(membership.renew, cluster="the API server")
    host.run(host.resume(lambda: _kept(membership)))

    def beats() -> None:
        while True:
            threading.Event().wait(BEAT_EVERY_S)
            host.run(_nothing()).result()
            os.write(beat, b".")

    threading.Thread(target=beats, name="beat", daemon=True).start()
    keys = Path(KEYS)
    service = Service(host, membership, (keys / "token").read_bytes())
    config = uvicorn.Config(
        service,
        host="0.0.0.0",  # the pod's own address; a token is asked for
        port=PORT,
        ssl_certfile=keys / "tls.crt",
        ssl_keyfile=keys / "tls.key",
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=300,
    )
    uvicorn.Server(config).run()


async def _nothing() -> None: ...


def _kept(membership: Membership) -> Post | None:
    try:
        post = msgspec.json.decode(POST.read_bytes(), type=Post)
    except FileNotFoundError:
        return None
    membership.node, membership.member = post.name, post.member
    return post


def first() -> None:
    """The first process of the container."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    while True:
        ours, theirs = os.pipe()
        words = [sys.executable, "-m", __spec__.name, "agent", str(theirs)]
        process = subprocess.Popen(words, pass_fds=(theirs,), start_new_session=True)
        os.close(theirs)
        _watch(process, ours)
        os.close(ours)
        sys.stderr.write("the agent has ended and is started again; jobs go on\n")


def _watch(process: "subprocess.Popen[bytes]", beats: int) -> None:
    """Until the agent has ended; one that hangs is killed. Orphans are taken in."""
    missed = 0
    while True:
        readable, _, _ = select.select([beats], [], [], BEAT_EVERY_S)
        heard = bool(readable) and bool(os.read(beats, 64))
        missed = 0 if heard else missed + 1
        if readable and not heard:
            threading.Event().wait(BEAT_EVERY_S)  # It has closed its end, and is about to go.
        if missed == 4 * HUNG_BEATS or (missed == HUNG_BEATS and process.poll() is None):
            process.kill()
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                if found == process.pid:
                    process.returncode = 0
                    return


def main() -> None:
    if sys.argv[1:2] == ["agent"]:
        agent(int(sys.argv[2]))
    else:
        first()


if __name__ == "__main__":
    main()
