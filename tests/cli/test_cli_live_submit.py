"""Submitting: where a request comes from, what is printed, and what is refused."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.live_session import ValueClient, detail, job, running, treadle

from treadle.client.errors import UnreachableError
from treadle.wire.jobs import (
    DryRun,
    Estimate,
    JobDetail,
    JobRequest,
    StartEstimate,
    State,
    Submitted,
    Why,
)
from treadle.wire.machine import Status
from treadle.wire.problems import TooLargeError, UnsettledError


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of one's own, outside git, and an environment of one variable."""
    monkeypatch.chdir(tmp_path)
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LANG", "LC_ALL",
                 "CUDA_HOME", "CONDA_DEFAULT_ENV", "TREADLE_URL"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def sent(client: ValueClient) -> JobRequest:
    assert client.asked[-1][0] in ("submit", "dry_run")
    request = client.asked[-1][1]
    assert isinstance(request, JobRequest)
    return request


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    client = ValueClient()
    assert treadle(client, "submit", *words) == 2
    assert not client.asked
    return capsys.readouterr().err


def test_flags_win_over_a_file_and_the_command_line_over_its_run(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(
        "name: a\ndevices: 4\nrun: echo hi\nworkdir: .\nenv: {A: 1, B: 2}\n"
    )
    client = ValueClient()
    assert treadle(client, "submit", "train.yaml", "--devices", "2", "-e", "B=3") == 0
    request = sent(client)
    assert request.command == ("/bin/bash", "-c", "echo hi")
    assert (request.name, request.devices, request.workdir) == ("a", "2", str(tmp_path))
    assert (request.env["A"], request.env["B"]) == ("1", "3")
    assert treadle(client, "submit", "-f", "train.yaml", "--", "true") == 0
    assert sent(client).command == ("true",)


def test_a_script_brings_its_own_options_and_takes_arguments(tmp_path: Path, capsys) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH --gres=gpu:2 --mem=4G --mail-type=END\n#SBATCH -J slurm -c 6\n"
        "#TREADLE --name own --time-limit 2h --gpu-memory 20GiB --exclusive\npython train.py\n"
    )
    client = ValueClient()
    assert treadle(client, "submit", "train.sh", "--time-limit", "1h", "--", "--lr", "1") == 0
    request = sent(client)
    assert request.command == ("/bin/sh", "./train.sh", "--lr", "1")
    assert (request.name, request.devices, request.time_limit_s) == ("own", "2", 3600.0)
    assert (request.memory_gib, request.cpus) == (4.0, 6.0)
    assert (request.gpu_memory_gib, request.exclusive) == (20.0, True)
    assert capsys.readouterr().err == (
        "treadle: train.sh line 2: #SBATCH --mail-type=END is not supported and ignored\n"
    )


def test_a_long_script_and_a_program_are_run_as_they_are(tmp_path: Path) -> None:
    long, program = tmp_path / "long.py", tmp_path / "a.out"
    long.write_text("#TREADLE --name own\n" + "x = 1\n" * 20_000)
    program.write_bytes(b"\x7fELF\0\xff\xfe")
    program.chmod(0o755)
    client = ValueClient()
    assert treadle(client, "submit", "long.py") == 0
    assert (sent(client).name, sent(client).command) == ("own", ("python3", "./long.py"))
    assert treadle(client, "submit", "./a.out", "--", "-v") == 0
    assert sent(client).command == ("./a.out", "-v")


def test_a_folder_that_leads_nowhere_is_refused(tmp_path: Path, capsys, monkeypatch) -> None:
    refused(capsys, "--workdir", "~nobody-at-all/x", "--", "x")
    (tmp_path / "a.yaml").write_text("run: x\nworkdir: ~nobody-at-all\n")
    assert "a.yaml line 2" in refused(capsys, "a.yaml")
    refused(capsys, "x" * 5000)
    refused(capsys, str(tmp_path))
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    refused(capsys, "--", "x")


