"""Jobs in a policy's order: lines that move with time, ties as they were a moment ago, expiry."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.errors import PolicyError
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.ranking import Rank, Ranking
from treadle.testing.builders import job


class Board:
    """A ranking whose ranks the test writes down."""

    def __init__(self) -> None:
        self.ranks: dict[str, Rank] = {}
        self.ranking = Ranking(lambda row, now: self.ranks[row.id])

    def waits(self, name: str, *rank: float, now: float = 0.0) -> None:
        self.ranks[name] = Rank(*rank)
        self.ranking.put(Job(job(name), 0, Phase.WAITING, 0.0, 0.0), now)

    def runs(self, name: str, *rank: float, now: float = 0.0) -> None:
        self.ranks[name] = Rank(*rank)
        held = Allocation((Device("n", 0),))
        self.ranking.put(Job(job(name), 0, Phase.RUNNING, 0.0, 0.0, held), now)

    def queue(self) -> str:
        return " ".join(name for _, _, name in self.ranking.queue)

    def back(self, now: float) -> str:
        return " ".join(f"{name}={value:g}" for value, _, name in self.ranking.from_the_back(now))


def test_waiting_jobs_stand_by_value_and_then_by_who_came_first() -> None:
    board = Board()
    for name, value in [("a", 5.0), ("b", 1.0), ("c", 5.0), ("d", 0.0)]:
        board.waits(name, value)
    assert board.queue() == "d b a c"


def test_running_jobs_move_along_their_lines() -> None:
    board = Board()
    board.runs("grows", 0.0, 2.0)
    board.runs("stands", 10.0, 0.0)
    board.runs("falls", 30.0, -1.0)
    assert board.back(0.0) == "falls=30 stands=10 grows=0"
    assert board.back(9.0) == "falls=21 grows=18 stands=10"
    assert board.back(15.0) == "grows=30 falls=15 stands=10"


def test_a_line_that_begins_later_counts_from_then() -> None:
    board = Board()
    board.runs("a", 4.0, 1.0, now=10.0)
    assert board.back(13.0) == "a=7"


def test_at_equal_values_the_one_that_falls_fastest_is_last() -> None:
    """At 10 s all stand at 10: a moment ago the falling ones were behind, the growing in front."""
    board = Board()
    board.runs("grows", 0.0, 1.0)
    board.runs("fast", 30.0, -2.0)
    board.runs("stands", 10.0, 0.0)
    board.runs("slow", 20.0, -1.0)
    assert board.back(10.0) == "fast=10 slow=10 stands=10 grows=10"


@pytest.mark.parametrize(("slope", "back"), [(1.0, "c b a"), (0.0, "c b a"), (-1.0, "a b c")])
@pytest.mark.parametrize("beside", [False, True])
def test_of_equals_on_one_line_the_latest_comer_is_last_unless_they_fall(
    slope: float, back: str, beside: bool
) -> None:
    """A job that comes to a falling value later was ahead a moment ago; others come up behind."""
    board = Board()
    for moment, name in enumerate("abc"):
        board.runs(name, 9.0 + slope * moment, slope, now=float(moment))
    if beside:
        board.runs("other", -50.0, 7.0, now=2.0)
    found = [name for _, _, name in board.ranking.from_the_back(2.0)]
    assert " ".join(found) == (f"{back} other" if beside else back)


def test_a_rank_that_runs_out_is_named_once_at_its_moment() -> None:
    board = Board()
    board.waits("a", 1.0, 0.0, 20.0)
    board.runs("b", 1.0, 0.0, 10.0)
    assert board.ranking.next_expiry_at == 10.0
    assert board.ranking.expired(9.0) == []
    assert board.ranking.expired(25.0) == ["b", "a"]
    assert board.ranking.next_expiry_at == inf


def test_an_expiry_of_a_rank_that_was_replaced_counts_no_more() -> None:
    board = Board()
    board.runs("a", 1.0, 0.0, 10.0)
    board.runs("a", 2.0, 0.0, 30.0)
    board.runs("gone", 1.0, 0.0, 10.0)
    board.ranking.drop("gone")
    assert board.ranking.expired(10.0) == []
    assert board.ranking.expired(30.0) == ["a"]


def test_a_copy_goes_its_own_way() -> None:
    board = Board()
    board.waits("a", 1.0, 0.0, 9.0)
    board.runs("b", 1.0, 1.0)
    twin = board.ranking.copy()
    board.waits("c", 0.0)
    board.ranking.drop("b")
    assert [name for _, _, name in twin.queue] == ["a"]
    assert [name for _, _, name in twin.from_the_back(0.0)] == ["b"]
    assert twin.expired(9.0) == ["a"]
    assert board.ranking.next_expiry_at == 9.0


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 5), st.integers(-2, 2), st.booleans()),
        max_size=30,
    ),
    st.integers(0, 10),
)
def test_the_back_is_sorted_and_lists_every_job_once(
    puts: list[tuple[str, int, int, bool]], later: int
) -> None:
    board, runs = Board(), {}
    for name, value, slope, holds in puts:
        if holds:
            board.runs(name, float(value), float(slope))
        else:
            board.waits(name, float(value))
        runs[name] = holds
    back = list(board.ranking.from_the_back(float(later)))
    keys = [(-value, slope) for value, slope, _ in back]
    assert keys == sorted(keys)
    assert sorted(name for _, _, name in back) == sorted(n for n, holds in runs.items() if holds)
    queue = [name for _, _, name in board.ranking.queue]
    assert sorted(queue) == sorted(n for n, holds in runs.items() if not holds)


def test_a_waiting_jobs_slope_is_refused() -> None:
    """The queue is sorted when a job joins it, so a value that moves would be ignored."""
    board = Board()
    with pytest.raises(PolicyError):
        board.waits("a", 1.0, 0.5)
    assert board.queue() == ""


def test_a_refused_rank_leaves_the_earlier_one_in_place() -> None:
    board = Board()
    board.waits("a", 1.0)
    board.waits("b", 2.0)
    with pytest.raises(PolicyError):
        board.waits("a", 3.0, -0.5, now=5.0)
    assert board.queue() == "a b"


def _row(name: str, *, size: int = 1, at: float = 0.0, starts: int = 0) -> Job:
    return Job(job(name, size=size), 0, Phase.WAITING, at, at, starts=starts)


def test_of_equals_the_earlier_moment_is_first_and_within_one_arrivals_come_last() -> None:
    """At each moment a job arrives and then another one comes back: that one stands before it."""
    ranking = Ranking(lambda row, now: Rank(0.0))
    for moment, (arrives, returns) in enumerate([("h", "g"), ("f", "e"), ("d", "c"), ("b", "a")]):
        ranking.put(_row(arrives, at=float(moment)), float(moment))
        ranking.put(_row(returns, at=-1.0, starts=1), float(moment))
    assert [name for _, _, name in ranking.queue] == ["g", "h", "e", "f", "c", "d", "a", "b"]


def test_a_copy_queues_later_comers_behind_those_it_has() -> None:
    ranking = Ranking(lambda row, now: Rank(0.0))
    for moment, name in enumerate("edcb"):
        ranking.put(_row(name, at=-1.0), float(moment))
    twin = ranking.copy()
    twin.put(_row("a", at=-1.0), 9.0)
    assert [name for _, _, name in twin.queue] == ["e", "d", "c", "b", "a"]


def test_a_walk_looks_at_no_size_that_was_given_up() -> None:
    ranking = Ranking(lambda row, now: Rank(0.0))
    for name, size in (("a", 4), ("b", 2), ("c", 4), ("d", 8), ("e", 1), ("f", 2)):
        ranking.put(_row(name, size=size), 0.0)
    walk = ranking.waiting()
    seen = []
    for (_, _, name), size in walk:
        seen.append((name, size))
        if size >= 4:
            walk.give_up(size)
            walk.give_up(8)  # A larger one changes nothing.
    assert seen == [("a", 4), ("b", 2), ("e", 1), ("f", 2)]
    assert walk.limit == 4
