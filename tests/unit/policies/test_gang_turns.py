"""Gangs run in turns: one that was preempted comes back, and is not stopped again at once."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.stories import Story, play
from treadle.core.actions import Action, Start, Stop
from treadle.core.cluster import Cluster
from treadle.core.events import JobFinished, JobStopped, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.policies.wrappers.reserve import until_reserved
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import job, policy

SHORT_S = 8.0
# More small jobs than four devices can do, all shorter than what the gang has left.
STREAM = [
    job("gang", size=4, length_s=100.0),
    *(job(f"s{n}", length_s=SHORT_S, at=1.0 + n) for n in range(300)),
]


def ended_at(text: str, jobs: list[JobSpec]) -> dict[str, float]:
    return {
        line.split()[2]: float(line.split()[0]) for line in play(text, jobs) if "finish" in line
    }


def test_a_preempted_gang_does_not_wait_for_the_end_of_a_stream() -> None:
    """It gets a third of the time at least, where the shortest first would give it none."""
    last_s = STREAM[-1].submit_at
    assert ended_at("srtf", STREAM)["gang"] > last_s
    assert ended_at("srtf+reserve", STREAM)["gang"] < 3 * 100.0 + 6 * 2 * SHORT_S


def test_it_is_stopped_at_most_once_for_each_doubling_of_what_it_ran() -> None:
    stops = [line for line in play("srtf+reserve", STREAM, "1x4") if " stop gang" in line]
    assert 1 <= len(stops) <= 8


def test_a_higher_priority_ends_a_turn() -> None:
    urgent = replace(job("urgent", length_s=5.0, at=20.0), priority=5)
    waits = [job("first", size=4, length_s=15.0), job("gang", size=4, length_s=100.0, at=0.0)]
    lines = play("srtf+priority+reserve", [*waits, urgent], "1x4")
    assert "20 stop gang" in "\n".join(lines)


def test_why_names_the_turn_and_when_devices_are_kept() -> None:
    story = Story("srtf+reserve")
    story.tell(0.0, JobSubmitted(job("first", size=4, length_s=60.0)))
    story.tell(0.0, JobSubmitted(job("gang", size=4, length_s=1000.0)))
    story.runs(0.0, "first")
    story.tell(60.0, JobFinished("first", story.scheduler.jobs["first"].action))
    story.runs(60.0, "gang")
    story.tell(70.0, JobSubmitted(job("small", length_s=10.0)))
    assert story.scheduler.why("small", 70.0).sentence == (
        "job gang would make way for it, but is left alone until it has run for as long as it has "
        "waited; that is over in 50 s"
    )
    [stop, start] = story.tell(120.0)
    assert isinstance(stop, Stop)
    assert isinstance(start, Start)
    story.tell(120.0, JobStopped("gang", stop.id, 60.0))
    snapshot = story.scheduler.snapshot(121.0)
    assert until_reserved(story.scheduler.policy, snapshot, "gang") == (
        "it ran for 1 min and has waited for 1 min; devices are kept for it in 59 s, "
        "when it has waited twice as long as it ran"
    )


@st.composite
def streams(draw: st.DrawFn) -> list[JobSpec]:
    gang = job("gang", size=draw(st.integers(2, 4)), length_s=float(draw(st.integers(20, 200))))
    jobs = [replace(gang, submit_at=float(draw(st.integers(0, 20))))]
    for number in range(draw(st.integers(5, 60))):
        at, length_s = float(draw(st.integers(0, 120))), float(draw(st.integers(1, 10)))
        jobs.append(job(f"s{number}", length_s=length_s, at=at))
    return sorted(jobs, key=lambda spec: spec.submit_at)


@pytest.mark.parametrize("inner", ["srtf", "las", "afs", "weave-l"])
@settings(max_examples=25, deadline=None)
@given(jobs=streams())
def test_a_gang_runs_in_turns_under_any_arrivals(inner: str, jobs: list[JobSpec]) -> None:
    """It is not stopped before it has run as long as it waited, and after its first start it waits
    for twice as long as it runs, and each time for devices to come free.
    """
    longest_s = 10.0
    scheduler = Scheduler(policy(f"{inner}+reserve"), Cluster.grid(1, 4))
    first_wait_s: list[float] = []

    def watch(now: float, _e: object, actions: Sequence[Action], scheduler: Scheduler) -> None:
        gang = scheduler.jobs.get("gang")
        for action in actions:
            if action.job != "gang" or gang is None:
                continue
            if isinstance(action, Start):
                first_wait_s.append(gang.waited_s)
            if isinstance(action, Stop):
                assert gang.held_at(now) >= gang.waited_at(now) - 1e-6
        if gang is not None and gang.starts and gang.allocation is None:
            drains_s = gang.starts * 2 * longest_s
            waited_s = gang.waited_at(now) - first_wait_s[0]
            assert waited_s <= 2 * gang.held_at(now) + drains_s

    Simulation(scheduler, SimulatedEngine(jobs, ScalingModel()), observers=(watch,)).run(until=1e5)
    assert first_wait_s
