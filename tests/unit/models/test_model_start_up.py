"""What a job does before its first step is part of its length, also where only steps are known."""

from treadle.core.sighting import Sighting
from treadle.models.learning.kinds import by_command
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome

LONG, SHORT = ("python", "gang.py", "30"), ("python", "gang.py", "10")


def run(ran_s: float, *, first_step_s: float | None, step_s: float = 0.5) -> Outcome:
    """A whole run of 30 steps."""
    seen = Sighting(alone_s=ran_s, first_step_s=first_step_s)
    return Outcome(1, ran_s, whole=True, total=30.0, step_s=step_s, seen=seen)


def span_of_short(*outcomes: Outcome) -> tuple[float, float]:
    """What is expected of ten steps after such runs."""
    knowledge = Knowledge()
    for outcome in outcomes:
        knowledge.observe(by_command("ann", "", LONG), outcome)
    found = knowledge.expect(by_command("ann", "", SHORT), 1).span
    return found.low_s, found.high_s


def test_a_job_with_fewer_steps_takes_as_long_to_start() -> None:
    """A run took 101 s: 86 s to import its libraries, then 30 steps of half a second."""
    low_s, high_s = span_of_short(run(101.0, first_step_s=86.5))
    assert low_s < 86.0 + 5.0 < high_s
    assert high_s < 2.0 * 91.0


def test_steps_before_the_first_that_is_said_are_counted_once() -> None:
    """1. It says every tenth step. 2. So the first is heard ten steps late. 3. No start-up."""
    low_s, high_s = span_of_short(run(30.0, first_step_s=10.0, step_s=1.0))
    assert low_s < 10.0 < high_s
    assert high_s < 15.0


def test_a_job_that_still_runs_tells_how_long_it_took_to_start() -> None:
    pace = Outcome(1, 0.0, total=30.0, step_s=0.5)
    sight = Outcome(1, 0.0, seen=Sighting(alone_s=20.0, first_step_s=60.5))
    low_s, high_s = span_of_short(pace, sight)
    assert low_s < 60.0 + 5.0 < high_s


def test_one_step_was_done_when_the_first_is_said() -> None:
    """Three epochs of a minute, which it says at their ends: it starts at once."""
    pace = Outcome(1, 0.0, total=30.0, step_s=60.0)
    sight = Outcome(1, 0.0, seen=Sighting(alone_s=20.0, first_step_s=60.0))
    low_s, high_s = span_of_short(pace, sight)
    assert low_s < 600.0 < high_s
    assert (low_s, high_s) == span_of_short(pace)