@pytest.mark.parametrize(
    "line",
    ["--devicse 2", "--devices x", "--attach", "other.sh", "-- python x", "--help", "--secret A=b"],
)
def test_mistakes_in_a_script_are_named_by_line(line, tmp_path: Path, capsys) -> None:
    (tmp_path / "job.sh").write_text(f"#TREADLE {line}\ntrue\n")
    assert refused(capsys, "job.sh").startswith("treadle: job.sh line 1: ")


@pytest.mark.parametrize(
    "words",
    [
        "",
        "python train.py",
        "train.sh",
        "--secret A=b -- x",
        "--secret NOT_SET -- x",
        "--env NOT_SET -- x",
        "--env A-B=1 -- x",
        "--secret-file K -- x",
        "--secret-file K=none -- x",
        "--time-limit long -- x",
        "--workdir none -- x",
        "-f none.yaml",
    ],
)
def test_mistakes_on_the_command_line(capsys, words: str) -> None:
    assert refused(capsys, *words.split()).startswith("treadle: ")


def test_a_job_that_waits_says_where_it_stands_and_what_to_type_next(capsys) -> None:
    waits = Why(
        id="12",
        state=State.PENDING,
        code="devices",
        sentence="needs 8 GPUs, 3 of 8 are free",
        position=3,
        waiting=5,
        estimate=StartEstimate(earliest_s=300.0, latest_s=1200.0, runs=16, sentence="x", order=3),
    )
    made = Submitted(id="12", jobs=("12",), position=3, notes=("it stays at the size it gets",))
    client = ValueClient(made=made, whys={"12": waits})
    assert treadle(client, "submit", "-n", "big", "--", "x") == 0
    assert capsys.readouterr().out == (
        "job 12 (big) submitted: starts in 5-20 min, 3rd of 5 in the queue\n"
        "  note: it stays at the size it gets\n"
        "  treadle logs -f 12  follow its output\n"
        "  treadle why 12      why it waits or runs\n"
        "  treadle cancel 12   stop it\n"
    )


def test_a_job_that_can_never_run_is_told_at_once(capsys) -> None:
    never = Why(id="12", state=State.PENDING, code="never-fits", never=True,
                numbers={"because": "16 are asked for, 8 are there"})  # fmt: skip
    for how in ((), ("--wait",), ("--attach",)):
        client = ValueClient(whys={"12": never})
        assert treadle(client, "submit", *how, "--", "x") == (100 if how else 0)
        said = capsys.readouterr()
        assert (said.out + said.err).count("16 are asked for, 8 are there") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "--no-git", "--wait", "-q", "--", "x"),
        ("submit", "--no-git", "--attach", "-q", "--", "x"),
        ("wait", "12"),
        ("logs", "-f", "12"),
    ],
    ids=" ".join,
)
def test_nothing_waits_for_a_job_that_can_never_run(words) -> None:
    never = Why(id="12", state=State.PENDING, code="never-fits", never=True)
    client = ValueClient(views=[job("12", cause="never-fits")], whys={"12": never})
    assert treadle(client, *words) == 100


def test_of_several_jobs_the_others_are_waited_for_all_the_same(capsys) -> None:
    class Ending(ValueClient):
        looks = 0

        def job(self, identity: str) -> JobDetail:
            self.looks += 1
            if self.looks > 5:
                self.views = [job("9", State.SUCCEEDED), *self.views[1:]]
            return super().job(identity)

    broken = {"because": "x failed"}
    never = Why(id="12", state=State.PENDING, code="broken", numbers=broken, never=True)
    waits = Why(id="9", state=State.PENDING, code="rank", sentence="next in line")
    client = Ending(views=[job("9"), job("12")], whys={"12": never, "9": waits})
    assert treadle(client, "wait", "12", "9") == 100
    assert capsys.readouterr().out == "job 12 can never run: x failed\njob 9 succeeded\n"


