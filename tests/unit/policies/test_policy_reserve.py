"""Gangs that wait in turn, in small stories and as a bound on waiting."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.stories import play
from treadle.core.actions import Action, Start
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.policies.wrappers.reserve import until_reserved
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import job, policy

# A gang of four behind two jobs, then one small job every second: whatever comes free is taken.
STREAM = [
    job("first", length_s=10.0),
    job("second", length_s=15.0),
    job("gang", size=4, length_s=10.0, at=1.0),
    *(job(f"s{n}", length_s=8.0, at=2.0 + n) for n in range(30)),
]


def order(text: str, jobs: Sequence[JobSpec] = STREAM, cluster: str = "1x4") -> list[str]:
    """The names of jobs in the order of their starts."""
    return [line.split()[2] for line in play(text, list(jobs), cluster) if " start " in line]


def test_u12_a_gang_is_overtaken_by_a_bounded_number_of_jobs() -> None:
    """Without a reservation all thirty pass it."""
    assert order("backfill").index("gang") == 32
    assert order("backfill+reserve").index("gang") <= 2 + 8
    assert order("backfill+reserve?overtakes=1").index("gang") <= 2 + 4


def test_short_jobs_use_what_is_kept_until_the_gang_can_start() -> None:
    jobs = [
        job("long", size=2, length_s=100.0),
        job("gang", size=4, length_s=10.0, at=1.0),
        job("passes", size=1, length_s=200.0, at=2.0),
        job("short", size=1, length_s=20.0, at=3.0),
        job("longer", size=1, length_s=500.0, at=4.0),
    ]
    starts = [
        line for line in play("backfill+reserve?overtakes=0", jobs, "1x4") if " start " in line
    ]
    assert starts == [
        "0 start long n0:0,1",
        "3 start short n0:2",
        "100 start gang n0:0,1,2,3",
        "110 start passes n0:0",
        "110 start longer n0:1",
    ]


def test_a_gang_that_waited_long_enough_gets_a_reservation() -> None:
    jobs = [*STREAM[:3], *(replace(spec, submit_at=spec.submit_at + 8) for spec in STREAM[3:])]
    text = "backfill+reserve?overtakes=99&wait_s=6&lengths=0"
    assert order(text, jobs).index("gang") < order("backfill", jobs).index("gang")


def test_reservations_are_served_in_their_order() -> None:
    jobs = [
        *STREAM[:3],
        job("later", size=3, length_s=10.0, at=1.5),
        *STREAM[3:],
    ]
    names = order("backfill+reserve?overtakes=0.5", jobs)
    assert names.index("gang") < names.index("later") < names.index("s20")


def test_a_policy_in_which_no_job_overtakes_is_left_alone() -> None:
    assert play("fifo+reserve?overtakes=0", STREAM, "1x4") == play("fifo", STREAM, "1x4")


def test_a_higher_priority_is_not_kept_from_devices() -> None:
    urgent = replace(job("urgent", length_s=500.0, at=4.0), priority=5)
    jobs = [STREAM[0], replace(STREAM[2], submit_at=1.0), job("x", at=2.0, length_s=9.0), urgent]
    names = order("backfill+priority+reserve?overtakes=0", jobs)
    assert names.index("urgent") < names.index("gang")


def test_u12_why_names_the_reservation_and_what_small_jobs_wait_for() -> None:
    cluster = Cluster.grid(1, 4)
    scheduler = Scheduler(policy("backfill+reserve?overtakes=0"), cluster)
    jobs = [
        job("long", size=2, length_s=100.0),
        job("gang", size=4, length_s=10.0),
        job("other", length_s=500.0),
    ]
    scheduler.step([JobSubmitted(jobs[0])], 0.0)
    scheduler.step([JobSubmitted(spec) for spec in jobs[1:]], 0.0)
    assert scheduler.why("gang", 0.0).sentence == (
        "4 devices are being kept for it, for a moment so far; 2 of 4 are free"
    )
    assert scheduler.why("other", 0.0).sentence == (
        "2 free devices are kept for job gang, which needs 4 and was overtaken 0 times; "
        "only jobs that are gone within 1.7 min may use them, and it is expected to take 8.3 min"
    )


@pytest.mark.parametrize("other", ["las+reserve?overtakes=1", "afs+priority+reserve+host"])
def test_a_gang_keeps_its_turn_under_another_policy(other: str) -> None:
    """Two small jobs have overtaken it before the policy is switched."""
    scheduler = Scheduler(policy("backfill+reserve?overtakes=1"), Cluster.grid(1, 4))
    for spec in (job("long"), job("gang", size=4), job("s1"), job("s2")):
        scheduler.step([JobSubmitted(spec)], 0.0)
    scheduler.set_policy(policy(other), 5.0)
    scheduler.step([], 5.0)
    text = until_reserved(scheduler.policy, scheduler.snapshot(5.0), "gang")
    assert text.startswith("it was overtaken twice; ")


def test_bounds_are_checked() -> None:
    for wrong in ("overtakes=-1", "wait_s=-1", "lengths=-1"):
        with pytest.raises(InvalidInputError, match="reserve"):
            policy(f"backfill+reserve?{wrong}")


@st.composite
def arrivals(draw: st.DrawFn) -> list[JobSpec]:
    jobs = []
    for number in range(draw(st.integers(2, 25))):
        size = draw(st.sampled_from([1, 1, 1, 2, 4]))
        length_s = float(draw(st.integers(1, 20)))
        at = float(draw(st.integers(0, 30)))
        jobs.append(job(f"j{number}", size=size, length_s=length_s, at=at))
    return sorted(jobs, key=lambda spec: spec.submit_at)


@pytest.mark.parametrize("inner", ["backfill", "srtf", "las", "afs", "muri-l"])
@settings(max_examples=30, deadline=None)
@given(jobs=arrivals())
def test_u12_the_wait_of_a_gang_is_bounded_under_any_arrivals(
    inner: str, jobs: list[JobSpec]
) -> None:
    """At most so many jobs overtake a gang before it has a reservation, and it then waits at most
    for one running job of the longest sort, for each reservation before it and its own.
    """
    most, longest_s = 4, 20.0
    cluster = Cluster.grid(1, 4)
    made = policy(f"{inner}+reserve?overtakes={most / 4:g}")
    scheduler = Scheduler(made, cluster)
    begun: dict[str, float] = {}
    reserved: dict[str, float] = {}
    overtaken: dict[str, int] = {}
    sequence = {spec.id: place for place, spec in enumerate(jobs)}

    def watch(now: float, _e: object, actions: Sequence[Action], scheduler: Scheduler) -> None:
        lines = getattr(scheduler.state.memory, "own", None)
        for entry in getattr(lines, "reserved", ()):
            reserved.setdefault(entry.job, entry.since_at)
        fresh = {a.job for a in actions if isinstance(a, Start) and a.job not in begun}
        begun.update(dict.fromkeys(fresh, now))
        for name in fresh:
            for gang in scheduler.jobs.values():
                waits = gang.id not in begun and gang.id not in reserved
                if waits and sequence[gang.id] < sequence[name]:
                    overtaken[gang.id] = overtaken.get(gang.id, 0) + (gang.spec.asked > 1)

    Simulation(scheduler, SimulatedEngine(jobs, ScalingModel()), observers=(watch,)).run(until=1e5)
    assert set(begun) == {spec.id for spec in jobs}
    assert max(overtaken.values(), default=0) <= most
    line = sorted(reserved, key=lambda name: (reserved[name], sequence[name]))
    for place, name in enumerate(line):
        assert begun[name] - reserved[name] <= (place + 1) * 2 * longest_s
