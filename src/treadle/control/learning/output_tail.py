"""The end of what a rank wrote, through the engine; output that stays unreadable is empty."""

import asyncio

from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.launch import AttemptId
from treadle.core.ports import Engine

READ_WITHIN_S = 5.0  # a node that does not answer must not stop the controller
AGAIN_S = (0.1, 0.2, 0.4)
PIECES_MAX = 8  # an output may be in several files


async def output_tail(
    engine: Engine, attempt: AttemptId, rank: int, limit: int
) -> tuple[bytes, bool]:
    """The last bytes within the limit, and whether something before them was left out."""
    try:
        # asyncio.wait_for of Python 3.11 swallows a cancellation that comes with the answer.
        async with asyncio.timeout(READ_WITHIN_S):
            return await _readable(engine, attempt, rank, limit)
    except (InvalidInputError, EngineError, OSError, TimeoutError):
        return b"", False


async def _readable(
    engine: Engine, attempt: AttemptId, rank: int, limit: int
) -> tuple[bytes, bool]:
    """Ask again where it cannot be read now: a verdict should not rest on a want of descriptors."""
    for pause_s in AGAIN_S:
        try:
            return await _read(engine, attempt, rank, limit)
        except EngineError as error:
            if not error.retryable:
                raise
        await asyncio.sleep(pause_s)
    return await _read(engine, attempt, rank, limit)


async def _read(engine: Engine, attempt: AttemptId, rank: int, limit: int) -> tuple[bytes, bool]:
    found = await engine.output(attempt, rank, offset=-limit, limit=limit)
    data, begins = found.data, found.offset
    for _ in range(PIECES_MAX):
        end = begins + len(data)
        if end >= found.size:
            break
        found = await engine.output(attempt, rank, offset=end, limit=limit)
        if not found.data:
            break
        if found.offset > end:  # Something between was dropped.
            data, begins = b"", found.offset
        data += found.data
    cut = data[-limit:]
    return cut, begins + len(data) - len(cut) > 0
