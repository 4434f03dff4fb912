"""What is seen of an attempt: alone and in company, peaks, first step, restart."""

from dataclasses import replace

import pytest

from treadle.control.learning.load_history import History, packed, so_far_in, unpacked
from treadle.control.learning.metering import Meter
from treadle.control.learning.outcomes import Attempted, of_end, of_pace
from treadle.control.learning.sightings import HANG_S, LATELY_S, Sightings, company_of
from treadle.core.allocation import Allocation
from treadle.core.attempt import How, LastProgress
from treadle.core.cluster import Device
from treadle.core.events import AttemptEnded
from treadle.core.job import Job, JobSpec
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import Measurement
from treadle.core.sighting import Load, Sighting

A, B = AttemptId("a", 1), AttemptId("b", 1)


def watched(seen: Sightings, until: int, *, since: int = 0, per_s: float = 1.0, **how: object):
    """Measure every 2 s; the job does so many steps a second, and b one."""
    others = how.get("others", ())
    for at in range(since, until + 1, 2):
        load = Load(busy=0.5 if not others else None, device_memory_gib=10.0 + at / 100)
        found = Measurement(A, 0.5, load, float(at), energy_j=100.0 * at, alone=not others)
        steps = {"a": how.get("from_step", 0.0) + (at - since) * per_s, "b": at}  # type: ignore[operator]
        beside = Measurement(B, at=float(at))
        seen.see([found, beside], {"a": others}, steps, now=float(at), wall_at=0.0)  # type: ignore[dict-item]


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


def test_a_stall_of_a_live_change_is_kept_apart_from_a_restart() -> None:
    seen = Sightings()
    seen.ordered("a", 0.0, stops=True, launches=False)
    seen.ended(A, 3.0)
    seen.ordered("a", 5.0, stops=False, launches=True)
    seen.began("a", 6.0)
    seen.progressed("a", 9.0)
    watched(seen, 12, since=6)
    seen.changed("a", 0.25)
    found = seen.sighting(A)
    assert found is not None
    assert (found.restart_s, found.resize_s) == (3.0 + 4.0, 0.25)


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


def test_a_restarted_controller_goes_on_with_what_was_seen() -> None:
    """1. Alone for 20 s, beside b for 20 s. 2. The controller is restarted: what it wrote is read
    back. 3. 20 s more alone count on top, energy included."""
    before = Sightings()
    watched(before, 20, per_s=10.0)
    watched(before, 40, since=20, per_s=6.0, others=("b",), from_step=200.0)
    found, _ = before.running()
    body = packed(found[1].points(), before.so_far(A))
    seen = Sightings()
    seen.restore(A, History.of(unpacked(body), found[1].started_at), so_far_in(body))
    watched(seen, 60, since=40, per_s=10.0, from_step=320.0)
    after = seen.sighting(A)
    assert after is not None
    assert (after.alone_s, after.shared_s) == (40.0, 20.0)
    assert [spell.jobs for spell in after.company] == [("b",)]
    assert after.step_s == pytest.approx(0.1)
    assert after.load.busy == 0.5
    assert after.device_memory_peak_gib == pytest.approx(10.6)
    assert after.energy_j == 4000.0 + 6000.0, "the engine of this test counts on"


def ended(progress: LastProgress, seen: Sighting | None) -> AttemptEnded:
    return AttemptEnded(
        "a", 1, 1, How.EXITED, 0, started_at=0.0, ran_s=100.0, progress=progress, seen=seen
    )


def test_a_pace_in_company_is_not_taught_as_one_alone() -> None:
    """The last minute of a long job was in company: its pace is that of its time alone."""
    said = LastProgress(100.0, 100.0, 2.0, measured_s=60.0, alone=False)
    assert of_pace(said, 1) is None
    attempted = Attempted(1, 0.0, alone=True, over=True)
    found = of_end(ended(said, Sighting(alone_s=940.0, shared_s=60.0, step_s=0.1)), attempted)
    assert found is not None
    assert (found.shared, found.step_s) == (False, 0.1)
    never = of_end(ended(said, Sighting(alone_s=5.0, shared_s=0.1)), attempted)
    assert never is not None
    assert never.step_s is None
    alone = replace(said, alone=True)
    own = of_end(ended(alone, None), attempted)
    assert own is not None
    assert own.step_s == 0.5


def test_a_speed_is_measured_in_one_company_only() -> None:
    """10 steps a second alone, then 5 beside b: neither is the mean of both."""
    meter = Meter()
    meter.begin("a", 1, 1, 0.0, 0.0)
    meter.see("a", 0, 1000, 0.0)
    meter.see("a", 100, 1000, 10.0)
    meter.see("a", 100, 1000, 10.0, ("b",))
    gauge = meter.see("a", 150, 1000, 20.0, ("b",))
    assert gauge is not None
    assert gauge.share_per_s() == pytest.approx(5.0 / 1000)
    assert gauge.measured_s == 10.0


