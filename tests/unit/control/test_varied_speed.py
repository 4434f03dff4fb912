"""Ranges of a job's end by its own steps: where its speed varies, and before it is measured."""

from math import inf
from random import Random

import pytest

from treadle.control.learning.metering import WINDOWS_MAX, Gauge, Meter
from treadle.core.attempt import LastProgress
from treadle.models.learning.expectation import (
    Basis,
    Remaining,
    remaining,
)
from treadle.models.learning.kinds import by_command, numbers
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome

TOTAL = 4000.0


def measured(gauge: Gauge) -> LastProgress:
    share_per_s = gauge.share_per_s()
    per_s = None if share_per_s is None else share_per_s * (gauge.total or 0.0)
    return LastProgress(
        gauge.steps,
        gauge.total,
        per_s,
        share_per_s=share_per_s,
        measured_s=gauge.measured_s,
        speeds=gauge.speeds(),
    )


def left_of(said: LastProgress, ran: tuple[str, ...], new: tuple[str, ...]) -> Remaining:
    """What is left of a new job, where another took five seconds."""
    knowledge = Knowledge()
    outcome = Outcome(1, 5.0, whole=True, numbers=numbers(ran))
    knowledge.observe(by_command("ann", "", ran), outcome)
    expected = knowledge.expect(by_command("ann", "", new), 1, numbers=numbers(new))
    return remaining(expected, 1.0, said=said)


QUICK, SLOW = ("python", "third.py", "--quick"), ("python", "third.py", "--slow")


def followed(seed: int) -> list[tuple[float, LastProgress]]:
    """A job that runs 2 to 6 steps a second, another number every 15 s; looked at each second."""
    random, meter = Random(seed), Meter()
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    now, step, per_s, seen = 0.0, 0.0, 4.0, []
    while step < TOTAL:
        if now % 15 == 0:
            per_s = random.uniform(2.0, 6.0)
        now, step = now + 1.0, min(TOTAL, step + per_s)
        gauge = meter.see("a", float(int(step)), TOTAL, now)
        assert gauge is not None
        seen.append((now, measured(gauge)))
    return seen


def test_a_range_by_steps_is_as_wide_as_the_speed_varied() -> None:
    held = ranges = 0
    for seed in range(20):
        seen = followed(seed)
        end_at = seen[-1][0]
        for now, said in seen[30:-30:10]:
            left = left_of(said, QUICK, SLOW)
            assert left.basis is Basis.STEPS
            held += left.span.low_s <= end_at - now <= left.span.high_s
            ranges += 1
    assert held / ranges >= 0.8


def test_a_steady_job_keeps_its_narrow_range() -> None:
    meter = Meter()
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    for now in range(1, 200):
        gauge = meter.see("a", 20.0 * now, TOTAL * 10, float(now))
        assert gauge is not None
        assert len(gauge.marks) <= WINDOWS_MAX
    assert gauge is not None
    span = left_of(measured(gauge), QUICK, SLOW).span
    assert (span.high_s - span.low_s) / span.low_s < 0.3


def test_speeds_of_another_company_are_forgotten() -> None:
    meter = Meter()
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    for now in range(1, 20):
        meter.see("a", 20.0 * now, TOTAL, float(now))
    gauge = meter.see("a", 400.0, TOTAL, 20.0, ("b",))
    assert gauge is not None
    assert gauge.marks == [(20.0, 0.1)]


def test_the_first_steps_of_a_job_overrule_one_run_with_other_words() -> None:
    """Two of a hundred steps in 1.2 s, where `--quick` took 5 s: a minute is within the range."""
    meter = Meter()
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    gauge = meter.see("a", 2.0, 100.0, 1.2)
    assert gauge is not None
    left = left_of(measured(gauge), QUICK, SLOW)
    assert left.basis is Basis.FIRST_STEPS
    assert left.span.low_s == pytest.approx(5.88)
    assert left.span.high_s == pytest.approx(176.4)
    assert left_of(measured(gauge), QUICK, QUICK).basis is Basis.RUNS


