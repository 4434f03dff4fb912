"""Looks at all nodes before anything is launched."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from treadle.core.errors import EngineError
from treadle.engines.agent import messages
from treadle.engines.agent.agent_errors import StaleEpochError
from treadle.engines.fleet.node_client import AGAIN_LAST_S, NodeClient
from treadle.engines.fleet.port import Joined, Left

WITHIN_S = 60.0  # for an agent to answer

logger = logging.getLogger("treadle")

Found = dict[str, tuple[messages.FoundAttempt, ...]]
SILENT = "its agent does not say what runs there"


async def surveyed(
    asked: messages.Survey, clients: Sequence[NodeClient], changes: Sequence[Joined | Left]
) -> tuple[Found, dict[str, str]]:
    """What each node has, and why those do not say it that are left out.

    Raises StaleEpochError, with the highest epoch that a node knows, if one knows of a later one.
    An attempt of a job may run on a node that does not answer, and a second one beside it must not
    be launched. changes: of the cluster, as they come: a node that left is not waited for.
    """

    stale: list[StaleEpochError] = []

    async def one(client: NodeClient) -> tuple[messages.FoundAttempt, ...] | str:
        if not client.machine:  # The controller's own: without its files nothing may be launched.
            return (await client.ask("survey", asked, messages.Surveyed)).found
        try:
            async with asyncio.timeout(WITHIN_S):
                return (await client.patiently("survey", asked, messages.Surveyed)).found
        except StaleEpochError as error:
            stale.append(error)
            return SILENT
        except TimeoutError:
            return SILENT
        except Exception as error:  # One node must not keep all others from being used.
            if any(isinstance(each, Left) and each.name == client.name for each in changes):
                return ()
            logger.error("node %s does not say what it has: %s", client.name, error)  # noqa: TRY400
            return f"{SILENT}: {error}"

    answers = await asyncio.gather(*(one(client) for client in clients))
    if stale:
        raise max(stale, key=lambda error: error.epoch)
    found: Found = {}
    silent: dict[str, str] = {}
    for client, answer in zip(clients, answers, strict=True):
        if isinstance(answer, str):
            silent[client.name] = answer
        else:
            found[client.name] = answer
    return found, silent


async def says_at_last(
    asked: messages.Survey, client: NodeClient, awaited: Callable[[], bool]
) -> bool:
    """Whether a node that was left out has said what it has, as long as that is awaited."""
    said = ""
    while awaited():
        try:
            await client.ask("survey", asked, messages.Surveyed)
            return awaited()  # It may have left with its answer.
        except EngineError:
            pass
        except Exception as error:
            if str(error) != said:
                said = str(error)
                logger.exception("what node %s has", client.name)
        await asyncio.sleep(AGAIN_LAST_S)
    return False


async def all_ready(clients: Sequence[NodeClient]) -> None:
    """Until all are in charge of their nodes, or it takes too long."""
    try:
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*(client.ready() for client in clients))
    except TimeoutError:
        logger.warning("not all nodes answer; those that do take orders")
