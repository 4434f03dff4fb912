"""Faults drawn from a seed: the same for every policy, and as often as was published."""

from collections import Counter
from math import inf

import pytest

from treadle.core.cluster import Cluster
from treadle.core.events import Event, JobFailed, NodeJoined, NodeLost
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.sim.engine import SimulatedEngine
from treadle.sim.faults import REASONS, Faults, FaultSettings
from treadle.sim.run import Simulation
from treadle.testing.builders import job, policy

JOBS = FaultSettings(seed=5, job_failures=1.0)


def struck(settings: FaultSettings, count: int, size: int = 1) -> dict[str, tuple[float, str]]:
    """The first attempts that fail, of so many jobs."""
    faults = Faults(settings)
    drawn = {
        f"j{number}": faults.strikes(job(f"j{number}", size=size), 1, 0.0)
        for number in range(count)
    }
    return {name: strike for name, strike in drawn.items() if strike[0] < inf}


def test_the_same_seed_fails_the_same_jobs_the_same_way() -> None:
    assert struck(JOBS, 500) == struck(JOBS, 500)
    assert struck(JOBS, 500) != struck(FaultSettings(seed=6, job_failures=1.0), 500)


def test_a_jobs_failures_do_not_depend_on_the_order_of_calls() -> None:
    faults = Faults(JOBS)
    name, strike = next(iter(struck(JOBS, 500).items()))
    for other in range(100):
        faults.strikes(job(f"other{other}"), 1, 7.0)
    assert faults.strikes(job(name), 1, 0.0) == strike
    late_at, reason = faults.strikes(job(name), 1, 1000.0)
    assert late_at == pytest.approx(1000.0 + strike[0])
    assert reason == strike[1]


def test_about_as_many_jobs_fail_as_were_published() -> None:
    """17,482 of 96,260 jobs met a failure: 18 %. Sizes as in the study."""
    sizes = [1] * 872 + [2] * 70 + [8] * 58
    faults = Faults(JOBS)
    count = 20_000
    failed = sum(
        faults.strikes(job(f"j{number}", size=sizes[number * 7 % 1000]), 1, 0.0)[0] < inf
        for number in range(count)
    )
    published = sum(reason.jobs for reason in REASONS) / 96_260
    assert published == pytest.approx(0.18, abs=0.005)
    assert failed / count == pytest.approx(published, abs=0.01)


def test_reasons_are_met_as_often_as_published() -> None:
    """Among jobs of one device: each reason's share of the failures, within two points."""
    found = Counter(reason for _, reason in struck(JOBS, 20_000).values())
    expected = {reason.name: reason.jobs * reason.trials_share(1) for reason in REASONS}
    for name, weight in expected.items():
        share = weight / sum(expected.values())
        assert found[name] / found.total() == pytest.approx(share, abs=0.02), name


def test_half_as_many_failures_are_a_subset() -> None:
    half = struck(FaultSettings(seed=5, job_failures=0.5), 3000)
    assert set(half) < set(struck(JOBS, 3000))
    assert len(half) == pytest.approx(len(struck(JOBS, 3000)) / 2, rel=0.2)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.name)
def test_times_to_failure_hit_the_published_quantiles(reason) -> None:
    for quantile, minutes in ((0.5, reason.p50), (0.9, reason.p90), (0.95, reason.p95)):
        assert reason.time_to_failure_s(quantile) == pytest.approx(60.0 * minutes)
    assert reason.time_to_failure_s(0.0) == pytest.approx(6.0 * reason.p50)
    assert reason.time_to_failure_s(1.0) == pytest.approx(120.0 * reason.p95)
    times = [reason.time_to_failure_s(step / 50) for step in range(51)]
    assert times == sorted(times)