def test_an_array_and_a_repeat_are_told_apart(capsys) -> None:
    array = Submitted(id="13", jobs=("13_0", "13_1"), position=None)
    starting = Why(id="13_0", state=State.STARTING)
    client = ValueClient(made=array, whys={"13_0": starting})
    assert treadle(client, "submit", "-a", "0-1", "--", "x") == 0
    assert capsys.readouterr().out == (
        "array 13 with 2 jobs submitted: starting now\n"
        "  treadle logs -f 13_0  follow its output\n"
        "  treadle why 13_0      why it waits or runs\n"
        "  treadle cancel 13     stop it\n"
    )
    repeated = Submitted(id="12", jobs=("12",), position=2, repeated=True)
    assert treadle(ValueClient(made=repeated), "submit", "--", "x") == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "job 12 was submitted before: saved"


def test_a_job_that_does_not_queue_says_what_it_waits_for(capsys) -> None:
    client = ValueClient(views=[running("9", name="first")])
    client.whys = {"12": Why(id="12", state=State.HELD, code="held")}
    assert treadle(client, "submit", "--hold", "--", "x") == 0
    assert capsys.readouterr().out.startswith("job 12 submitted: held until treadle release 12\n")
    after = Why(id="12", state=State.PENDING, code="dependency", sentence="starts after job 9")
    client.whys = {"12": after}
    assert treadle(client, "submit", "--after", "first", "--", "x") == 0
    assert sent(client).after == ("9",)
    assert capsys.readouterr().out.startswith("job 12 submitted: waiting: starts after job 9\n")


