"""Gangs come back in turn: one that was preempted and waited long is not stopped again at once."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.stories import Story, play
from treadle.core.actions import Action, Start, Stop
from treadle.core.cluster import Cluster
from treadle.core.events import JobFinished, JobProgressed, JobStopped, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.policies.wrappers.gang_turn import LEAST_S, TURN, waiting_gangs
from treadle.policies.wrappers.reserve import until_reserved
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import job, policy

SHORT_S = 80.0
# More small jobs than four devices can do, all shorter than what the gang has left.
STREAM = [
    job("gang", size=4, length_s=900.0),
    *(job(f"s{n}", length_s=SHORT_S, at=10.0 + 15.0 * n) for n in range(600)),
]
GANG_S = {  # when a gang of 15 minutes has ended, at the latest
    "srtf+reserve?again=1": 6 * 900.0,
    "srtf+reserve": 8 * 900.0,
}


def ended_at(text: str, jobs: list[JobSpec]) -> dict[str, float]:
    words = [line.split() for line in play(text, jobs)]
    return {name: float(at) for at, what, name, *_ in words if what == "finish"}


@pytest.mark.parametrize(("text", "by_at"), GANG_S.items())
def test_a_preempted_gang_does_not_wait_for_the_end_of_a_stream(text: str, by_at: float) -> None:
    last_at = STREAM[-1].submit_at
    assert ended_at("srtf+reserve?again=1e9", STREAM)["gang"] > last_at > by_at
    assert ended_at(text, STREAM)["gang"] < by_at


def test_a_higher_priority_ends_a_turn() -> None:
    """The gang comes back after five minutes, for 75 s and more."""
    for urgent_is, stops in ((5, True), (0, False)):
        urgent = replace(job("urgent", length_s=5.0, at=420.0), priority=urgent_is)
        stream = [spec for spec in STREAM if spec.submit_at < 600.0]
        jobs = sorted([*stream, urgent], key=lambda spec: spec.submit_at)
        lines = play("srtf+priority+reserve?again=0", jobs, "1x4")
        again = [line for line in lines if " start gang " in line][1]
        assert 300.0 <= float(again.split()[0]) < 420.0
        assert ("420 stop gang" in lines) is stops


def test_why_names_the_turn_and_when_devices_are_kept() -> None:
    story = Story("srtf+reserve")
    story.tell(0.0, JobSubmitted(job("gang", size=4, length_s=1000.0)))
    story.runs(0.0, "gang")
    [stop, start] = story.tell(60.0, JobSubmitted(job("small", length_s=400.0)))
    assert isinstance(stop, Stop)
    assert isinstance(start, Start)
    story.tell(60.0, JobStopped("gang", stop.id, 60.0))
    story.runs(60.0, "small")
    snapshot = story.scheduler.snapshot(120.0)
    assert until_reserved(story.scheduler.policy, snapshot, "gang") == (
        "it ran for 1 min and has waited for 1 min; devices are kept for it in 4 min"
    )
    story.tell(460.0, JobFinished("small", start.id))
    story.runs(460.0, "gang")
    story.tell(470.0, JobSubmitted(job("next", length_s=10.0)))
    assert story.scheduler.why("next", 470.0).sentence == (
        "job gang would make way for it, but is left alone for a while after a long wait; that is "
        "over in 1.5 min"
    )
    assert {type(action) for action in story.tell(560.0)} == {Stop, Start}


def test_a_gang_that_failed_is_left_to_the_policy() -> None:
    """It would be given devices on which it must not run."""
    story = Story("srtf+reserve?again=0")
    story.tell(0.0, JobSubmitted(job("gang", size=4, length_s=1000.0)))
    story.runs(0.0, "gang")
    [stop, _] = story.tell(60.0, JobSubmitted(job("small", length_s=4000.0 / 5)))
    assert isinstance(stop, Stop)
    story.tell(60.0, JobStopped("gang", stop.id, 60.0))
    row = story.scheduler.jobs["gang"]
    assert waiting_gangs([row]) == [row]
    assert waiting_gangs([row._replace(avoid=("n0",))]) == []


def test_a_gang_does_not_wait_for_the_end_of_jobs_that_can_make_way() -> None:
    """Three jobs that take days hold its devices; the fourth comes free again and again."""
    jobs = [
        *(job(f"long{n}", length_s=200_000.0) for n in range(3)),
        job("gang", size=4, length_s=60.0, at=1.0),
        *(job(f"s{n}", length_s=60.0, at=2.0 + 55.0 * n) for n in range(40)),
    ]
    begun = [
        line for line in play("backfill+reserve", jobs, until=4000.0) if " start gang " in line
    ]
    assert begun
    assert float(begun[0].split()[0]) < 8 * 60.0 + 300.0 + 120.0


def test_urgent_jobs_do_not_put_a_promise_off() -> None:
    """One comes every minute, and starts at once on a device that it leaves soon."""
    jobs = [
        *(job(f"long{n}", length_s=200_000.0) for n in range(3)),
        job("gang", size=4, length_s=60.0, at=1.0),
        *(job(f"s{n}", length_s=20.0, at=2.0 + 15.0 * n) for n in range(200)),
        *(
            replace(job(f"urgent{n}", length_s=5.0, at=30.0 + 60.0 * n), priority=1)
            for n in range(60)
        ),
    ]
    jobs.sort(key=lambda spec: spec.submit_at)
    lines = play("backfill+priority+reserve", jobs, until=4000.0)
    begun = [line for line in lines if " start gang " in line]
    assert begun
    assert float(begun[0].split()[0]) < 1000.0


def test_with_quotas_devices_are_kept_for_guaranteed_jobs_of_tenants_that_have_some() -> None:
    story = Story("fifo", "1x2")
    own = replace(job("own", size=2), tenant="a")
    specs = [job("first", size=2), own, replace(own, id="borrows", guaranteed=False)]
    for spec in [*specs, replace(job("other", size=2), tenant="b")]:
        story.tell(0.0, JobSubmitted(spec))
    rows = [story.scheduler.jobs[name] for name in ("own", "borrows", "other")]
    assert [row.id for row in waiting_gangs(rows, {"a": 2.0})] == ["own"]
    assert len(waiting_gangs(rows, None)) == 3


def test_gangs_that_ran_take_no_place_of_others() -> None:
    story = Story("fifo", "1x2")
    for number in range(200):
        story.tell(0.0, JobSubmitted(job(f"g{number}", size=2)))
    rows = [story.scheduler.jobs[f"g{number}"] for number in range(1, 200)]
    ran = [row._replace(starts=1) for row in rows[:100]]
    assert waiting_gangs([*ran, *rows[100:]])[:64] == rows[100:164]


@pytest.mark.parametrize(("late_s", "stopped"), [(15.0, False), (60.0, True)])
def test_a_job_that_is_about_to_end_is_not_stopped_for_a_gang(late_s: float, stopped: bool) -> None:
    """It is believed to take 100 s and is late when the gang's moment comes."""
    story = Story("backfill+reserve?wait_s=0&lengths=0")
    story.tell(0.0, JobSubmitted(job("long", size=2, length_s=100.0)))
    story.runs(0.0, "long")
    story.tell(0.0, JobSubmitted(job("gang", size=4, length_s=50.0)))
    row = story.scheduler.jobs["long"]
    done = 100.0 - late_s
    story.tell(99.0, JobProgressed("long", row.action, done, 1.0))
    orders = [*story.tell(100.0), *story.tell(119.0)]
    assert any(isinstance(order, Stop) for order in orders) is stopped
    assert any(isinstance(order, Stop) for order in [*orders, *story.tell(121.0)])


