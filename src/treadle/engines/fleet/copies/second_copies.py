"""Keeps a second copy of the newest checkpoints of every job that runs, on another node.

A checkpoint may be several files, and a moment in which none of them changes does not say that all
of them are there. So a folder is copied only if it is the same in two looks some time apart, and
again when all of it was read. One that changes all the time is not copied, and that is said once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from treadle.core.errors import EngineError
from treadle.core.launch import AttemptId
from treadle.engines.fleet.copies.checkpoint_copies import CheckpointCopies
from treadle.engines.fleet.copies.tree import ChangedError
from treadle.engines.fleet.gang import Gang

EVERY_S = 60.0
QUIET = 1 / 6  # of that time nothing in the folder must change
RESTLESS = 5  # copies in a row that were not made for that reason, until it is said

T = TypeVar("T")
logger = logging.getLogger("treadle")


async def keep_second(
    copies: CheckpointCopies, running: Callable[[], Sequence[Gang]], every_s: float
) -> None:
    """Until it is cancelled. One job after another: copies for jobs that begin come first."""
    restless: dict[AttemptId, int] = {}
    while True:
        await asyncio.sleep(every_s * (1 - QUIET))
        seen: dict[AttemptId, str] = {}
        for gang in running():
            seen[gang.attempt] = await _tried(gang, copies.news(gang.job)) or ""
        await asyncio.sleep(every_s * QUIET)
        restless = await _copy(copies, running(), seen, restless)


async def _copy(
    copies: CheckpointCopies,
    running: Sequence[Gang],
    seen: Mapping[AttemptId, str],
    restless: Mapping[AttemptId, int],
) -> dict[AttemptId, int]:
    """Copy what has not changed since it was seen; how often the folders of others had."""
    counts: dict[AttemptId, int] = {}
    for gang in running:
        if state := seen.get(gang.attempt):
            try:
                await _tried(gang, copies.second(gang.job, state, partial(_goes_on, gang)))
            except ChangedError:
                counts[gang.attempt] = restless.get(gang.attempt, 0) + 1
                if counts[gang.attempt] == RESTLESS:
                    logger.warning(
                        "job %s has no new second copy: its checkpoint folder changes all the "
                        "time; if its node is lost it goes on from an older copy, or begins anew",
                        gang.job,
                    )
    return counts


async def _tried(gang: Gang, work: Awaitable[T]) -> T | None:
    """One job must not keep the others from their copies, whatever happens."""
    try:
        return await work
    except ChangedError:
        raise
    except EngineError as error:  # A node is gone, perhaps.
        logger.debug("job %s has no new second copy: %s", gang.job, error)
    except Exception:  # a bug in one job's copies must not stop those of others
        logger.exception("job %s has no new second copy", gang.job)
    return None


def _goes_on(gang: Gang) -> bool:
    return not (gang.over or gang.stopping)
