"""Jobs that wait for something else than devices: others, a release, their kind."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.live_runs import live
from tests.unit.stories import Story, Told, on
from treadle.core.actions import Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import PolicyError
from treadle.core.events import (
    DeviceClosed,
    DeviceOpened,
    Event,
    JobCancelled,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStarted,
    JobStopped,
    JobSubmitted,
    JobUpdated,
)
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import Policy
from treadle.core.ranking import Rank, Ranking
from treadle.core.reasons import Reason
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.core.waiting_by_kind import Waiting
from treadle.policies import registry
from treadle.testing import builders
from treadle.testing.builders import job, scheduler

D0, D1 = Device("n0", 0), Device("n0", 1)


# -- blocked jobs ----------------------------------------------------------------------------------


def test_a_blocked_job_starts_when_its_last_reason_is_gone() -> None:
    story = Story()
    held = JobHeld("a", "its user holds it"), JobHeld("a", "it waits for b")
    assert story.tell(0.0, JobSubmitted(job("a")), *held) == []
    assert story.scheduler.blocked == {"a": ("its user holds it", "it waits for b")}
    assert story.scheduler.why("a", 0.0) == Reason(
        "held", {"reasons": ("its user holds it", "it waits for b")}
    )
    assert story.tell(1.0, JobReleased("a", "its user holds it")) == []
    assert story.scheduler.blocked == {"a": ("it waits for b",)}
    assert story.tell(2.0, JobReleased("a", "it waits for b")) == [Start(0, "a", on(0))]
    assert story.scheduler.blocked == {}


def test_a_job_does_not_wait_while_it_is_blocked() -> None:
    story = Story()
    story.tell(0.0, JobSubmitted(job("a", size=4)), JobSubmitted(job("b", size=4)))
    story.runs(0.0, "a")
    story.tell(10.0, JobHeld("b", "x"))
    story.tell(15.0, JobHeld("b", "y"))
    story.tell(100.0, JobReleased("b", "x"), JobReleased("b", "y"))
    assert story.scheduler.jobs["b"].waited_at(105.0) == 15.0
    story.tell(107.0, JobFinished("a", 0))
    row = story.scheduler.jobs["b"]
    assert (row.last_wait_s, row.waited_s, row.waited_at(200.0)) == (7.0, 17.0, 17.0)


@pytest.mark.parametrize(
    "fact",
    [
        JobReleased("a", "another reason"),
        JobReleased("b", "x"),
        JobReleased("stranger", "x"),
        JobHeld("a", "x"),
        JobHeld("stranger", "x"),
        JobHeld("leaving", "x"),
    ],
)
def test_a_reason_that_changes_nothing_causes_no_decision(fact: Event) -> None:
    story = Story(policy := Told(Schedule({"leaving": on(0)})), "1x4")
    story.tell(0.0, *(JobSubmitted(job(name)) for name in ("a", "b", "leaving")))
    story.tell(1.0, JobHeld("a", "x"), JobCancelled("leaving"))
    asked_at, phases = list(policy.asked_at), story.phases()
    assert story.tell(2.0, fact) == []
    assert policy.asked_at == asked_at
    assert story.phases() == phases
    assert story.scheduler.blocked == {"a": ("x",)}


def test_blocking_a_running_job_stops_it_and_lets_the_next_one_in() -> None:
    story = Story("fifo", "1x1")
    story.tell(0.0, JobSubmitted(job("a")), JobSubmitted(job("b")))
    story.runs(0.0, "a")
    orders = story.tell(5.0, JobHeld("a", "x"))
    assert orders == [Stop(1, "a"), Start(2, "b", on(0), ("a",))]
    assert story.tell(6.0, JobStopped("a", 1, 5.0)) == []
    assert story.phases() == "a:waiting b:starting"


def test_a_release_while_the_job_still_stops_is_no_news_until_it_has_stopped() -> None:
    story = Story(policy := Told(Schedule({"a": on(0)})), "1x4")
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    assert story.tell(1.0, JobHeld("a", "x")) == [Stop(1, "a")]
    asked = len(policy.asked_at)
    story.tell(2.0, JobReleased("a", "x"))
    assert len(policy.asked_at) == asked
    policy.answers = [Schedule({"a": on(1)})]
    assert story.tell(3.0, JobStopped("a", 1, 1.0)) == [Start(2, "a", on(1))]


# -- closed devices --------------------------------------------------------------------------------


def test_a_closed_device_takes_no_job_until_it_is_opened() -> None:
    story = Story("fifo", "1x2")
    story.tell(0.0, DeviceClosed(D0, "too hot"))
    assert story.scheduler.closed == {D0: "too hot"}
    assert story.tell(1.0, JobSubmitted(job("a"))) == [Start(0, "a", on(1))]
    assert story.tell(2.0, JobSubmitted(job("b"))) == []
    assert story.tell(3.0, DeviceOpened(D0)) == [Start(1, "b", on(0))]


def test_a_job_on_a_device_that_closes_runs_on_and_cannot_be_moved_or_preempted() -> None:
    story = Story("srtf", "1x2")
    story.tell(0.0, JobSubmitted(job("long", length_s=100.0)))
    story.runs(0.0, "long")
    assert story.tell(1.0, DeviceClosed(D0, "x")) == []
    seen = story.scheduler.snapshot(1.0)
    assert (list(seen.holding()), list(seen.free)) == ([], [D1])
    orders = story.tell(2.0, JobSubmitted(job("short", size=2, length_s=5.0)))
    assert orders == []
    assert story.phases() == "long:running short:waiting"


def test_closing_a_device_is_news_and_opening_one_that_is_open_is_not() -> None:
    story = Story(policy := Told(), "1x2")
    story.tell(0.0, DeviceClosed(D0, "x"))
    assert policy.asked_at == [0.0]
    story.tell(1.0, DeviceOpened(D1))
    assert policy.asked_at == [0.0]
    story.tell(2.0, DeviceOpened(D0))
    assert policy.asked_at == [0.0, 2.0]


def test_a_policy_that_gives_a_closed_device_is_refused() -> None:
    story = Story(Told(KEEP, Schedule({"a": on(0, 1)})), "1x2")
    story.tell(0.0, DeviceClosed(D1, "x"))
    with pytest.raises(PolicyError) as refusal:
        story.tell(1.0, JobSubmitted(job("a", size=2)))
    assert str(refusal.value) == "job a was given device n0:1, which is closed"


# -- another spec ----------------------------------------------------------------------------------


def test_the_share_that_is_done_stays_when_the_work_is_counted_in_other_units() -> None:
    story = Story()
    story.tell(0.0, JobSubmitted(job("a", length_s=100.0)))
    story.runs(0.0, "a")
    story.tell(10.0, JobUpdated(replace(job("a", length_s=100.0), iterations=1000.0)))
    row = story.scheduler.jobs["a"]
    assert row.spec.iterations == 1000.0
    assert (row.iterations_done, row.iterations_per_s, row.observed_at) == (100.0, 10.0, 10.0)
    assert row.iterations_at(20.0) == 200.0
    assert row.service_at(20.0) == 20.0


def test_a_spec_that_makes_another_rank_changes_who_goes_first() -> None:
    story = Story("sjf", "1x1")
    story.tell(0.0, JobSubmitted(job("now")))
    story.tell(0.0, JobSubmitted(job("a", length_s=50.0)), JobSubmitted(job("b", length_s=60.0)))
    story.runs(0.0, "now")
    story.tell(1.0, JobUpdated(job("b", length_s=10.0)))
    assert story.tell(2.0, JobFinished("now", 0)) == [Start(1, "b", on(0))]


def test_a_waiting_job_that_asks_for_less_fits_now() -> None:
    story = Story("fifo", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=8)))
    assert list(story.scheduler.unfit) == ["a"]
    assert story.tell(1.0, JobUpdated(job("a", size=2))) == [Start(0, "a", on(0, 1))]
    assert story.scheduler.unfit == {}


@pytest.mark.parametrize("spec", [job("a"), job("stranger")])
def test_a_spec_that_is_the_same_or_of_a_stranger_is_no_news(spec) -> None:
    story = Story(policy := Told())
    story.tell(0.0, JobSubmitted(job("a")))
    story.tell(1.0, JobUpdated(spec))
    assert policy.asked_at == [0.0]
    assert story.phases() == "a:waiting"


def test_a_job_on_its_way_out_is_not_ranked_again_by_a_new_spec() -> None:
    story = Story("srtf", "1x4")
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    story.tell(1.0, JobCancelled("a"))
    story.tell(2.0, JobUpdated(job("a", length_s=7.0)))
    assert list(story.scheduler.ranking.from_the_back(2.0)) == []


# -- Jobs on hold: policies do not see them, and a hold that is over stops nothing -----------------


class Eager(Policy):
    """Starts every job that waits, whether or not it is in the queue."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.asked = 0

    def decide(self, snapshot: Snapshot) -> Schedule:
        self.asked += 1
        waiting = [row for row in snapshot.jobs.values() if row.phase is Phase.WAITING]
        self.seen |= {row.id for row in waiting}
        devices = list(snapshot.free)
        return Schedule(
            {row.id: Allocation((device,)) for row, device in zip(waiting, devices, strict=False)}
        )