@st.composite
def streams(draw: st.DrawFn) -> list[JobSpec]:
    gang = job("gang", size=draw(st.integers(2, 4)), length_s=float(draw(st.integers(200, 3000))))
    jobs = [replace(gang, submit_at=float(draw(st.integers(0, 200))))]
    for number in range(draw(st.integers(5, 60))):
        at, length_s = float(draw(st.integers(0, 3000))), float(draw(st.integers(10, 100)))
        jobs.append(job(f"s{number}", length_s=length_s, at=at))
    return sorted(jobs, key=lambda spec: spec.submit_at)


@pytest.mark.parametrize("inner", ["srtf", "las", "afs", "weave-l"])
@settings(max_examples=25, deadline=None)
@given(jobs=streams(), again=st.sampled_from([0.0, 1.0, 4.0]))
def test_a_gang_comes_back_in_turn_under_any_arrivals(
    inner: str, jobs: list[JobSpec], again: float
) -> None:
    """Each wait is at most so many times what it has run, and for devices to come free. After such
    a wait it is not stopped before it has run for a quarter of it.
    """
    longest_s = 100.0
    scheduler = Scheduler(policy(f"{inner}+reserve?again={again:g}"), Cluster.grid(1, 4))
    starts = 0

    def watch(now: float, _e: object, actions: Sequence[Action], scheduler: Scheduler) -> None:
        nonlocal starts
        gang = scheduler.jobs.get("gang")
        if gang is None:
            return
        starts = gang.starts
        bound_s = max(LEAST_S, again * gang.held_at(now))
        if gang.starts and gang.allocation is None:
            assert now - gang.since_at <= bound_s + 2 * longest_s
        stopped = any(isinstance(action, Stop) and action.job == "gang" for action in actions)
        if stopped and gang.starts > 1:
            ran_s = gang.since_at - gang.begun_at
            if gang.last_wait_s > max(LEAST_S, again * (gang.held_at(now) - ran_s)):
                assert ran_s >= TURN * gang.last_wait_s - 1.0

    Simulation(scheduler, SimulatedEngine(jobs, ScalingModel()), observers=(watch,)).run(until=1e6)
    assert starts
