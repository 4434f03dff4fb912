"""What the end of an attempt means to the scheduler, and what an allocation changes."""

import pytest

from treadle.core.attempt import How, Verdict
from treadle.core.cluster import Cluster
from treadle.core.events import (
    AttemptEnded,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
)
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.testing import builders
from treadle.testing.builders import job

OOM = Verdict("resource", "gpu-out-of-memory", "It ran out of memory.", "do not retry")


@pytest.mark.parametrize(
    ("ended", "meaning"),
    [
        (AttemptEnded("a", 3, 1, How.EXITED, code=0), JobFinished("a", 3)),
        (AttemptEnded("a", 3, 1, How.EXITED, code=1), JobFailed("a", 3, 0.0, "")),
        (
            AttemptEnded("a", 3, 1, How.EXITED, code=1, iterations_done=4.0, verdict=OOM),
            JobFailed("a", 3, 4.0, "gpu-out-of-memory"),
        ),
        (AttemptEnded("a", 3, 1, How.EXITED), JobFailed("a", 3, 0.0, "")),
        (AttemptEnded("a", 3, 1, How.LOST, code=0), JobFailed("a", 3, 0.0, "")),
        (AttemptEnded("a", 3, 0, How.STOPPED, iterations_done=2.0), JobStopped("a", 3, 2.0)),
        (AttemptEnded("a", 3, 1, How.MACHINE_ERROR, iterations_done=2.0), JobStopped("a", 3, 2.0)),
        (AttemptEnded("a", 3, 1, How.REPLACED, code=143), None),
    ],
)
def test_an_end_means_one_thing_to_the_scheduler(ended: AttemptEnded, meaning: object) -> None:
    assert ended.meaning == meaning


def test_the_scheduler_takes_the_end_of_an_attempt_for_what_it_means() -> None:
    scheduler = Scheduler(builders.policy("fifo"), Cluster.grid(1, 2))
    scheduler.step([JobSubmitted(job("a", size=2)), JobSubmitted(job("b"))], 0.0)
    scheduler.step([JobStarted("a", 0, 0.0, 1.0)], 0.0)
    scheduler.step([AttemptEnded("a", 0, 1, How.REPLACED)], 1.0)
    assert scheduler.jobs["a"].phase is Phase.RUNNING
    scheduler.step([AttemptEnded("a", 0, 1, How.EXITED, code=0)], 2.0)
    assert scheduler.ended == {"a": Phase.FINISHED}
    assert "a" not in scheduler.jobs


def test_what_ended_is_said_of_the_facts_taken_last_only() -> None:
    scheduler = Scheduler(builders.policy("fifo"), Cluster.grid(1, 2))
    scheduler.take([JobSubmitted(job("a")), JobSubmitted(job("b")), JobCancelled("a")], 0.0)
    assert scheduler.ended == {"a": Phase.CANCELLED}
    scheduler.take([JobCancelled("b")], 1.0)
    assert scheduler.ended == {"b": Phase.CANCELLED}
    scheduler.take([], 2.0)
    assert scheduler.ended == {}
