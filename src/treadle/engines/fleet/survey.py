"""Looks at all nodes before anything is launched."""

import asyncio
import logging
from collections.abc import Sequence

from treadle.core.errors import EngineError
from treadle.engines.fleet import messages
from treadle.engines.fleet.node_client import NodeClient
from treadle.engines.fleet.port import Change, Left

WITHIN_S = 60.0  # for an agent to answer

logger = logging.getLogger("treadle")

Found = dict[str, tuple[messages.FoundAttempt, ...]]


async def surveyed(
    asked: messages.Survey, clients: Sequence[NodeClient], changes: Sequence[Change]
) -> Found:
    """What each node has; those that do not answer are left out.

    An attempt of a job may run on a node that does not answer, and a second one beside it must not
    be launched. changes: of the cluster, as they come: a node that left is not waited for.
    """

    async def one(client: NodeClient) -> tuple[messages.FoundAttempt, ...] | None:
        try:
            async with asyncio.timeout(WITHIN_S):
                return (await client.patiently("survey", asked, messages.Surveyed)).found
        except EngineError:
            if any(isinstance(each, Left) and each.name == client.name for each in changes):
                return ()
            raise
        except TimeoutError:
            return None

    answers = await asyncio.gather(*(one(client) for client in clients))
    pairs = zip(clients, answers, strict=True)
    return {client.name: found for client, found in pairs if found is not None}


async def all_ready(clients: Sequence[NodeClient]) -> None:
    """Until all are in charge of their nodes, or it takes too long."""
    try:
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*(client.ready() for client in clients))
    except TimeoutError:
        logger.warning("not all nodes answer; those that do take orders")
