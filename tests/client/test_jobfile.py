"""Job files: what each field means, and the sentence with its line for what is wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.client.jobfile import (
    KNOWN_FIELDS,
    Draft,
    Given,
    complete,
    read_env_file,
    read_job_file,
    read_text,
)
from treadle.core.errors import InvalidInputError
from treadle.wire.jobs import JobRequest


def said(read: Callable[[], object]) -> str:
    """The sentence that refuses, or nothing; any other exception is a failure."""
    try:
        read()
    except InvalidInputError as error:
        return str(error)
    return ""


WHOLE = """\
name: bert
run: torchrun train.py --lr 1e-4 && echo done
devices: 2..8
device_type: [H200, a100]
ranks: one
workdir: code
env: {A: 1, B: yes, HF_TOKEN: null}
secrets: [HF_TOKEN]
tenant: nlp
priority: high
guaranteed: false
resumable: true
preemptible: false
time_limit: 1-12:00:00
memory: 16G
cpus: 4
gpu_memory: 20GiB
exclusive: true
warm: false
elastic: auto
notify: [end, fail]
grace: 120s
stop_signal: usr1
retries: 5
after: [12, 13]
after_any: 14
array: 0-99%8
model: bert-large
estimate: 3h
held: true
wait_for_capacity: true
"""


def refused(text: str) -> str:
    with pytest.raises(InvalidInputError) as error:
        read_job_file("train.yaml", text)
    return str(error.value)


def test_every_field_of_a_file_reaches_the_request(tmp_path: Path) -> None:
    draft = read_job_file(str(tmp_path / "train.yaml"), WHOLE)
    request = complete(draft, {"HF_TOKEN": "x7", "PATH": "/bin"}, workdir="/elsewhere")
    assert request == JobRequest(
        command=("/bin/bash", "-c", "torchrun train.py --lr 1e-4 && echo done"),
        name="bert",
        devices="2..8",
        device_type="h200,a100",
        ranks="one",
        workdir=str(tmp_path / "code"),
        env={"PATH": "/bin", "A": "1", "B": "yes"},
        secrets={"HF_TOKEN": "x7"},
        tenant="nlp",
        priority=10,
        guaranteed=False,
        resumable=True,
        preemptible=False,
        time_limit_s=129_600.0,
        memory_gib=16.0,
        cpus=4.0,
        gpu_memory_gib=20.0,
        exclusive=True,
        warm=False,
        elastic="auto",
        notify="end,fail",
        grace_s=120.0,
        stop_signal="SIGUSR1",
        retries=5,
        after=("12", "13"),
        after_any=("14",),
        array="0-99%8",
        model="bert-large",
        estimate_s=10_800.0,
        held=True,
        wait_for_capacity=True,
    )


def test_the_whole_example_names_every_known_field() -> None:
    assert {line.partition(":")[0] for line in WHOLE.splitlines()} | {"command"} == set(
        KNOWN_FIELDS
    )


def test_a_command_is_a_list_and_devices_may_be_one() -> None:
    draft = read_job_file("a.yaml", "command: [python, train.py, --lr, 1e-4]\ndevices: [4, 1, 2]")
    assert draft.fields["command"] == ("python", "train.py", "--lr", "1e-4")
    assert draft.fields["devices"] == "1,2,4"


def test_an_empty_file_is_an_empty_description() -> None:
    assert read_job_file("a.yaml", "").fields == {}
    assert read_job_file("a.yaml", "# nothing\n---\n").fields == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name: x\ndevicse: 4", 2),
        ("python train.py", 1),
        ("name: a\nname: b", 2),
        ("run: a\ncommand: [b]", 2),
        ("a: &x [1]\nname: *x", 1),
        ("name: !!python/name:os.system x", 1),
        ("name: a\n---\nname: b", 2),
        ("env: " + "[" * 9 + "]" * 9, 1),
        ("? [a]\n: b", 1),
        ("name: [", 1),
        ('name: "\\UFFFFFFFF"', 0),
        ('name: "\\0"', 1),
        ("name:", 1),
        ("command: python x", 1),
        ("devices: many", 1),
        ("env:\n  A-B: 1", 2),
        ("secrets: {T: x}", 1),
        ("x" * 70_000, 0),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(text: str, line: int) -> None:
    assert refused(text).startswith(f"train.yaml line {line}" if line else "train.yaml is ")


def test_a_variable_that_is_not_set_is_named_with_its_line() -> None:
    draft = read_job_file("train.yaml", "run: a\nenv:\n  B: 1\n  HF_TOKEN: null")
    with pytest.raises(InvalidInputError) as error:
        complete(draft, {}, workdir="/w")
    assert str(error.value).startswith("train.yaml line 4: HF_TOKEN must come from")


def test_a_secret_with_its_value_in_the_open_is_refused() -> None:
    draft = read_job_file("train.yaml", "run: a\nenv: {T: abc}\nsecrets: [T]")
    with pytest.raises(InvalidInputError) as error:
        complete(draft, {"T": "abc"}, workdir="/w")
    assert str(error.value).startswith("train.yaml line 2: T is a secret")
    assert "abc" not in str(error.value)


def test_a_description_without_a_command_says_where_to_write_it() -> None:
    with pytest.raises(InvalidInputError, match="no command given; write it after --"):
        complete(Draft(), {}, workdir="/w")


def test_what_the_command_needs_of_the_environment_goes_along_and_nothing_else() -> None:
    environ = {"PATH": "/venv/bin", "VIRTUAL_ENV": "/venv", "AWS_SECRET_ACCESS_KEY": "x"}
    request = complete(Draft({"command": ("a",)}), environ, workdir="/w")
    assert request.env == {"PATH": "/venv/bin", "VIRTUAL_ENV": "/venv"}
    assert request.workdir == "/w"


def test_the_later_draft_wins_field_by_field_and_variable_by_variable() -> None:
    first = Draft({"name": "a", "devices": "1"}, {"A": Given("1", "f"), "B": Given("1", "f")})
    later = Draft({"devices": "2"}, {"B": Given("2", "flag")})
    both = first.under(later)
    assert both.fields == {"name": "a", "devices": "2"}
    assert {name: given.value for name, given in both.env.items()} == {"A": "1", "B": "2"}


def test_env_files_have_a_variable_on_each_line() -> None:
    text = "# a comment\n\nA=1\nexport B='two words'\nC\nD=\"x=y\"\n"
    found = read_env_file("job.env", text)
    assert {name: given.value for name, given in found.items()} == {
        "A": "1",
        "B": "two words",
        "C": None,
        "D": "x=y",
    }
    assert found["C"].where == "job.env line 5"
    with pytest.raises(InvalidInputError) as error:
        read_env_file("job.env", "A B=1")
    assert str(error.value) == (
        'job.env line 1: "A B" is not a valid variable name; expected one such as HF_HOME'
    )


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for path, content, sentence in (
        ("none", None, '"{}" cannot be read: No such file or directory'),
        ("binary", b"\xff\xfe", "{} is not UTF-8 text, at byte 0"),
        ("large", b"x" * 70_000, "{} is larger than 64 KiB"),
    ):
        file = tmp_path / path
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(InvalidInputError) as error:
            read_text(str(file))
        assert str(error.value) in (sentence.format(file), sentence.format(str(file)[:60] + "..."))


_BITS = st.sampled_from([
    *KNOWN_FIELDS, ":",
    ": ", "\n", "- ", "[", "]", "{", "}", "&a", "*a", "!!x ", "|", ">", '"', "'",
    "\\U", "null", "1", "..", "%YAML 1.1\n", "---\n", "  ", "\t", "#", ",", "?", "0-9",
])  # fmt: skip


@given(st.text(max_size=200) | st.lists(_BITS, max_size=40).map("".join))
def test_any_text_gives_a_draft_or_one_sentence(text) -> None:
    assert "\n" not in said(lambda: read_job_file("a.yaml", text))


@given(st.text(max_size=200))
def test_any_env_file_gives_variables_or_one_sentence(text) -> None:
    assert "\n" not in said(lambda: read_env_file("a.env", text))
