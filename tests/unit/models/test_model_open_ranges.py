"""Ranges of jobs that run are compared once each, in the order of time, and forgotten with them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.models.learning.kinds import Likeness
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.lengths.coverage import PLAIN

KINDS = Likeness(("me//@a", "me/", "*"))
STARTS = st.lists(st.tuples(st.floats(0.0, 500.0), st.floats(1.0, 5000.0)), max_size=8)


def taught() -> Knowledge:
    knowledge = Knowledge()
    for seconds in (80.0, 90.0, 100.0, 110.0, 120.0):
        knowledge.observe(KINDS, Outcome(1, seconds, whole=True))
    return knowledge


def levels(knowledge: Knowledge) -> object:
    history = knowledge.history("me/")
    return None if history is None else list(history.levels)


def compared(knowledge: Knowledge) -> int:
    history = knowledge.history("me/")
    return 0 if history is None else sum(level.compared for level in history.levels or PLAIN)


@settings(deadline=None, max_examples=30)
@given(STARTS, st.lists(st.floats(0.0, 20_000.0), max_size=20))
def test_how_often_one_looks_at_the_clock_makes_no_difference(
    starts: list[tuple[float, float]], looks: list[float]
) -> None:
    seldom, often = taught(), taught()
    for number, (at, _) in enumerate(sorted(starts)):
        for look in sorted(looks):
            if look <= at:
                often.advance(look)
        for knowledge in (seldom, often):
            knowledge.begin(f"j{number}", KINDS, 1, now=at)
    for look in sorted(looks):
        often.advance(look)
    for knowledge in (seldom, often):
        knowledge.advance(30_000.0)
    assert levels(seldom) == levels(often)


def test_a_range_is_compared_once_however_often_its_job_pauses() -> None:
    knowledge = taught()
    knowledge.begin("j", KINDS, 1, now=0.0)
    knowledge.advance(500.0)
    before = compared(knowledge)
    assert before == 2, "at its start, and after a minute"
    for turn in range(5):
        knowledge.pause("j", now=500.0 + turn)
        knowledge.begin("j", KINDS, 1, now=500.0 + turn, age_s=500.0)
        knowledge.advance(500.5 + turn)
    assert compared(knowledge) == before


def test_a_job_that_is_forgotten_counts_neither_way() -> None:
    knowledge = taught()
    knowledge.begin("j", KINDS, 1, now=0.0)
    knowledge.forget("j")
    knowledge.advance(50_000.0)
    assert compared(knowledge) == 0
    knowledge.begin("k", KINDS, 1, now=50_000.0)
    knowledge.forget_all()
    knowledge.advance(100_000.0)
    assert compared(knowledge) == 0


def test_what_is_expected_does_not_depend_on_what_was_asked_before() -> None:
    """Two commands that differ in a path: the first was measured at two sizes."""

    kinds = ("me//@a", "me/", "*")
    ours, other = (Likeness(kinds, (("--data", path),)) for path in ("/x/a", "/x/b"))

    def made() -> Knowledge:
        knowledge = Knowledge()
        for size, seconds in ((1, 60.0), (4, 20.0)):
            knowledge.observe(ours, Outcome(size, seconds, whole=True))
        return knowledge

    first, second = made(), made()
    second.expect(other, 2)
    assert first.expect(ours, 2).length.mean() == second.expect(ours, 2).length.mean()
