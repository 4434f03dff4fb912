"""Traces that say when their jobs ran, and perhaps where."""

import json
from pathlib import Path

import pytest

from tests.shared import trace
from treadle.core.errors import InvalidInputError
from treadle.study.analysis import Analysis, analyse
from treadle.study.as_recorded import as_recorded
from treadle.testing.builders import job
from treadle.traces.load import load
from treadle.traces.workload import Ran, Workload


def analysed(workload: Workload) -> Analysis:
    return analyse(as_recorded(workload))


def attempt(start: str, end: str | None, gpus: dict[str, int]) -> dict[str, object]:
    detail = [{"ip": ip, "gpus": [f"gpu{n}" for n in range(count)]} for ip, count in gpus.items()]
    return {"start_time": f"2017-10-09 {start}", "end_time": f"2017-10-09 {end}", "detail": detail}


@pytest.fixture
def log(tmp_path: Path) -> Workload:
    """Philly's own format: one job tried twice over two machines, one killed, one passed."""
    jobs = [
        {
            "jobid": "twice",
            "vc": "v",
            "status": "Failed",
            "submitted_time": "2017-10-09 00:00:00",
            "attempts": [
                attempt("00:01:00", "00:02:00", {"m1": 2, "m2": 2}),
                attempt("00:04:00", "00:14:00", {"m1": 4}),
            ],
        },
        {
            "jobid": "killed",
            "vc": "v",
            "status": "Killed",
            "submitted_time": "2017-10-09 00:00:00",
            "attempts": [attempt("00:00:00", "00:30:00", {"m3": 1})],
        },
        {
            "jobid": "passed",
            "vc": "v",
            "status": "Pass",
            "submitted_time": "2017-10-09 00:05:00",
            "attempts": [attempt("00:05:30", "01:05:30", {"m3": 1})],
        },
    ]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(jobs))
    return load(str(path))


def test_the_log_of_philly_tells_waits_spread_and_failures(log: Workload) -> None:
    found = analysed(log)
    assert found.how == "as the trace records it"
    assert (found.nodes, found.devices, found.usage.in_use, found.usage.progress) == (None,) * 4
    assert {end.status: end.jobs for end in found.ends} == {
        "unsuccessful": 1,
        "killed": 1,
        "passed": 1,
    }
    by_size = {row.size: (row.jobs, row.total_s, row.causes_s) for row in found.waits}
    assert by_size == {"all": (3, 210, None), "1": (2, 30, None), "2-4": (1, 180, None)}
    spread = {(use.size, use.nodes): round(use.gpu_h * 3600) for use in found.usage.by_spread}
    assert spread == {("1", "1"): 5400, ("2-4", "1"): 2400, ("2-4", "2"): 240}
    failed = found.failures
    assert (failed.attempts, failed.jobs, failed.lost_jobs, failed.repeats) == (2, 1, 1, 1)
    assert failed.gpu_h * 3600 == pytest.approx(4 * 60 + 4 * 600)
    assert [one.name for one in failed.by_reason] == ["no reason recorded"]


def test_clocks_that_disagree_are_put_in_order() -> None:
    runs = {"a": [Ran(5, 20), Ran(15, 30), Ran(25, 28)], "b": [Ran(40, 35)]}
    jobs = [job("a", length_s=20, at=10), job("b", length_s=5, at=30)]
    found = analysed(Workload.of("odd", jobs, runs=runs))
    assert found.jobs == 1
    assert found.waits[0].total_s == 0
    assert found.usage.gpu_h * 3600 == pytest.approx(20)
    assert "1 jobs do not say when they ran and are left out" in found.notes


def test_nodes_that_are_not_recorded_are_reported_as_such() -> None:
    runs = {"a": [Ran(0, 10)]}
    (use,) = analysed(Workload.of("x", [job("a", size=2)], runs=runs)).usage.by_spread
    assert (use.nodes, use.progress) == ("not recorded", None)


def test_a_trace_of_which_nothing_ran_is_refused() -> None:
    runs = {"a": [Ran(5, 5)]}
    with pytest.raises(InvalidInputError, match="x does not say when its jobs ran"):
        analysed(Workload.of("x", [job("a")], runs=runs))


@pytest.mark.slow
def test_openb_tells_how_long_pods_waited() -> None:
    found = analysed(load(str(trace("openb_pod_list_default.csv.gz"))))
    assert found.jobs == 6203
    assert found.waits[0].waited == 4281
    assert found.waits[0].mean_s == pytest.approx(70.0, abs=0.1)
    assert found.failures.lost_jobs == 1869
