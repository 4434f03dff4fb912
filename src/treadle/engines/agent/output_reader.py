"""Gives the output of attempts by rank and offset, and follows it while it is written."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.launch import AttemptId
from treadle.core.machine import Output
from treadle.core.ports import Clock
from treadle.engines.agent import adoption
from treadle.engines.node import output
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.files import is_folder

FOLLOW_EVERY_S = 0.1
FOLLOW_BYTES = 1 << 16  # of one piece


class Coming(NamedTuple):
    """What the engine knows of an attempt that may have no files yet."""

    ranks: int | None = None  # of one that runs or is being launched
    owed: bool = False  # a launch of its job is due: without a folder, it may be that one


class OutputReader:
    """Reads files in threads, so that a slow disk does not delay the engine."""

    def __init__(
        self, folders: AttemptFolders, clock: Clock, coming: Callable[[AttemptId], Coming]
    ) -> None:
        self._folders = folders
        self._clock = clock
        self._coming = coming

    async def read(self, attempt: AttemptId, rank: int, *, offset: int, limit: int) -> Output:
        with _as_engine_error(attempt):
            coming = self._coming(attempt)
            return await asyncio.to_thread(self._read, attempt, rank, offset, limit, coming)

    async def follow(self, attempt: AttemptId, rank: int, *, offset: int) -> AsyncIterator[Output]:
        while True:
            # Asked before reading: what an attempt wrote before it ended is then read as well.
            is_over = await self.is_over(attempt)
            found = await self.read(attempt, rank, offset=offset, limit=FOLLOW_BYTES)
            if found.data:
                offset = found.offset + len(found.data)
                yield found
            elif is_over:
                return
            else:
                await self._clock.sleep_until(self._clock.now() + FOLLOW_EVERY_S)

    async def is_over(self, attempt: AttemptId) -> bool:
        """Whether nothing more will be written."""
        with _as_engine_error(attempt):
            coming = self._coming(attempt)
            return coming.ranks is None and await asyncio.to_thread(
                self._is_over, attempt, owed=coming.owed
            )

    def _is_over(self, attempt: AttemptId, *, owed: bool) -> bool:
        if owed and not is_folder(self._folders.path(*attempt)):
            return False
        return not adoption.look(self._folders, attempt).alive

    def _read(
        self, attempt: AttemptId, rank: int, offset: int, limit: int, coming: Coming
    ) -> Output:
        try:
            folder = self._folders.path(*attempt)
        except EngineError as error:
            raise InvalidInputError(str(error)) from None
        if coming == Coming() and not is_folder(folder):
            raise InvalidInputError(f"attempt {attempt.number} of job {attempt.job} left no output")
        return output.read(folder, rank, offset=offset, limit=limit, ranks_min=coming.ranks or 1)


@contextmanager
def _as_engine_error(attempt: AttemptId) -> Iterator[None]:
    """What cannot be read now is an error that may pass; it is not empty output."""
    try:
        yield
    except OSError as error:
        sentence = f"the output of job {attempt.job} cannot be read: {error.strerror}"
        raise EngineError(sentence, retryable=True) from None
