"""The agent of a node under Ray: a process of its own, which Ray starts and does not own.

    python -m treadle.engines.clusters.ray.agent_process FOLDER DESCRIPTOR

It outlives the raylet, the driver, the head and the controller, and its keeper (agent_keeper.py)
starts it again when it dies or hangs. It is found again by its socket in the folder of its node. It
does not import Ray: whether its node is a member it asks the actor there, on the actor's socket. It
leaves when its folder is gone, or if it has not heard of its cluster for a minute and nothing runs.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx2

from treadle.core.errors import EngineError
from treadle.engines.agent.agent_host import AgentHost, Post
from treadle.engines.agent.agent_keeper import is_kept
from treadle.engines.agent.agent_service import KeptPost, Service, beat
from treadle.engines.agent.folder_socket import connected, listening, opened, within
from treadle.engines.agent.wire import ANSWER_WITHIN_S

AGENT, MEMBER = "agent.sock", "member.sock"
KEPT, LOG = "agent.json", "agent.log"
LOG_BYTES_MAX = 1 << 20  # when an agent is started
KEEPER = (sys.executable, "-m", "treadle.engines.agent.agent_keeper")
ASK_WITHIN_S = 3.0  # the actor, which asks Ray's head for two; less than the margin of fencing
LOOKS, LOOK_S = 1200, 0.05  # a minute
NEEDED_EVERY_S = 5.0
YES, NO = b"1", b"0"


class AgentProcess:
    """The agent of a folder, as the actor sees it. What is asked is asked on one event loop."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError if there is no folder."""
        self.folder = folder
        self._turn = threading.Lock()
        self._opened = opened(folder)
        way = httpx2.AsyncHTTPTransport(
            verify=False,  # It would read all certificates of the machine.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=16),
            uds=within(self._opened, AGENT),
        )
        self._agent = httpx2.AsyncClient(
            transport=way, base_url="http://agent", timeout=ANSWER_WITHIN_S
        )

    async def ask(self, path: str, document: bytes = b"") -> bytes:
        """Raises OSError or httpx2.HTTPError: there is none, or it does not answer."""
        answer = await self._agent.post(path, content=document)
        answer.raise_for_status()
        return answer.content

    async def close(self) -> None:
        """The agent goes on."""
        await self._agent.aclose()
        os.close(self._opened)

    def begin(self) -> None:
        """Have one, if the folder is there. It blocks, and raises OSError and EngineError."""
        with self._turn:
            if self._listens():
                return
            with (self.folder / LOG).open("ab") as log:
                if log.tell() > LOG_BYTES_MAX:
                    log.truncate(0)
                subprocess.run(
                    [*KEEPER, str(self.folder), __name__],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    check=True,
                )
            self._until(self._listens, "begin")

    async def end(self) -> None:
        """Have it leave, if there is one; what runs keeps running."""
        with suppress(OSError, httpx2.HTTPError):
            await self.ask("leave")
        await asyncio.to_thread(self._until, lambda: not is_kept(self.folder), "leave")

    def _listens(self) -> bool:
        with suppress(FileNotFoundError, ConnectionRefusedError):
            connected(self.folder, AGENT, within_s=ASK_WITHIN_S).close()
            return True
        return False

    def _until(self, true: Callable[[], bool], what: str) -> None:
        for _ in range(LOOKS):
            if true():
                return
            threading.Event().wait(LOOK_S)
        raise EngineError(f"the agent in {self.folder} does not {what}", retryable=True)


def is_member(post: Post) -> bool:
    """What the actor of the node says. Raises OSError if there is none."""
    with connected(post.folder, MEMBER, within_s=ASK_WITHIN_S) as actor:
        actor.sendall(f"{post.member}\n".encode())
        answer = actor.recv(1)
    if answer not in (YES, NO):
        raise EngineError("Ray's head does not answer", retryable=True)
    return answer == YES


def agent(folder: Path, descriptor: int) -> None:
    """Be the agent until it is not needed any more."""
    door = listening(folder, AGENT)
    host = AgentHost(is_member)
    kept = KeptPost(folder / KEPT)
    service = Service(host, kept)
    host.run(host.resume(kept.read))
    beat(host, descriptor)
    watch = threading.Thread(target=_watch, args=(host, service, folder), daemon=True)
    watch.start()
    service.serve(sockets=[door])
    os._exit(0)  # Threads may wait for a file system.


def _watch(host: AgentHost, service: Service, folder: Path) -> None:
    """Leave when it is not needed. Without the state folder it is not."""
    own = (folder / AGENT).stat().st_ino
    while True:
        threading.Event().wait(NEEDED_EVERY_S)
        with suppress(OSError):
            if not _is_there(folder / AGENT, own) or host.run(host.is_left(folder)).result():
                host.run(host.close()).result()
                service.leave()
                return


def _is_there(path: Path, inode: int) -> bool:
    try:
        return path.stat().st_ino == inode
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    agent(Path(sys.argv[1]), int(sys.argv[2]))
