"""A job that failed is tried again later and somewhere else, and no job overtakes it meanwhile."""

from dataclasses import replace

from tests.unit.stories import Story
from treadle.core.actions import Action, Start
from treadle.core.events import JobFailed, JobFinished, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.reasons import Reason
from treadle.core.retry import Answer, Failure
from treadle.policies.live.room import AVOIDED_S
from treadle.testing.builders import job


def story(answer: Answer, text: str = "fifo+live", cluster: str = "2x2") -> Story:
    """A scheduler whose retry rule always answers the same."""
    told = Story(text, cluster)

    def rule(failure: Failure) -> Answer:
        return answer

    told.scheduler.retry = rule
    return told


def places(actions: list[Action]) -> dict[str, str]:
    return {a.job: a.allocation.devices[0].node for a in actions if isinstance(a, Start)}


def fails(told: Story, name: str, at: float, *more: JobSpec) -> list[Action]:
    row = told.scheduler.jobs[name]
    told.runs(at, name)
    newcomers = [JobSubmitted(spec) for spec in more]
    return told.tell(at, JobFailed(name, row.action, 0.0, "ecc"), *newcomers)


def test_the_next_try_keeps_away_from_a_suspected_node() -> None:
    told = story(Answer(again=True, avoid=("n0",)))
    assert places(told.tell(0.0, JobSubmitted(job("a", size=2)))) == {"a": "n0"}
    assert places(fails(told, "a", 5.0)) == {"a": "n1"}


def test_if_there_is_nothing_else_the_job_waits_and_then_goes_where_it_was() -> None:
    told = story(Answer(again=True, avoid=("n0",)), "fifo+live")
    told.tell(0.0, JobSubmitted(job("b", size=2, length_s=900.0)))
    told.tell(0.0, JobSubmitted(job("a", size=2)))
    told.scheduler.retry = lambda failure: Answer(again=True, avoid=("n1",))
    assert not places(fails(told, "a", 5.0))
    reason = told.scheduler.why("a", 5.0)
    assert reason == Reason("avoids", {"nodes": ("n1",), "in_s": AVOIDED_S})
    assert told.scheduler.wake_at == 5.0 + AVOIDED_S
    assert places(told.tell(5.0 + AVOIDED_S)) == {"a": "n1"}


def test_a_job_is_kept_back_until_it_is_worth_another_try() -> None:
    told = story(Answer(again=True, wait_s=30.0))
    told.tell(0.0, JobSubmitted(job("a", size=2)))
    assert places(fails(told, "a", 5.0, job("b", size=2))) == {"b": "n0"}
    assert told.scheduler.why("a", 5.0) == Reason("backoff", {"failures": 1, "in_s": 30.0})
    assert told.scheduler.wake_at == 35.0
    assert places(told.tell(35.0)) == {"a": "n1"}


def test_no_job_of_lower_priority_starts_in_its_stead() -> None:
    """One place is left: the job that failed has it at once, rather than one below it."""
    told = story(Answer(again=True, wait_s=30.0), cluster="1x2")
    high = replace(job("a", size=2), priority=1)
    told.tell(0.0, JobSubmitted(high))
    assert places(fails(told, "a", 5.0, job("b", size=2))) == {"a": "n0"}


def test_one_of_the_same_priority_may_pass_it() -> None:
    told = story(Answer(again=True, wait_s=30.0), cluster="1x2")
    told.tell(0.0, JobSubmitted(job("a", size=2)))
    assert places(fails(told, "a", 5.0, job("b", size=2))) == {"b": "n0"}
    told.runs(8.0, "b")
    row = told.scheduler.jobs["b"]
    assert not places(told.tell(9.0, JobFinished("b", row.action)))
    assert places(told.tell(35.0)) == {"a": "n0"}


def devices(actions: list[Action]) -> dict[str, list[str]]:
    held = {a.job: a.allocation.devices for a in actions if isinstance(a, Start)}
    return {name: [str(device) for device in found] for name, found in held.items()}


def test_after_any_failure_the_next_try_is_on_other_devices_if_some_are_free() -> None:
    """Nothing is suspected: it waits for no others, and goes on no more nodes than before."""
    told = story(Answer(again=True), cluster="2x2")
    assert devices(told.tell(0.0, JobSubmitted(job("a", size=1)))) == {"a": ["n0:0"]}
    assert devices(fails(told, "a", 5.0)) == {"a": ["n0:1"]}
    assert devices(fails(told, "a", 9.0, job("b", size=2))) == {
        "a": ["n0:0"],
        "b": ["n1:0", "n1:1"],
    }
    told.runs(10.0, "b")
    told.tell(10.0, JobSubmitted(job("c", size=1)))
    assert devices(fails(told, "a", 12.0)) == {"a": ["n0:0"]}, "it is the only one"
    assert told.scheduler.jobs["a"].failed_on == ()
    wide = story(Answer(again=True), cluster="2x2")
    assert devices(wide.tell(0.0, JobSubmitted(job("d", size=1)), JobSubmitted(job("e", size=2))))
    assert devices(fails(wide, "e", 5.0)) == {"e": ["n1:0", "n1:1"]}