def test_a_policy_does_not_see_a_job_on_hold() -> None:
    eager = Eager()
    one = Scheduler(eager, Cluster.grid(1, 2))
    one.step([JobSubmitted(job("a")), JobHeld("a", "user"), JobSubmitted(job("b"))], 0.0)
    assert eager.seen == {"b"}
    assert one.jobs["a"].allocation is None


def test_a_policy_that_names_jobs_on_hold_is_not_asked_for_ever() -> None:
    eager = Eager()
    with registry.offered("eager", lambda _place, _belief: eager):
        made = builders.policy(live("eager"))
    one = Scheduler(made, Cluster.grid(1, 2))
    events: list[Event] = [JobSubmitted(job("a")), JobHeld("a", "user"), JobSubmitted(job("b"))]
    for _ in range(10):
        for action in one.step(events, 0.0):
            one.step([JobStarted(action.job, action.id, 0.0, 1.0)], 0.0)
        events = []
    assert eager.asked <= 3
    assert one.jobs["a"].allocation is None


def test_a_job_that_is_held_and_released_in_one_batch_runs_on() -> None:
    one = scheduler("fifo", "1x1")
    (start,) = one.step([JobSubmitted(job("a"))], 0.0)
    one.step([JobStarted("a", start.id, 0.0, 1.0)], 0.0)
    assert one.step([JobHeld("a", "user"), JobReleased("a", "user")], 1.0) == []


