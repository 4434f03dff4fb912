"""The command that submits a job again: the real options of `treadle submit` read the same job."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from treadle.cli.live.submit import job_request, submit
from treadle.control.jobs import JobRecord, Person, prepare, submit_again
from treadle.control.jobs.submit_again import quoted
from treadle.control.learning import Profiles
from treadle.core.cluster import Cluster
from treadle.wire.jobs import Code, JobRequest
from treadle.wire.notation import CARRIED, is_identity

SECRET = "of the shell"
ANN = Person("ann", home="/")
# As much as a person may write, and more: what a shell or a terminal would take for its own.
words = st.one_of(
    st.sampled_from(
        ["", "-", "--", "--name", "~", "$HOME", "a b", "it's", 'say "x"', "*", "\\", "#"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
)
printable = words.filter(lambda text: text.isprintable())
names = st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True).filter(lambda name: name != "PWD")
identities = st.lists(st.from_regex(r"[1-9][0-9]{0,3}(_[0-9]{1,2})?", fullmatch=True), max_size=3)
seconds = st.one_of(
    st.none(), st.integers(1, 9_000_000).map(float), st.floats(0.001, 1e6, allow_nan=False)
)
amounts = st.one_of(
    st.none(), st.integers(1, 4096).map(float), st.integers(16, 99_999).map(lambda mib: mib / 1024)
)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    env = draw(st.dictionaries(names, words, max_size=3))
    secrets = draw(st.sets(names, max_size=2)) - set(env)
    elastic = draw(st.booleans())
    return {
        "command": ("python", "train.py")
        if elastic
        else (draw(words) or "x", *draw(st.lists(words, max_size=4))),
        "name": draw(printable.filter(lambda name: not is_identity(name))),
        "devices": draw(st.sampled_from(["1", "4", "1..2", "1..4", "2..8", "1,2,4", "3,4"])),
        "device_type": draw(st.sampled_from(["", "h200", "a100,h200", "any", "nvidia a100"])),
        "ranks": "auto" if elastic else draw(st.sampled_from(["auto", "device", "one"])),
        "env": env,
        "secrets": dict.fromkeys(secrets, SECRET),
        "tenant": draw(st.from_regex(r"[A-Za-z0-9_.@-]{0,8}", fullmatch=True)),
        "priority": draw(st.integers(-1_000_000, 1_000_000)),
        "guaranteed": draw(st.booleans()),
        "resumable": draw(st.booleans()),
        "time_limit_s": draw(seconds),
        "memory_gib": draw(amounts),
        "cpus": draw(st.one_of(st.none(), st.integers(1, 400).map(lambda n: n / 4))),
        "gpu_memory_gib": draw(amounts),
        "exclusive": draw(st.booleans()),
        "warm": draw(st.booleans()),
        "elastic": "auto" if elastic else "",
        "grace_s": draw(st.one_of(st.just(30.0), st.integers(0, 86_400).map(float))),
        "stop_signal": draw(st.sampled_from(["SIGTERM", "SIGINT", "USR1"])),
        "retries": draw(st.one_of(st.none(), st.integers(0, 100))),
        "after": tuple(draw(identities)),
        "after_any": tuple(draw(identities)),
        "array": draw(st.sampled_from(["", "", "3", "0-3%2"])),
        "model": draw(printable),
        "estimate_s": draw(seconds),
        "held": draw(st.booleans()),
        "wait_for_capacity": draw(st.booleans()),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("odd") / "it's \x1b[1m a $HOME"
    found.mkdir()
    return found


@settings(max_examples=40, deadline=None)  # The first one reads what is loaded late.
@given(fields=requests())
@example(fields={"command": ("python", "train.py")})
def test_the_command_asks_for_the_same_job(fields: dict[str, Any], folder: Path) -> None:
    first = _record(JobRequest(**fields, workdir=str(folder)))
    again = submit_again(first)
    secrets = fields.get("secrets", {})
    second = _record(_read(again.command, secrets))
    cannot = {note.split()[0]: None for note in again.notes if "cannot say" in note}
    lost = [name for option, name in _AMOUNTS.items() if option in cannot]
    assert structs.replace(second, **{name: getattr(first, name) for name in lost}) == _alone(first)
    for name in lost:  # Only what the notation of the command line has no text for.
        assert round(getattr(first, name), 9) != getattr(first, name) or not getattr(first, name)
    assert not any(secret in again.command for secret in secrets.values())
    assert all(line.isprintable() for line in again.command.split("\n"))


def test_the_least_is_said() -> None:
    record = _record(JobRequest(command=("python", "train.py"), workdir="/"))
    assert (
        submit_again(record).command == "treadle submit \\\n  --workdir / \\\n  -- python train.py"
    )
    assert submit_again(record).notes == ()


def test_what_cannot_be_repeated_is_noted() -> None:
    request = JobRequest(
        command=("sh", "a.sh"),
        grace_s=0.0,
        array="0-9%2",
        slurm=True,
        secrets={"TOKEN": SECRET},
        code=Code(commit="0123456789abcdef", dirty=True),
    )
    # Earlier versions took such a name.
    again = submit_again(structs.replace(_record(request), name="12"))
    assert "--grace" not in again.command
    assert "--name" not in again.command
    assert "--array 0 " in again.command
    named = ("12", "--grace", "array 7", "secrets", "SLURM_*", "0123456789ab")
    for word, note in zip(named, again.notes, strict=True):
        assert word in note


_AMOUNTS = {
    "--time-limit": "time_limit_s",
    "--estimate": "estimate_s",
    "--grace": "grace_s",
    "--memory": "memory_gib",
    "--gpu-memory": "gpu_memory_gib",
}


def _record(request: JobRequest) -> JobRecord:
    """The record of the job, or of the first member of the array."""
    cluster = Cluster.grid(1, 8)
    wanted = prepare(
        request, 7, person=ANN, cluster=cluster, profiles=Profiles(), now=0.0, wall_at=1.0
    )
    return structs.replace(wanted.records[0], code=None if request.code is None else request.code)


@settings(max_examples=40)
@given(word=words)
@example(word="x\n';exit 3 #")
@example(word="\x1b\\';exit 3 #")
def test_a_word_is_one_word_in_a_plain_shell_too(word: str) -> None:
    """dash may take it for another text, and never for a command."""
    shell = subprocess.run(
        ["dash", "-c", f"count() {{ printf %d $#; }}\ncount {quoted(word)}"],
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert shell.stdout == b"1"


def _alone(record: JobRecord) -> JobRecord:
    """The same member as the only one of its array."""
    if record.member is None:
        return record
    return structs.replace(record, array_size=1, array_limit=0, array_text=str(record.member))


def _read(command: str, secrets: dict[str, str]) -> JobRequest:
    """What the command line makes of it, by a real shell."""
    shell = subprocess.run(
        ["bash", "-c", f"treadle() {{ printf '%s\\0' \"$@\"; }}\n{command}"],
        capture_output=True,
        check=True,
        timeout=30,
        env={"PATH": os.environ["PATH"], "HOME": "/nowhere"},
    )
    verb, *arguments = shell.stdout.decode().split("\0")[:-1]
    assert verb == "submit"
    with pytest.MonkeyPatch.context() as patch:
        for name in CARRIED:
            patch.delenv(name, raising=False)
        for name, value in secrets.items():
            patch.setenv(name, value)
        with submit.make_context("submit", arguments) as context:
            return replace(job_request(context, None, None, git=False), code=None)
