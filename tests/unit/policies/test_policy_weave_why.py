"""weave says why a running job has its size, company and place, and names the next best."""

from dataclasses import replace

import pytest

from tests.unit.policies.weave_world import COMPUTES, LOADS, World, submitted
from treadle.core.events import JobSubmitted
from treadle.core.job import JobSpec, Profile

BOTH = pytest.mark.parametrize("name", ["weave", "weave-l"])
SERIAL = Profile(compute_s=1.0, serial=0.1)


def choice(world: World, job: str, now: float = 1.0) -> str:
    return world.scheduler.why(job, now).choice


@BOTH
def test_a_size_is_named_beside_the_next_best(name: str) -> None:
    world = World(f"{name}?group=1&keep=0", 4)
    world.step(
        0.0, submitted("a", 1000, (1, 2, 4), SERIAL), submitted("b", 1500, (1, 2, 4), SERIAL)
    )
    # An iteration takes 0.1 s + 0.9 s / size: 0.55 s on two devices, 0.325 s on four.
    gain = round(100 * (0.55 / 0.325 - 1.0))
    assert choice(world, "a") == (
        f"2 devices rather than 4, with which it is expected to get {gain} % more done, "
        "while the others would get nothing done; alone, as no job has to share"
    )


@BOTH
def test_company_is_named_beside_being_alone(name: str) -> None:
    world = World(name, 1)
    world.step(0.0, submitted("a", 1000, (1,), LOADS), submitted("b", 1000))
    assert choice(world, "a") == (
        "1 device, its only size; beside job b (it counts as keeping 83 % of its speed; together "
        "1.66 times as much done as by one alone) rather than alone, where it is expected to get "
        "20 % more done, while the others would get nothing done"
    )


@BOTH
def test_company_is_named_beside_other_company(name: str) -> None:
    world = World(name, 2)
    between = Profile(load_s=0.4, compute_s=0.6)
    world.step(
        0.0,
        submitted("a", 1000, (1,), LOADS),
        submitted("b", 1000),
        submitted("c", 900, (1,), between),
    )
    assert world.holders("a", "b") != world.holders("a", "b", "c")
    assert choice(world, "a").endswith("rather than beside job c (1.39 times)")
    assert choice(world, "c") == (
        "1 device, its only size; alone rather than beside job a "
        "(together 1.39 times as much done as by one alone)"
    )


@BOTH
def test_a_job_that_runs_alone_is_compared_with_one_that_waits(name: str) -> None:
    world = World(name, 1)
    world.step(0.0, submitted("a", 1000), submitted("b", 1000))
    running = next(job for job in "ab" if world.size(job))
    other = "b" if running == "a" else "a"
    assert choice(world, running) == (
        f"1 device, its only size; alone rather than beside job {other} "
        "(together 1.00 times as much done as by one alone)"
    )


@BOTH
def test_a_place_is_named_beside_another(name: str) -> None:
    world = World(name, 2, 2)
    world.step(0.0, submitted("a", 1000, (2,)))
    alone = "2 devices, its only size; alone, as no job has to share; on node n0"
    assert choice(world, "a") == (
        f"{alone}, because it is there: node n1 has room for it as well, and a move would cost it "
        "about 30 s"
    )
    world.step(1.0, submitted("b", 1000, (2,)))
    assert choice(world, "a", 2.0) == f"{alone}, as no other node has 2 devices free"


@BOTH
def test_a_job_that_cannot_move_is_not_said_to_be_able_to(name: str) -> None:
    """1. One cannot resume. 2. One is bound to the node that has its files."""
    world = World(name, 2, 2)
    fact = submitted("a", 1000, (1,))
    world.step(0.0, replace(fact, spec=replace(fact.spec, resumable=False)))
    assert choice(world, "a").endswith("; on node n0, where it stays, as it cannot resume")
    world = World(name, 2, 2)
    world.step(0.0, submitted("a", 1000, (1,)))
    rows = world.scheduler.state.rows
    rows["a"] = rows["a"]._replace(only_on=("n0",))
    assert choice(world, "a").endswith("; on node n0, which has its files")


@BOTH
def test_a_job_that_no_node_is_large_enough_for_says_so(name: str) -> None:
    world = World(name, 2, 2)
    world.step(0.0, submitted("a", 1000, (3,)))
    assert choice(world, "a").endswith("; on nodes n0, n1, as no node in use has 3 devices")


@BOTH
def test_a_cluster_that_is_too_small_is_the_reason_for_a_size(name: str) -> None:
    world = World(name, 2)
    world.step(0.0, submitted("a", 1000, (2, 4), SERIAL))
    assert choice(world, "a") == "2 devices, all that there are; alone, as no job has to share"


@BOTH
def test_a_promise_is_the_reason_for_a_size(name: str) -> None:
    world = World(f"{name}?quotas=t:2", 2)
    spec = JobSpec("a", 1000.0, (1, 2), tenant="t", profile=COMPUTES)
    world.step(0.0, JobSubmitted(spec), submitted("b", 10))
    assert choice(world, "a") == (
        "2 devices, guaranteed by its tenant's quota; alone, as the quota promises"
    )


