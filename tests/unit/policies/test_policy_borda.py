"""Borda count: what one order made of two promises."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from treadle.policies.aiturbo.borda import (
    HYSTERESIS,
    LEVELS,
    Ballot,
    level,
    raw_level,
    raw_scores,
    scores,
)

numbers = st.integers(0, 50).map(float)
values_or_none = st.none() | numbers


@st.composite
def ballots(draw, values=values_or_none, services=numbers):
    count = draw(st.integers(1, 12))
    return [Ballot(f"j{n}", draw(services), draw(values)) for n in range(count)]


def order(found):
    """Jobs from best to worst; equals by arrival."""
    return sorted(found, key=lambda job: (found[job], int(job[1:])))


@given(ballots())
def test_scores_lie_between_0_and_1(given_ballots):
    assert all(0.0 <= score <= 1.0 for score in scores(given_ballots).values())


@given(ballots(), st.data())
def test_to_improve_in_one_ballot_never_costs_a_place(given_ballots, data):
    place = data.draw(st.integers(0, len(given_ballots) - 1))
    mine = given_ballots[place]
    better = mine._replace(service=mine.service - data.draw(numbers))
    if mine.value is not None and data.draw(st.booleans()):
        better = mine._replace(value=mine.value + data.draw(numbers))
    others = [*given_ballots[:place], better, *given_ballots[place + 1 :]]
    for count in (scores, raw_scores):
        before, after = count(given_ballots), count(others)
        assert after[mine.job] <= before[mine.job]
        assert order(after).index(mine.job) <= order(before).index(mine.job)


@given(ballots(), st.data())
def test_names_do_not_count(given_ballots, data):
    names = data.draw(st.permutations([ballot.job for ballot in given_ballots]))
    renamed = [b._replace(job=name) for b, name in zip(given_ballots, names, strict=True)]
    before, after = scores(given_ballots), scores(renamed)
    assert [before[b.job] for b in given_ballots] == [after[b.job] for b in renamed]


@given(ballots(values=st.none()))
def test_if_no_job_is_predictable_it_is_least_attained_service(given_ballots):
    found = scores(given_ballots)
    for one in given_ballots:
        for other in given_ballots:
            assert (found[one.job] < found[other.job]) == (one.service < other.service)


@given(ballots(values=numbers, services=st.just(7.0)))
def test_with_all_predictable_and_equally_served_value_decides(given_ballots):
    found = scores(given_ballots)
    for one in given_ballots:
        for other in given_ballots:
            assert (found[one.job] < found[other.job]) == (one.value > other.value)


@dataclass
class Case:
    score: float
    before: int | None
    expected: int


def test_a_score_near_a_border_keeps_its_level():
    first, second = LEVELS
    for case in (
        Case(first - 0.01, None, 0),
        Case(first, None, 1),
        Case(second, None, 2),
        Case(first + HYSTERESIS / 2, 0, 0),
        Case(first + 2 * HYSTERESIS, 0, 1),
        Case(first - HYSTERESIS / 2, 1, 1),
        Case(first - 2 * HYSTERESIS, 1, 0),
        Case(1.0, 0, 2),
        Case(0.0, 2, 0),
    ):
        assert level(case.score, before=case.before) == case.expected, case


def test_the_raw_count_adds_places_and_counts_the_only_one_twice():
    found = raw_scores(
        [
            Ballot("a", 0.0, 5.0),
            Ballot("b", 1.0, 9.0),
            Ballot("c", 2.0),
            Ballot("d", 3.0, 1.0, grows=False),
        ]
    )
    assert found == {"a": 1 + 2, "b": 2 + 1, "c": 3 + 3, "d": 4 + 1}
    assert [raw_level(score) for score in (29.0, 30.0, 180.0)] == [0, 1, 2]