def test_a_speed_goes_on_after_a_pause() -> None:
    """10 steps a second for 10 s. Paused for 100 s, it has still a speed, and the same after."""
    meter = Meter()
    meter.begin("a", 1, 1, 0.0, 0.0)
    meter.see("a", 0, 1000, 0.0)
    meter.see("a", 100, 1000, 10.0)
    meter.skip("a", 2, 100.0, 110.0)
    gauge = meter.gauge("a")
    assert gauge is not None
    assert gauge.share_per_s() == pytest.approx(10.0 / 1000)
    assert meter.see("a", 150, 1000, 115.0) is gauge
    assert gauge.share_per_s() == pytest.approx(10.0 / 1000)
    assert gauge.speeds() == pytest.approx((10.0, 10.0))


def test_time_in_which_a_job_is_paused_is_no_time_alone_nor_a_hang_and_its_energy_adds_up() -> None:
    """1. Alone for 20 s at 10 steps a second. 2. Beside b, both at rest. 3. Paused for longer than
    a hang takes. 4. Alone for 10 s as before, by an engine that counts energy anew."""
    seen = Sightings()
    watched(seen, 20, per_s=10.0)
    for at in (22.0, 24.0):
        both = [Measurement(A, 0.0, Load(busy=0.0), at, energy_j=2000.0, alone=False)]
        seen.see(both, {"a": ("b",)}, {"a": 200.0 + at}, now=at, wall_at=0.0)
    seen.paused("a")
    later = 24.0 + 2 * HANG_S
    assert seen.hung(later) == []
    seen.goes_on("a", 2 * HANG_S, later)
    for place in range(6):
        at, step = later + 2.0 * place, 224.0 + 20.0 * place
        found = Measurement(A, 0.5, Load(busy=0.5), at, energy_j=100.0 * place)
        seen.see([found], {}, {"a": step}, now=at, wall_at=0.0)
    sight = seen.sighting(A)
    assert sight is not None
    assert sight.alone_s == 20.0 + 10.0
    assert sight.step_s == pytest.approx(0.1)
    assert sight.energy_j == 2000.0 + 500.0


def test_a_pause_before_the_first_step_is_no_time_to_it() -> None:
    seen = Sightings()
    seen.ordered("a", 0.0, stops=False, launches=True)
    seen.began("a", 1.0)
    seen.paused("a")
    seen.goes_on("a", 100.0, 103.0)
    seen.progressed("a", 105.0)
    assert seen.first_step_s("a") == 4.0
    seen.goes_on("a", 50.0, 160.0)
    assert seen.first_step_s("a") == 4.0


def test_company_is_judged_by_the_last_seconds_and_not_since_the_jobs_met() -> None:
    """1. Alone for 20 s at 10 steps a second. 2. Beside b as fast for 60 s, then for 20 s at 1."""
    seen = Sightings()
    watched(seen, 20, per_s=10.0)
    watched(seen, 80, since=20, per_s=10.0, others=("b",), from_step=200.0)
    assert seen.kept("a", ("b",), None) == pytest.approx(1.0)
    watched(seen, 100, since=80, per_s=1.0, others=("b",), from_step=800.0)
    assert seen.kept("a", ("b",), None) == pytest.approx(0.1)
    found = seen.sighting(A)
    assert found is not None
    assert found.company[0].relative == pytest.approx((600 + 20) / 80 / 10), "of all the time"


def test_a_job_that_pauses_between_steps_is_judged_over_several_pauses() -> None:
    """It makes 40 steps every 40 s, alone and beside b."""
    seen = Sightings()
    for at in range(0, 401, 2):
        others = ("b",) if at > 200 else ()
        found = Measurement(A, 0.5, Load(busy=0.5), float(at), alone=not others)
        steps = {"a": at // 40 * 40.0, "b": float(at)}
        both = [found, Measurement(B, at=float(at))]
        seen.see(both, {"a": others}, steps, now=float(at), wall_at=0.0)
        kept = seen.kept("a", ("b",), None)
        assert at < 340 or kept == pytest.approx(1.0, rel=0.34)


@pytest.mark.parametrize(("says", "counts_from", "shared_s"), [(True, 14, 28.0), (False, 30, 10.0)])
def test_a_job_that_loads_its_libraries_slows_no_other(
    says: bool, counts_from: int, shared_s: float
) -> None:
    """B begins at 10 and makes its first step at 12; or it says none, and counts after 20 s."""
    seen = Sightings()
    shared = {}
    for at in range(0, 41, 2):
        there = at >= 10
        found = [Measurement(A, 0.5, Load(busy=0.5), float(at), alone=not there)]
        found += [Measurement(B, at=float(at), alone=False)] if there else []
        steps = {"a": 10.0 * at, **({"b": float(at)} if says and at >= 12 else {})}
        company = {"a": ("b",), "b": ("a",)} if there else {}
        seen.see(found, company, steps, now=float(at), wall_at=0.0)
        a = seen.sighting(A)
        assert a is not None
        assert a.alone_s == min(at, 8.0)
        shared[at] = a.shared_s
        assert seen.at_work("b") is (at >= counts_from)
    assert shared[counts_from - 2] == 0.0
    assert shared[40] == shared_s
