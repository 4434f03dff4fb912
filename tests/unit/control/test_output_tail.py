"""The end of an output is read for tasks that are cancelled when the daemon leaves."""

import asyncio
from typing import cast

import pytest

from tests.telling import within
from treadle.control.learning import output_tail
from treadle.core.launch import AttemptId
from treadle.core.machine import Output
from treadle.core.ports import Engine


class Answering:
    """The one method of an engine that is asked, which answers when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[Output] = asyncio.get_running_loop().create_future()

    async def output(self, *_: object, **__: object) -> Output:
        self.asked.set()
        return await self.answer


@pytest.mark.parametrize("turns", range(6))
@within(60)
async def test_a_cancellation_in_the_moment_of_the_answer_is_not_lost(turns) -> None:
    """turns: of the event loop between the answer and the cancellation."""
    engine = Answering()
    reading = asyncio.create_task(output_tail(cast("Engine", engine), AttemptId("a", 1), 0, 100))
    await engine.asked.wait()
    engine.answer.set_result(Output(0, b"end", 3))
    for _ in range(turns):
        await asyncio.sleep(0)
    in_time = reading.cancel()
    await asyncio.wait({reading})
    assert reading.cancelled() == in_time
