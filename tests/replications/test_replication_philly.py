"""The study of Philly in small: what the watchers count, and that each guideline does its part."""

import pytest

from weft.replications import philly
from weft.replications.paper import ready
from weft.replications.rows import Row
from weft.traces.clusters import cluster
from weft.traces.load import load


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    """The figures of the guidelines and of failures on smaller workloads."""
    mini = cluster("philly-mini")
    found: dict[str, list[Row]] = {}
    guided = load("generate:philly?jobs=1500&load=0.9&longest=86400", cluster=mini)
    failing = load("generate:philly?jobs=1500&load=0.7&longest=86400", cluster=mini)
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


def test_every_figure_is_counted(rows) -> None:
    study = len(philly._FRAGMENTATION) + 4 + 4 * len(philly._TRIES)
    assert sum(map(len, rows.values())) + study == philly.PAPER.count


def test_the_scheduler_is_measured_beside_the_study() -> None:
    machines = cluster("16x8+20x2")
    workload = load("generate:philly?jobs=800&load=0.9&longest=86400", cluster=machines)
    found = list(philly._scheduler([workload], machines))
    assert [row.published for _, row in found][:3] == [59.4, 74.2, 97.9]
    assert all(row.measured >= 0 for _, row in found)
    median = next(row for _, row in found if row.what.startswith("median"))
    assert median.measured >= 3.0  # It takes one failed try at least.


def test_jobs_that_never_relax_wait_longer_on_fewer_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_any_policy_runs_with_the_studys_settings() -> None:
    assert philly.settings("philly", {}) == philly.PHILLY
    settings = philly.settings("srtf+defrag", {})
    assert (settings.policy, settings.effects) == ("srtf+defrag", "philly")
    machines = cluster("2x8")
    workload = load("generate:philly?jobs=50&longest=3600", cluster=machines)
    assert ready(workload, machines, settings).finish().finished == 50
