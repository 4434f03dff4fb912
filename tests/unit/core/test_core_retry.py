"""Who is tried again, and that scheduler and recorder agree about it."""

import pytest

from weft.core.cluster import Cluster
from weft.core.errors import InvalidInputError
from weft.core.retry import classified, fixed
from weft.replications.paper import ready
from weft.sim.faults import CLASSES, REASONS, FaultSettings, classify
from weft.sim.settings import RETRY, Settings, retry_rule
from weft.testing.builders import job
from weft.traces.workload import Workload


@pytest.mark.parametrize(
    ("reason", "retried"),
    [
        ("syntax error", 0),
        ("MPI error", 3),
        ("CPU out of memory", 1),
        ("core dump", 1),
        ("something new", 1),
    ],
)
def test_a_failure_is_answered_by_its_class(reason: str, retried: int) -> None:
    rule, spec = classified(classify), job("a", retries=3)
    assert sum(rule(spec, failures, reason) for failures in range(1, 9)) == retried
    assert sum(fixed(spec, failures, reason) for failures in range(1, 9)) == 3


def test_a_job_that_allows_no_retries_gets_none() -> None:
    assert not classified(classify)(job("a"), 1, "MPI error")


def test_every_reason_of_the_study_has_a_class() -> None:
    assert set(CLASSES) == {reason.name for reason in REASONS}
    again = {name for name, kind in CLASSES.items() if kind == "deterministic"}
    assert again < {reason.name for reason in REASONS if reason.deterministic}


def test_an_unknown_rule_is_answered_with_those_there_are() -> None:
    with pytest.raises(InvalidInputError, match="expected one of fixed, classified"):
        retry_rule("sometimes")


@pytest.mark.parametrize("retry", RETRY)
def test_the_record_and_the_scheduler_agree_about_who_failed_for_good(retry: str) -> None:
    jobs = [job(str(n), size=1 + n % 4, length_s=5000.0, at=n) for n in range(60)]
    faults = FaultSettings(job_failures=5.0)
    settings = Settings(policy="backfill", retries=2, retry=retry, faults=faults)
    experiment = ready(Workload("w", tuple(jobs)), Cluster.grid(8, 4), settings)
    summary = experiment.finish()
    assert not experiment.simulation.scheduler.jobs
    assert summary.finished + summary.failed == 60
    assert summary.failed > 0


def test_classes_save_attempts() -> None:
    jobs = [job(str(n), length_s=5000.0, at=n) for n in range(60)]
    faults = FaultSettings(job_failures=5.0)
    failures = {}
    for retry in RETRY:
        settings = Settings(policy="backfill", retries=3, retry=retry, faults=faults)
        workload = Workload("w", tuple(jobs))
        failures[retry] = ready(workload, Cluster.grid(16, 4), settings).finish().failures
    assert failures["classified"] < 0.6 * failures["fixed"]
