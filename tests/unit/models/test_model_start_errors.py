"""Ranges of starts follow how far off earlier simulations were."""

from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.learning.start_errors import (
    COMPARED_MIN,
    StartErrors,
)

TEN = [float(100 + 10 * number) for number in range(10)]


def waited(errors: StartErrors, simulated: list[float], wait_s: float, at: float) -> bool:
    """One job waits for so long; whether its range held."""
    low_s, high_s = errors.range_of(simulated, now=at)
    errors.promise(f"job at {at}", simulated, now=at)
    errors.started(f"job at {at}", now=at + wait_s)
    return low_s <= wait_s <= high_s


def test_a_range_leaves_out_a_tenth_at_each_end_until_ten_starts_were_compared() -> None:
    errors = StartErrors()
    assert errors.range_of(TEN, now=1e6) == (105.0, 185.0)
    for number in range(COMPARED_MIN - 1):
        waited(errors, TEN, 1000.0, 10_000.0 * number)
    assert errors.compared == 0
    assert errors.range_of(TEN, now=1e6) == (105.0, 185.0)


def test_ranges_move_to_where_starts_really_are() -> None:
    """1. Simulations leave out later arrivals: each start is at about twice what they say.
    2. Ranges come to hold it, and are no wider than the starts are apart."""
    errors, random = StartErrors(), Random(3)
    held = []
    for number in range(200):
        middle_s = 10.0 ** random.uniform(1.0, 4.0)
        simulated = [middle_s * (0.9 + 0.02 * place) for place in range(10)]
        wait_s = 2.0 * middle_s * random.uniform(0.8, 1.2)
        held.append(waited(errors, simulated, wait_s, 1e6 * number))
    assert 0.75 <= sum(held[50:]) / 150 <= 0.95
    low_s, high_s = errors.range_of([1000.0] * 10, now=1e9)
    assert 1500.0 < low_s < 2000.0 < high_s < 2500.0


def test_where_simulations_say_nothing_the_waits_of_before_count() -> None:
    errors, random = StartErrors(), Random(7)
    for number in range(200):
        simulated = [10.0 ** random.uniform(0.0, 6.0)] * 10
        waited(errors, simulated, random.uniform(900.0, 1100.0), 1e7 * number)
    for simulated_s in (100.0, 1000.0, 10_000.0):
        low_s, high_s = errors.range_of([simulated_s] * 10, now=1e10)
        assert 500.0 < low_s < high_s < 2000.0


def test_coverage_holds_though_errors_change_in_the_middle() -> None:
    errors, random = StartErrors(), Random(5)
    held = []
    for number in range(300):
        factor = (1.0 if number < 150 else 3.0) * random.lognormvariate(0.0, 0.4)
        held.append(
            waited(
                errors, [500.0 + 5.0 * place for place in range(10)], 520.0 * factor, 1e6 * number
            )
        )
    assert 0.75 <= sum(held[10:]) / len(held[10:]) <= 0.9


def test_a_range_that_is_over_counts_as_missed_before_its_job_starts() -> None:
    errors = StartErrors()
    before = errors.kept.share
    errors.promise("late", TEN, now=0.0)
    errors.advance(180.0)
    assert errors.kept.share == before
    errors.advance(200.0)
    missed = errors.kept.share
    assert missed > before
    errors.started("late", now=10_000.0)
    assert errors.kept.share == missed, "once"


def batch(errors: StartErrors, jobs: int, wait_s: float, at: float) -> None:
    """So many jobs are submitted at once, and wait for as long."""
    for number in range(jobs):
        errors.promise(f"{number} at {at}", TEN, now=at)
    for number in range(jobs):
        errors.started(f"{number} at {at}", now=at + wait_s)


def test_a_batch_counts_as_the_square_root_of_its_jobs() -> None:
    """1. Jobs come in batches of 16 that wait for as long: each batch counts as 4 starts.
    2. A batch that misses its range widens later ones by four steps."""
    errors = StartErrors()
    batch(errors, 16, 145.0, 0.0)
    batch(errors, 16, 145.0, 1e6)
    assert errors.compared == 0, "8 starts"
    batch(errors, 16, 145.0, 2e6)
    assert errors.compared == 48
    alone, together = StartErrors(), StartErrors()
    for number in range(4):
        waited(alone, TEN, 1000.0, 1e6 * number)
    batch(together, 16, 1000.0, 0.0)
    assert together.kept.share == pytest.approx(alone.kept.share)


def test_ranges_of_batches_hold_as_often_as_those_of_single_jobs() -> None:
    """All jobs of a batch wait for as long; how long says nothing about the next batch."""
    errors, random = StartErrors(), Random(11)
    held = []
    for number in range(60):
        at, jobs = 1e6 * number, random.choice([1, 2, 16])
        wait_s = random.lognormvariate(5.0, 1.0)
        low_s, high_s = errors.range_of(TEN, now=at)
        held += [low_s <= wait_s <= high_s] * (jobs if number >= 10 else 0)
        batch(errors, jobs, wait_s, at)
    assert 0.75 <= sum(held) / len(held) <= 0.95


def test_a_batch_that_is_late_teaches_before_it_starts() -> None:
    """1. Twelve jobs waited for as long as simulated. 2. Ten are submitted at once, and wait for
    twenty times that and longer. 3. The next job is given a range that knows of it."""
    errors = StartErrors()
    for number in range(12):
        waited(errors, TEN, 140.0 + number % 10, 1e6 * number)
    at = 1e8
    before = errors.range_of(TEN, now=at)
    for number in range(10):
        errors.promise(f"late {number}", TEN, now=at)
    after = errors.range_of(TEN, now=at + 3000.0)
    assert before.high_s < 200.0
    assert after.high_s > 1000.0
    errors.forget(f"late {number}" for number in range(10))
    assert errors.range_of(TEN, now=at + 3000.0).high_s < 200.0, "cancelled: nothing is known of it"


def test_only_the_first_range_of_a_job_counts_and_a_cancelled_job_teaches_nothing() -> None:
    errors = StartErrors()
    errors.promise("a", TEN, now=0.0)
    errors.promise("a", [1.0] * 10, now=5.0)
    assert errors.started("a", now=145.0)
    (seen,) = errors.kept.seen
    assert seen.waited == pytest.approx(seen.simulated, abs=0.01)
    errors.promise("b", TEN, now=0.0)
    errors.forget(["b"])
    assert not errors.started("b", now=100.0)


@given(
    waits=st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1e6)), max_size=40),
    simulated=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=10),
)
def test_a_range_is_one_whatever_was_seen(
    waits: list[tuple[float, float]], simulated: list[float]
) -> None:
    errors, at = StartErrors(), 0.0
    for said_s, wait_s in waits:
        waited(errors, [said_s] * 3, wait_s, at)
        at += wait_s + 1.0
    low_s, high_s = errors.range_of(simulated, now=at)
    assert 0.0 <= low_s <= high_s < inf
