"""Jobs say how far they are while people and the scheduler pause them, and daemons come and go."""

import logging
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.unit.control.memory import ME, Bench, play_on
from tests.unit.control.test_control_on_memory import rebuilt

from treadle.core.cluster import Node
from treadle.core.job_report import Report
from treadle.core.sighting import Load
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import State
from treadle.wire.problems import RequestError

SIZES = ("1", "2", "1..2")
WHAT = (
    *("submit", "urgent", "say", "say", "say", "look", "look"),
    *("pause", "pause", "resume", "resume", "hold", "finish", "restart"),
)
_deeds = st.lists(
    st.tuples(st.sampled_from(WHAT), st.sampled_from((1, 1, 2, 2, 3, 4)), st.integers(0, 10)),
    min_size=4,
    max_size=30,
)


async def do(here: Bench, what: str, job: str, number: int) -> None:
    """One of these deeds; what does not suit the job as it is is refused."""
    live, context = here.live, here.live.context
    match what:
        case "submit":
            resumable, guaranteed, devices = number % 2 == 0, number % 3 > 0, SIZES[number % 3]
            await here.submit(
                "forever", devices=devices, resumable=resumable, guaranteed=guaranteed
            )
        case "urgent":
            await here.submit("urgent", devices=SIZES[number % 3], priority=1)
        case "say":
            for _ in range(3):  # The last of them come too soon to be on record by themselves.
                said = context.learner.progress(job)
                step = min(100.0, (said.step if said else 0.0) + number)
                await live.report(ME, job, Report(step=step, total=100.0))
                if (gauge := context.learner.gauge(job)) is not None:
                    gauge.from_at -= 6.0  # as if that had been long ago: there is a speed
        case "look":
            here.world.loads = {job: Load(busy=number / 10.0, cores=1.0)}
            for watch in context.learner.seen._watches.values():
                watch.at = None if watch.at is None else watch.at - 5.0
            await live._life._look()
        case "finish" if context.scheduler.jobs[job].phase == "running":
            here.memory.finish(job)
        case "pause" | "resume" | "hold":
            await getattr(live, what)(ME, job)
    await here.settle()


def check(here: Bench) -> None:
    """What is kept of jobs is of sizes that they may have; the journal says the same of it."""
    again, profiles = rebuilt(here), here.live.context.learner.profiles
    for _, history in profiles.scripts():
        assert {run.size for run in history.rows} <= {1, 2}
    for job, row in here.live.context.scheduler.jobs.items():
        assert row.spec.profile.measured in {(), (1,), (2,), (1, 2)}
        assert again.scheduler.jobs[job].spec == row.spec
        record = here.live.context.jobs.records[job]
        assert (record.pause is not None) == (here.state(job) is State.PAUSED)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(_deeds)
@example([("say", 1, 5), ("pause", 1, 0), ("look", 1, 0), ("restart", 1, 0), ("resume", 1, 0)])
def test_whatever_jobs_say_and_whenever_they_are_paused_the_next_daemon_goes_on(
    caplog: pytest.LogCaptureFixture, deeds: list[tuple[str, int, int]]
) -> None:
    caplog.clear()
    there, lives = MemoryWorld.of(Node("here", 2, "none")), [list[tuple[str, int, int]]()]
    for deed in [("submit", 1, 1), ("submit", 1, 4), *deeds]:
        lives += [[]] if deed[0] == "restart" else []
        lives[-1] += [] if deed[0] == "restart" else [deed]

    with tempfile.TemporaryDirectory() as root:
        for life in lives:

            async def story(here: Bench, life: list[tuple[str, int, int]] = life) -> None:
                for what, job, number in life:
                    with suppress(RequestError, KeyError):
                        await do(here, what, str(job), number)
                await here.settle()
                check(here)

            play_on(there, story, Path(root), policy="weave-l")
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
