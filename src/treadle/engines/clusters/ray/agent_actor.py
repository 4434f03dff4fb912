"""The actor on one node: the way to its agent, and what Ray says of the node.

The agent is a process of its own (agent_process.py). This one starts it if there is none, and
nothing is lost with it: Ray starts it again when its process dies, and it goes on with the agent
that the last controller wanted, which the GCS keeps. Its methods take and give bytes.
"""

import asyncio
import logging
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import ray
from ray.experimental import internal_kv

from treadle.engines.agent.agent_host import OTHER_AGENT, Attending, Post, spoken
from treadle.engines.agent.agent_keeper import be_nice_no_more
from treadle.engines.agent.agent_lock import open_passages
from treadle.engines.agent.folder_socket import listening
from treadle.engines.clusters.ray.agent_process import MEMBER, NO, YES, AgentProcess

NAMESPACE = "treadle"
SPACE = NAMESPACE.encode()
POSTS = "post/"  # keys of the GCS: what the agent of each node was told, by id
ASK_WITHIN_S = 2  # the GCS; less than the margin of fencing
LOOK_EVERY_S = 5.0  # whether there is an agent
ID_BYTES_MAX = 200
VISIBLE = b"CUDA_VISIBLE_DEVICES="

logger = logging.getLogger("treadle")


@ray.remote
class AgentActor:
    """One for each node of the cluster."""

    def __init__(self) -> None:
        self._node_id = ray.get_runtime_context().get_node_id()
        be_nice_no_more()
        self._turn = asyncio.Lock()
        self._agent: AgentProcess | None = None
        self._tried = threading.Event()  # to find the agent of before
        threading.Thread(target=self._keep_up, name="agent", daemon=True).start()

    async def attend(self, document: bytes) -> bytes:
        """Have an agent for this `Post`; gives `Attending`."""
        post = msgspec.json.decode(document, type=Post)
        post = msgspec.structs.replace(post, visible_gpus=visible_to_ray())
        document = msgspec.json.encode(post)
        async with self._turn:
            if others := await self._another(post):
                why = f"jobs of the Treadle of {others} run there"
                return msgspec.json.encode(Attending(error=why, others=others))
            agent = await self._agent_of(post)
            answer = await agent.ask("attend", document)
            if msgspec.json.decode(answer, type=Attending).version != spoken():
                await agent.end()  # Another Treadle was installed since.
                await asyncio.to_thread(agent.begin)
                answer = await agent.ask("attend", document)
            if not msgspec.json.decode(answer, type=Attending).others:
                await asyncio.to_thread(self._keep, document)
        return answer

    async def others(self, document: bytes) -> str:
        """The state folder of another Treadle than that of this `Post`, if its jobs run here."""
        await asyncio.to_thread(self._tried.wait)
        if (agent := self._agent) is None or not agent.folder.exists():
            return ""
        return (await agent.ask("others", document)).decode()

    async def running(self) -> dict[str, int]:
        """Ranks that run here, by job."""
        await asyncio.to_thread(self._tried.wait)
        if (agent := self._agent) is None:
            return {}
        return msgspec.json.decode(await agent.ask("running"), type=dict[str, int])

    async def revoke(self) -> None:
        """What runs here is killed, and the agent ends: Treadle leaves."""
        await asyncio.to_thread(self._tried.wait)
        async with self._turn:
            agent, self._agent = self._agent, None
            if agent is not None:
                await agent.ask("revoke")
                await agent.end()
                await agent.close()

    async def ping(self) -> None:
        """Answer, if this process does anything."""

    async def call(self, incarnation: str, verb: str, *pieces: bytes) -> bytes:
        if (agent := self._agent) is None:
            return OTHER_AGENT
        return await agent.ask(f"call/{incarnation}/{verb}", b"".join(pieces))

    async def _another(self, post: Post) -> str:
        """The agent of another folder leaves; if it has jobs, it stays: that folder."""
        await asyncio.to_thread(self._tried.wait)
        before = self._agent
        if before is None or before.folder == post.folder:
            return ""
        if others := await self.others(msgspec.json.encode(post)):
            return others
        self._agent = None
        await before.end()
        await before.close()
        return ""

    async def _agent_of(self, post: Post) -> AgentProcess:
        if self._agent is None:
            await asyncio.to_thread(open_passages, post.folder)
            self._agent = self._beside(post.folder)
        await asyncio.to_thread(self._agent.begin)
        return self._agent

    def _beside(self, folder: Path) -> AgentProcess:
        """The agent of that folder, which asks this actor whether its node is a member."""
        door = listening(folder, MEMBER)
        threading.Thread(target=self._answer, args=(door,), name="member", daemon=True).start()
        return AgentProcess(folder)

    def _answer(self, door: socket.socket) -> None:
        while True:
            with door.accept()[0] as asking, suppress(Exception):  # Ray's client may raise any.
                asking.settimeout(ASK_WITHIN_S)
                member = asking.recv(ID_BYTES_MAX).decode().strip()
                asking.sendall(YES if _is_alive(member) else NO)

    def _keep_up(self) -> None:
        """There is an agent as long as this actor lives, though no controller does."""
        said = ""
        while True:
            try:
                if self._agent is None and not self._tried.is_set():
                    kept = internal_kv._internal_kv_get(self._key(), namespace=SPACE)
                    post = msgspec.json.decode(kept, type=Post) if kept else None
                    if post is not None and post.folder.exists():
                        self._agent = self._beside(post.folder)
                if (agent := self._agent) is not None and agent.folder.exists():
                    agent.begin()
                said = ""
            except Exception as error:  # Ray's client may raise anything.
                if str(error) != said:
                    logger.warning("the agent of this node: %s; trying again", error)
                    said = str(error)
            self._tried.set()
            threading.Event().wait(LOOK_EVERY_S)

    def _keep(self, document: bytes) -> None:
        internal_kv._internal_kv_put(self._key(), document, namespace=SPACE)

    def _key(self) -> bytes:
        return f"{POSTS}{self._node_id}".encode()


def _is_alive(member: str) -> bool:
    client = ray._private.worker.global_worker.gcs_client
    alive: list[bool] = client.check_alive([ray.NodeID.from_hex(member)], timeout=ASK_WITHIN_S)
    return alive == [True]


def visible_to_ray() -> str | None:
    """CUDA_VISIBLE_DEVICES of the raylet, which is the parent of this process; None: not set.

    Ray hides GPUs from workers that asked for none.
    """
    with suppress(OSError):
        for entry in Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0"):
            if entry.startswith(VISIBLE):
                return entry.removeprefix(VISIBLE).decode(errors="replace")
    return None
