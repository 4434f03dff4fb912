"""Rows, ranks and ratios of a league."""

from dataclasses import replace

import pytest

from treadle.league.cell import Figures
from treadle.league.processes import Outcome
from treadle.league.standings import Played, overall, standings

FIGURES = Figures(
    jobs=10,
    finished=10,
    failed=0,
    unfinished=0,
    mean_s=100.0,
    p99_s=300.0,
    longest_s=400.0,
    makespan_s=1000.0,
    unfairness=1.5,
    moves=7,
    decide_cpu_s=0.5,
    cpu_s=1.0,
    peak_mb=40.0,
    bound_alone_s=80.0,
    bound_shared_s=50.0,
    resampled_s=(90.0, 115.0, 100.0),
)

BELOW = "its mean of 49 s is below the lower bound of 50 s: the simulation or the bound is wrong"


def played(policy: str, *means_s: float, workload: str = "w", group: str = "known") -> list[Played]:
    return [
        Played(workload, policy, group, seed, Outcome(replace(FIGURES, mean_s=mean_s)))
        for seed, mean_s in enumerate(means_s)
    ]


def test_rows_are_ranked_by_their_means_within_their_class() -> None:
    rows = standings([*played("a", 120.0), *played("b", 100.0), *played("c", 60.0, group="blind")])
    assert [(row.policy, row.rank, round(row.to_best, 3)) for row in rows] == [
        ("b", 1, 1.0),
        ("a", 2, 1.2),
        ("c", 1, 1.0),
    ]
    assert [round(row.to_other, 3) for row in rows] == [0.833, 1.2, 0.0]
    assert (rows[0].to_alone, rows[0].to_shared) == (1.25, 2.0)


def test_one_seed_has_the_interval_of_its_jobs_and_several_have_that_of_the_seeds() -> None:
    (one,) = standings(played("a", 100.0))
    assert (one.low_s, one.high_s) == (90.0, 115.0)
    (three,) = standings(played("a", 90.0, 100.0, 110.0))
    assert three.mean_s == pytest.approx(100)
    assert three.high_s - three.mean_s == pytest.approx(4.303 * 10 / 3**0.5)


def test_what_all_policies_share_cancels_in_the_interval_of_a_ratio() -> None:
    rows = standings([*played("a", 60.0, 100.0, 1000.0), *played("b", 120.0, 200.0, 2000.0)])
    assert [(row.to_best, row.to_best_half) for row in rows] == [(1.0, 0.0), (2.0, 0.0)]


def test_a_row_that_is_cut_off_in_any_seed_is_a_loss() -> None:
    cut = Played("w", "a", "known", 1, Outcome(cut_off_s=30.0))
    others = [*played("b", 100.0, 100.0), *played("c", 300.0, 300.0)]
    rows = standings([*played("a", 50.0), cut, *others])
    assert [(row.policy, row.rank, row.trouble) for row in rows] == [
        ("b", 1, ""),
        ("c", 2, ""),
        ("a", 0, "cut off after 30 CPU s"),
    ]
    # Twice the worst of the others, which is 3 times the best.
    assert (rows[2].mean_s, rows[2].to_best, rows[2].to_other) == (0, 6, 6)
    assert (rows[2].to_shared, rows[2].cpu_max_s) == (2 * 300 / 50, 30)


def test_a_loss_counts_also_where_no_other_policy_has_figures() -> None:
    cut = Outcome(cut_off_s=30.0)
    (alone,) = standings([Played("w", "a", "known", 0, cut)])
    assert (alone.to_best, alone.to_other) == (2, 2)
    won, lost = standings([*played("a", 100.0), Played("w", "b", "known", 0, cut)])
    assert (won.rank, won.to_best, won.to_other, lost.to_best) == (1, 1, 0.5, 2)


@pytest.mark.parametrize(
    ("figures", "trouble"),
    [
        (replace(FIGURES, finished=8, unfinished=2), "2 of 10 jobs did not finish"),
        (replace(FIGURES, finished=0, failed=10, mean_s=0.0), "no job finished"),
        (replace(FIGURES, mean_s=49.0), BELOW),
    ],
)
def test_figures_that_fail_a_check_get_no_rank(figures: Figures, trouble: str) -> None:
    (row,) = standings([Played("w", "a", "known", 0, Outcome(figures))])
    assert (row.rank, row.trouble) == (0, trouble)


def test_overall_is_the_geometric_mean_over_all_workloads_and_losses_count() -> None:
    cells = [
        *played("a", 100.0, workload="v"),
        *played("b", 200.0, workload="v"),
        *played("a", 400.0, workload="w"),
        *played("b", 100.0, workload="w"),
        *played("c", 100.0, workload="v"),
        Played("w", "c", "known", 0, Outcome(error="it broke")),
    ]
    lines = overall(standings(cells))
    assert [(one.policy, round(one.to_best, 6), one.ranked, one.first) for one in lines] == [
        ("b", round(2**0.5, 6), 2, 1),
        ("a", 2.0, 2, 1),
        ("c", round(8**0.5, 6), 1, 0),
    ]
    assert (lines[0].worst, lines[0].worst_at) == (2.0, "v")
