"""Loss curves: what is fitted, how sure it is, and what the draws rest on."""

from math import inf

import numpy as np
import pytest

from treadle.core.errors import InvalidInputError
from treadle.models.losses import Curve, fit
from treadle.models.seeded_random import draw_normals, draw_numbers


def optimus(steps, rate=0.01, begin=0.25, floor=0.4):
    return 1.0 / (rate * steps + begin) + floor


def test_a_curve_without_noise_is_found_again():
    steps = np.arange(10.0, 1001.0, 10.0)
    found = fit(steps, optimus(steps))
    assert found.curve.form == "inverse"
    assert found.curve.at(2000.0) == pytest.approx(optimus(2000.0), rel=0.01)
    assert found.curve.reaches(optimus(1500.0)) == pytest.approx(1500.0, rel=0.03)


def test_a_target_below_the_floor_is_never_reached():
    steps = np.arange(10.0, 1001.0, 10.0)
    assert fit(steps, optimus(steps)).curve.reaches(0.3) == inf


def test_outliers_do_not_move_the_fit():
    steps = np.arange(10.0, 1001.0, 10.0)
    losses = optimus(steps)
    losses[[20, 55]] *= 5.0
    assert fit(steps, losses).curve.reaches(optimus(1500.0)) == pytest.approx(1500.0, rel=0.1)


def test_another_form_is_taken_where_the_first_does_badly():
    steps = np.arange(5.0, 501.0, 5.0)
    losses = 6.0 * np.exp(-steps / 60.0) + 0.3
    found = fit(steps, losses)
    assert found.curve.form == "exponential"
    assert found.held_out_error < 0.05


def test_after_a_drop_of_the_learning_rate_the_curve_begins_again():
    steps = np.arange(10.0, 1001.0, 10.0)
    before = optimus(steps, floor=2.0)
    after = optimus(np.maximum(steps - 500.0, 0.0), begin=1.0, floor=0.2)
    losses = np.where(steps <= 500.0, before, after)
    found = fit(steps, losses)
    assert found.held_out_error < 0.1
    assert found.curve.reaches(float(after[-1])) == pytest.approx(1000.0, rel=0.2)


@pytest.mark.parametrize(
    ("steps", "losses", "message"),
    [
        ([1.0, 2.0], [1.0, 0.5], "at least 4 losses and their iterations, not to 2 and 2"),
        ([1.0, 2.0, 3.0, 3.0], [1.0] * 4, "ascending iterations and losses above 0"),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 0.5, 0.0, 1.0], "ascending iterations and losses above 0"),
    ],
)
def test_points_that_are_no_curve_are_refused(steps, losses, message):
    with pytest.raises(InvalidInputError, match=message):
        fit(steps, losses)


def test_a_curve_settles_when_its_epochs_bring_little():
    curve = Curve("inverse", shape=0.4, slope=10.0, intercept=0.25, scale=1.0, unit=1000.0)
    settled = curve.settles(drop=0.01, patience=3, epoch=10.0)
    before, after = curve.at(settled - 40.0), curve.at(settled - 30.0)
    assert (before - after) / before == pytest.approx(0.01, rel=0.2)
    with pytest.raises(InvalidInputError, match="settles by a drop"):
        curve.settles(drop=0.0, patience=3, epoch=10.0)


def test_draws_depend_on_seed_and_index_alone():
    whole = draw_numbers(5, 1000)
    assert np.array_equal(whole[:310], draw_numbers(5, 310))
    assert not np.array_equal(whole, draw_numbers(6, 1000))
    assert 0.0 <= whole.min() < 0.02
    assert 0.98 < whole.max() < 1.0
    normals = draw_normals(5, 4000)
    assert abs(normals.mean()) < 0.06
    assert normals.std() == pytest.approx(1.0, abs=0.05)
