"""Estimates of when a waiting job would start, from the state of a live scheduler."""

import pytest

from treadle.core.actions import Action, Start
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import JobFailed, JobHeld, JobStarted, JobSubmitted
from treadle.core.job import JobSpec, Profile
from treadle.core.retry import Answer
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import PHILLY, ScalingModel
from treadle.sim.start_estimate import Begin, Effort, NotYet, World, ends_in, starts_in
from treadle.testing.builders import policy

DAY_S = 86_400.0


def standing(name: str, *specs: JobSpec) -> Scheduler:
    """A scheduler on two devices whose started jobs run since second 0."""
    scheduler = Scheduler(policy(name), Cluster.grid(1, 2))
    actions: list[Action] = scheduler.step([JobSubmitted(spec) for spec in specs], 0.0)
    scheduler.take([JobStarted(action.job, action.id, 0.0, 1.0) for action in actions], 0.0)
    return scheduler


def wide(name: str, length_s: float) -> JobSpec:
    return JobSpec(name, length_s, (2,), profile=Profile(size=2))


def begins(scheduler: Scheduler, job: str, *, now: float, **left_s: float) -> Begin | NotYet:
    model = ScalingModel.on(scheduler.cluster)
    effort = Effort(DAY_S, 1000)
    return starts_in(scheduler, model, job, now=now, effort=effort, world=World(left_s))


def starts(scheduler: Scheduler, job: str, *, now: float, **left_s: float) -> float:
    found = begins(scheduler, job, now=now, **left_s)
    assert isinstance(found, Begin)
    return found.in_s


def test_a_waiting_job_starts_when_those_before_it_are_believed_to_end() -> None:
    """1. `a` holds both devices for 100 s. 2. `b` and `c` wait for both. 3. At second 30, 70 s of
    `a` are left, and 50 s of `b` come before `c`."""
    scheduler = standing("fifo", wide("a", 100.0), wide("b", 50.0), wide("c", 9.0))
    assert starts(scheduler, "b", now=30.0) == 70.0
    assert starts(scheduler, "c", now=30.0) == 120.0
    assert starts(scheduler, "c", now=30.0, a=140.0, b=100.0) == 240.0
    assert scheduler.jobs["a"].iterations_at(30.0) == 30.0, "the live scheduler is as it was"
    assert len(scheduler.ranking.queue) == 2


def test_a_job_past_its_estimate_is_assumed_to_end_soon() -> None:
    scheduler = standing("fifo", wide("a", 100.0), wide("b", 50.0))
    assert starts(scheduler, "b", now=500.0) == pytest.approx(5.0)


def test_a_blocked_job_does_not_start_in_the_time_that_is_simulated() -> None:
    scheduler = standing("fifo", wide("a", 100.0), wide("b", 50.0))
    scheduler.take([JobHeld("b", "user")], 1.0)
    assert begins(scheduler, "b", now=1.0) == NotYet(DAY_S)


def test_a_simulation_that_comes_to_its_limits_says_how_far_it_got() -> None:
    """1. `a`, `b` and `c` run one after another, and `d` would be next. 2. Three steps are made:
    `a` ends, `b` has started, `b` ends."""
    jobs = [wide(name, length_s) for name, length_s in (("a", 100.0), ("b", 50.0), ("c", 9.0))]
    scheduler = standing("fifo", *jobs, wide("d", 9.0))
    model = ScalingModel.on(scheduler.cluster)
    found = starts_in(scheduler, model, "d", now=30.0, effort=Effort(DAY_S, 3))
    assert found == NotYet(120.0)


def test_the_ends_that_a_job_waits_for_are_named() -> None:
    scheduler = standing("fifo", wide("a", 100.0), wide("b", 50.0))
    assert begins(scheduler, "b", now=30.0) == Begin(70.0, 0, ("a",), 2)


def test_a_job_that_backs_off_waits_for_no_end() -> None:
    """1. `a` runs for 10 s and `b` for 100 s, on a device each. 2. `b` fails and is tried again in
    30 s; by then `a` has left its device long ago, and no end decides when `b` starts."""
    short, long = JobSpec("a", 10.0, (1,)), JobSpec("b", 100.0, (1,))
    scheduler = standing("fifo+live", short, long)
    scheduler.retry = lambda _: Answer(again=True, wait_s=30.0)
    scheduler.step([JobFailed("b", scheduler.jobs["b"].action, 0.0, "ecc")], 1.0)
    scheduler.step([JobSubmitted(JobSpec("c", 500.0, (1,)))], 1.0)  # It takes the place of `b`.
    assert begins(scheduler, "b", now=2.0) == Begin(29.0, 0)


@pytest.mark.parametrize("phase", ["starting", "running"])
def test_what_is_left_of_a_job_is_of_the_devices_that_it_has(phase: str) -> None:
    """1. `a` holds a fast and a slow device, in two racks. 2. By its own steps 30 s of it are left.
    3. What is known of other types, and of racks, slows nothing that was measured there."""
    nodes = (Node("x", 1, "fast", rack="r1"), Node("y", 1, "slow", rack="r2"))
    scheduler = Scheduler(policy("fifo", place="count"), Cluster(nodes))
    by_type = (("fast", 1.0), ("slow", 0.25))
    spec = JobSpec("a", 1000.0, (2,), profile=Profile(size=2, by_type=by_type))
    (start, *_) = scheduler.step([JobSubmitted(spec), JobSubmitted(wide("b", 9.0))], 0.0)
    if phase == "running":
        scheduler.take([JobStarted("a", start.id, 0.0, 5.0)], 0.0)
    model = ScalingModel.on(scheduler.cluster, PHILLY)
    world = World({"a": 30.0})
    found = starts_in(scheduler, model, "b", now=10.0, effort=Effort(DAY_S, 1000), world=world)
    assert isinstance(found, Begin)
    assert found.in_s == pytest.approx(30.0)


def test_what_is_left_of_a_job_is_beside_the_one_that_it_shares_with() -> None:
    scheduler = Scheduler(policy("fifo"), Cluster.grid(1, 1))
    scheduler.take([JobSubmitted(JobSpec(name, 1000.0)) for name in ("a", "b")], 0.0)
    here = (Device("n0", 0),)
    orders = [Start(turn, job, Allocation(here, turn=turn)) for turn, job in enumerate(("a", "b"))]
    scheduler.replay([], orders, 0.0, wake_at=None)
    scheduler.take([JobStarted(order.job, order.id, 0.0, 1.0) for order in orders], 0.0)
    model = ScalingModel.on(scheduler.cluster, PHILLY)
    world = World({"a": 30.0, "b": 30.0})
    effort = Effort(DAY_S, 1000)
    found = ends_in(scheduler, model, ("a", "b"), now=10.0, effort=effort, world=world)
    assert found == pytest.approx(30.0)