def test_steps_that_an_earlier_run_did_are_no_speed() -> None:
    """It resumes by itself with epoch 45 of 90: these were not done in two seconds."""
    meter = Meter()
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    gauge = meter.see("a", 45.0, 90.0, 2.0)
    assert gauge is not None
    assert gauge.speeds() is None
    assert left_of(measured(gauge), QUICK, SLOW).basis is not Basis.FIRST_STEPS


@pytest.mark.parametrize(
    ("ran", "runs_s", "age_s", "low_below_s"),
    [
        (QUICK, (6.0, 7.0), 4.0, 3.0),  # It may stop early as well.
        (QUICK, (6.0, 7.0), 9.0, inf),  # It went on longer than these.
        (QUICK, (30.0, 40.0), 4.0, inf),  # They did all their steps, perhaps a little faster.
        (SLOW, (6.0, 7.0), 4.0, inf),  # Other commands stop where they do.
    ],
)
def test_a_range_by_steps_allows_for_runs_of_the_command_that_stopped_early(
    ran: tuple[str, ...], runs_s: tuple[float, ...], age_s: float, low_below_s: float
) -> None:
    """It says 10 of 100 steps at 2.5 steps a second: 36 s would be left."""
    knowledge = Knowledge()
    for seconds in runs_s:
        knowledge.observe(by_command("ann", "", ran), Outcome(1, seconds, whole=True))
    expected = knowledge.expect(by_command("ann", "", QUICK), 1)
    left = remaining(expected, age_s, said=LastProgress(10.0, 100.0, 2.5, measured_s=4.0))
    assert left.span.high_s > 36.0
    assert left.basis is (Basis.STEPS if low_below_s == inf else Basis.STOPS_EARLY)
    if low_below_s < inf:
        assert left.span.low_s < low_below_s
        assert left.mean_s < 10.0
    else:
        assert left.span.low_s > 20.0


@pytest.mark.parametrize(
    ("ran", "runs_s", "age_s", "high_above_s"),
    [
        (QUICK, (28.0, 29.0, 28.5), 13.0, 15.0),  # An evaluation of 12 s followed.
        (QUICK, (28.0, 29.0), 13.0, -inf),  # So few may have been slower by chance.
        (QUICK, (28.0, 29.0, 28.5), 60.0, -inf),  # It went on longer than these.
        (QUICK, (16.5, 17.0, 17.0), 13.0, -inf),  # They did all their steps, and ended.
        (SLOW, (28.0, 29.0, 28.5), 13.0, -inf),  # Other commands go on as they do.
    ],
)
def test_a_range_by_steps_allows_for_runs_of_the_command_that_went_on(
    ran: tuple[str, ...], runs_s: tuple[float, ...], age_s: float, high_above_s: float
) -> None:
    """It says 80 of 100 steps at 5 steps a second: 4 s would be left."""
    knowledge = Knowledge()
    for seconds in runs_s:
        knowledge.observe(by_command("ann", "", ran), Outcome(1, seconds, whole=True))
    expected = knowledge.expect(by_command("ann", "", QUICK), 1)
    left = remaining(expected, age_s, said=LastProgress(80.0, 100.0, 5.0, measured_s=12.0))
    assert left.span.low_s < 4.0 < left.span.high_s
    assert left.basis is (Basis.STEPS if high_above_s == -inf else Basis.GOES_ON)
    if high_above_s > -inf:
        assert left.span.high_s > high_above_s
        assert left.mean_s > 10.0
    else:
        assert left.span.high_s < 6.0


def test_what_follows_the_last_step_is_known_from_runs_of_the_same_command() -> None:
    """Two runs went on for 15 s after their last step, with an evaluation."""
    knowledge, done = Knowledge(), LastProgress(100.0, 100.0, 25.0, measured_s=4.0)
    nothing = knowledge.expect(by_command("ann", "", QUICK), 1)
    assert remaining(nothing, 5.0, said=done).basis is Basis.STEPS
    for _ in range(2):
        knowledge.observe(by_command("ann", "", QUICK), Outcome(1, 19.0, whole=True))
    left = remaining(knowledge.expect(by_command("ann", "", QUICK), 1), 5.0, said=done)
    assert left.span.low_s <= 14.0 <= left.span.high_s
    assert left.basis is Basis.RUNS
