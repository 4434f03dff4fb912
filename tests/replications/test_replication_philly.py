"""A small Philly replication: what the observers count, and the effect of each guideline."""

from collections import Counter

import pytest
from tests.shared import SHARED, thorough

from treadle.replications import philly
from treadle.replications.rows import Row
from treadle.sim.experiment import prepare
from treadle.traces.clusters import cluster
from treadle.traces.load import load


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    """The figures of the guidelines and of failures on smaller workloads."""
    mini = cluster("philly-mini")
    found: dict[str, list[Row]] = {}
    guided = load("generate:philly?jobs=800&load=0.9&longest=86400", cluster=mini)
    failing = load("generate:philly?jobs=800&load=0.7&longest=86400", cluster=mini)
    for title, row in (*philly._guidelines(guided, mini), *philly._failures(failing, mini)):
        found.setdefault(title, []).append(row)
    return found


def by_name(rows: list[Row]) -> dict[str, float]:
    return {row.what: row.measured for row in rows}


def test_waiting_for_locality_and_defragmentation_shorten_the_wait_for_a_place(rows) -> None:
    waits = by_name(rows["guidelines: wait for want of a place, hours a job"])
    assert waits["wait for locality"] < waits["alone"]
    assert waits["defragmentation"] < waits["alone"]


def test_classes_and_trials_save_what_failures_waste(rows) -> None:
    wasted = by_name(rows["failures: device-hours of trials that failed"])
    assert wasted["classified"] < wasted["three retries"]
    assert wasted["classified, try small"] < wasted["three retries"]
    title = "failures: trials of several devices that failed on all of them, % fewer"
    assert by_name(rows[title])["three retries, try small"] > 20


def test_the_scheduler_is_measured_beside_the_study() -> None:
    machines = cluster("16x8+20x2")
    workload = load("generate:philly?jobs=400&load=0.9&longest=86400", cluster=machines)
    found = list(philly._scheduler([workload], machines))
    assert [row.published for _, row in found][:3] == [59.4, 74.2, 97.9]
    assert all(row.measured >= 0 for _, row in found)
    median = next(row for _, row in found if row.what == "those of several devices that wait")
    assert median.measured >= 3.0  # It takes one failed try at least.


@thorough
def test_jobs_that_never_relax_wait_longer_on_fewer_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(philly, "_TRIES", ((0, 0), (1000, 1000)))
    machines = cluster("16x8+20x2")
    workload = load("generate:philly?jobs=800&load=0.8&longest=43200", cluster=machines)
    found: dict[str, list[float]] = {}
    for title, row in philly._relaxing(workload, machines):
        found.setdefault(title, []).append(row.measured)
    at_once, never = found["relaxing: wait of jobs of 5-8 devices, p90 minutes"]
    assert at_once < never
    spread, together = found["relaxing: nodes of a job of 5-8 devices"]
    assert spread > together == 1.0


def test_what_tenants_asked_for_is_what_the_released_log_says() -> None:
    """GPUs on average over its last 45 days, of jobs that run from their submissions on."""
    path = SHARED / "traces" / "philly_dev_aug14_oct31.csv.gz"
    if not path.exists():
        pytest.skip(f"no released log at {path}; set TREADLE_SHARED to the folder that has it")
    jobs = load(str(path)).jobs
    until = max(job.submit_at for job in jobs)
    since = until - 45 * 86_400
    asked: Counter[str] = Counter()
    for job in jobs:
        ran_s = min(until, job.submit_at + job.iterations) - max(since, job.submit_at)
        asked[job.tenant] += round(job.asked * max(ran_s, 0.0))
    for tenant, gpus in philly.ASKED.items():
        assert asked[tenant] / (until - since) == pytest.approx(gpus, abs=1.0), tenant


def test_quotas_are_limits_that_overlap() -> None:
    quotas = philly._quotas()
    assert 1.2 < sum(quotas.values()) < 1.4
    assert f"granted={sum(quotas.values()):.4f}&most=1" in philly.PHILLY.policy


def test_any_policy_runs_with_the_studys_settings() -> None:
    assert philly.settings("philly", {}) == philly.PHILLY
    settings = philly.settings("srtf+defrag", {})
    assert (settings.policy, settings.effects) == ("srtf+defrag", "philly")
    machines = cluster("2x8")
    workload = load("generate:philly?jobs=50&longest=3600", cluster=machines)
    assert prepare(workload, machines, settings).finish().finished == 50
