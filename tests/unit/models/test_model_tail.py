"""What follows the last step of a job is part of its length, also where only steps are known."""

import pytest

from treadle.core.sighting import Sighting
from treadle.models.learning.kinds import by_command
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome

KINDS = by_command("ann", "", ("python", "train.py"))


def in_company(tail_s: float | None, *, whole: bool = True) -> Outcome:
    """A run of 100 steps of 0.16 s, and something after them, most of it in company."""
    seen = Sighting(alone_s=8.0, shared_s=40.0, step_s=0.16, tail_s=tail_s)
    return Outcome(
        1, 48.0, whole=whole, cut_off=not whole, total=100.0, step_s=0.16, shared=True, seen=seen
    )


def test_runs_in_company_tell_how_long_it_goes_on_after_its_steps() -> None:
    knowledge = Knowledge()
    for _ in range(2):
        # Of its speed alone it said something before company came.
        knowledge.observe(KINDS, Outcome(1, 0.0, total=100.0, step_s=0.16))
        knowledge.observe(KINDS, in_company(12.0))
    low_s, high_s, _ = knowledge.expect(KINDS, 1).span
    assert low_s < 28.0 < high_s


@pytest.mark.parametrize(("tail_s", "whole"), [(None, True), (12.0, False)])
def test_what_a_run_did_not_show_to_its_end_is_not_added(
    tail_s: float | None, *, whole: bool
) -> None:
    knowledge = Knowledge()
    knowledge.observe(KINDS, Outcome(1, 0.0, total=100.0, step_s=0.16))
    before = knowledge.expect(KINDS, 1).span
    knowledge.observe(KINDS, in_company(tail_s, whole=whole))
    assert knowledge.expect(KINDS, 1).span == before
