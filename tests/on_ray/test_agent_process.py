"""The agent of a node as a process of its own: without Ray, but for what its actor would say."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import httpx2
import msgspec
import pytest

from tests.on_ray.test_ray_agent_host import post
from treadle.engines.agent.agent_host import Attending
from treadle.engines.agent.folder_socket import connected, listening
from treadle.engines.clusters.ray.agent_process import AGENT, MEMBER, YES, AgentProcess
from treadle.engines.node import processes

WITHIN_S = 60.0
T = TypeVar("T")
# Has an agent, says so, and waits for ever, as an actor does.
BEGINS = """
import sys, threading
from pathlib import Path
from treadle.engines.clusters.ray.agent_process import AgentProcess
AgentProcess(Path(sys.argv[1])).begin()
print("begun", flush=True)
threading.Event().wait()
"""


class Actor:
    """Says that every node is a member, and has an agent in a folder."""

    def __init__(self, root: Path) -> None:
        self.post = post(root)
        self.folder = self.post.folder
        self.folder.mkdir(parents=True)
        self._door = listening(self.folder, MEMBER)
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with suppress(OSError):
            while True:
                with self._door.accept()[0] as asking:
                    asking.recv(100)
                    asking.sendall(YES)

    def silence(self) -> None:
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def begin(self) -> None:
        self._asked(lambda agent: asyncio.to_thread(agent.begin))

    def end(self) -> None:
        self._asked(AgentProcess.end)

    def attend(self) -> Attending:
        document = msgspec.json.encode(self.post)
        answer = self._asked(lambda agent: agent.ask("attend", document))
        return msgspec.json.decode(answer, type=Attending)

    def _asked(self, ask: Callable[[AgentProcess], Awaitable[T]]) -> T:
        async def whole() -> T:
            agent = AgentProcess(self.folder)
            try:
                return await ask(agent)
            finally:
                await agent.close()

        return asyncio.run(whole())

    def pid(self) -> int:
        """Of the process that listens now."""
        with connected(self.folder, AGENT, within_s=WITHIN_S) as link:
            found = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(found[:4], sys.byteorder)

    def keeper(self) -> int:
        return processes.parent_of(self.pid()) or 0


@pytest.fixture
def actor(tmp_path: Path) -> Iterator[Actor]:
    made = Actor(tmp_path)
    yield made
    if made.folder.exists():
        made.end()
    made.silence()


def until(true: Callable[[], object]) -> None:
    for _ in range(int(WITHIN_S / 0.05)):
        with suppress(OSError, httpx2.HTTPError):
            if true():
                return
        threading.Event().wait(0.05)
    raise AssertionError


def test_an_agent_outlives_who_started_it_and_is_found_again(actor: Actor) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", BEGINS, str(actor.folder)],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert starter.stdout is not None
    assert starter.stdout.readline() == b"begun\n"
    first, process = actor.attend(), actor.pid()
    assert (first.error, first.node is not None) == ("", True)
    os.killpg(starter.pid, signal.SIGKILL)  # With all that is left of its group.
    starter.wait()
    starter.stdout.close()
    actor.begin()
    assert actor.attend().agent == first.agent
    assert actor.pid() == process


def test_an_agent_that_died_is_started_again_and_goes_on_with_what_it_was_told(
    actor: Actor,
) -> None:
    actor.begin()
    first, process = actor.attend(), actor.pid()
    os.kill(process, signal.SIGKILL)
    until(lambda: actor.pid() != process)
    leases = actor.folder / "leases"
    renewed = max(path.stat().st_mtime_ns for path in leases.glob("*.lease"))
    until(lambda: max(p.stat().st_mtime_ns for p in leases.glob("*.lease")) > renewed)
    assert actor.attend().agent not in ("", first.agent)


def test_an_agent_that_hangs_is_killed_and_started_again(actor: Actor) -> None:
    actor.begin()
    actor.attend()
    process = actor.pid()
    os.kill(process, signal.SIGSTOP)
    until(lambda: processes.start_of(process) is None)
    until(lambda: actor.attend().node is not None)


def test_no_agent_is_left_when_its_keeper_dies(actor: Actor) -> None:
    actor.begin()
    process = actor.pid()
    os.kill(process, signal.SIGSTOP)
    os.kill(actor.keeper(), signal.SIGKILL)
    until(lambda: processes.start_of(process) is None)
    actor.begin()
    assert actor.attend().error == ""


def test_only_one_agent_is_kept_in_a_folder(actor: Actor) -> None:
    racing = [threading.Thread(target=actor.begin) for _ in range(3)]
    for each in racing:
        each.start()
    for each in racing:
        each.join()
    command = os.fsencode(actor.folder)
    found = [pid for pid in processes.all_pids() if command in _command_of(pid)]
    assert {actor.pid(), actor.keeper()} == set(found)


def test_an_agent_ends_when_it_is_told_to(actor: Actor) -> None:
    actor.begin()
    actor.attend()
    process, keeper = actor.pid(), actor.keeper()
    actor.end()
    assert processes.start_of(process) is None
    until(lambda: processes.start_of(keeper) is None)  # It has given its lock back.


def test_an_agent_whose_folder_was_deleted_ends(actor: Actor) -> None:
    actor.begin()
    process = actor.pid()
    shutil.rmtree(actor.folder)
    until(lambda: processes.start_of(process) is None)


def test_who_may_not_write_in_the_folder_is_not_let_in(actor: Actor) -> None:
    actor.begin()
    modes = [(actor.folder / name).stat().st_mode & 0o777 for name in (AGENT, MEMBER)]
    assert modes == [0o600, 0o600]


def _command_of(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
