"""The learner's parts: what counts, which jobs are alike, how old values fade, what answers."""

from dataclasses import replace
from math import inf, nan

import pytest

from treadle.core.job import JobSpec, Profile
from treadle.models.learning.averaging import Newest, Smoothed
from treadle.models.learning.curves import InterpolatedCurve
from treadle.models.learning.kinds import (
    Source,
    by_command,
    by_job,
    by_model,
    closeness,
    numbers,
)
from treadle.models.learning.learner import Learner
from treadle.models.learning.observations import Observation, of_end, of_report
from treadle.models.learning.rules import LIVE, SIMULATED, Rules

# -- observations ---------------------------------------------------------------------------------


def end(**said: object) -> Observation | None:
    known = {"whole": False, "ran_s": 30.0, "share_per_s": 0.01, "measured_s": 20.0, **said}
    return of_end(2, **known)  # type: ignore[arg-type]


def test_an_attempt_that_did_the_whole_job_says_how_long_it_takes() -> None:
    assert end(whole=True) == Observation(2, 30.0)
    assert end(whole=True, ran_s=0.0) == Observation(2, 0.01)


def test_any_other_attempt_says_it_by_its_progress_if_that_was_measured_for_long_enough() -> None:
    assert end() == Observation(2, 100.0)
    assert end(measured_s=5.0) == Observation(2, 100.0)
    assert end(measured_s=4.9) is None
    assert end(share_per_s=None) is None


@pytest.mark.parametrize("speed", [0.0, -1.0, nan])
def test_a_job_that_stands_still_says_nothing(speed: float) -> None:
    assert of_report(2, speed) is None


@pytest.mark.parametrize("whole", [False, True])
def test_reports_and_ends_say_whether_the_devices_were_shared(*, whole: bool) -> None:
    assert of_report(2, 0.1, shared=True) == Observation(2, 10.0, shared=True)
    seen = end(whole=whole, shared=True)
    assert seen is not None
    assert seen.shared


@pytest.mark.parametrize("rules", [SIMULATED, LIVE])
@pytest.mark.parametrize(
    "useless",
    [Observation(2, 5.0, shared=True), *(Observation(2, s) for s in (0.0, -1.0, inf, nan))],
)
def test_what_was_seen_on_shared_devices_or_is_no_time_does_not_count(
    useless: Observation, rules: Rules
) -> None:
    learner = Learner(rules)
    learner.observe(("a",), useless)
    assert learner.closest(("a",)) is None


# -- kinds ----------------------------------------------------------------------------------------


def test_the_same_command_is_closest_and_the_same_program_is_next() -> None:
    first = by_command("me", "m", ("python3", "-u", "/home/me/train.py", "--rate", "1"))
    other = by_command("me", "m", ("python3", "-u", "train.py", "--rate", "2"))
    assert first[0] != other[0]
    assert first[1:] == other[1:]
    assert first[2:] == ("me/m/train.py", "me/", "*")


def test_another_user_or_model_is_another_kind() -> None:
    mine = by_command("me", "bert", ("train",))
    for theirs in (by_command("you", "bert", ("train",)), by_command("me", "t5", ("train",))):
        assert not set(mine[:3]) & set(theirs[:3])


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (("env", "LR=1", "python", "a.py"), "a.py"),
        (("torchrun", "--nproc=2", "b.py"), "b.py"),
        (("/opt/bin/solver", "in.txt"), "solver"),
        (("bash",), "bash"),
        (("-c",), ""),
    ],
)
def test_the_program_is_the_script_behind_its_interpreters(
    command: tuple[str, ...], program: str
) -> None:
    assert by_command("me", "m", command)[2] == f"me/m/{program}"


