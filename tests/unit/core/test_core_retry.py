"""Who is tried again, when and where, and that scheduler, recorder and replay agree about it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.events import Event
from treadle.core.retry import Answer, Failure, RetryRule, fixed
from treadle.core.scheduler import Scheduler
from treadle.failures.retry import UNKNOWN, by_rule
from treadle.failures.rules import shipped
from treadle.sim.experiment import prepare
from treadle.sim.faults import FaultSettings
from treadle.sim.settings import RETRY, Settings
from treadle.sim.simulated_verdicts import classified
from treadle.testing.builders import job
from treadle.traces.workload import Workload


def told(
    rule: RetryRule, number: int, reason: str, *, name: str = "a", owner: str = "", retries: int = 9
) -> Answer:
    spec = replace(job(name, retries=retries), owner=owner)
    return rule(Failure(spec, number, reason, ("n0",), 100.0 * number))


@pytest.mark.parametrize(
    ("reason", "retried"),
    [
        ("syntax error", 0),
        ("MPI error", 2),  # The third time in a row it is not transient any more.
        ("CPU out of memory", 1),
        ("core dump", 1),
        ("something new", 1),
    ],
)
def test_a_failure_is_answered_by_its_class_and_by_what_the_job_met_before(
    reason: str, retried: int
) -> None:
    rule = classified()
    assert sum(told(rule, number, reason).again for number in range(1, 9)) == retried
    assert sum(told(fixed, number, reason, retries=3).again for number in range(1, 9)) == 3


def test_a_job_that_allows_no_retries_gets_none() -> None:
    assert not told(classified(), 1, "MPI error", retries=0).again


def test_reasons_that_are_rules_of_a_table_are_judged_by_it() -> None:
    verdicts = by_rule(shipped())
    for rule in shipped().rules:
        assert (verdicts(rule.name).kind, verdicts(rule.name).advice) == (rule.kind, rule.advice)
    assert verdicts("no such rule") is UNKNOWN


def failing(retry: str, policy: str = "backfill", retries: int = 3) -> Settings:
    faults = FaultSettings(job_failures=5.0)
    return Settings(policy=policy, retries=retries, retry=retry, faults=faults)


def jobs() -> Workload:
    many = (
        replace(job(str(n), size=1 + n % 4, length_s=5000.0, at=n), owner=f"u{n % 5}")
        for n in range(60)
    )
    return Workload("w", tuple(many))


@pytest.mark.parametrize("retry", RETRY)
def test_the_record_and_the_scheduler_agree_about_who_failed_for_good(retry: str) -> None:
    experiment = prepare(jobs(), Cluster.grid(8, 4), failing(retry, retries=2))
    summary = experiment.finish()
    assert not experiment.simulation.scheduler.jobs
    assert summary.finished + summary.failed == 60
    assert summary.failed > 0


def test_classes_save_attempts() -> None:
    failures = {
        retry: prepare(jobs(), Cluster.grid(16, 4), failing(retry)).finish().failures
        for retry in RETRY
    }
    assert failures["classified"] < 0.6 * failures["fixed"]


def test_a_replay_and_a_fork_remember_what_the_scheduler_remembers() -> None:
    """1. A run is recorded. 2. Its steps are replayed by a scheduler with a rule of its own. 3. A
    fork half way goes on alone. All end in the same state."""
    steps: list[tuple[Sequence[Event], Sequence[Action], float, float | None]] = []
    experiment = prepare(jobs(), Cluster.grid(4, 4), failing("classified"))
    seen = [0]

    def record(
        now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        asked = scheduler.decisions > seen[0]
        seen[0] = scheduler.decisions
        steps.append((events, actions, now, scheduler.wake_at if asked else None))

    simulation = experiment.simulation
    simulation.observe(record)
    simulation.run(until=4000.0)
    twin = Scheduler(simulation.scheduler.policy, Cluster.grid(4, 4), retry=classified())
    for events, actions, now, wake_at in steps:
        twin.replay(events, actions, now, wake_at=wake_at)
    assert dict(twin.jobs) == dict(simulation.scheduler.jobs)
    assert any(row.ready_at for row in twin.jobs.values())
    fork = simulation.fork()
    simulation.run(until=9000.0)
    fork.run(until=9000.0)
    assert dict(fork.scheduler.jobs) == dict(simulation.scheduler.jobs)
