"""The table of phases: every pair, by rule and as the picture in the module shows it."""

import pytest

from treadle.core import actions, events
from treadle.core.lifecycle import TRANSITIONS, Phase

CAUSES = [
    "Start",
    "Change",
    "Stop",
    "JobStarted",
    "JobPaused",
    "JobProgressed",
    "JobStopped",
    "JobFinished",
    "JobFailed",
    "JobRetried",
    "JobCancelled",
]
# The whole table as a person reads it: one row a cause, one column a phase, a dot where a report is
# stale and an order would be our mistake. Final phases have no column: nothing leads out of them.
PICTURE = """
cause          waiting     starting    running     paused      stopping    cancelling
Start          starting    .           .           .           starting    .
Change         .           starting    starting    starting    .           .
Stop           .           stopping    stopping    stopping    .           cancelling
JobStarted     .           running     .           .           .           .
JobPaused      .           paused      .           .           .           .
JobProgressed  .           .           running     .           .           .
JobStopped     .           waiting     waiting     waiting     waiting     cancelled
JobFinished    .           finished    finished    finished    finished    finished
JobFailed      .           failed      failed      failed      failed      cancelled
JobRetried     .           waiting     waiting     waiting     waiting     cancelled
JobCancelled   cancelled   cancelling  cancelling  cancelling  cancelling  .
"""


def test_the_table_is_this_one() -> None:
    live = [phase for phase in Phase if not phase.ended]
    lines = ["cause          " + "".join(f"{phase:<12}" for phase in live).rstrip()]
    for cause in CAUSES:
        cells = "".join(f"{TRANSITIONS.get((phase, cause), '.'):<12}" for phase in live)
        lines.append(f"{cause:<15}{cells}".rstrip())
    assert "\n".join(lines) == PICTURE.strip()


def test_every_cause_in_the_table_is_an_event_or_an_action() -> None:
    causes = {cause for _, cause in TRANSITIONS}
    assert causes == set(CAUSES)
    retried = {"JobRetried"}  # a JobFailed with attempts left
    for cause in causes - retried:
        assert hasattr(events, cause) or hasattr(actions, cause)


@pytest.mark.parametrize("phase", list(Phase))
def test_a_phase_is_final_if_nothing_leads_out_of_it(phase: Phase) -> None:
    assert phase.ended == (not any(start is phase for start, _ in TRANSITIONS))
