"""What is seen of an attempt: alone and in company, peaks, first step, restart."""

import pytest

from treadle.control.learning.sightings import HANG_S, LATELY_S, Sightings, company_of
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobSpec
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import Measurement
from treadle.core.sighting import Load

A = AttemptId("a", 1)


def watched(seen: Sightings, until: int, *, since: int = 0, per_s: float = 1.0, **how: object):
    """Measure every 2 s; the job does so many steps a second."""
    others = how.get("others", ())
    for at in range(since, until + 1, 2):
        load = Load(busy=0.5 if not others else None, device_memory_gib=10.0 + at / 100)
        found = Measurement(A, 0.5, load, float(at), energy_j=100.0 * at, alone=not others)
        steps = {"a": how.get("from_step", 0.0) + (at - since) * per_s}  # type: ignore[operator]
        seen.see([found], {"a": others}, steps, now=float(at), wall_at=0.0)  # type: ignore[dict-item]


def test_seconds_alone_and_shared_are_told_apart_and_speeds_compared() -> None:
    """1. Alone for 20 s at 10 steps a second. 2. Beside b for 20 s at 6."""
    seen = Sightings()
    watched(seen, 20, per_s=10.0)
    watched(seen, 40, since=20, per_s=6.0, others=("b",), from_step=200.0)
    found = seen.sighting(A)
    assert found is not None
    assert (found.alone_s, found.shared_s) == (20.0, 20.0)
    assert found.load.busy == 0.5
    assert found.device_memory_peak_gib == pytest.approx(10.4)
    assert found.energy_j == 4000.0
    (spell,) = found.company
    assert (spell.jobs, spell.seconds) == (("b",), 20.0)
    assert spell.relative == pytest.approx(0.6)


def test_a_restart_takes_from_the_stop_order_to_the_first_step_without_the_queue() -> None:
    """1. Stopped at 10, ended at 13. 2. Ordered again at 100, runs at 104, first step at 110."""
    seen = Sightings()
    seen.ordered("a", 0.0, stops=False, launches=True)
    seen.began("a", 2.0)
    seen.progressed("a", 5.0)
    watched(seen, 8)
    first = seen.sighting(A)
    assert first is not None
    assert (first.first_step_s, first.restart_s) == (3.0, None)
    seen.ordered("a", 10.0, stops=True, launches=False)
    seen.ended(A, 13.0)
    seen.ordered("a", 100.0, stops=False, launches=True)
    seen.began("a", 104.0)
    seen.progressed("a", 110.0)
    watched(seen, 112, since=104)
    again = seen.sighting(A)
    assert again is not None
    assert (again.first_step_s, again.restart_s) == (6.0, 3.0 + 10.0)


def test_an_attempt_that_was_not_measured_has_no_sighting() -> None:
    seen = Sightings()
    seen.began("a", 0.0)
    assert seen.sighting(A) is None
    assert seen.busy(A) is None


def test_the_mean_over_measurements_is_kept_until_the_attempt_ends() -> None:
    seen = Sightings()
    for at, busy in ((0.0, 0.75), (2.0, 0.25)):
        seen.see([Measurement(A, busy, at=at)], {}, {}, now=at, wall_at=at)
    assert seen.busy(A) == 0.5
    seen.ended(A, 3.0)
    assert seen.busy(A) is None
    assert [attempt for attempt, _ in seen.over()] == [A]
    assert seen.over() == []


def test_company_that_left_is_remembered_for_a_moment() -> None:
    seen = Sightings()
    seen.meet("a", ("b",), 10.0)
    assert seen.lately("a", 10.0 + LATELY_S) == ("b",)
    assert seen.lately("a", 11.0 + LATELY_S) == ()
    seen.forget(["a"])
    assert seen.lately("a", 10.0) == ()


def test_company_is_whoever_is_on_one_of_its_devices() -> None:
    def job(name: str, *numbers: int, turn: int = 0) -> Job:
        held = Allocation(tuple(Device("n", number) for number in numbers), turn=turn)
        return Job(JobSpec(name, 1.0, (len(numbers),)), 0, Phase.RUNNING, 0.0, 0.0, held)

    rows = [job("a", 0, 1), job("b", 1, turn=1), job("c", 2), job("d", 0, turn=1)]
    assert company_of(rows) == {"a": ("b", "d"), "b": ("a",), "d": ("a",)}


def test_a_job_that_makes_no_step_in_company_hangs_and_is_said_once() -> None:
    """1. It makes steps beside b. 2. It makes none, and the GPU rests all the time."""
    seen = Sightings()

    def look(at: float, step: float, busy: float, others: tuple[str, ...] = ("b",)) -> None:
        found = Measurement(A, busy / 2, Load(busy=busy), at, alone=not others)
        seen.see([found], {"a": others}, {"a": step}, now=at, wall_at=at)

    look(0.0, 1.0, 0.6)
    look(2.0, 2.0, 0.0)
    look(4.0, 2.0, 0.0)
    assert seen.hung(HANG_S - 1.0) == []
    assert seen.hung(HANG_S + 4.0) == ["a"]
    assert seen.hung(HANG_S + 9.0) == []


@pytest.mark.parametrize(("busy", "others"), [(0.5, ("b",)), (1.0, ("b",)), (0.0, ())])
def test_a_job_that_works_or_is_alone_does_not_hang(busy: float, others: tuple[str, ...]) -> None:
    seen = Sightings()
    for at, step in ((0.0, 1.0), (2.0, 2.0), (4.0, 2.0)):
        found = Measurement(A, busy, Load(busy=busy), at, alone=not others)
        seen.see([found], {"a": others}, {"a": step}, now=at, wall_at=at)
    assert seen.hung(10 * HANG_S) == []
