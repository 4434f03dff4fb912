"""The learner's parts: what counts, which jobs are alike, how old values fade, what answers."""

from math import inf, nan

import pytest

from treadle.models.learning import knowledge as knowledge_module
from treadle.models.learning.kinds import (
    Source,
    by_command,
    closeness,
    numbers,
)
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.learning.speeds import REPEATS_MAX, SIZES_MAX, Speeds

# -- what counts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "useless",
    [Outcome(2, 0.0, step_s=5.0, shared=True), Outcome(2, 0.0)]
    + [Outcome(2, 0.0, step_s=seconds) for seconds in (0.0, -1.0, inf, nan)],
)
def test_what_was_seen_on_shared_devices_or_is_no_time_does_not_count(useless: Outcome) -> None:
    knowledge = Knowledge()
    knowledge.observe(("job a",), useless)
    assert knowledge.pace(("job a",)) is None


# -- kinds ----------------------------------------------------------------------------------------


def test_the_same_command_is_closest_and_the_same_program_is_next() -> None:
    first = by_command("me", "m", ("python3", "-u", "/home/me/train.py", "--rate", "1"))
    other = by_command("me", "m", ("python3", "-u", "train.py", "--rate", "2"))
    assert first[:2] != other[:2]
    assert first[2:] == other[2:]
    assert first[3:] == ("me/m/train.py", "me/", "*")


def test_only_how_long_it_runs_may_differ_between_jobs_of_the_same_needs() -> None:
    def needs(*words: str) -> str:
        return by_command("me", "", ("python", "train.py", *words))[1]

    base = needs("--steps", "100", "--batch", "16", "--seed=1")
    assert base == needs("--steps", "900", "--batch", "16", "--seed=2")
    assert base != needs("--steps", "100", "--batch", "64", "--seed=1")
    assert needs("--num-epochs", "3") == needs("--num-epochs", "30")
    assert needs("--max_steps=3") == needs("--max_steps=4")
    assert needs("100", "24") != needs("101", "24")
    assert needs("--layers", "2") != needs("--layers", "48")


def test_another_user_or_model_is_another_kind() -> None:
    mine = by_command("me", "bert", ("train",))
    for theirs in (by_command("you", "bert", ("train",)), by_command("me", "t5", ("train",))):
        assert not set(mine[:4]) & set(theirs[:4])


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
    assert by_command("me", "m", command)[3] == f"me/m/{program}"


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
    assert kinds[0][2] == kinds[1][2]
    assert kinds[0][2] not in (kinds[2][2], kinds[3][2])
    assert kinds[0][3] == kinds[2][3] != kinds[3][3]
    assert [closeness(kind) for kind in kinds[0]] == list(Source)[:6]


def test_the_numbers_of_a_command_are_those_of_its_words_and_not_of_its_paths() -> None:
    command = ("python", "/v2/train.py", "--epochs", "3", "--lr=1e-3", "resnet50", "-n", "-4")
    assert numbers(command) == (3.0, 0.001, -4.0)


def test_numbers_that_no_job_means_are_bounded() -> None:
    assert numbers(("true", "1e999", "9" * 400, "-1e300", "1e-300", "7")) == (0, 0, 0, 0, 7.0)


# -- repeats --------------------------------------------------------------------------------------


def test_one_odd_run_does_not_move_a_median_and_old_ones_are_forgotten() -> None:
    speeds = Speeds()
    for seconds in (10.0, 11.0, 900.0, 12.0):
        speeds.add(2, seconds)
    assert speeds.seconds(2) == 11.5
    for _ in range(REPEATS_MAX):
        speeds.add(2, 20.0)
    assert speeds.by_size == {2: [20.0] * REPEATS_MAX}


def test_the_sizes_that_changed_longest_ago_are_forgotten() -> None:
    speeds = Speeds()
    for size in range(1, SIZES_MAX + 4):
        speeds.add(size, 1.0)
    assert list(speeds.by_size) == list(range(4, SIZES_MAX + 4))


# -- the learner ----------------------------------------------------------------------------------


def paced(seconds: float) -> Outcome:
    return Outcome(2, 0.0, step_s=seconds)


def test_the_closest_kind_that_was_seen_answers() -> None:
    knowledge = Knowledge()
    knowledge.observe(("job a1", "model a"), paced(5.0))
    knowledge.observe(("job a2", "model a"), paced(9.0))
    asked = (("job a1", "model a"), ("job a3", "model a"), ("job b1", "model b"))
    found = [knowledge.pace(kinds) for kinds in asked]
    assert [pace and pace.curve.seconds(2) for pace in found] == [5.0, 7.0, None]


def test_the_kind_that_changed_longest_ago_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(knowledge_module, "KINDS_MAX", 2)
    knowledge = Knowledge()
    for kind in ("job a", "job b", "job a", "job c"):
        knowledge.observe((kind,), paced(5.0))
    known = [knowledge.pace((f"job {name}",)) is not None for name in "abc"]
    assert known == [True, False, True]
    assert [kind for kind, _ in knowledge.changes()] == ["job a", "job c"]
