"""The one learner: it is deterministic, can be stored, and knows what it does not know."""

from math import inf

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.core.attempt import LastProgress
from treadle.core.sighting import Load, Sighting
from treadle.models.learning.expectation import remaining
from treadle.models.learning.kind_history import History
from treadle.models.learning.kinds import Source, by_command
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome

COMMANDS = (
    ("python", "train.py", "--epochs", "1"),
    ("python", "train.py", "--epochs", "100"),
    ("python", "train.py", "--fast"),
    ("python", "test.py"),
)
_outcomes = st.lists(
    st.tuples(
        st.sampled_from(("me", "you")),
        st.sampled_from(COMMANDS),
        st.sampled_from((1, 2, 4)),
        st.floats(0.1, 1e5),
        st.sampled_from(("whole", "cut off", "shared")),
    ),
    max_size=30,
)
Seen = tuple[str, tuple[str, ...], int, float, str]


def teach(knowledge: Knowledge, outcomes: list[Seen]) -> Knowledge:
    for owner, command, size, ran_s, how in outcomes:
        outcome = Outcome(
            size, ran_s, whole=how != "cut off", cut_off=how == "cut off", shared=how == "shared"
        )
        knowledge.observe(by_command(owner, "", command), outcome)
    return knowledge


def answers(knowledge: Knowledge) -> list[object]:
    return [
        knowledge.expect(by_command(owner, "", command), size)
        for owner in ("me", "you", "they")
        for command in COMMANDS
        for size in (1, 2, 8)
    ]


@settings(max_examples=12, deadline=None)  # The first fit of a curve takes long: numpy loads.
@given(_outcomes)
def test_the_same_outcomes_teach_the_same(outcomes: list[Seen]) -> None:
    first, second = (teach(Knowledge(), outcomes) for _ in range(2))
    assert answers(first) == answers(second)


@settings(max_examples=12, deadline=None)
@given(_outcomes, _outcomes)
def test_what_was_stored_and_read_back_learns_on_as_if_it_had_never_stopped(
    outcomes: list[Seen], later: list[Seen]
) -> None:
    first = teach(Knowledge(), outcomes)
    stored = [(kind, msgspec.json.encode(history)) for kind, history in first.changes()]
    second = Knowledge((kind, msgspec.json.decode(body, type=History)) for kind, body in stored)
    assert answers(teach(second, later)) == answers(teach(first, later))


@settings(max_examples=30, deadline=None)
@given(_outcomes)
def test_a_range_is_a_range_and_unknown_is_said(outcomes: list[Seen]) -> None:
    knowledge = teach(Knowledge(), outcomes)
    ended = any(how == "whole" for *_, how in outcomes)
    for command in COMMANDS:
        found = knowledge.expect(by_command("me", "", command), 1)
        assert found.known == ended
        assert (found.source is Source.NOTHING) == (not ended)
        for age_s in (0.0, 100.0, 1e6):
            left = remaining(found, age_s)
            assert 0 <= left.span.low_s <= left.span.high_s < inf
            assert left.known == ended


def run(knowledge: Knowledge, command: tuple[str, ...], size: int, ran_s: float) -> None:
    done = Outcome(size, ran_s, whole=True)
    knowledge.observe(by_command("me", "", command), done)


def test_u20_other_arguments_are_no_speed_up() -> None:
    """`sleep 10.5` on one device and `sleep 4` on two: a length each, and no curve of both."""
    knowledge = Knowledge()
    run(knowledge, ("sleep", "10.5"), 1, 10.5)
    run(knowledge, ("sleep", "4"), 2, 4.0)
    command = ("sleep", "7")
    found = knowledge.expect(by_command("me", "", command), 1, sizes=(1, 2))
    assert found.source is Source.ALIKE
    assert found.profile.curve == ()
    assert found.length.quantile(0.5) == pytest.approx(7.0, rel=0.15)


def test_a_number_that_says_how_much_work_there_is_scales_the_length() -> None:
    knowledge = Knowledge()
    for epochs, ran_s in ((1, 11.0), (2, 19.0), (10, 102.0)):
        run(knowledge, ("python", "train.py", "--epochs", str(epochs), "--seed", "3"), 1, ran_s)
    command = ("python", "train.py", "--epochs", "100", "--seed", "3")
    found = knowledge.expect(by_command("me", "", command), 1)
    assert found.length.quantile(0.5) == pytest.approx(1000.0, rel=0.1)


def test_u2_a_size_that_was_not_seen_is_expected_to_be_faster() -> None:
    knowledge = Knowledge()
    command = ("python", "ddp.py")
    run(knowledge, command, 1, 100.0)
    run(knowledge, command, 2, 52.0)
    found = knowledge.expect(by_command("me", "", command), 1, sizes=(1, 2, 4, 8))
    curve = dict(found.profile.curve)
    assert curve[8] < curve[4] < curve[2] < curve[1]


