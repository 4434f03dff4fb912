"""The actor that has the agent of one node. Its methods take and give bytes.

Ray starts it again when its process dies. It then goes on with what the last controller said, which
the GCS keeps, so that jobs outlive a crash of their agent while there is no controller.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
import ray
from ray.experimental import internal_kv

from treadle.engines.agent.agent_host import AgentHost, Post
from treadle.engines.clusters.ray.offered import withheld

NAMESPACE = "treadle"
POSTS = "post/"  # keys of the GCS: what the agent of each node was told, by id
ASK_WITHIN_S = 2  # the GCS; less than the margin of fencing

T = TypeVar("T")


@ray.remote
class AgentActor:
    """One for each node of the cluster."""

    def __init__(self) -> None:
        self._node_id = ray.get_runtime_context().get_node_id()
        self._host = AgentHost(self._is_member, withheld=withheld)
        self._host.run(self._host.resume(self._kept))

    async def attend(self, document: bytes) -> bytes:
        """Be the agent of this `Post`; gives `Attending`."""
        post = msgspec.json.decode(document, type=Post)
        answer = await self._on_its_loop(self._host.attend(post))
        if not answer.others:
            await asyncio.to_thread(self._keep, document)
        return msgspec.json.encode(answer)

    async def others(self, document: bytes) -> str:
        """The state folder of another Treadle than that of this `Post`, if its jobs run here."""
        post = msgspec.json.decode(document, type=Post)
        return await self._on_its_loop(self._host.others(post))

    async def running(self) -> dict[str, int]:
        """Ranks that run here, by job."""
        return await self._on_its_loop(self._host.running())

    async def revoke(self) -> None:
        """What runs here is killed: Treadle leaves."""
        await self._on_its_loop(self._host.revoke())

    async def ping(self) -> None:
        """Answer, if the loop of the agent runs."""
        await self._on_its_loop(asyncio.sleep(0))

    async def call(self, incarnation: str, verb: str, *pieces: bytes) -> bytes:
        document = b"".join(pieces)
        return await self._on_its_loop(self._host.call(incarnation, verb, document))

    async def _on_its_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self._host.run(work))

    def _is_member(self) -> bool:
        client = ray._private.worker.global_worker.gcs_client
        alive: list[bool] = client.check_alive(
            [ray.NodeID.from_hex(self._node_id)], timeout=ASK_WITHIN_S
        )
        return alive == [True]

    def _kept(self) -> Post | None:
        kept = internal_kv._internal_kv_get(self._key(), namespace=NAMESPACE.encode())
        return msgspec.json.decode(kept, type=Post) if kept else None

    def _keep(self, document: bytes) -> None:
        internal_kv._internal_kv_put(self._key(), document, namespace=NAMESPACE.encode())

    def _key(self) -> bytes:
        return f"{POSTS}{self._node_id}".encode()
