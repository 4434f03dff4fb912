"""A node that is about to go, as one that is shut down: its jobs stop as by their users."""

import asyncio
import signal
from contextlib import suppress

from treadle.engines.agent.agent import Agent
from treadle.engines.agent.found import alive
from treadle.engines.node import processes

LOOK_EVERY_S, TELL_WITHIN_S = 0.05, 5.0


async def stop_all(agent: Agent, why: str) -> None:
    """Nothing begins there any more; return once all has ended, and the controller knows."""
    agent.hold(why)
    for found in await asyncio.to_thread(alive, agent.folders):
        if found.supervisor is not None:
            with suppress(OSError):
                processes.send(found.supervisor.process, signal.SIGTERM)
    while await asyncio.to_thread(agent.runs):
        await asyncio.sleep(LOOK_EVERY_S)
    with suppress(TimeoutError):  # The next agent over this folder tells it too.
        async with asyncio.timeout(TELL_WITHIN_S):
            while not _has_told(agent):
                await asyncio.sleep(LOOK_EVERY_S)


def _has_told(agent: Agent) -> bool:
    session = agent.session
    return session is None or (not session.machine.runs and session.outbox.is_taken)
