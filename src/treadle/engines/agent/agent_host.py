"""Runs the agent of one node, on an event loop and in a thread of its own.

It is told by a controller which agent to be (`Post`), and confirms it while the cluster says that
this node is alive. Each agent that it makes has another incarnation, so that a call for the one
before it is not taken for its own. Nothing here imports ray.
"""

import asyncio
import json
import logging
import threading
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from treadle.core.cluster import Node
from treadle.core.errors import EngineError, TreadleError
from treadle.engines.agent import grants
from treadle.engines.agent.agent import Agent
from treadle.engines.agent.agent_lock import locked, open_passages
from treadle.engines.agent.device_choice import devices_of, excluded_by, not_offered
from treadle.engines.agent.end_of_node import stop_all
from treadle.engines.agent.found import any_runs
from treadle.engines.agent.messages import VERBS
from treadle.engines.agent.node_grant import NodeGrant
from treadle.engines.context import EngineOptions
from treadle.engines.node import fence
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.version import __version__

AGAIN_AFTER_S = 0.5
LEFT_AFTER_S = 60.0  # without a word of the cluster: if nothing runs, no agent is needed
OTHER_AGENT, ANSWERED = b"\0", b"\1"

T = TypeVar("T")
logger = logging.getLogger("treadle")


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """What a controller says to a host: which agent it is to be."""

    name: str
    address: str
    root: str  # the agent's files are in a folder of the node's name in it
    identity: str = ""  # of the state folder: another one may have the same path elsewhere
    member: str = ""  # Ray's id of the node, which is another one when its Ray is started again
    rack: str = ""
    gpu_count: int | None = None  # so many GPUs Ray was given; None: it was not asked
    visible_gpus: str | None = None  # CUDA_VISIBLE_DEVICES of Ray there; None: it sees all
    device_type: str = ""  # what its devices are called; empty: as they say themselves
    options: EngineOptions = msgspec.field(default_factory=EngineOptions)  # as they are there

    @property
    def folder(self) -> Path:
        return Path(self.root) / "nodes" / self.name

    @property
    def failover_s(self) -> float:
        return grants.limit(self.options.failover_s)


@cache
def spoken() -> str:
    """The messages of this program. An agent that speaks others would misunderstand orders."""
    types = [each for pair in VERBS.values() for each in pair]
    _, components = msgspec.json.schema_components(types, schema_hook=_by_name)
    text = json.dumps(components, sort_keys=True)
    return f"{__version__}-{sha256(text.encode()).hexdigest()[:12]}"


def _by_name(kind: type) -> dict[str, Any]:
    return {"title": kind.__name__}


