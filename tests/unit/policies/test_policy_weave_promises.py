"""weave: promises to guaranteed jobs within quotas, and deadlines."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.policies.weave_world import COMPUTES, LOADS, World
from treadle.core.allocation import Allocation
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobFinished, JobSubmitted
from treadle.core.job import Job, JobSpec
from treadle.core.lifecycle import Phase
from treadle.policies.weave.curve import Curves
from treadle.policies.weave.patience import LEAST_S
from treadle.policies.weave.promises import promised_size, urgency
from treadle.sim.quota_check import check_quotas
from treadle.traces.clusters import cluster
from treadle.traces.load import load

BOTH = pytest.mark.parametrize("name", ["weave", "weave-l"])


def spec(
    name: str, work: float, sizes: tuple[int, ...] = (1,), *, tenant: str = "a", loads: bool = False
) -> JobSpec:
    """A guaranteed job of tenant a, unless it is named best-effort by tenant b."""
    profile = LOADS if loads else COMPUTES
    return JobSpec(name, work, sizes, profile=profile, tenant=tenant, guaranteed=tenant != "b")


@BOTH
def test_a_guaranteed_job_takes_its_quota_back_from_shorter_best_effort_jobs(name: str) -> None:
    world = World(f"{name}?quotas=a:4", 4)
    world.step(0.0, *(JobSubmitted(spec(f"b{n}", 100.0, tenant="b")) for n in range(8)))
    assert sum(world.size(f"b{n}") for n in range(8)) >= 4  # Idle quota is lent.
    world.step(1.0, JobSubmitted(spec("a", 1e6, (4,))))
    assert world.size("a") == 4
    assert sum(world.size(f"b{n}") for n in range(8)) == 0


@BOTH
def test_without_quotas_the_same_job_waits(name: str) -> None:
    world = World(f"{name}?group=1", 4)
    world.step(0.0, *(JobSubmitted(spec(f"b{n}", 100.0, tenant="b")) for n in range(8)))
    world.step(1.0, JobSubmitted(spec("a", 1e6, (4,))))
    assert world.size("a") == 0


@BOTH
def test_a_quota_limits_what_guaranteed_jobs_claim(name: str) -> None:
    """Two of four long guaranteed jobs are within the quota; the others wait behind short ones."""
    world = World(f"{name}?quotas=a:2&group=1", 4)
    world.step(0.0, *(JobSubmitted(spec(f"a{n}", 1e6)) for n in range(4)))
    assert sum(world.size(f"a{n}") for n in range(4)) == 4
    world.step(4000.0, *(JobSubmitted(spec(f"b{n}", 100.0, tenant="b")) for n in range(4)))
    assert sum(world.size(f"a{n}") for n in range(4)) == 2
    assert sum(world.size(f"b{n}") for n in range(4)) == 2


@BOTH
def test_a_promised_job_is_neither_shrunk_nor_given_company(name: str) -> None:
    world = World(f"{name}?quotas=a:2", 2)
    world.step(0.0, JobSubmitted(spec("a", 1e5, (1, 2), loads=True)))
    world.step(10.0, *(JobSubmitted(spec(f"b{n}", 50.0, (1, 2), tenant="b")) for n in range(5)))
    assert world.size("a") == 2
    assert all(world.size(f"b{n}") == 0 for n in range(5))


@BOTH
def test_a_promised_job_may_grow_on_idle_devices_and_falls_back_to_its_promise(name: str) -> None:
    world = World(f"{name}?quotas=a:2&group=1", 4)
    asked = replace(spec("a", 1e5, (1, 2, 4)), asked=2)
    world.step(0.0, JobSubmitted(asked))
    assert world.size("a") == 4
    world.step(4000.0, *(JobSubmitted(spec(f"b{n}", 50.0, tenant="b")) for n in range(5)))
    assert world.size("a") == 2


@BOTH
def test_a_guaranteed_job_beyond_its_quota_is_served_as_best_effort(name: str) -> None:
    world = World(f"{name}?quotas=a:2", 4)
    world.step(0.0, JobSubmitted(spec("a", 1e5, (4,))))
    assert world.size("a") == 4


Drawn = tuple[int, bool, bool, float, bool]


@settings(max_examples=40, deadline=None)
@example(  # Two jobs start at once, and the later one has the promise.
    name="weave",
    quota=3,
    nodes=(4, 4),
    rows=[
        *[(1, False, False, 50.0, False)] * 3,
        (2, True, False, 50.0, True),
        (3, True, True, 301.0, True),
        (3, True, False, 50.0, True),
        (1, False, False, 50.0, True),
        (2, False, False, 50.0, False),
    ],
)
@given(
    name=st.sampled_from(["weave", "weave-l"]),
    quota=st.integers(1, 8),
    nodes=st.sampled_from([(8,), (4, 4), (2, 3, 3)]),
    rows=st.lists(
        st.tuples(
            st.sampled_from((1, 2, 3, 4)),
            st.booleans(),
            st.booleans(),
            st.floats(50.0, 5000.0),
            st.booleans(),
        ),
        min_size=1,
        max_size=14,
    ),
)
def test_a_promise_that_can_be_kept_is_kept_by_every_decision(
    name: str, quota: int, nodes: tuple[int, ...], rows: list[Drawn]
) -> None:
    """A guaranteed job that has its size keeps it. One that lacks it finds its quota used up by
    others, at least on a single node, where every size finds a place."""
    world, now = World(f"{name}?quotas=a:{quota}", *nodes), 0.0
    had: set[str] = set()
    for number, (size, guaranteed, elastic, work, ends) in enumerate(rows):
        now += 40.0
        sizes = tuple(range(1, size + 1)) if elastic else (size,)
        tenant = "a" if guaranteed else "b"
        new = spec(f"j{number}", work, sizes, tenant=tenant, loads=number % 2 == 0)
        running = [job for job in world.scheduler.jobs.values() if job.size]
        over = [JobFinished(running[0].id, running[0].attempt)] if ends and running else []
        world.step(now, JobSubmitted(new), *over)
        jobs = [job for job in world.scheduler.jobs.values() if job.spec.guaranteed]
        has = {job.id for job in jobs if job.size >= job.spec.asked and alone(world, job)}
        claimed = 0
        for job in sorted(jobs, key=lambda job: job.id not in has):
            if job.id in has:
                claimed += job.spec.asked
            elif job.spec.asked <= quota and len(nodes) == 1:
                assert claimed + job.spec.asked > quota, (job.id, claimed)
        kept = {job.id for job in jobs if job.id in had}
        assert kept <= has
        # Of jobs that got their size in one decision, it says itself which it promised it to.
        had = set(getattr(world.scheduler.snapshot(now).memory, "promised", ()))
        assert had <= has
        assert sum(world.scheduler.jobs[job].spec.asked for job in had) <= quota


def alone(world: World, job: Job) -> bool:
    assert job.allocation is not None
    tenants = world.scheduler.tenancy.tenants
    return all(len(tenants[device]) == 1 for device in job.allocation.devices)


@BOTH
def test_a_large_guaranteed_job_is_not_starved_by_small_ones_of_its_tenant(name: str) -> None:
    """Once it has waited too long, no small one is promised anything before it."""
    patience = 2.0
    world = World(f"{name}?quotas=a:4&patience={patience:g}", 4)
    world.step(0.0, *(JobSubmitted(spec(f"first{n}", 100.0)) for n in range(4)))
    world.step(1.0, JobSubmitted(spec("gang", 300.0, (4,))))
    now, number = 1.0, 0
    while not world.size("gang") and now < 20_000.0:
        now += 25.0
        number += 1
        small = [job for job in world.scheduler.jobs.values() if job.size == 1]
        over = [job for job in small if now - job.begun_at > 100.0]
        ended = [JobFinished(job.id, job.attempt) for job in over]
        world.step(now, *ended, *(JobSubmitted(spec(f"s{number}-{n}", 100.0)) for n in range(2)))
    assert now <= patience * LEAST_S + 200.0


def test_a_gang_without_a_place_beside_promises_keeps_no_other_job_from_its_turn() -> None:
    """Promises leave four of eight devices; a job for all eight has waited longest."""
    patience = 2.0
    world = World(f"weave?quotas=a:4&patience={patience:g}&group=1", 8)
    world.step(0.0, JobSubmitted(spec("promised", 1e9, (4,))))
    world.step(1.0, JobSubmitted(spec("gang", 100.0, (8,), tenant="b")))
    small = [JobSubmitted(spec(f"b{n}", 100.0, tenant="b")) for n in range(4)]
    world.step(2.0, JobSubmitted(spec("three", 500.0, (3,), tenant="b")), *small)
    assert world.size("three") == 0
    world.step(3.0 + patience * LEAST_S, JobSubmitted(spec("late", 1.0, tenant="b")))
    assert [world.size(name) for name in ("promised", "gang", "three")] == [4, 0, 3]


def test_a_best_effort_gang_that_has_waited_longer_hides_no_guaranteed_job() -> None:
    """The guaranteed gang is promised its devices before small ones of its tenant."""
    patience = 2.0
    world = World(f"weave?quotas=a:4&patience={patience:g}&group=1", 8)
    world.step(0.0, *(JobSubmitted(spec(f"a{n}", 10.0)) for n in range(4)))
    world.step(1.0, JobSubmitted(spec("other", 500.0, (8,), tenant="b")))
    world.step(2.0, JobSubmitted(spec("gang", 500.0, (4,))), JobSubmitted(spec("next", 1.0)))
    now = 3.0 + patience * LEAST_S
    first = world.scheduler.jobs["a0"]
    small = JobSubmitted(spec("small", 1.0))
    world.step(now, JobFinished(first.id, first.attempt), small)
    waits = {name for name in ("next", "small") if not world.size(name)}
    assert world.size("gang") or waits == {"next", "small"}


def test_of_two_nodes_a_promise_takes_the_one_that_another_promise_leaves() -> None:
    world = World("weave?quotas=a:8", 4, 4)
    world.step(0.0, *(JobSubmitted(spec(f"b{n}", 100.0, tenant="b")) for n in range(8)))
    world.step(1.0, JobSubmitted(spec("a0", 1e6, (4,))))
    before = world.scheduler.jobs["a0"].allocation
    world.step(2.0, JobSubmitted(spec("a1", 1e5, (4,))))
    assert world.scheduler.jobs["a0"].allocation == before
    assert world.size("a1") == 4


@pytest.mark.parametrize(
    ("left_s", "allowed_s", "found"),
    [(50.0, 100.0, 0.5), (100.0, 100.0, 1.0), (101.0, 100.0, 0.0), (5.0, -1.0, 0.0)],
)
def test_urgency_is_the_share_of_time_that_is_needed(
    left_s: float, allowed_s: float, found: float
) -> None:
    assert urgency(left_s, allowed_s) == found


@pytest.mark.parametrize(("deadline_s", "first"), [(1400.0, "late"), (900.0, "soon")])
def test_a_deadline_that_can_be_made_goes_before_a_job_a_little_shorter(
    deadline_s: float, first: str
) -> None:
    """The job of 1,000 s has 1,400 s or 900 s, and one of 900 s has no deadline."""
    world = World("weave?power=1&deadline=3", 1)
    late = replace(spec("late", 1000.0), deadline_at=deadline_s)
    world.step(0.0, JobSubmitted(late), JobSubmitted(spec("soon", 900.0)))
    assert {name: world.size(name) for name in ("late", "soon")} == {
        name: int(name == first) for name in ("late", "soon")
    }


def test_a_deadline_counts_by_the_fastest_size_for_which_there_are_devices() -> None:
    """On eight devices the job would have plenty of time; on the one that there is it has not."""
    world = World("weave?power=1&deadline=3", 1)
    late = replace(spec("late", 1000.0, (1, 2, 4, 8)), asked=1, deadline_at=1400.0)
    world.step(0.0, JobSubmitted(late), JobSubmitted(spec("soon", 900.0)))
    assert (world.size("late"), world.size("soon")) == (1, 0)


def test_without_lengths_a_deadline_counts_by_what_the_user_said() -> None:
    world = World("weave-l?power=1&deadline=3", 1)
    late = replace(spec("late", 1000.0), deadline_at=1400.0, estimate_s=1000.0)
    world.step(0.0, JobSubmitted(spec("soon", 900.0)), JobSubmitted(late))
    assert (world.size("late"), world.size("soon")) == (1, 0)


class Needing:
    """A belief that jobs run on so many devices or more; each more makes them faster."""

    def __init__(self, least: int) -> None:
        self._least = least

    def alone(self, spec: JobSpec, size: int) -> float:
        return float(size) if size >= self._least else 0.0

    def iterations_per_s(
        self,
        spec: JobSpec,
        allocation: Allocation,
        ring: Sequence[tuple[JobSpec, Allocation]],
    ) -> float:
        return self.alone(spec, allocation.size)


@pytest.mark.parametrize(("least", "size"), [(1, 2), (4, 4), (9, 2)])
def test_a_job_is_promised_a_size_at_which_it_is_believed_to_run(least: int, size: int) -> None:
    """It asks for 2 of 1, 2 or 4 devices; one that is believed to run nowhere has what it asks."""
    asked = replace(spec("a", 1e5, (1, 2, 4)), asked=2)
    job = Job(asked, 0, Phase.WAITING, submitted_at=0.0, since_at=0.0)
    assert promised_size(job, Curves(Needing(least)).of(asked)) == size


def test_quotas_that_no_guaranteed_job_has_are_refused() -> None:
    workload = load("generate:poisson?jobs=3&seed=1", cluster=cluster("1x8"))
    with pytest.raises(InvalidInputError, match="weave-l has quotas for 'x'"):
        check_quotas("weave-l?quotas=x:4", workload)
