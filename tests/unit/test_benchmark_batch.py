"""What the batch on a GPU reports, from events and steps as they are recorded there."""

import benchmarks.gpu.batch as benchmark
import pytest
from benchmarks.gpu.batch import Batch, Line, note, slow_s, spells, summary

from treadle.models.company.predictor import predict

KINDS = {"1": "light", "2": "half", "3": "light"}


def event(at: float, kind: str, job: str, **body: object) -> Line:
    return {**body, "at": at, "kind": kind, "job": job}


def ended(at: float, job: str, busy: float | None, joules: float | None = 300.0) -> Line:
    seen = {
        "load": [busy, None, None, None, None, 1.0],
        "energy_j": joules,
        "device_memory_peak_gib": 2.0,
        "alone_s": 20.0,
        "shared_s": 0.0,
    }
    return event(at, "AttemptEnded", job, ran_s=30.0, seen=seen if busy is not None else None)


def run(*spans: tuple[float, float, float]) -> list[tuple[float, float]]:
    """Steps each second: from, to, steps a second."""
    points: list[tuple[float, float]] = []
    step = 0.0
    for from_s, to_s, per_s in spans:
        for at in range(int(from_s), int(to_s)):
            step += per_s
            note(points, float(at + 1), step)
    return points


# Job 1 alone from 0 to 40, job 2 alone from 40 to 80; then 3 (as 1) and 2 again, together.
LINES = [
    event(0.0, "Start", "1"),
    event(0.5, "JobStarted", "1"),
    ended(40.0, "1", 0.3),
    event(40.0, "Start", "2"),
    event(80.0, "Start", "3"),
    ended(120.0, "3", None),
    ended(121.0, "2", 0.5, joules=None),
]
POINTS = {
    "1": run((2, 40, 10.0)),
    "2": run((42, 80, 20.0), (80, 120, 15.0)),
    "3": run((82, 120, 8.0)),
}


def test_groups_are_found_from_one_change_to_the_next() -> None:
    found = [(spell.jobs, spell.from_s, spell.to_s) for spell in spells(LINES, KINDS)]
    assert found == [(("1",), 0.0, 40.0), (("2",), 40.0, 80.0), (("2", "3"), 80.0, 120.0)]


def test_predicted_sums_stand_beside_measured_ones(capsys: pytest.CaptureFixture[str]) -> None:
    report = benchmark.measured(LINES, Batch(KINDS, 121.0, {}, POINTS, mps=False), {})
    assert report["alone"] == {"light": [10.0, 0.3], "half": [20.0, 0.5]}
    (group,) = report["groups"]
    assert group["jobs"] == ["half", "light"]
    assert group["measured"] == pytest.approx([0.75, 0.8])
    predicted = predict([(0.5, None, None), (0.3, None, None)])
    assert group["predicted"] == pytest.approx(predicted, abs=1e-3)
    assert group["error"] == pytest.approx(sum(predicted) / 1.55 - 1.0, abs=1e-3)
    assert [job["energy_j"] for job in report["jobs"].values()] == [300.0, None, None]
    assert report["energy_j"] == 300
    assert [job["kept"] for job in report["jobs"].values()] == [1.0, 0.8, 0.87]
    first = {**report, "took_s": 242.0, "energy_j": 400, "groups": []}
    summary({"fifo": first, "afs": report})
    fifo, afs = capsys.readouterr().out.splitlines()[1:3]
    assert " ".join(fifo.split()) == "fifo 242.0 s 1.000 0.0 s 400 J 1.000 0 0 0 s light"
    assert " ".join(afs.split()) == "afs 121.0 s 0.500 0.0 s 300 J 0.750 0 0 0 s light"


def test_how_long_a_job_got_less_than_half_done() -> None:
    half = run((0, 20, 10.0), (20, 60, 4.0), (60, 100, 10.0))
    assert slow_s(half, 5.0) == pytest.approx(47.0, abs=1.0)  # 40 s at 4, and 8 s at 10 around it
    assert slow_s(half, 4.0) == 0.0
    assert slow_s([], 5.0) == 0.0


def test_attempts_that_died_of_gpu_memory_are_counted() -> None:
    died = event(9.0, "AttemptEnded", "1", ran_s=3.0, verdict={"more": "gpu memory"})
    report = benchmark.measured([died, *LINES], Batch(KINDS, 121.0, {}, POINTS, mps=False), {})
    assert report["memory_deaths"] == 1
