"""How often jobs were restarted in order to change them, from decision to decision."""

import pytest

from tests.unit.stories import Story, Told, on
from treadle.core.events import JobStopped, JobSubmitted
from treadle.core.snapshot import Schedule
from treadle.policies.base.restarts import Restarts
from treadle.testing.builders import job


@pytest.fixture
def story() -> Story:
    """a runs and was started once, b was started, stopped and started again, c waits."""
    answers = Schedule({"a": on(0), "b": on(1)}), Schedule({"b": on(2)})
    story = Story(Told(*answers))
    story.tell(0.0, *(JobSubmitted(job(name)) for name in "abc"))
    story.runs(0.0, "a", "b")
    story.tell(1.0, JobStopped("b", 1, 0.5))
    assert [row.starts for row in story.scheduler.jobs.values()] == [1, 2, 0]
    return story


def counted(story: Story, memory: object) -> Restarts:
    return Restarts(story.scheduler.snapshot(2.0)._replace(memory=memory))


def test_starts_after_the_first_and_changes_that_were_noted_are_counted(story: Story) -> None:
    rows = story.scheduler.jobs.values()
    assert [counted(story, None).of(row) for row in rows] == [0, 1, 0]
    assert [counted(story, {"a": 3, "b": 1}).of(row) for row in rows] == [3, 2, 0]


def test_a_change_of_a_running_job_is_noted_and_a_start_or_a_stop_is_not(story: Story) -> None:
    restarts = counted(story, {"a": 3})
    assert restarts.after({"a": on(3)}) == {"a": 4}
    assert restarts.after({"b": on(3)}) == {"a": 3, "b": 1}
    assert restarts.after({"a": None, "c": on(3)}) == {"a": 3}


def test_jobs_that_have_ended_are_forgotten(story: Story) -> None:
    assert counted(story, {"a": 3, "gone": 7}).after({}) == {"a": 3}