class Attending(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: the agent, or why there is none."""

    version: str = msgspec.field(default_factory=spoken)
    agent: str = ""  # its incarnation
    node: Node | None = None
    machine: str = ""
    error: str = ""
    others: str = ""  # the state folder of another Treadle whose jobs run there: the reason


class AgentHost:
    """Has at most one agent at a time. Its coroutines are for `run`."""

    def __init__(
        self,
        is_member: Callable[[Post], bool],
        *,
        cluster: str = "Ray's head",
        again_after_s: float = AGAIN_AFTER_S,
    ) -> None:
        """is_member: asks the cluster about this node, of which the post says which it is. It may
        block for seconds, and raise.

        cluster: who answers that, for people.
        """
        self._is_member, self._cluster = is_member, cluster
        self._heard_at = fence.now()  # when the cluster confirmed this node; before that, the start
        self._again_after_s = again_after_s
        # A thread of its own: those of the loop may all wait for a file system.
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="member")
        self._post: Post | None = None
        self._agent: Agent | None = None
        self._incarnation = ""
        self._lock: IO[bytes] | None = None
        self._confirming: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._turn = asyncio.Lock()
        # Cleared until it was tried once to be the agent of before: its jobs may be another's.
        self._tried = asyncio.Event()
        self._tried.set()
        threading.Thread(target=self._loop.run_forever, name="agent", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Do it on the event loop of the agent; it may be called from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def attend(self, post: Post) -> Attending:
        """Be this agent; the one that there is goes on if nothing has changed."""
        await self._tried.wait()
        async with self._turn:
            return await self._become(post)

    async def others(self, post: Post) -> str:
        """The state folder of another Treadle whose jobs run here; empty if none do."""
        await self._tried.wait()
        return await self._others(post)

    async def resume(self, kept: Callable[[], Post | None]) -> None:
        """Be the agent that the last controller wanted, unless there is one: there may be none.

        It is tried until it succeeds, or a controller wants an agent. kept: what that one said;
        None: nothing. It may block for seconds, and raise.
        """
        said = ""
        self._tried.clear()  # Before anything else that was asked for begins.
        while True:
            try:
                if (post := await asyncio.to_thread(kept)) is None:
                    return
                async with self._turn:
                    if self._agent is not None or not (why := (await self._become(post)).error):
                        return
            except Exception as error:  # Ray's client may raise anything.
                why = str(error) or repr(error)
            finally:
                self._tried.set()
            if why != said:
                logger.warning("the agent of this node does not go on: %s; trying again", why)
                said = why
            await asyncio.sleep(self._again_after_s)

    async def _become(self, post: Post) -> Attending:
        if self._agent is None or post != self._post:
            if others := await self._others(post):
                why = f"jobs of the Treadle of {others} run there"
                return Attending(error=why, others=others)
            await self.close()
            try:
                self._agent = await self._made(post)
            except (TreadleError, OSError) as error:
                await self.close()
                return Attending(error=str(error))
            self._post = post
        node = replace(self._agent.node, rack=post.rack)
        if post.device_type:
            node = replace(node, device_type=post.device_type)
        return Attending(agent=self._incarnation, node=node, machine=self._agent.machine)

    async def _others(self, post: Post) -> str:
        """The state folder of another Treadle, if this is its agent and jobs of it run."""
        mine = self._post
        if self._agent is None or mine is None:
            return ""
        if (mine.folder, mine.identity) == (post.folder, post.identity):
            return ""
        return mine.root if await asyncio.to_thread(self._agent.runs) else ""

    async def running(self) -> dict[str, int]:
        """Ranks that run here, by job."""
        return {} if self._agent is None else await asyncio.to_thread(self._agent.running)

    async def is_left(self, folder: Path) -> bool:
        """Whether nothing runs in the folder of the node, and its cluster is not heard any more."""
        if fence.now() - self._heard_at < LEFT_AFTER_S:
            return False
        return not await asyncio.to_thread(any_runs, AttemptFolders(folder))

    async def call(self, incarnation: str, verb: str, document: bytes) -> bytes:
        """A call of the controller to the agent that it knows."""
        agent = self._agent
        if agent is None or incarnation != self._incarnation:
            return OTHER_AGENT
        return ANSWERED + await agent.call(verb, document)

    async def _made(self, post: Post) -> Agent:
        await asyncio.to_thread(open_passages, post.folder)
        self._lock = await locked(post.folder)
        devices = await asyncio.to_thread(devices_of, post.options)
        excluded = {*excluded_by(post.options, devices)}
        if post.options.devices is None and post.gpu_count is not None:
            excluded |= not_offered(devices.uuids, post.gpu_count, post.visible_gpus)
        agent = Agent(
            post.folder,
            post.name,
            devices=devices,
            address=post.address,
            excluded=tuple(sorted(excluded)),
            options=post.options,
            grant=NodeGrant(post.folder, post.failover_s, post.member),
        )
        if why := await self._confirm(agent, post):
            raise EngineError(f"node {post.name} is not confirmed: {why}", retryable=True)
        self._incarnation = uuid.uuid4().hex
        self._confirming = asyncio.create_task(self._keep_confirming(agent, post))
        return agent

    async def close(self) -> None:
        """Leave; what runs keeps running until its grant has run out."""
        if self._confirming is not None:
            self._confirming.cancel()
            await asyncio.gather(self._confirming, return_exceptions=True)
        if self._agent is not None:
            await self._agent.close()
        if self._lock is not None:
            self._lock.close()
        self._confirming = self._agent = self._lock = self._post = None

    async def hold(self, why: str) -> None:
        """Nothing new is to begin here; empty: it may."""
        if self._agent is not None:
            self._agent.hold(why)

    async def stop_all(self, why: str) -> None:
        """This node is about to go: what runs is stopped, with the time that its users gave it."""
        if self._agent is not None:
            await stop_all(self._agent, why)

    async def revoke(self) -> None:
        """Treadle leaves this node for good: what runs is killed."""
        if (post := self._post) is not None:
            await self.close()
            await asyncio.to_thread(NodeGrant.revoke, post.folder)

    async def _keep_confirming(self, agent: Agent, post: Post) -> None:
        said = ""
        while True:
            await asyncio.sleep(grants.confirm_every_s(post.failover_s))
            if (why := await self._confirm(agent, post)) and not said:
                logger.warning("node %s is not confirmed: %s", agent.node.name, why)
            said = why

    async def _confirm(self, agent: Agent, post: Post) -> str:
        """Tell the agent that its node is a member if the cluster says so; else why not."""
        asked_at, name = fence.now(), agent.node.name
        try:
            if not await self._loop.run_in_executor(self._asking, self._is_member, post):
                agent.doubt(f"{self._cluster} says that node {name} is dead")
                return "the cluster says that it is dead"
        except Exception as error:  # Ray's client may raise anything.
            agent.doubt(f"{self._cluster} does not answer node {name}")
            return str(error) or repr(error)
        agent.confirm(asked_at)
        self._heard_at = asked_at
        return ""