def test_a_dry_run_submits_nothing(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("T", "x7")
    would = DryRun(jobs=1, sizes=(1, 2, 4), starts_now=False, notes=("a note",),
                   estimate=StartEstimate(earliest_s=60, latest_s=120, runs=4, sentence="4 runs"),
                   )  # fmt: skip
    client = ValueClient(would=would)
    words = ("--dry-run", "--secret", "T", "-t", "2h", "--", "python", "my train.py")
    assert treadle(client, "submit", *words) == 0
    assert capsys.readouterr().out == (
        "would wait; nothing was submitted\n"
        "  devices  1,2,4\n"
        "  start    in 1-2 min (4 runs)\n"
        "  command  python 'my train.py'\n"
        f"  workdir  {tmp_path}\n"
        "  limit    2h\n"
        "  secrets  T\n"
        "  note     a note\n"
    )
    assert [each[0] for each in client.asked] == ["dry_run"]
    never = ValueClient(would=DryRun(jobs=1, sizes=(16,), starts_now=False, never_fits="8 there"))
    assert treadle(never, "submit", "--dry-run", "--", "x") == 2
    assert "8 there" in capsys.readouterr().out


def test_attach_prints_what_the_job_prints_and_ends_as_it_did(capsys) -> None:
    failed = replace(running("12", name="big"), state=State.FAILED, code=3, because="a bug")
    client = ValueClient(details={"12": detail(failed)}, logs={(1, 0): "one\ntwo"})
    assert treadle(client, "submit", "--attach", "-q", "--", "x") == 3
    out, err = capsys.readouterr()
    assert out == "12\none\ntwo"
    assert err == "treadle: job 12 (big) failed with exit code 3: a bug\n"


def test_wait_returns_the_jobs_own_code(capsys) -> None:
    client = ValueClient(details={"12": detail(job("12", State.FAILED, code=7))})
    assert treadle(client, "submit", "--wait", "-q", "--", "x") == 7
    members = [job("12_0", State.SUCCEEDED, array="12"), job("12_1", State.CANCELLED, array="12")]
    array = Submitted(id="12", jobs=("12_0", "12_1"))
    waiting = ValueClient(views=members, made=array)
    assert treadle(waiting, "submit", "--wait", "-a", "0-1", "--", "x") == 103
    assert capsys.readouterr().out.endswith("job 12_0 succeeded\njob 12_1 was cancelled\n")


def test_a_named_server_that_is_away_is_not_started_here(capsys, monkeypatch) -> None:
    class Gone(ValueClient):
        def status(self) -> Status:
            raise UnreachableError("no Treadle server answers at http://far:1")

    monkeypatch.setenv("TREADLE_URL", "http://far:1")
    assert treadle(Gone(), "submit", "--", "x") == 110
    assert capsys.readouterr().err == "treadle: no Treadle server answers at http://far:1\n"


def test_u18_a_submission_that_is_in_memory_only_is_asked_for_again_with_the_same_key(
    capsys,
) -> None:
    """The user is asked for nothing, and the job is queued once."""

    class Full(ValueClient):
        keys: tuple[str | None, ...] = ()

        def submit(self, request: JobRequest, *, key: str | None = None) -> Submitted:
            self.keys = (*self.keys, key)
            if len(self.keys) < 3:
                raise UnsettledError("it is kept in memory only (the disk is full)")
            return replace(super().submit(request, key=key), repeated=True)

    client = Full()
    assert treadle(client, "submit", "--", "true") == 0
    assert len(set(client.keys)) == 1
    assert client.keys[0]
    said = capsys.readouterr()
    assert said.err == (
        "treadle: not queued yet: it is kept in memory only (the disk is full); waiting\n"
    )
    assert said.out.startswith("job 12 submitted: ")


def test_the_state_of_git_goes_along_and_is_cut_if_it_is_too_large(capsys, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "a.txt").write_text("one\n")
    for words in (["init", "-q"], ["add", "a.txt"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True, cwd=tmp_path)
    (tmp_path / "a.txt").write_text("two\n")

    class Small(ValueClient):
        def submit(self, request: JobRequest, *, key: str | None = None) -> Submitted:
            if request.code and request.code.diff:
                raise TooLargeError("too large")
            return super().submit(request, key=key)

    small, client = Small(), ValueClient()
    assert treadle(client, "submit", "--", "x") == 0
    code = sent(client).code
    assert code is not None
    assert code.dirty
    assert "+two" in code.diff
    capsys.readouterr()
    assert treadle(small, "submit", "--", "x") == 0
    code = sent(small).code
    assert code is not None
    assert (code.diff, code.cut, code.dirty) == ("", True, True)
    assert capsys.readouterr().err == (
        "treadle: the changes in the folder are too large to record; submitting without them\n"
    )
    assert treadle(client, "submit", "--no-git", "--", "x") == 0
    assert sent(client).code is None


def test_u14_json_has_the_state_the_start_and_the_length(capsys) -> None:
    start = StartEstimate(earliest_s=5.0, latest_s=18.0, runs=10, sentence="", coverage=0.8)
    length = Estimate(low_s=13.0, high_s=17.0, coverage=0.8, known=True, because="3 runs")
    answer = Why(
        id="12", state=State.PENDING, code="devices", sentence="x", estimate=start, length=length
    )
    assert treadle(ValueClient(whys={"12": answer}), "submit", "--json", "--", "x") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["id"], said["jobs"], said["state"]) == ("12", ["12"], "PENDING")
    assert (said["start"]["earliest_s"], said["start"]["latest_s"]) == (5.0, 18.0)
    assert (said["length"]["low_s"], said["length"]["high_s"]) == (13.0, 17.0)


def test_u14_a_job_after_another_says_after_which_and_when(capsys) -> None:
    start = StartEstimate(earliest_s=300.0, latest_s=540.0, runs=10, sentence="", coverage=0.8)
    after = {"code": "dependency", "sentence": "starts after job 3 (running)", "estimate": start}
    answer = Why(id="12", state=State.HELD, **after)  # type: ignore[arg-type]
    assert treadle(ValueClient(whys={"12": answer}), "submit", "--after", "3", "--", "x") == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "job 12 submitted: starts after job 3 (running), in 5-9 min"
