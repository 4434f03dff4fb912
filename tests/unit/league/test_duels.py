"""A policy against the best of the others, and doubts that are cast on workloads."""

from dataclasses import replace
from math import exp, log

import pytest

from tests.unit.league.test_standings import FIGURES, played
from treadle.core.errors import InvalidInputError
from treadle.league.doubts import DOUBTS, doubted
from treadle.league.duel_tables import duel_object, duel_section
from treadle.league.duels import duels, score
from treadle.league.processes import Outcome
from treadle.league.standings import Played, standings
from treadle.league.workload_list import LeagueWorkload

WORKLOAD = LeagueWorkload("w", "generate:poisson", "1x4", "small")


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
    assert (whole.workloads, whole.first, whole.worst) == (2, 1, 2.0)
    assert whole.ratio == pytest.approx(1.0)
    assert whole.high == pytest.approx(exp(12.706 * log(2)))


def test_a_workload_close_to_its_bound_is_marked_and_counted_apart() -> None:
    cells = [*played("a", 51.0, workload="v"), *played("b", 52.0, workload="v")]
    cells += [*played("a", 80.0, workload="w"), *played("b", 160.0, workload="w")]
    rows = standings(cells)
    section = duel_section(rows, "a")
    shown = {str(row[0]): row for row in section.tables[0].rows}
    assert list(shown) == ["v", "w", "geometric mean", "without *"]
    assert [shown[name][-1] for name in ("v", "w")] == ["1.02 *", "1.60"]
    assert shown["without *"][4] == "0.500"
    assert section.findings == ["no worse than each other policy on 2 of 2 workloads"]
    document = duel_object(rows, "a")
    assert isinstance(document["that_can_tell"], dict)
    assert document["that_can_tell"]["ratio"] == 0.5


def test_a_policy_without_a_rank_has_a_section_that_says_so() -> None:
    assert duel_section(standings(played("a", 100.0)), "a").findings == [
        "it has no rank beside another policy"
    ]
    assert duel_object([], "a") == {"workloads": [], "all": None, "that_can_tell": None}


def test_a_doubt_changes_the_truth_of_a_workload() -> None:
    slow = replace(WORKLOAD, options={"restart_cost": "78", "lengths": "losses"})
    assert doubted(WORKLOAD, "restart").options == {"restart_cost": "60"}
    assert doubted(slow, "restart").options["restart_cost"] == "156"
    assert doubted(WORKLOAD, "sharing").options == {"sharing_error": 0.15}
    assert doubted(slow, "lengths").options == {
        "restart_cost": "78",
        "lengths": "known",
        "length_error": 0.7,
    }
    assert {name for name in DOUBTS if doubted(slow, name) is slow} == {"learned"}


def test_a_restart_cost_that_is_no_number_cannot_be_doubled() -> None:
    profiled = replace(WORKLOAD, options={"restart_cost": "profile"})
    with pytest.raises(InvalidInputError, match="restart_cost profile, which cannot be doubled"):
        doubted(profiled, "restart")
