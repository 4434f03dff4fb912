"""The rule that says whether a job is predictable, and when it stops being so."""

from math import inf

import numpy as np
import pytest

from treadle.models.predictability import Evidence, Standing, diverges, drifts, kendall

GOOD = Evidence(
    points=40, done=0.2, error=0.03, end=1000.0, drifts=False, trend=-0.9, diverges=False
)


def after(*evidence: Evidence) -> Standing:
    standing = Standing()
    for one in evidence:
        standing = standing.after(one)
    return standing


def test_three_good_refits_make_a_job_predictable():
    assert not after(GOOD, GOOD).predictable
    assert after(GOOD, GOOD, GOOD).predictable


@pytest.mark.parametrize(
    "change",
    [
        {"points": 9},
        {"done": 0.04},
        {"error": 0.11},
        {"trend": -0.4},
        {"diverges": True},
        {"drifts": True},
        {"end": 1200.0},
        {"end": inf},
    ],
)
def test_each_condition_is_needed(change):
    assert not after(GOOD, GOOD, GOOD._replace(**change)).predictable


def test_a_job_is_lost_after_two_bad_windows_in_a_row_and_not_after_one():
    bad = GOOD._replace(error=0.3)
    assert after(GOOD, GOOD, GOOD, bad).predictable
    assert after(GOOD, GOOD, GOOD, bad, GOOD, bad).predictable
    assert not after(GOOD, GOOD, GOOD, bad, bad).predictable


def test_a_job_that_diverges_is_lost_at_once_and_may_come_back():
    lost = after(GOOD, GOOD, GOOD, GOOD._replace(diverges=True))
    assert not lost.predictable
    assert lost.after(GOOD).predictable


def test_trend_drift_and_divergence_are_distinguished_from_noise():
    falling, noise = np.linspace(5.0, 1.0, 30), np.array([1.0, -1.0] * 15)
    assert kendall(falling) == -1.0
    assert kendall(falling[::-1]) == 1.0
    assert kendall(falling[:1]) == 0.0
    assert not drifts(noise)
    assert drifts(np.concatenate([noise, np.full(20, 0.1)]))
    assert not diverges(falling)
    assert not diverges(np.ones(5))
    assert diverges(np.concatenate([falling, np.linspace(1.0, 4.0, 30)]))