def test_a_job_that_does_not_scale_is_left_at_its_size_once_that_was_seen() -> None:
    knowledge = Knowledge()
    command = ("python", "flat.py")
    run(knowledge, command, 1, 100.0)
    run(knowledge, command, 2, 100.0)
    curve = dict(
        knowledge.expect(by_command("me", "", command), 1, sizes=(1, 2, 4, 8)).profile.curve
    )
    assert curve[8] == pytest.approx(100.0, rel=0.05)


def test_steps_and_their_speed_are_learned_apart() -> None:
    knowledge = Knowledge()
    kinds = by_command("me", "", COMMANDS[0])
    for size, step_s in ((1, 0.1), (2, 0.06)):
        stopped = Outcome(size, 30.0, cut_off=True, total=5000.0, step_s=step_s)
        knowledge.observe(kinds, stopped)
    found = knowledge.expect(kinds, 2)
    assert (found.work, found.step_s) == (5000.0, 0.06)
    assert found.length.quantile(0.5) == pytest.approx(300.0)


def test_what_it_needs_is_kept_with_its_highest_peak_and_told_only_of_its_like() -> None:
    knowledge = Knowledge()
    kinds = by_command("me", "", COMMANDS[0])
    for peak_gib in (10.0, 30.0, 20.0):
        seen = Sighting(
            alone_s=60.0,
            load=Load(busy=0.4),
            device_memory_peak_gib=peak_gib,
            restart_s=8.0,
            resize_s=0.25,
        )
        knowledge.observe(kinds, Outcome(1, 60.0, whole=True, seen=seen))
    profile = knowledge.expect(kinds, 1).profile
    assert (profile.memory_gib, profile.busy) == (30.0, 0.4)
    assert (profile.restart_s, profile.resize_s) == (8.0, 0.25)
    stranger = knowledge.expect(by_command("me", "", ("other",)), 1).profile
    assert (stranger.memory_gib, stranger.busy, stranger.restart_s) == (0.0, None, 0.0)


def test_steps_left_over_the_measured_speed_are_better_than_jobs_like_it() -> None:
    found = Knowledge().expect(by_command("me", "", COMMANDS[0]), 1)
    said = LastProgress(400.0, 1000.0, 2.0, measured_s=100.0)
    left = remaining(found, 200.0, said=said)
    assert (left.mean_s, left.known, left.because) == (300.0, True, "from its steps")
    assert tuple(left.span) == pytest.approx((300.0 / 1.05, 315.0, 0.8))
    assert remaining(found, 200.0).because == "nothing has run here yet"


def test_one_user_with_many_jobs_does_not_define_what_all_expect() -> None:
    knowledge = Knowledge()
    for number in range(300):
        owner, ran_s = ("heavy", 10.0) if number % 10 else (f"user{number}", 5000.0)
        done = Outcome(1, ran_s, whole=True)
        knowledge.observe(by_command(owner, "", ("job",)), done)
    stranger = knowledge.expect(by_command("stranger", "", ("job",)), 1)
    assert stranger.source is Source.EVERYTHING
    assert stranger.length.survival(100.0) > 0.2  # Of all jobs, one in ten is so long.


def test_a_job_that_outlives_its_range_counts_as_missed_at_once() -> None:
    knowledge = Knowledge()
    kinds = by_command("me", "", COMMANDS[3])
    for _ in range(30):
        knowledge.observe(kinds, Outcome(1, 100.0, whole=True))
    before = knowledge.expect(kinds, 1).levels[0]
    knowledge.begin("late", kinds, 1, now=1000.0)
    high_s = knowledge.expect(kinds, 1).span.high_s
    assert not knowledge.advance(1050.0)
    assert knowledge.advance(1000.0 + 1.01 * high_s)
    after = knowledge.expect(kinds, 1).levels[0]
    assert after.share > before.share
    assert after.compared == before.compared + 1


def test_a_job_that_is_paused_does_not_outlive_its_range() -> None:
    knowledge = Knowledge()
    kinds = by_command("me", "", COMMANDS[3])
    for _ in range(30):
        knowledge.observe(kinds, Outcome(1, 100.0, whole=True))
    knowledge.begin("paused", kinds, 1, now=0.0)
    knowledge.pause("paused", now=50.0)
    assert not knowledge.advance(10_000.0)
    knowledge.begin("paused", kinds, 1, now=10_000.0, age_s=50.0)
    assert not knowledge.advance(10_040.0)
    assert knowledge.advance(11_000.0)


def test_what_says_nothing_is_not_heeded_for_long() -> None:
    """Lengths go by the size of a job, and not by its user: the learner finds out."""
    knowledge = Knowledge()
    for number in range(600):
        size = 1 if (number * 0.6180339887498949) % 1.0 < 0.5 else 8
        kinds = by_command(f"user{number % 7}", "", (f"script{number}",))
        knowledge.observe(kinds, Outcome(size, 10.0 * size**3, whole=True))
    for size in (1, 8):
        found = knowledge.expect(by_command("user3", "", ("other",)), size)
        assert found.span.low_s <= 10.0 * size**3 <= found.span.high_s
        assert found.span.high_s <= 3 * found.span.low_s
