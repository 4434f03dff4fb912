"""Agents that run and do not answer: Ray is asked to kill them and start them again.

A process that was stopped, or waits for ever, does not end by itself, and Ray says that it is
alive. Jobs outlive the restart of their agent if the grant of the node has not run out meanwhile;
if it has, the next agent says that they are over.

An agent that Ray has not started yet is not silent. Neither is one that works for a long time at
one call: it answers a ping. The time in which its node cannot be reached does not count: the order
to kill it would get there with the first that it answers.
"""

import asyncio
import logging
from typing import Any, Protocol

from ray.exceptions import RayError

from treadle.engines.clusters.ray.cluster import RayNode, first_line

QUIET_S = 5.0  # without an answer: it is asked whether it is there
PINGS_S = 10  # for the answer, in whole seconds

logger = logging.getLogger("treadle")


class Agents(Protocol):
    """What is asked of the cluster (cluster.py). It blocks, and raises RayError."""

    def process_of(self, node: RayNode) -> str: ...
    def is_reachable(self, node: RayNode) -> bool: ...
    def restart_agent(self, node: RayNode, process: str) -> bool: ...


class AgentPulse:
    """Of the agent of one node: when it answered last."""

    def __init__(self, node: RayNode, agents: Agents, second_s: float = 1.0) -> None:
        """second_s: what counts as a second here."""
        self._node, self._agents, self._second_s = node, agents, second_s
        self._answers = 0
        self._heard = asyncio.get_running_loop().time()

    def hear(self) -> None:
        self._answers += 1
        self._heard = asyncio.get_running_loop().time()

    @property
    def is_quiet(self) -> bool:
        return asyncio.get_running_loop().time() - self._heard >= QUIET_S * self._second_s

    async def check(self, actor: Any) -> None:  # noqa: ANN401  # a handle of Ray's
        """Ping it; have it started again if it runs and says nothing."""
        try:
            process = await asyncio.to_thread(self._agents.process_of, self._node)
            if process and not await self._answers_ping(actor):
                await self._restart(process)
        except RayError as error:
            logger.warning("the agent of node %s: %s", self._node.name, first_line(error))
        except Exception:  # Ray may raise anything, as where the actor has gone meanwhile.
            logger.exception("the agent of node %s", self._node.name)
        self.hear()  # From now on it, or the next one, has as much time again.

    async def _answers_ping(self, actor: Any) -> bool:  # noqa: ANN401
        answers, ping = self._answers, asyncio.ensure_future(actor.ping.remote())
        counted_s = 0
        # By the second: if this process is stopped too, its time does not count.
        while counted_s < PINGS_S:
            await asyncio.wait({ping}, timeout=self._second_s)
            if ping.done():
                ping.exception()  # An error is an answer, or the agent has died.
                return True
            if self._answers > answers:
                break
            counted_s += await asyncio.to_thread(self._agents.is_reachable, self._node)
        ping.cancel()
        return self._answers > answers

    async def _restart(self, process: str) -> None:
        if await asyncio.to_thread(self._agents.restart_agent, self._node, process):
            logger.warning(
                "the agent of node %s has not answered for %.0f s: Ray was asked to start it again",
                self._node.name,
                QUIET_S + PINGS_S,
            )