@BOTH
def test_a_long_wait_is_the_reason_that_it_goes_first(name: str) -> None:
    world = World(f"{name}?patience=1&group=1", 1)
    world.step(0.0, submitted("a", 400))
    world.step(1.0, submitted("b", 390))
    world.step(500.0, submitted("c", 1))
    (running,) = (job for job in "abc" if world.size(job))
    assert choice(world, running, 500.0).startswith(
        "1 device, and it goes first because it has waited for 8.3 min in all; "
    )


@pytest.mark.parametrize(
    ("resumable", "begins"),
    [(True, ""), (False, "it keeps what it started with, as it cannot resume; ")],
)
def test_what_it_would_have_otherwise_is_said_so(resumable: bool, begins: str) -> None:
    world = World("weave?group=1", 4)
    spec = JobSpec("a", 1e5, (1, 2, 4), profile=SERIAL, resumable=resumable)
    world.step(0.0, JobSubmitted(spec))
    world.scheduler.take([submitted("b", 1e3, (1, 2, 4), SERIAL)], 10.0)
    assert choice(world, "a", 10.0).startswith(
        f"{begins}if all jobs could be changed now, it would have 2 devices rather than "
    )


def test_a_policy_without_a_choice_of_its_own_says_none() -> None:
    world = World("fifo", 1)
    world.step(0.0, submitted("a", 1000))
    assert choice(world, "a") == ""
    assert world.scheduler.why("a", 1.0).sentence.startswith("it holds 1 device")


def test_what_others_lose_is_counted_in_the_work_of_the_job() -> None:
    """Four jobs on eight devices: one that had four would take two devices from the others."""
    world = World("weave-l?group=1&keep=0", 8)
    world.step(
        0.0, *(submitted(f"j{n}", 1000, (1, 2, 4)[: 2 + (n == 0)], SERIAL) for n in range(4))
    )
    # 0.55 s for an iteration on two devices, 1 s on one: each of two others loses 0.45.
    assert choice(world, "j0").startswith(
        "2 devices rather than 4, with which it is expected to get 69 % more done, while the "
        "others together would lose 90 % of what it gets done now; "
    )


def test_a_job_beside_which_no_other_may_run_is_alone_for_that_reason() -> None:
    world = World("weave", 1)
    alone = JobSpec("x", 1e4, profile=LOADS, exclusive=True)
    world.step(0.0, submitted("a", 100), JobSubmitted(alone))
    assert choice(world, "a") == (
        "1 device, its only size; alone, as no other job may share a device with it"
    )


def test_a_job_that_would_be_stopped_says_so() -> None:
    world = World("weave?group=1&power=1", 1)
    world.step(0.0, submitted("a", 1e5))
    world.scheduler.take([submitted("b", 10)], 1.0)
    assert choice(world, "a") == (
        "if all jobs could be changed now, it would have no devices: other jobs make more of them"
    )


@pytest.mark.parametrize("name", ["weave", "weave-l", "afs", "srtf"])
def test_a_job_whose_devices_are_withheld_is_explained_as_well(name: str) -> None:
    """Wrappers hide jobs that are to be left alone: on a device that an admin avoids, or shared."""
    world = World(name, 2)
    world.step(0.0, submitted("a", 1000))
    snapshot = world.scheduler.snapshot(1.0)
    hidden = snapshot.keeping([snapshot.jobs["a"]])
    assert world.scheduler.policy.why(hidden, "a").sentence == (
        "it holds 1 device (1 on n0; all it asked for) since 1 s ago, 0.1 % done"
    )


def test_an_alternative_that_does_more_and_was_not_chosen_says_why() -> None:
    """Job a began ten seconds ago: what a restart costs is more than b and c would gain."""
    world = World("weave-l?group=1", 4)
    world.step(0.0, submitted("a", 1000, (1, 2, 4), SERIAL))
    world.step(10.0, submitted("b", 1000), submitted("c", 1000))
    assert world.size("a") == 4
    assert choice(world, "a", 11.0).startswith(
        "4 devices rather than 2, with which it is expected to get 41 % less done, while the "
        "others together would gain 65 % of what it gets done now (more in all, but not enough "
        "for the restarts); "
    )


def test_work_that_counts_for_less_is_named_as_the_reason() -> None:
    """Longer jobs would gain more by the second device than the shortest loses."""
    world = World("weave?group=1&power=1", 4)
    world.step(
        0.0,
        submitted("a", 100, (2, 4), SERIAL),
        submitted("b", 1e4),
        submitted("c", 1e4),
    )
    assert world.size("a") == 4
    assert " what it gets done now (more in all, but of jobs that come later in the order" in (
        choice(world, "a")
    )