def test_numbers_and_folders_make_a_command_alike_and_words_do_not() -> None:
    kinds = [
        by_command("me", "", ("python", script, "--epochs", epochs, "--data", data, *more))
        for script, epochs, data, more in (
            ("/a/train.py", "1", "/x/one.npz", ()),
            ("/b/train.py", "100", "/y/two.npz", ()),
            ("/a/train.py", "1", "/x/one.npz", ("--adam",)),
            ("/a/other.py", "1", "/x/one.npz", ()),
        )
    ]
    assert kinds[0][0] != kinds[1][0]
    assert kinds[0][1] == kinds[1][1]
    assert kinds[0][1] not in (kinds[2][1], kinds[3][1])
    assert kinds[0][2] == kinds[2][2] != kinds[3][2]
    assert [closeness(kind) for kind in kinds[0]] == list(Source)[:5]


def test_the_numbers_of_a_command_are_those_of_its_words_and_not_of_its_paths() -> None:
    command = ("python", "/v2/train.py", "--epochs", "3", "--lr=1e-3", "resnet50", "-n", "-4")
    assert numbers(command) == (3.0, 0.001, -4.0)


def test_a_job_is_never_mistaken_for_a_model() -> None:
    named = JobSpec("a", 1.0, profile=Profile(model="resnet"))
    (kind,) = by_model(named)
    assert by_job(JobSpec(kind, 1.0)) != (kind,)


# -- repeats --------------------------------------------------------------------------------------


def test_one_odd_run_does_not_move_a_median_and_old_ones_are_forgotten() -> None:
    newest = Newest(count=4)
    known: list[float] = []
    for seconds in (10.0, 11.0, 900.0, 12.0):
        known = newest.with_new(known, seconds)
    assert newest.estimate(known) == 11.5
    for seconds in (20.0, 20.0, 20.0):
        known = newest.with_new(known, seconds)
    assert (known, newest.estimate(known)) == ([12.0, 20.0, 20.0, 20.0], 20.0)
    assert newest.estimate(known[:3]) == 20.0


def test_a_value_that_is_repeated_says_nothing_new_to_smoothing() -> None:
    known = [2.0]
    assert Smoothed().with_new(known, 2.0) is known
    assert Smoothed().with_new(known, 2.2) == [2.1]
    assert Smoothed().with_new(known, 2.4) == [2.4]
    assert Smoothed().estimate([5.0, 2.0]) == 2.0, "lengths of the live rules can be read, too"


# -- the live curve -------------------------------------------------------------------------------


def test_live_speeds_lie_on_lines_between_measured_sizes_and_are_level_beyond() -> None:
    curve = InterpolatedCurve.through(((2, 60.0), (4, 40.0)))
    assert [curve.seconds(size, 2) for size in (1, 2, 3, 4, 8)] == [60.0, 60.0, 50.0, 40.0, 40.0]
    assert curve.carried((1, 2, 3)) == ((2, 60.0), (4, 40.0))


def test_a_size_that_is_asked_for_and_was_not_measured_is_continued_from_the_nearest() -> None:
    curve = InterpolatedCurve.through(((2, 60.0), (4, 40.0)))
    assert curve.seconds(8, 8) == pytest.approx(40.0 * (0.9 / 8 + 0.1) / (0.9 / 4 + 0.1))
    assert curve.seconds(3, 3) == pytest.approx(60.0 * (0.9 / 3 + 0.1) / (0.9 / 2 + 0.1))


# -- the learner ----------------------------------------------------------------------------------


def test_the_closest_kind_that_was_seen_answers() -> None:
    learner = Learner(LIVE)
    learner.observe(("a1", "a"), Observation(2, 5.0))
    learner.observe(("a2", "a"), Observation(2, 9.0))
    found = [learner.closest(kinds) for kinds in (("a1", "a"), ("a3", "a"), ("b1", "b"))]
    answers = [known and (known.kind, known.speeds.seconds(2)) for known in found]
    assert answers == [("a1", 5.0), ("a", 7.0), None]


def test_the_kind_that_changed_longest_ago_is_forgotten_first() -> None:
    learner = Learner(replace(LIVE, kinds_max=2))
    for kind in ("a", "b", "a", "c"):
        learner.observe((kind,), Observation(1, 5.0))
    assert [learner.closest((kind,)) is not None for kind in "abc"] == [True, False, True]
    assert [kind for kind, _ in learner.changes()] == ["a", "c"]
