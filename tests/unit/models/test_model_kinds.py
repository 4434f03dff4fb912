"""Which jobs are alike: by script, folder, variables and names that look like marks."""

from collections.abc import Mapping

import pytest

from treadle.models.learning.kinds import Source, by_command, closeness, owner_of, with_sizes
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome

CLOSENESS = [Source.ALIKE, Source.SAME_SCRIPT, Source.SAME_USER, Source.EVERYTHING]
TRAIN = ("python", "train.py", "--epochs", "3")


def inline(text: str, shell: str = "bash") -> tuple[tuple[str, ...], str, Mapping[str, str]]:
    return (shell, "-c", text), "/a", {}


def closest(
    one: tuple[tuple[str, ...], str, Mapping[str, str]],
    other: tuple[tuple[str, ...], str, Mapping[str, str]],
) -> Source:
    """What a job expects by, if only the other one ran."""
    knowledge = Knowledge()
    jobs = [
        by_command("ann", "", command, folder=folder, env=env)
        for command, folder, env in (one, other)
    ]
    knowledge.observe(jobs[0], Outcome(1, 100.0, whole=True))
    return knowledge.expect(jobs[1], 1).source


@pytest.mark.parametrize(
    ("one", "other", "source"),
    [
        ((TRAIN, "/a", {}), (TRAIN, "/a/./", {}), Source.SAME_COMMAND),
        ((TRAIN, "/a", {}), (TRAIN, "/b", {}), Source.SAME_SCRIPT),
        (
            (("python", "/a/train.py"), "/a", {}),
            (("python", "train.py"), "/a", {}),
            Source.SAME_COMMAND,
        ),
        # Programs that are given as a word.
        (inline("x=1; sleep $x"), inline("lr=3; python other.py"), Source.SAME_USER),
        (inline("x=1; sleep $x"), inline("x=9; sleep $x"), Source.ALIKE),
        (inline("lr=3; python b.py"), inline("python b.py --wide"), Source.ALIKE),
        (inline("cd /a/c && ./b.py 3"), inline("cd /a/c && ./b.py 4"), Source.ALIKE),
        (inline("b.py --epochs 3"), inline("b.py --epochs 4"), Source.ALIKE),
        (inline("import t; t.a(1)", "python"), inline("import u", "python"), Source.SAME_USER),
        (
            (("python", "/a/train.py"), "/x", {}),
            (("python", "/a/train.py"), "/y", {}),
            Source.ALIKE,
        ),
        ((("python", "../train.py"), "/a/b", {}), (("python", "train.py"), "/a", {}), Source.ALIKE),
        (
            (("python", "-m", "pkg"), "/a", {}),
            (("python", "-m", "pkg"), "/b", {}),
            Source.SAME_SCRIPT,
        ),
        ((("./train",), "/a", {}), (("./train",), "/b", {}), Source.SAME_SCRIPT),
        ((("sleep", "4"), "/a", {}), (("sleep", "4"), "/b", {}), Source.ALIKE),
        ((TRAIN, "/a", {"LR": "1"}), (TRAIN, "/a", {"LR": "1"}), Source.SAME_COMMAND),
        ((TRAIN, "/a", {"SEED": "1"}), (TRAIN, "/a", {"SEED": "2"}), Source.ALIKE),
        ((TRAIN, "/a", {"WIDTH": "1"}), (TRAIN, "/a", {"WIDTH": "2"}), Source.ALIKE),
        ((TRAIN, "/a", {"DATA": "/x/1.npz"}), (TRAIN, "/a", {"DATA": "/y/2.npz"}), Source.ALIKE),
        ((TRAIN, "/a", {"NET": "big"}), (TRAIN, "/a", {}), Source.ALIKE),
    ],
)
def test_jobs_are_as_close_as_their_folder_script_and_variables(
    one: tuple[tuple[str, ...], str, Mapping[str, str]],
    other: tuple[tuple[str, ...], str, Mapping[str, str]],
    source: Source,
) -> None:
    assert closest(one, other) is source


def test_another_projects_script_of_the_same_name_says_less() -> None:
    """1. `python train.py` took 100 s in one folder. 2. It is asked for there, and elsewhere."""
    knowledge = Knowledge()
    for _ in range(3):
        here = by_command("ann", "", TRAIN, folder="/a")
        knowledge.observe(here, Outcome(1, 100.0, whole=True))
    spans = [
        knowledge.expect(by_command("ann", "", TRAIN, folder=folder), 1).span
        for folder in ("/a", "/b")
    ]
    same, elsewhere = (span.high_s - span.low_s for span in spans)
    assert elsewhere > 3.0 * same


@pytest.mark.parametrize("owner", ["*", "*#4", "job a", "model 1 x", "ann#4", "a/b", "\\*"])
def test_an_owner_whose_name_reads_as_a_kind_is_an_owner(owner: str) -> None:
    kinds = by_command(owner, "", ("python", "a.py")).kinds
    assert [closeness(kind) for kind in kinds] == CLOSENESS
    assert len({owner_of(kind) for kind in kinds[:3]}) == 1
    assert owner_of(kinds[0])
    others = {kind for name in ("ann", "*", "a|b") for kind in with_sizes(_users(name), 4)}
    assert owner == "*" or not others & set(with_sizes(kinds[2:3], 1))


def _users(owner: str) -> tuple[str, ...]:
    return by_command(owner, "", ("x",)).kinds[2:3]


def test_numbers_and_paths_leave_jobs_the_shape_that_they_have() -> None:
    def shape(*words: str) -> str:
        return by_command("ann", "", ("python", "train.py", *words), folder="/a").shape

    assert shape("30", "--out", "/x/1") == shape("50", "--out", "/y/2")
    assert shape("--net", "big") != shape("--net", "small")
    assert shape("--net", "big") != shape()
