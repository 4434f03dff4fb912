"""A policy against the best of the others."""

from dataclasses import replace
from math import exp, log

import pytest

from tests.unit.league.test_standings import FIGURES, played
from treadle.league.duels import duels, score
from treadle.league.processes import Outcome
from treadle.league.standings import Played, standings


def test_a_policy_meets_the_best_of_the_others_of_its_class() -> None:
    known = [*played("a", 90.0), *played("b", 120.0), *played("c", 100.0)]
    rows = standings([*known, *played("d", 60.0, group="blind")])
    (own,) = duels(rows, "a")
    assert (own.other, own.ratio) == ("c", 0.9)
    (last,) = duels(rows, "b")
    assert (last.other, round(last.ratio, 3)) == ("a", 1.333)
    assert duels(rows, "d") == []  # No other is in its class.
    assert duels(rows, "e") == []


def test_the_interval_of_a_ratio_is_that_of_the_same_seeds() -> None:
    rows = standings([*played("a", 60.0, 100.0, 1000.0), *played("b", 120.0, 200.0, 2000.0)])
    (found,) = duels(rows, "a")
    assert (found.low, found.ratio, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_the_interval_of_a_ratio_never_begins_below_nothing() -> None:
    """Two seeds, with ratios of 0.7 and 1.1: their mean is 0.9 +- 2.5."""
    rows = standings([*played("a", 70.0, 110.0), *played("b", 100.0, 100.0)])
    (found,) = duels(rows, "a")
    assert 0 < found.low < 0.7
    assert found.high > 1.1
    assert found.low * found.high == pytest.approx(0.7 * 1.1), "as far below as above, as factors"


def test_with_one_seed_it_is_that_of_the_same_jobs_drawn_again() -> None:
    draws = tuple(float(number) for number in range(100, 300))
    cells = [
        Played("w", name, "known", 0, Outcome(replace(FIGURES, mean_s=mean_s, resampled_s=some)))
        for name, mean_s, some in (
            ("a", 100.0, draws),
            ("b", 200.0, tuple(2 * one for one in draws)),
        )
    ]
    (found,) = duels(standings(cells), "a")
    assert (found.low, found.ratio, found.high) == (0.5, 0.5, 0.5)


def test_the_score_is_a_geometric_mean_with_an_interval_over_workloads() -> None:
    cells = [*played("a", 100.0, workload="v"), *played("b", 200.0, workload="v")]
    cells += [*played("a", 160.0, workload="w"), *played("b", 80.0, workload="w")]
    whole = score(duels(standings(cells), "a"))
    assert (whole.workloads, whole.first) == (2, 1)
    assert whole.ratio == pytest.approx(1.0)
    assert whole.high == pytest.approx(exp(12.706 * log(2)))


def test_a_policy_that_was_cut_off_has_lost_its_duel_and_the_other_has_won() -> None:
    cut = Played("w", "a", "known", 0, Outcome(cut_off_s=30.0))
    rows = standings([cut, *played("b", 100.0), *played("c", 300.0)])
    (lost,) = duels(rows, "a")
    assert (lost.mean_s, lost.other, lost.ratio, lost.p99_ratio) == (0, "b", 6, 6)
    (won,) = duels(standings([cut, *played("b", 100.0)]), "b")
    assert (won.other, won.ratio, won.longest_ratio) == ("a", 0.5, 0.5)
