"""Answers that are computed in a thread speak of one moment, whatever the loop does meanwhile."""

import asyncio
import threading

from tests.unit.control.memory import Bench, playing
from treadle.control.api.context import Context
from treadle.control.api.machine_trouble import machine_trouble
from treadle.control.api.thinking import Thinking
from treadle.core.cluster import Device
from treadle.core.events import DeviceClosed
from treadle.wire.jobs import State


@playing()
async def test_an_answer_is_about_the_moment_it_was_asked(here: Bench) -> None:
    """1. A question waits in its thread. 2. The loop closes a device, and a job ends. 3. The answer
    knows nothing of that; the next one does."""
    context, asked, changed = here.live.context, threading.Event(), threading.Event()
    first = await here.runs()
    thinking = Thinking(context)

    def look(frozen: Context) -> tuple[str, State | None]:
        asked.set()
        assert changed.wait(30)
        return machine_trouble(frozen), frozen.state_of(first)

    answer = asyncio.ensure_future(thinking.about("look", look, names=[first]))
    await asyncio.to_thread(asked.wait, 30)
    device = Device("here", 3)
    context.commit.closed[device] = DeviceClosed(device, "no processes left", "machine")
    here.memory.finish(first)
    await here.reached(first, State.SUCCEEDED)
    changed.set()
    assert await answer == ("", State.RUNNING)
    again = await thinking.about("look", look, names=[first])
    assert again == ("no processes left", State.SUCCEEDED)
    thinking.close()
