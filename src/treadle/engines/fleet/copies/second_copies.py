"""Keeps a second copy of the newest checkpoints of every job that runs, on another node."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from treadle.core.errors import EngineError
from treadle.engines.fleet.copies.checkpoint_copies import CheckpointCopies
from treadle.engines.fleet.gang import Gang

EVERY_S = 60.0

logger = logging.getLogger("treadle")


async def keep_second(
    copies: CheckpointCopies, running: Callable[[], Sequence[Gang]], every_s: float
) -> None:
    """Until it is cancelled. One job after another: copies for jobs that begin come first."""
    while True:
        await asyncio.sleep(every_s)
        for gang in running():
            try:
                await copies.second(gang.job, partial(_goes_on, gang))
            except EngineError as error:  # It is being written to, or a node is gone.
                logger.debug("job %s has no new second copy: %s", gang.job, error)


def _goes_on(gang: Gang) -> bool:
    return not (gang.over or gang.stopping)
