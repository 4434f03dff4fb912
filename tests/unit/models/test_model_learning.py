"""The learner's parts: what counts, which jobs are alike, how old values fade, what answers."""

from math import inf, nan

import pytest

from treadle.models.learning.kinds import Likeness
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.learning.speeds import REPEATS_MAX, Speeds

# -- what counts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "useless",
    [Outcome(2, 0.0, step_s=5.0, shared=True), Outcome(2, 0.0)]
    + [Outcome(2, 0.0, step_s=seconds) for seconds in (0.0, -1.0, inf, nan)],
)
def test_what_was_seen_on_shared_devices_or_is_no_time_does_not_count(useless: Outcome) -> None:
    knowledge = Knowledge()
    knowledge.observe(Likeness(("job a",)), useless)
    assert knowledge.pace(Likeness(("job a",))) is None


# -- kinds ----------------------------------------------------------------------------------------


# -- repeats --------------------------------------------------------------------------------------


def test_one_odd_run_does_not_move_a_median_and_old_ones_are_forgotten() -> None:
    speeds = Speeds()
    for seconds in (10.0, 11.0, 900.0, 12.0):
        speeds.add(2, seconds)
    assert speeds.seconds(2) == 11.5
    for _ in range(REPEATS_MAX):
        speeds.add(2, 20.0)
    assert speeds.by_size == {2: [20.0] * REPEATS_MAX}


# -- the learner ----------------------------------------------------------------------------------


def paced(seconds: float) -> Outcome:
    return Outcome(2, 0.0, step_s=seconds)


def test_the_closest_kind_that_was_seen_answers() -> None:
    knowledge = Knowledge()
    knowledge.observe(Likeness(("job a1", "model a")), paced(5.0))
    knowledge.observe(Likeness(("job a2", "model a")), paced(9.0))
    asked = (("job a1", "model a"), ("job a3", "model a"), ("job b1", "model b"))
    found = [knowledge.pace(Likeness(kinds)) for kinds in asked]
    assert [pace and pace.curve.seconds(2) for pace in found] == [5.0, 7.0, None]
