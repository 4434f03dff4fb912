"""Commands of which every run was cut off, by a time limit or by their user."""

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.models.learning.expectation import Expectation
from treadle.models.learning.kinds import by_command
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome

MINE = by_command("ann", "", ("python", "train.py"))
OTHER = by_command("ann", "", ("./other.sh",))


def after(cut_s: list[float], others_s: list[float], *, size: int = 1) -> Expectation:
    """What is expected of a command after such runs of it, on so many devices, and of others."""
    knowledge = Knowledge()
    for seconds in others_s:
        knowledge.observe(OTHER, Outcome(1, seconds, whole=True))
    for seconds in cut_s:
        knowledge.observe(MINE, Outcome(size, seconds, cut_off=True))
    return knowledge.expect(MINE, 1)


def test_an_estimate_is_not_below_what_all_runs_of_the_command_have_outlived() -> None:
    expected = after([30.0, 31.0, 32.0], [10.0 + n for n in range(12)])
    assert expected.known
    assert expected.span.low_s >= 32.0
    assert expected.span.high_s > 64.0


def test_a_whole_run_counts_again_with_those_that_were_cut_off() -> None:
    knowledge = Knowledge()
    knowledge.observe(MINE, Outcome(1, 30.0, cut_off=True))
    for _ in range(4):
        knowledge.observe(MINE, Outcome(1, 20.0, whole=True))
    low_s, high_s, _ = knowledge.expect(MINE, 1).span
    assert low_s <= 20.0 <= high_s


@settings(max_examples=40, deadline=None)
@given(
    cut_s=st.lists(st.floats(0.1, 1e5), min_size=1, max_size=5),
    others_s=st.lists(st.floats(0.1, 1e5), min_size=1, max_size=15),
)
def test_whatever_others_did_the_lower_end_is_beyond_the_runs(
    cut_s: list[float], others_s: list[float]
) -> None:
    expected = after(cut_s, others_s)
    assert expected.span.low_s >= max(cut_s) * 0.999
    assert expected.length.survival(max(cut_s)) > 0.999
