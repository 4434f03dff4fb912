"""Lower bounds: exact on small cases, and below every policy on drawn ones."""

import time
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from treadle.core.cluster import Cluster
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.league.lower_bounds import SLACK, lower_bounds, pooled_shortest_first
from treadle.models.stages import Stages
from treadle.models.tokens import LANES, TURN_S, iteration_times
from treadle.policies.registry import names
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.testing.builders import job
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

PLAIN = Settings()


def run_of(policy: str, jobs: list[JobSpec], on: Cluster) -> tuple[float, bool]:
    """The mean completion time of a run in which all jobs finish, and whether any shared."""
    shared: list[bool] = []

    def watch(now: float, events: object, actions: object, scheduler: Scheduler) -> None:
        shared.append(any(row.allocation and row.allocation.turn for row in _rows(scheduler)))

    run = prepare(
        Workload.of("drawn", jobs),
        on,
        replace(PLAIN, policy=policy),
        stopwatch=time.process_time,
        observers=[watch],
    )
    summary = run.finish()
    assert summary.finished == len(jobs)
    assert summary.jct_mean_s is not None
    return summary.jct_mean_s, any(shared)


def _rows(scheduler: Scheduler) -> Iterable[Job]:
    return scheduler.rows.values()


def stages(load_s: float, prepare_s: float, compute_s: float, sync_s: float) -> Profile:
    return Profile(load_s=load_s, prepare_s=prepare_s, compute_s=compute_s, sync_s=sync_s)


def test_the_pooled_machine_serves_the_shortest_remaining_work_first() -> None:
    # Device speed 2: a ends at 1 without b; b arrives at 1 with less left and goes first.
    assert pooled_shortest_first([0.0, 1.0], [6.0, 2.0], 2.0) == pytest.approx((4 + 1) / 2)
    # A job that arrives with more work than is left waits.
    assert pooled_shortest_first([0.0, 2.0], [6.0, 3.0], 2.0) == pytest.approx((3 + 2.5) / 2)
    assert pooled_shortest_first([10.0], [4.0], 2.0) == pytest.approx(2)


def test_one_job_alone_cannot_beat_its_best_size() -> None:
    elastic = JobSpec("a", 100.0, sizes=(1, 2, 4), asked=1, profile=Profile(size=1))
    bounds = lower_bounds([elastic], Cluster.grid(1, 4), PLAIN)
    assert bounds.alone_s == pytest.approx(25)
    assert bounds.shared_s == pytest.approx(25)


def test_a_full_queue_is_bounded_by_the_devices() -> None:
    jobs = [job(f"j{i}", length_s=10.0) for i in range(8)]
    found = lower_bounds(jobs, Cluster.grid(1, 2), PLAIN)
    assert found.alone_s == pytest.approx(10 * sum(range(1, 9)) / 8 / 2)


def test_jobs_with_one_bottleneck_gain_nothing_by_sharing() -> None:
    jobs = [replace(job(f"j{i}"), profile=stages(0.01, 0, 0.99, 0)) for i in range(20)]
    found = lower_bounds(jobs, Cluster.grid(1, 1), PLAIN)
    assert found.alone_s / (1 + SLACK) * 0.98 < found.shared_s < found.alone_s


def test_jobs_with_two_bottlenecks_may_take_half_the_time() -> None:
    jobs = [
        replace(
            job(f"j{i}"), profile=stages(*((0.98, 0, 0.02, 0) if i % 2 else (0.02, 0, 0.98, 0)))
        )
        for i in range(20)
    ]
    found = lower_bounds(jobs, Cluster.grid(1, 1), PLAIN)
    assert 0.45 * found.alone_s < found.shared_s < 0.6 * found.alone_s


def test_a_model_of_sharing_without_a_proof_has_only_ideal_run_times() -> None:
    jobs = [job(f"j{i}", length_s=10.0) for i in range(8)]
    found = lower_bounds(jobs, Cluster.grid(1, 2), Settings(sharing="staggered"))
    assert found.shared_s == pytest.approx(10)


def test_cpu_slots_that_add_speed_are_counted() -> None:
    on = cluster("1x2+1x4cpu")
    chosen = Settings(elastic=0.1)
    source = load("generate:aiturbo?jobs=20&load=1&cpu=0.3&seed=1", cluster=on)
    run = prepare(source, on, replace(chosen, policy="srtf"), stopwatch=time.process_time)
    mean_s = run.finish().jct_mean_s
    found = lower_bounds(run.jobs, on, chosen)
    assert mean_s is not None
    assert 0 < found.shared_s <= found.alone_s <= mean_s


def test_groups_keep_to_the_lanes_of_every_resource_within_the_slack() -> None:
    """The utilisation law, on which the bound with sharing rests."""
    random = Random(5)
    most = 0.0
    for _ in range(150):
        kinds = [_drawn(random) for _ in range(random.randint(1, 5))]
        group = [random.choice(kinds) for _ in range(random.randint(2, 6))]
        times = iteration_times(group, lanes=LANES, turn_s=TURN_S)
        for place, lanes in enumerate(LANES):
            busy = sum(
                min(one[place], one.alone_s) / t for one, t in zip(group, times, strict=True)
            )
            most = max(most, busy / lanes)
    assert 0.9 < most < 1 + SLACK


def _drawn(random: Random) -> Stages:
    scale = 10 ** random.uniform(-3, 1)
    times = [random.choice((0.0, random.random() ** 3, random.random())) * scale for _ in LANES]
    times[random.randrange(len(LANES))] += 0.1 * scale
    alone_s = sum(times) * random.choice((1.0, 1.0, random.uniform(0.6, 1.4)))
    return Stages._make([*times, alone_s])


@pytest.mark.parametrize("policy", names())
def test_no_policy_beats_the_bound(policy: str) -> None:
    """Small clusters full of jobs with drawn stages; what does not share keeps to both bounds."""
    for seed in range(3):
        random = Random(f"{policy}/{seed}")
        on = Cluster.grid(random.randint(1, 2), random.choice((1, 2, 4)))
        jobs = [_drawn_job(random, f"j{place}", on) for place in range(random.randint(2, 12))]
        found = lower_bounds(jobs, on, PLAIN)
        mean_s, shared = run_of(policy, jobs, on)
        assert mean_s >= found.shared_s * (1 - 1e-9)
        assert shared or mean_s >= found.alone_s * (1 - 1e-9)


def _drawn_job(random: Random, name: str, on: Cluster) -> JobSpec:
    sizes = sorted(random.sample(range(1, on.device_count + 1), random.randint(1, on.device_count)))
    parts = [random.choice((0, random.random())) for _ in LANES]
    parts[random.randrange(len(LANES))] += 0.2
    asked = random.choice(sizes)
    return JobSpec(
        name,
        float(random.randint(1, 50)),
        sizes=tuple(sizes),
        asked=asked,
        profile=replace(stages(*parts), size=asked, serial=random.choice((0.0, 0.1, 0.5))),
        submit_at=float(random.randint(0, 30)),
        guaranteed=random.random() < 0.7,
    )
