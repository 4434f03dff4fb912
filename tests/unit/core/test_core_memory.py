"""What a policy remembers between decisions, and which of its ranks still count."""

import pytest

from tests.unit.stories import Story, Told
from treadle.core.errors import PolicyError
from treadle.core.events import JobSubmitted
from treadle.core.snapshot import Schedule
from treadle.testing.builders import job, policy


def test_the_memory_of_an_answer_comes_with_the_next_snapshot() -> None:
    story = Story(Told(Schedule(memory="first"), Schedule(memory="second")))
    assert story.scheduler.snapshot(0.0).memory is None
    story.tell(0.0, JobSubmitted(job("a")))
    assert story.scheduler.snapshot(0.0).memory == "first"
    story.tell(1.0, JobSubmitted(job("b")))
    assert story.scheduler.snapshot(1.0).memory == "second"


def test_a_fork_remembers_for_itself_and_another_policy_remembers_nothing() -> None:
    story = Story(Told(Schedule(memory="first")))
    story.tell(0.0, JobSubmitted(job("a")))
    twin = story.scheduler.fork()
    story.scheduler.set_policy(policy("fifo"), 1.0)
    assert story.scheduler.snapshot(1.0).memory is None
    assert twin.snapshot(1.0).memory == "first"


def test_an_answer_that_was_refused_is_not_remembered() -> None:
    story = Story(Told(Schedule(memory="first"), Schedule({"nobody": None}, memory="second")))
    story.tell(0.0, JobSubmitted(job("a")))
    with pytest.raises(PolicyError):
        story.tell(1.0, JobSubmitted(job("b")))
    assert story.scheduler.snapshot(1.0).memory == "first"
