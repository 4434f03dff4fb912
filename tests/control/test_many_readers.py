"""Many jobs and many readers: submissions are answered all the same, and the loop stays free."""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks import installation

from tests.shared import THOROUGH, thorough
from tests.telling import within
from tests.unit.control.memory import ME, Bench
from treadle.control.api import LiveService
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.server.answers import encoded
from treadle.wire.jobs import JobRequest

QUEUED, ENDED, SUBMISSIONS = (2_000, 5_000, 40) if THOROUGH else (1_000, 2_500, 15)
READERS = 4
ASKED = 9  # questions
LONG = JobRequest(command=("sleep", "3600"), devices="1..4")


class Watch:
    """How long the loop's own thread worked at a stretch, by its processor time.

    Wall-clock time would also count what other programs on a busy machine take.
    """

    def __init__(self) -> None:
        self.spent_s: list[float] = []

    async def run(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.spent_s.append(time.thread_time() - before)
            await asyncio.sleep(0.002)


def questions(live: LiveService, waiting: str, done: str) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: live.jobs(limit=100),
        lambda: live.jobs(limit=10_000),
        lambda: live.jobs(ended=True, states=("SUCCEEDED",), limit=100),
        lambda: live.why(waiting),
        lambda: live.job(done),
        lambda: live.dry_run(ME, LONG),
        live.snapshot,
        lambda: live.events_last(limit=100),
        live.usage,
    ]


async def filled(root: Path, world: MemoryWorld) -> tuple[Bench, str, str]:
    """A controller with thousands of jobs that have ended and of jobs that wait; one of each.

    A first one runs a job and queues another; their rows are repeated in its store.
    """
    first = Bench(root, world, "afs")
    await first.live.begin()
    done = await first.submit("true")
    await first.settle()
    await first.live.submit(ME, JobRequest(command=("forever",), array="0-15"))
    waiting = await first.submit("forever", devices="1..4")
    await first.settle()
    await first.live.close()
    installation.fill(f"sqlite:///{root / 'treadle.db'}", done, waiting, ended=ENDED, queued=QUEUED)
    here = Bench(root, world, "afs")
    await here.live.begin()
    return here, done, waiting


@within(300)
async def test_a12_the_loop_never_works_long_at_a_stretch(tmp_path: Path) -> None:
    """As many readers as have a turn at once ask for everything that there is."""
    here, done, waiting = await filled(tmp_path, MemoryWorld.of(Node("here", 16, "none")))
    live = here.live
    found = await live.jobs(limit=10_000)
    assert found.total == len(found.jobs) > QUEUED
    watch, stop, answers = Watch(), asyncio.Event(), Counter[int]()

    async def reader(turn: int) -> None:
        asks = questions(live, waiting, done)
        assert len(asks) == ASKED
        while not stop.is_set():
            turn += 1
            encoded(await asks[turn % len(asks)]())
            answers[turn % len(asks)] += 1

    watching = asyncio.ensure_future(watch.run())
    readers = [asyncio.ensure_future(reader(turn)) for turn in range(READERS)]
    number = 0
    while number < SUBMISSIONS or len(answers) < ASKED or min(answers.values()) < READERS:
        number += 1
        await live.submit(ME, LONG, key=str(number))
    stop.set()
    await asyncio.gather(*readers)
    watching.cancel()
    # A few slices of 4 ms may come one after the other, and one large answer is encoded.
    assert max(watch.spent_s) < 0.1
    await live.close()


@thorough
def test_a12_readers_do_not_keep_a_submission_waiting() -> None:
    """A real daemon, and readers in other processes: `benchmarks/installation.py`, smaller.

    The machine may be busy with other things, so times are compared with those of one submission
    at rest, and the readers and this test compete with the daemon for the same processors.
    """
    options = argparse.Namespace(queued=QUEUED, ended=ENDED, readers=16, submissions=SUBMISSIONS)
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        daemon = installation.Daemon(Path(folder), "afs")
        try:
            found = installation.measure(daemon, options)
        finally:
            daemon.end()
    assert found["reads refused"] == 0
    assert found["submit p99 ms"] < max(1_000.0, 40 * found["submit at rest, p50 ms"])
    assert found["memory MB"] < 300
    assert found["start, CPU s"] < 30
