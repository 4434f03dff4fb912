"""`treadle classify` as a person meets it."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from treadle.cli.study.classify import classify
from treadle.core.errors import InvalidInputError

KEY = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'lr'\n"
OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nbye\n"
NCCL = "[rank0]: ncclRemoteError: A call failed possibly due to a network error\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("key.log").write_text(KEY)
    Path("0.log").write_text(NCCL)
    Path("1.log").write_text(OOM)
    Path("quiet.log").write_text("step 1 loss 2.0\n")


def run(*words: str) -> Result:
    return CliRunner().invoke(classify, list(words), prog_name="treadle classify")


def refused(*words: str) -> str:
    result = run(*words)
    assert isinstance(result.exception, InvalidInputError), result.output
    return str(result.exception)


def test_a_failure_is_four_lines() -> None:
    result = run("key.log", "--exit", "1")
    assert result.exit_code == 0
    assert result.output == (
        "deterministic: missing-key\n"
        "  The code asks a table for a key that is not there; correct the key or the settings.\n"
        "  evidence (key.log, last line): KeyError: 'lr'\n"
        "  advice: do not retry\n"
    )


def test_json_has_the_same() -> None:
    assert json.loads(run("key.log", "--json").output) == {
        "class": "deterministic",
        "rule": "missing-key",
        "sentence": "The code asks a table for a key that is not there; correct the key or the "
        "settings.",
        "evidence": {"log": "key.log", "line_from_end": 1, "text": "KeyError: 'lr'"},
        "advice": {"retry": False, "elsewhere": "", "more": ""},
    }
    assert json.loads(run("quiet.log", "--json").output)["evidence"] is None


def test_rules_of_the_user_are_used() -> None:
    Path("mine.yaml").write_text(
        "- {name: missing-key, class: transient, elsewhere: node, exception: KeyError, says: Ours.}"
    )
    assert run("key.log", "--rules", "mine.yaml").output == (
        "transient: missing-key\n  Ours.\n  evidence (key.log, last line): KeyError: 'lr'\n"
        "  advice: retry on another node\n"
    )


def test_the_rules_are_listed() -> None:
    lines = run("--list-rules").output.splitlines()
    assert " ".join(lines[0].split()) == "gpu-out-of-memory resource retry with more gpu memory"
    assert max(len(line) for line in lines) <= 80
    listed = json.loads(run("--list-rules", "--json").output)
    assert len(listed) == len(lines)
    assert listed[0]["name"] == "gpu-out-of-memory"


def test_mistakes_are_one_sentence() -> None:
    os.mkfifo("pipe")
    for words in (
        (),
        ("no.log",),
        (".",),
        ("pipe",),
        ("key.log", "--exit", "1", "--signal", "9"),
        ("key.log", "--exit", "999"),
        ("key.log", "--signal", "FOO"),
        ("key.log", "--rules", "no.yaml"),
    ):
        assert len(refused(*words).splitlines()) == 1