# -- Waiting jobs by kind: always what a look at the whole queue would give ------------------------


STEPS = st.lists(
    st.tuples(st.sampled_from(["waits", "runs", "ends", "look", "other basis"]), st.integers(0, 7)),
    max_size=40,
)


def by_kind(waiting: Waiting) -> tuple[int, Waiting]:
    return int(waiting[2]) % 3, waiting


@given(STEPS)
def test_lines_follow_the_queue_whatever_becomes_of_its_jobs(steps: list[tuple[str, int]]) -> None:
    ranking, basis = Ranking(lambda row, _: Rank(row.sequence % 2)), object()
    for now, (what, number) in enumerate(steps):
        spec = job(str(number))
        if what == "waits":
            ranking.put(Job(spec, number, Phase.WAITING, 0.0, 0.0), now)
        elif what == "runs":
            held = Allocation((Device("n", number),))
            ranking.put(Job(spec, number, Phase.RUNNING, 0.0, 0.0, held), now)
        elif what == "ends":
            ranking.drop(spec.id)
        else:
            basis = basis if what == "look" else object()
            lines = ranking.by_kind(by_kind, basis)
            expected: dict[int, list[tuple[Waiting, JobId]]] = {}
            for waiting in ranking.queue:
                expected.setdefault(int(waiting[2]) % 3, []).append((waiting, waiting[2]))
            assert lines == expected


def test_a_job_is_classified_once_while_the_basis_is_the_same() -> None:
    ranking, basis, asked = Ranking(lambda _row, _now: Rank(0.0)), object(), list[JobId]()

    def noted(waiting: Waiting) -> tuple[str, int]:
        asked.append(waiting[2])
        return "all", waiting[1]

    ranking.put(Job(job("a"), 0, Phase.WAITING, 0.0, 0.0), 0.0)
    ranking.by_kind(noted, basis)
    ranking.put(Job(job("b"), 1, Phase.WAITING, 0.0, 0.0), 1.0)
    ranking.by_kind(noted, basis)
    assert asked == ["a", "b"]
    ranking.by_kind(noted, object())
    assert asked == ["a", "b", "a", "b"]
