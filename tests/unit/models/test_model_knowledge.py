"""What more runs, and runs of others, change about what is expected of a job."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.models.learning import knowledge as knowledge_module
from treadle.models.learning.kinds import Source, by_command
from treadle.models.learning.knowledge import COMPARED_MIN, Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.lengths.distribution import Span


def see(knowledge: Knowledge, owner: str, command: Sequence[str], ran_s: float) -> None:
    outcome = Outcome(1, ran_s, whole=True)
    knowledge.observe(by_command(owner, "", command), outcome)


def span(knowledge: Knowledge, owner: str, command: Sequence[str]) -> Span:
    kinds = by_command(owner, "", command)
    return knowledge.expect(kinds, 1).span


def sleep(seconds: float) -> tuple[str, str]:
    return ("sleep", f"{seconds:g}")


@settings(deadline=None, max_examples=25)
@given(
    others=st.lists(
        st.tuples(st.sampled_from("ab"), st.floats(1.0, 1000.0), st.floats(0.5, 2.0)), max_size=12
    ),
    mine=st.floats(5.0, 500.0),
    jitter=st.lists(st.floats(0.9, 1.1), min_size=2, max_size=25),
)
def test_a_run_that_was_as_expected_makes_a_range_hardly_wider(
    others: list[tuple[str, float, float]], mine: float, jitter: list[float]
) -> None:
    """Whatever ran before, live ranges included: at most four times, after farther jobs alone."""
    knowledge = Knowledge()
    for name, seconds, factor in others:
        see(knowledge, "ann", (f"./{name}.sh", f"{seconds:g}"), seconds * factor)
    command, before, now = ("./a.sh", f"{mine:g}"), None, 0.0
    kinds = by_command("ann", "", command)
    for turn, factor in enumerate(jitter):
        expected = knowledge.expect(kinds, 1)
        width_s = expected.span.high_s - expected.span.low_s
        assert before is None or width_s <= before * 4.0
        ran_s = mine * factor
        held = expected.known and expected.span.low_s <= ran_s <= expected.span.high_s
        knowledge.begin(str(turn), kinds, 1, now=now)
        knowledge.advance(now := now + ran_s)
        outcome = Outcome(1, ran_s, whole=True)
        knowledge.observe(kinds, outcome, name=str(turn))
        before = width_s if held else None


def test_a_run_on_four_devices_says_nothing_of_how_much_slower_one_would_be() -> None:
    """Sleeps ran on one device, which shows the proportion; then one ran on four and gained none.

    One size shows no gain, so the runs on one device may as well be no faster on four.
    """
    knowledge, command = Knowledge(), sleep(10.0)
    kinds = by_command("ann", "", command)
    for turn, seconds in enumerate((4.0, 8.0, 8.0, 16.0, 24.0, 8.0, 4.0, 16.0) * 2):
        see(knowledge, "ann", sleep(seconds), seconds * (1.0 + 0.01 * (turn * 7 % 10)))
    knowledge.observe(kinds, Outcome(4, 10.4, whole=True))
    low_s, high_s, _ = knowledge.expect(kinds, 4).span
    assert low_s <= 10.4 <= high_s


def seeds_seen(option: str) -> Knowledge:
    """Nine seeds took 90 to 110 s each, among other jobs of all lengths."""
    knowledge = Knowledge()
    for seed in range(9):
        see(knowledge, "ann", seeded(seed, option), 90.0 + 20.0 * (seed * 5 % 9) / 8.0)
        see(knowledge, "ann", (f"./{seed}.sh",), 5.0 * 3.0**seed)
    return knowledge


def seeded(seed: int, option: str = "--seed", epochs: int = 10) -> tuple[str, ...]:
    return ("python", "train.py", "--epochs", str(epochs), option, str(seed))


@pytest.mark.parametrize("option", ["--seed", "--port"])
def test_a_number_that_runs_did_not_follow_leaves_a_new_one_no_doubt(option: str) -> None:
    low_s, high_s, _ = span(seeds_seen(option), "ann", seeded(77, option))
    assert 70.0 < low_s < 95.0
    assert 105.0 < high_s < 140.0


@pytest.mark.parametrize("others", [0, 3, 20])
def test_the_mean_by_the_steps_of_a_run_is_no_matter_of_jobs_unlike_it(others: int) -> None:
    """A run of 100 s says its steps, on two devices; so many other jobs took a day each.

    Gangs wait for their turn by the mean, and people are shown the range.
    """
    knowledge = Knowledge()
    for _ in range(others):
        knowledge.observe(by_command("ann", "", ("./day.sh",)), Outcome(2, 86_400.0, whole=True))
    running, other = (("python", "train.py", "--epochs", each) for each in ("10", "20"))
    seen = Outcome(2, 8.0, total=1000.0, step_s=0.1)
    knowledge.observe(by_command("ann", "", running), seen)
    expected = knowledge.expect(by_command("ann", "", other), 2)
    assert expected.span.high_s < 300.0
    assert 100.0 < expected.length.mean() < 300.0


# -- what one user may change of what another is told ---------------------------------------------


def likely_shorter(knowledge: Knowledge, owner: str, than_s: float) -> float:
    """The probability that a job of this user, unlike any before, ends within so many seconds."""
    expected = knowledge.expect(by_command(owner, "", ("./new.sh",)), 1)
    return 1.0 - expected.length.survival(than_s)


def users_of_hours(count: int) -> Knowledge:
    """Users with a few jobs of some hours each."""
    knowledge = Knowledge()
    for turn in range(6):
        for number in range(count):
            see(knowledge, f"user{number}", ("python", f"{number}.py"), 9000.0 + 500.0 * turn)
    return knowledge


@pytest.mark.parametrize("burst", [20, 100])
def test_a_burst_of_one_user_counts_for_a_newcomer_as_much_as_one_user(burst: int) -> None:
    """Four users have jobs of hours; then one floods the machine with jobs of a second."""
    knowledge = users_of_hours(4)
    assert likely_shorter(knowledge, "newcomer", 60.0) < 0.05
    for number in range(burst):
        see(knowledge, "flood", ("./flood.sh", str(number)), 1.0 + 0.001 * (number % 7))
    assert likely_shorter(knowledge, "newcomer", 60.0) < 0.3


def test_a_burst_does_not_change_how_sure_a_newcomer_is_told_to_be() -> None:
    """Ranges of the flood all miss; only its first ones count for everybody."""
    knowledge, now = users_of_hours(4), 0.0
    kinds = by_command("newcomer", "", ("./new.sh",))
    for number in range(100):
        command = ("./flood.sh", str(number))
        flood = by_command("flood", "", command)
        ran_s = 1.0 if number % 2 else 1e5
        knowledge.begin(str(number), flood, 1, now=now)
        now += ran_s
        knowledge.observe(flood, Outcome(1, ran_s, whole=True), name=str(number))
    compared = knowledge.expect(kinds, 1).levels[0].compared
    assert 0 < compared <= COMPARED_MIN + 1  # The first is made before the user is known.


def test_one_owner_does_not_displace_the_kinds_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowledge_module, "KINDS_MAX", 60)
    knowledge = Knowledge()
    mine = ("python", "train.py")
    for _ in range(3):
        see(knowledge, "ann", mine, 100.0)
    for number in range(200):
        see(knowledge, "flood", (f"./{number}.sh",), 1.0)
    assert knowledge.expect(by_command("ann", "", mine), 1).source is Source.SAME_COMMAND
    newest, oldest = (by_command("flood", "", (f"./{n}.sh",)) for n in (199, 0))
    assert knowledge.expect(newest, 1).source is Source.SAME_COMMAND
    assert knowledge.expect(oldest, 1).source is Source.SAME_USER


def train(batch: int, steps: int) -> tuple[str, ...]:
    return ("python", "tr.py", "--batch", f"{batch}", "--steps", f"{steps}")


def see_steps(knowledge: Knowledge, batch: int, steps: int) -> None:
    command = train(batch, steps)
    outcome = Outcome(1, 0.2 * steps, whole=True, step_s=0.2, total=steps)
    knowledge.observe(by_command("ann", "", command), outcome)


def test_two_numbers_that_may_both_be_the_steps_are_both_believed_until_a_run_decides() -> None:
    """1. `--batch 64 --steps 64` took 64 steps. 2. The next run shows which number counts."""
    knowledge = Knowledge()
    see_steps(knowledge, 64, 64)
    low_s, high_s, _ = span(knowledge, "ann", train(4, 6400))
    assert low_s <= 0.8
    assert high_s >= 1280.0
    job = by_command("ann", "", train(4, 6400))
    assert knowledge.expect(job, 1).work is None
    see_steps(knowledge, 8, 32)
    assert knowledge.expect(job, 1).work == 6400.0
    low_s, high_s, _ = span(knowledge, "ann", train(4, 6400))
    assert 500.0 < low_s < 1280.0 < high_s < 2600.0


@pytest.mark.parametrize("runs", [1, 2])
def test_a_few_runs_of_the_same_script_with_other_words_leave_a_wide_range(runs: int) -> None:
    """`third.py --quick` says little of `third.py --slow`."""
    knowledge = Knowledge()
    for _ in range(runs):
        see(knowledge, "ann", ("python", "third.py", "--quick"), 5.0)
    low_s, high_s, _ = span(knowledge, "ann", ("python", "third.py", "--slow"))
    assert low_s <= 2.5
    assert high_s >= 10.0
    low_s, high_s, _ = span(knowledge, "ann", ("python", "third.py", "--quick"))
    assert high_s < 20.0


@pytest.mark.parametrize("runs", [1, 10])
@pytest.mark.parametrize(("total", "step_s"), [(10.0, 0.6), (None, None)])
def test_a_length_may_follow_a_number_that_was_the_same_in_all_runs(
    runs: int, total: float | None, step_s: float | None
) -> None:
    """Runs of one epoch had ten steps in 6 s, or said nothing. A hundred may take ten minutes."""
    knowledge, ran = Knowledge(), ("python", "train.py", "--epochs", "1")
    for _ in range(runs):
        outcome = Outcome(1, 6.0, whole=True, total=total, step_s=step_s)
        knowledge.observe(by_command("ann", "", ran), outcome)
    new = ("python", "train.py", "--epochs", "100")
    span = knowledge.expect(by_command("ann", "", new), 1).span
    assert span.low_s <= 6.0
    assert span.high_s >= 600.0
    same = knowledge.expect(by_command("ann", "", ran), 1).span
    assert same.high_s < 60.0


def test_a_burst_of_others_changes_nothing_of_a_command_that_ran_often() -> None:
    """Its 60 runs took ten seconds or an hour; then 60 jobs of another user take half a second."""
    random, knowledge = Random(3), Knowledge()
    runs = [random.choice((10.0, 10.0, 3600.0)) * random.uniform(0.97, 1.03) for _ in range(60)]
    own = by_command("ann", "", ("python", "train.py"))
    for number, seconds in enumerate(runs):
        knowledge.begin(str(number), own, 1, now=float(number))
        knowledge.observe(own, Outcome(1, seconds, whole=True), name=str(number))
    before = knowledge.expect(own, 1).span
    for number in range(60):
        see(knowledge, "bob", ("python", f"other{number}.py"), 0.5)
    assert knowledge.expect(own, 1).span == before
