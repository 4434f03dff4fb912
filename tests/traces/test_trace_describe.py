"""A workload in figures, for people and for programs."""

import pytest

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec, Profile
from treadle.traces.describe import describe
from treadle.traces.workload import Workload


def job(identity, size, seconds, at, tenant=""):
    profile = Profile(size=size)
    return JobSpec(identity, seconds, sizes=(size,), profile=profile, submit_at=at, tenant=tenant)


SMALL = Workload.of(
    "small",
    [
        job("a", 1, 3600, 10, "red"),
        job("b", 2, 3600, 20, "red"),
        job("c", 4, 7200, 100, "red"),
        job("d", 1, 3600, 3610, "blue"),
    ],
    format="test",
    statuses={"a": "passed", "b": "killed"},
    notes=("made up",),
)


def test_counts_work_and_load_are_exact():
    shown = describe(SMALL, Cluster.grid(1, 4))
    assert (shown.jobs, shown.device_hours) == (4, 1 + 2 + 8 + 1)
    assert shown.load == pytest.approx(12 * 3600 / (4 * 3600))
    assert [(row.size, row.jobs, row.device_hours) for row in shown.sizes] == [
        (1, 2, 2.0),
        (2, 1, 2.0),
        (4, 1, 8.0),
    ]
    assert shown.duration_s["p50"] == 3600
    assert shown.tenants == {"red": 3, "blue": 1}
    assert shown.statuses == {"passed": 1, "killed": 1}


def test_bursts_end_after_a_minute_without_a_job_of_the_tenant():
    bursts = describe(SMALL).bursts
    assert (bursts.count, bursts.jobs_max, bursts.share_in_large) == (3, 2, 0.0)


def test_the_text_is_for_people():
    text = describe(SMALL, Cluster.grid(1, 4)).text()
    assert text.splitlines()[:4] == [
        "small: 4 jobs (test)",
        "  submitted  over 60.0 min, from second 10",
        "  work       12.0 device-hours",
        "  load       3.000 of 4 devices",
    ]
    assert "     4        1   25.0%   66.7%" in text
    assert "  red            3" in text
    assert "  note: made up" in text
