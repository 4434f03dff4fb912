"""Gives the output of attempts by rank and offset."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.launch import AttemptId
from treadle.core.machine import Output
from treadle.engines.agent.found import look
from treadle.engines.node import output
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.files import is_folder


class OutputReader:
    """Reads files in threads, so that a slow disk does not delay the engine."""

    def __init__(self, folders: AttemptFolders, running: Callable[[AttemptId], int | None]) -> None:
        """running: the ranks of an attempt that runs or is to be launched; None: of no other."""
        self._folders = folders
        self._running = running

    async def read(self, attempt: AttemptId, rank: int, *, offset: int, limit: int) -> Output:
        with as_engine_error(attempt):
            ranks = self._running(attempt)
            return await asyncio.to_thread(self._read, attempt, rank, offset, limit, ranks)

    async def is_over(self, attempt: AttemptId) -> bool:
        """Whether nothing more will be written."""
        with as_engine_error(attempt):
            return self._running(attempt) is None and await asyncio.to_thread(
                lambda: not look(self._folders, attempt).alive
            )

    def _read(
        self, attempt: AttemptId, rank: int, offset: int, limit: int, ranks: int | None
    ) -> Output:
        try:
            folder = self._folders.path(*attempt)
        except EngineError as error:
            raise InvalidInputError(str(error)) from None
        if ranks is None and not is_folder(folder):
            raise InvalidInputError(f"attempt {attempt.number} of job {attempt.job} left no output")
        return output.read(folder, rank, offset=offset, limit=limit, ranks_min=ranks or 1)


@contextmanager
def as_engine_error(attempt: AttemptId) -> Iterator[None]:
    """What cannot be read now is an error that may pass; it is not empty output."""
    try:
        yield
    except OSError as error:
        sentence = f"the output of job {attempt.job} cannot be read: {error.strerror}"
        raise EngineError(sentence, retryable=True) from None
