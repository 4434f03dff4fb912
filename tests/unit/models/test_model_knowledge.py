"""What more runs, and runs of others, change about what is expected of a job."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.learning.kinds import by_command, numbers
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.lengths.distribution import Span


def see(knowledge: Knowledge, owner: str, command: Sequence[str], ran_s: float) -> None:
    outcome = Outcome(1, ran_s, whole=True, numbers=numbers(command))
    knowledge.observe(by_command(owner, "", command), outcome)


def span(knowledge: Knowledge, owner: str, command: Sequence[str]) -> Span:
    kinds = by_command(owner, "", command)
    return knowledge.expect(kinds, 1, numbers=numbers(command)).span


def sleep(seconds: float) -> tuple[str, str]:
    return ("sleep", f"{seconds:g}")


@pytest.mark.parametrize("others", [(20.0, 10.0, 30.0), (2.0, 10.0, 20.0, 4.0), (3.0, 10.0)])
def test_a_run_that_was_as_expected_makes_no_range_wider(others: tuple[float, ...]) -> None:
    """1. Other sleeps show that lengths are in proportion. 2. One `sleep 5` confirms it."""
    knowledge = Knowledge()
    for seconds in others:
        see(knowledge, "ann", sleep(seconds), seconds + 0.05)
    widths = []
    for _ in range(6):
        low_s, high_s, _coverage = span(knowledge, "ann", sleep(5.0))
        assert low_s < 5.05 < high_s
        widths.append(high_s - low_s)
        see(knowledge, "ann", sleep(5.0), 5.05)
    assert widths == sorted(widths, reverse=True)


@given(
    others=st.lists(st.floats(1.0, 1000.0), min_size=3, max_size=12, unique=True),
    mine=st.floats(1.0, 1000.0),
)
def test_whatever_others_slept_a_confirming_run_makes_no_range_wider(
    others: list[float], mine: float
) -> None:
    knowledge = Knowledge()
    for seconds in others:
        see(knowledge, "ann", sleep(seconds), seconds)
    before = span(knowledge, "ann", sleep(mine))
    see(knowledge, "ann", sleep(mine), mine)
    after = span(knowledge, "ann", sleep(mine))
    assert after.high_s - after.low_s <= 1.001 * (before.high_s - before.low_s)


def test_a_run_that_was_not_as_expected_is_believed() -> None:
    knowledge = Knowledge()
    for seconds in (20.0, 10.0, 30.0):
        see(knowledge, "ann", sleep(seconds), seconds)
    for _ in range(3):
        see(knowledge, "ann", sleep(5.0), 60.0)
    low_s, high_s, _ = span(knowledge, "ann", sleep(5.0))
    assert low_s <= 60.0 <= high_s