def test_deterministic_reasons_strike_every_attempt_and_transient_ones_one_in_five() -> None:
    faults = Faults(JOBS)
    deterministic = {reason.name: reason.deterministic for reason in REASONS}
    again: dict[bool, list[bool]] = {True: [], False: []}
    for name, (_, reason) in struck(JOBS, 8000).items():
        recurs = faults.strikes(job(name), 2, 0.0)[0] < inf
        again[deterministic[reason]].append(recurs)
    assert all(again[True])
    assert sum(again[False]) / len(again[False]) == pytest.approx(0.2, abs=0.06)


def test_work_since_the_last_checkpoint_is_lost() -> None:
    faults = Faults(FaultSettings(checkpoint_every_s=30.0))
    assert [faults.kept(job("a"), done) for done in (0.0, 29.0, 30.0, 95.0)] == [0, 0, 30, 90]
    assert Faults(FaultSettings(checkpoint_every_s=inf)).kept(job("a"), 95.0) == 0.0


def nodes(seed: int, until: float = 5000.0) -> list[NodeLost | NodeJoined]:
    settings = FaultSettings(seed=seed, node_mtbf_s=300.0, node_repair_s=40.0)
    seen = Faults(settings, Cluster.grid(3, 2)).due(until)
    return [event for event in seen if isinstance(event, NodeLost | NodeJoined)]


def test_a_node_is_lost_and_returns_in_turn() -> None:
    for name in ("n0", "n1", "n2"):
        own = [
            type(event)
            for event in nodes(3)
            if (event.node if isinstance(event, NodeLost) else event.node.name) == name
        ]
        assert own[::2] == [NodeLost] * len(own[::2])
        assert own[1::2] == [NodeJoined] * len(own[1::2])


def test_the_mean_time_between_failures_is_what_was_asked_for() -> None:
    """Up 300 s and down 40 s on average: 3 nodes in 500,000 s are lost about 4,400 times."""
    losses = [event for event in nodes(1, until=500_000.0) if isinstance(event, NodeLost)]
    assert len(losses) == pytest.approx(3 * 500_000 / 340, rel=0.05)


def test_it_does_not_matter_how_often_one_looks() -> None:
    settings = FaultSettings(seed=1, node_mtbf_s=300.0, node_repair_s=40.0)
    faults = Faults(settings, Cluster.grid(3, 2))
    seen: list[Event] = []
    while faults.next_at <= 5000.0:
        seen += faults.due(faults.next_at)
    assert seen == nodes(1)


def test_a_fork_draws_on_where_the_first_stands() -> None:
    settings = FaultSettings(seed=1, node_mtbf_s=300.0, node_repair_s=40.0)
    faults = Faults(settings, Cluster.grid(3, 2))
    faults.due(1000.0)
    twin = faults.fork()
    assert (twin.next_at, twin.next_return_at) == (faults.next_at, faults.next_return_at)
    later = faults.due(9000.0)
    assert twin.due(9000.0) == later
    assert len(later) > 10


@pytest.mark.parametrize("name", ["fifo", "srtf", "las?margin_s=0", "tiresias?limits=60:600"])
def test_the_same_jobs_fail_after_the_same_running_under_every_policy(name: str) -> None:
    """Jobs stop and go under a preemptive policy; their faults strike as if they had not."""
    jobs = [job(f"j{number}", length_s=5e4, at=60.0 * number) for number in range(60)]
    expected = {
        spec.id: strike
        for spec in jobs
        if (strike := Faults(JOBS).strikes(spec, 1, 0.0))[0] < spec.iterations
    }
    assert len(expected) > 5
    failed: dict[str, str] = {}

    def observe(now, events, actions, scheduler) -> None:
        failed.update((event.job, event.reason) for event in events if isinstance(event, JobFailed))

    engine = SimulatedEngine(jobs, ScalingModel(), faults=Faults(JOBS))
    scheduler = Scheduler(policy(name), Cluster.grid(1, 8))
    Simulation(scheduler, engine, observers=(observe,)).run()
    assert failed == {identity: reason for identity, (_, reason) in expected.items()}
