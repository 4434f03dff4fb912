"""Keeps a second copy of the newest checkpoints of every job that runs, on another node.

A checkpoint may be several files, and a moment in which none of them changes does not say that all
of them are there. So a folder is copied only if it is the same in two looks some time apart, and
again when all of it was read. One that changes all the time is not copied, and that is said once.
So is the reason for which a copy is refused; it is tried again after a longer pause each time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from treadle.core.errors import EngineError
from treadle.core.launch import AttemptId
from treadle.engines.agent.copies.tree import ChangedError
from treadle.engines.fleet.copies.checkpoint_copies import CheckpointCopies
from treadle.engines.fleet.copies.copier import SupersededError
from treadle.engines.fleet.gang import Gang

EVERY_S = 60.0
QUIET = 1 / 6  # of that time nothing in the folder must change
RESTLESS = 5  # copies in a row that were not made for that reason, until it is said
PAUSE_MAX = 32  # rounds, after a copy was refused again and again

T = TypeVar("T")
logger = logging.getLogger("treadle")


async def keep_second(
    copies: CheckpointCopies, running: Callable[[], Sequence[Gang]], every_s: float
) -> None:
    """Until it is cancelled. One job after another: copies for jobs that begin come first."""
    rounds = _Rounds(copies)
    while True:
        await asyncio.sleep(every_s * (1 - QUIET))
        seen = await rounds.look(running())
        await asyncio.sleep(every_s * QUIET)
        await rounds.copy(running(), seen)


class _Refused(NamedTuple):
    """A copy was not made, and would not be now."""

    pause: int  # rounds
    until: int  # the round in which it is tried again


@dataclass
class _Rounds:
    copies: CheckpointCopies
    number: int = 0  # of the present round
    restless: dict[AttemptId, int] = field(default_factory=dict)  # how often they had changed
    refused: dict[AttemptId, _Refused] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)  # why copies were refused, since one was made

    async def look(self, running: Sequence[Gang]) -> dict[AttemptId, str]:
        """The states that second copies should have and do not."""
        self.number += 1
        here = {gang.attempt for gang in running}
        self.refused = {each: why for each, why in self.refused.items() if each in here}
        seen: dict[AttemptId, str] = {}
        for gang in running:
            pause = self.refused.get(gang.attempt)
            if pause is None or pause.until <= self.number:
                seen[gang.attempt] = await self._tried(gang, self.copies.news(gang.job)) or ""
        return seen

    async def copy(self, running: Sequence[Gang], seen: Mapping[AttemptId, str]) -> None:
        """Copy what has not changed since it was seen."""
        before, self.restless = self.restless, {}
        for gang in running:
            if state := seen.get(gang.attempt):
                try:
                    await self._tried(gang, self._second(gang, state))
                except ChangedError:
                    count = before.get(gang.attempt, 0) + 1
                    self.restless[gang.attempt] = count
                    if count == RESTLESS:
                        _say_restless(gang)

    async def _second(self, gang: Gang, state: str) -> None:
        await self.copies.second(gang.job, state, partial(_goes_on, gang))
        self.refused.pop(gang.attempt, None)
        self.said.clear()

    async def _tried(self, gang: Gang, work: Awaitable[T]) -> T | None:
        """One job must not keep the others from their copies, whatever happens."""
        try:
            return await work
        except ChangedError:
            raise
        except EngineError as error:
            if error.retryable or isinstance(error, SupersededError):  # A node is gone, perhaps.
                logger.debug("job %s has no new second copy: %s", gang.job, error)
            else:
                self._refuse(gang, str(error))
        except Exception:  # a bug in one job's copies must not stop those of others
            logger.exception("job %s has no new second copy", gang.job)
        return None

    def _refuse(self, gang: Gang, why: str) -> None:
        before = self.refused.get(gang.attempt)
        pause = 1 if before is None else min(PAUSE_MAX, 2 * before.pause)
        self.refused[gang.attempt] = _Refused(pause, self.number + 1 + pause)
        if why not in self.said:
            self.said.add(why)
            logger.warning("job %s, for one, has no new second copy: %s", gang.job, why)


def _say_restless(gang: Gang) -> None:
    logger.warning(
        "job %s has no new second copy: its checkpoint folder changes all the time; if its node is "
        "lost it goes on from an older copy, or begins anew",
        gang.job,
    )


def _goes_on(gang: Gang) -> bool:
    return not (gang.over or gang.stopping)