@BOTH
def test_a_job_is_weighed_against_jobs_of_its_own_priority_alone(name: str) -> None:
    """Of three jobs of lower priority one has a device and would use more, and two wait."""
    world = World(f"{name}?group=1&keep=0&restart_s=0+priority", 4)
    low = [JobSpec(job, 1000.0, (1, 2, 4), profile=SERIAL) for job in ("a", "b")]
    world.step(0.0, *map(JobSubmitted, low))
    world.step(10.0, JobSubmitted(JobSpec("high", 1e5, (3,), profile=SERIAL, priority=2)))
    higher = JobSpec("higher", 1e5, (1, 2, 3), profile=SERIAL, priority=3)
    world.step(20.0, JobSubmitted(higher))
    assert sorted(world.size(job) for job in ("a", "b", "high", "higher")) == [0, 0, 1, 3]
    # An iteration takes 0.55 s on two devices, 0.4 s on three.
    assert choice(world, "higher", 21.0) == (
        "3 devices rather than 2, with which it is expected to get 27 % less done; "
        "alone, as no job of its priority has to share"
    )


def ranked(name: str, sizes: tuple[int, ...], priority: int, **fields: bool) -> JobSubmitted:
    return JobSubmitted(
        JobSpec(name, 1e5, sizes, profile=SERIAL, priority=priority, **fields)  # type: ignore[arg-type]
    )


@BOTH
def test_a_size_that_jobs_of_higher_priority_leave_is_not_all_that_there_is(name: str) -> None:
    world = World(f"{name}+priority", 2)
    world.step(0.0, ranked("low", (1, 2), 0))
    world.step(10.0, ranked("high", (1,), 5))
    assert (world.size("low"), world.size("high")) == (1, 1)
    assert choice(world, "low", 11.0).startswith(
        "1 device, all that jobs of higher priority leave; alone, as no job of its priority "
    )


@BOTH
def test_a_size_that_jobs_of_lower_priority_leave_says_so(name: str) -> None:
    """It could start on what was free, so no job made way."""
    world = World(f"{name}+priority", 2)
    world.step(0.0, ranked("low", (1,), 0))
    world.step(10.0, ranked("high", (1, 2), 5))
    assert (world.size("low"), world.size("high")) == (1, 1)
    assert choice(world, "high", 11.0).startswith(
        "1 device, all that jobs of other priorities leave; "
    )


def test_a_size_beyond_which_the_next_finds_no_room_says_so() -> None:
    world = World("weave", 3)
    world.step(0.0, submitted("a", 1000, (1, 4), SERIAL))
    assert choice(world, "a").startswith("1 device, the most for which there is room; ")


def test_a_job_that_may_have_no_company_of_its_priority_says_no_more() -> None:
    world = World("weave+priority", 1)
    world.step(0.0, ranked("high", (1,), 5), ranked("x", (1,), 5, exclusive=True))
    world.step(1.0, ranked("low", (1,), 0))
    running = "high" if world.size("high") else "x"
    said = (
        "no other job of its priority may share a device with it"
        if running == "high"
        else "it shares with no job"
    )
    assert choice(world, running, 2.0) == f"1 device, its only size; alone, as {said}"


def test_devices_of_jobs_of_other_priorities_are_no_other_place() -> None:
    """One of its priority waits, so it is decided as if lower ones had let go of their devices."""
    world = World("weave?group=1+priority", 2, 2)
    world.step(0.0, ranked("high", (2,), 5))
    world.step(1.0, ranked("low", (2,), 0))
    world.step(2.0, ranked("large", (4,), 5))
    assert (world.size("high"), world.size("low"), world.size("large")) == (2, 2, 0)
    where = world.scheduler.jobs["high"].allocation
    assert where is not None
    assert choice(world, "high", 3.0).endswith(
        f"on node {where.devices[0].node}, as no other node has 2 devices free"
    )


@BOTH
def test_other_company_that_is_as_good_is_called_so(name: str) -> None:
    world = World(name, 2)
    loading = [submitted(job, 1000, (1,), LOADS) for job in ("a", "b")]
    world.step(0.0, *loading, submitted("c", 1000), submitted("d", 1000))
    assert len(world.holders("a", "b", "c", "d")) == 2
    assert choice(world, "a").endswith("as by one alone); beside job d would be as good")


def test_less_for_it_and_no_more_for_the_others_is_not_called_more() -> None:
    """With one device nothing would be restarted, and it would be half as fast."""
    world = World("weave-l", 4, 1, 1)
    world.step(100.0, submitted("a", 100, (1, 2, 4), SERIAL))
    world.step(100.0, submitted("b", 5000, (1, 2)))
    assert choice(world, "b", 150.0).startswith(
        "if all jobs could be changed now, it would have 2 devices rather than 1, with which it is "
        "expected to get 50 % less done and the others as much as now (with fewer restarts, but "
        "the search missed it, which takes one step at a time)"
    )


def test_less_in_all_may_count_for_more() -> None:
    world = World("weave-l", 4)
    world.step(1.0, submitted("a", 1000, (1, 2, 4), LOADS))
    world.step(1.0, submitted("b", 100, (2,)))
    world.step(101.0, submitted("c", 20000, (1, 2, 3, 4)))
    world.step(1101.0, submitted("d", 5000, (1, 2)))
    assert choice(world, "a", 1151.0).startswith(
        "4 devices rather than 2, with which it is expected to get 50 % less done, while the "
        "others together would gain 11 % of what it gets done now (less in all, but more of jobs "
        "that count for more; not enough for the restarts, or the search missed it, which takes "
        "one step at a time)"
    )
