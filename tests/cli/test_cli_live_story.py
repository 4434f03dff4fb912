"""The command line against a real daemon: what a person would type, and what happens then.

Jobs wait for files and not for time; tests wait for states and not for time.
"""

import contextlib
import io
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S, until

from treadle.cli.main import run

# The HTTP library leaves the socket of a connection that is refused to the collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

NEEDED = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "COVERAGE_PROCESS_START")


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Home:
    """A user with a home of their own, and whatever daemon runs there."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        own = {name: os.environ[name] for name in NEEDED if name in os.environ}
        places = ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME")
        return {**own, **{name: str(self.folder) for name in places}, "COLUMNS": "100"}

    def start(self, *words: str, **how: object) -> "subprocess.Popen[str]":
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [sys.executable, "-m", "treadle", *words],
            env=self.env,
            cwd=self.folder,
            text=True,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            | how,
        )

    def treadle(self, *words: str) -> Answer:
        """Run a command here: a process of its own would spend most of its time on imports."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(list(words))
        return Answer(code, out.getvalue(), err.getvalue())

    def done(self, *words: str) -> str:
        """What a command prints that must succeed."""
        answer = self.treadle(*words)
        assert answer.code == 0, answer
        return answer.out

    def submit(self, *words: str) -> str:
        return self.done("submit", "-q", *words).strip()

    def gate(self, name: str) -> tuple[str, ...]:
        """A command that says when it runs, and ends when the file of that name is there."""
        path = shlex.quote(str(self.folder / name))
        script = f"echo in; touch {path}.up; while [ ! -e {path} ]; do sleep 0.02; done; echo out"
        return ("--", "bash", "-c", script)

    def open(self, name: str) -> None:
        (self.folder / name).touch()

    def state(self, job: str) -> str:
        found = json.loads(self.done("describe", job, "--json"))
        return str(found["job"]["state"])

    def ready(self, name: str) -> None:
        until((self.folder / f"{name}.up").exists)


@contextlib.contextmanager
def at_home() -> Iterator[Home]:
    """A short path, since a socket's may have a hundred bytes; whatever runs there is ended."""
    folder = Path(tempfile.mkdtemp(prefix="treadle", dir="/tmp"))
    made = Home(folder)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TREADLE_URL", "TREADLE_SOCKET", "TREADLE_TOKEN", "TREADLE_STORE"):
            patch.delenv(name, raising=False)
        for name, value in made.env.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        yield made
        active = json.loads(made.treadle("ps", "--json").out or '{"jobs": []}')["jobs"]
        made.treadle("down", *(["--cancel", "-y"] if active else []))
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """What a test sets stays until its daemon was found by it and ended."""
    with at_home() as made:
        yield made


@pytest.fixture
def machine(home: Home) -> Home:
    """Two slots, first come first served."""
    home.done("up", "--devices", "2", "--policy", "fifo")
    return home


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """The same for tests that do not mind what was there before, and leave nothing running."""
    with at_home() as made:
        made.done("up", "--devices", "2", "--policy", "fifo")
        yield made


def test_a11_down_cancel_returns_when_the_processes_of_all_jobs_are_gone(machine: Home) -> None:
    """1. A job goes on after the stop signal for as long as it may. 2. `down --cancel` waits for
    it. 3. Then no process writes any more, and nothing else was said to have happened."""
    page = machine.folder / "page"
    body = f"trap '' TERM; touch {page}.up; while :; do echo x >> {page}; sleep 0.02; done"
    machine.done("submit", "--grace", "2s", "--", "bash", "-c", body)
    machine.ready("page")
    said = machine.treadle("down", "--cancel", "-y")
    assert (said.code, said.out) == (0, "1 job ended, and the daemon stopped\n")
    assert "waiting for 1 job; up to " in said.err
    tags = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _says(path, str(page))]
    assert tags == []


def _says(path: Path, text: str) -> bool:
    try:
        return text.encode() in path.read_bytes()
    except OSError:
        return False


def test_submit_starts_the_daemon_by_itself_and_two_at_once_start_one(home: Home) -> None:
    first, second = (home.start("submit", "-q", "--", "true") for _ in range(2))
    answers = [process.communicate(timeout=PATIENCE_S) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], answers
    assert sorted(out for out, _ in answers) == ["1\n", "2\n"]
    notes = "".join(err for _, err in answers)
    pid = json.loads(home.done("status", "--json"))["pid"]
    assert f"no daemon was running; started one (pid {pid}," in notes
    assert home.treadle("wait", "1", "2") == Answer(
        0, "job 1 (true) succeeded\njob 2 (true) succeeded\n", ""
    )
    assert home.done("ps") == (
        "no jobs; treadle submit -- python train.py submits one, treadle ps -a lists ended jobs\n"
    )
    assert "SUCCEEDED" in home.done("ps", "-a")


def test_each_kind_of_waiting_is_explained_and_passes(machine: Home) -> None:
    """1. A job takes both slots. 2. Others wait for devices, a release, a job, their array.
    3. Each has its own reason. 4. The gate opens, and all end well, the array one at a time."""
    wide = machine.submit("-n", "wide", "--devices", "2", *machine.gate("wide"))
    machine.ready("wide")
    queued = machine.submit("-n", "queued", "--", "true")
    held = machine.submit("-n", "held", "--hold", "--", "true")
    after = machine.submit("-n", "after", "--after", "wide", "--", "true")
    index = 'echo "member $TREADLE_ARRAY_INDEX"'
    array = machine.submit("-n", "sweep", "-a", "0-2%1", "--", "bash", "-c", index)
    never = machine.submit("-n", "never", "--devices", "5", "--wait-for-capacity", "--", "true")
    assert (wide, queued, held, after, array, never) == ("1", "2", "3", "4", "5", "6")

    answers = {job: machine.done("why", job) for job in (queued, held, after, "5_1", never)}
    assert answers[queued].startswith("queued is waiting: all 2 slots are busy (job 1, wide).\n")
    assert "  queue     1st of 2\n" in answers[queued]
    assert answers[held] == "held is on hold by its user.\n  try       treadle release 3\n"
    assert answers[after].startswith("after starts after job 1 (running).\n")
    assert answers["5_1"].startswith("job 5_1 is waiting: array 5 may run 1 job at once")
    assert answers[never].startswith("never is waiting: no node is large enough yet: ")
    assert all(len(text.splitlines()) <= 6 for text in answers.values())

    listed = machine.done("ps")
    assert "1       wide    RUNNING" in listed
    assert "5[0-2]  sweep" in listed
    assert machine.done("priority", held, "high") == "job 3 (held) changed: priority 10\n"
    assert machine.done("hold", queued) == "job 2 (queued) held\n"
    assert machine.done("release", queued, held).splitlines() == [
        "job 2 (queued) released",
        "job 3 (held) released",
    ]
    assert machine.done("cancel", never) == "job 6 (never) cancelled\n"
    machine.open("wide")
    waited = machine.treadle("wait", wide, queued, held, after, array)
    assert (waited.code, waited.err) == (0, "")
    assert waited.out.splitlines()[-1] == "job 5_2 (sweep) succeeded"
    assert machine.done("logs", "5_2") == "member 2\n"
    assert machine.treadle("wait", never).code == 103
    assert machine.treadle("why", "77") == Answer(
        102, "", "treadle: there is no job '77'\n  treadle ps -a lists all\n"
    )
    for words in (("nodes", "drain", "77"), ("device", "77", "avoid"), ("token", "revoke", "77")):
        refused = machine.treadle(*words)
        assert (refused.code, refused.err.partition(" '")[0]) == (
            2,
            f"treadle: there is no {words[0].removesuffix('s')}",
        )


def test_u13_a_job_too_large_for_the_site_is_refused(site: Home) -> None:
    assert site.treadle("submit", "-n", "large", "--devices", "5", "--", "true") == Answer(
        2,
        "",
        "treadle: the job can never run here: it asks for 5 devices and the cluster has 2\n"
        "  submit it with --devices 2 or fewer, or with --wait-for-capacity to queue it until it "
        "fits\n",
    )
    assert "large" not in site.done("ps", "-a")


def test_u7_an_array_written_for_slurm_finds_its_variables(site: Home) -> None:
    """1. A script with #SBATCH lines prints what Slurm would set. 2. A script without has none."""
    names = "ARRAY_TASK_ID ARRAY_JOB_ID ARRAY_TASK_COUNT JOB_ID JOB_NAME NTASKS NNODES SUBMIT_DIR"
    body = "\n".join(f'echo "{name}=${{SLURM_{name}-unset}}"' for name in names.split())
    (site.folder / "sweep.sh").write_text(f"#!/bin/bash\n#SBATCH --array=3,7\n{body}\n")
    (site.folder / "plain.sh").write_text(f"#!/bin/bash\n{body}\n")
    array = site.submit("sweep.sh")
    plain = site.submit("plain.sh")
    assert site.treadle("wait", array, plain).code == 0
    assert site.done("logs", f"{array}_7").splitlines() == [
        "ARRAY_TASK_ID=7",
        f"ARRAY_JOB_ID={array}",
        "ARRAY_TASK_COUNT=2",
        f"JOB_ID={array}_7",
        "JOB_NAME=sweep",
        "NTASKS=1",
        "NNODES=1",
        f"SUBMIT_DIR={site.folder}",
    ]
    assert set(site.done("logs", plain).splitlines()) == {f"{name}=unset" for name in names.split()}


def test_commands_that_wait_end_as_the_job_did(site: Home) -> None:
    failing = site.submit("--retries", "0", "--", "bash", "-c", "echo oops; exit 7")
    killed = site.submit("--retries", "0", "--", "bash", "-c", "kill -9 $$")
    assert site.treadle("wait", failing).code == 7
    assert site.treadle("wait", killed).code == 100
    slow = site.submit("-n", "slow", *site.gate("slow"))
    site.ready("slow")
    late = site.treadle("wait", "slow", "--timeout", "0.2s")
    assert (late.code, late.err) == (101, f"treadle: 1 job not ended yet: {slow}\n")
    assert site.treadle("cancel", "slow").code == 0
    assert site.treadle("wait", slow).code == 103
    limited = site.submit("--time-limit", "0.5s", "--grace", "1s", *site.gate("limited"))
    assert site.treadle("wait", limited).code == 104
    attached = site.treadle("submit", "-q", "--attach", "--retries", "0", "--",
                            "bash", "-c", "echo one; echo two; exit 3")  # fmt: skip
    assert (attached.code, attached.out) == (3, f"{int(limited) + 1}\none\ntwo\n")


def test_logs_follow_a_job_and_ctrl_c_leaves_it_running(site: Home) -> None:
    job = site.submit("-n", "talker", *site.gate("talker"))
    follower = site.start("logs", "-f", "talker")
    site.ready("talker")
    leaving = site.start("logs", "-f", job)
    assert leaving.stdout is not None
    assert leaving.stdout.readline() == "in\n"
    leaving.send_signal(signal.SIGINT)
    _, err = leaving.communicate(timeout=PATIENCE_S)
    assert leaving.returncode == 101
    assert err.endswith(
        f"treadle: detached; job {job} keeps running (treadle logs -f {job} follows it, "
        f"treadle cancel {job} stops it)\n"
    )
    site.open("talker")
    out, err = follower.communicate(timeout=PATIENCE_S)
    assert (follower.returncode, out) == (0, "in\nout\n")
    assert err.endswith(f"treadle: job {job} (talker) succeeded\n")
    assert site.done("logs", "talker", "--tail", "1") == "out\n"


def test_jobs_run_on_without_the_daemon_and_are_taken_back(machine: Home) -> None:
    """1. A job runs, another waits. 2. The daemon leaves. 3. The job goes on and says something.
    4. The daemon comes back, by its own record. 5. Both end well, and nothing was run twice."""
    job = machine.submit("-n", "long", "--devices", "2", "--ranks", "one", *machine.gate("long"))
    waiting = machine.submit("-n", "next", "--", "bash", "-c", "echo once")
    machine.ready("long")
    before = json.loads(machine.done("status", "--json"))
    assert machine.done("down") == (
        "the daemon stopped; jobs remain (1 still running, 1 waiting), and treadle up picks them "
        "up again\n"
    )
    assert machine.treadle("ps").code == 110
    assert machine.done("down").endswith("; nothing to stop\n")
    up = machine.done("up", "--devices", "2")
    assert "policy   fifo" in up
    after = json.loads(machine.done("status", "--json"))
    assert before["pid"] != after["pid"]
    assert machine.state(job) == "RUNNING"
    machine.open("long")
    assert machine.treadle("wait", job, waiting).code == 0
    assert machine.done("logs", job, "--rank", "0") == "in\nout\n"
    assert machine.done("logs", waiting) == "once\n"
    described = json.loads(machine.done("describe", job, "--json"))
    assert len(described["attempts"]) == 1


def test_a_daemon_that_crashed_is_started_again_with_the_options_it_had(home: Home) -> None:
    """1. `treadle up` with options. 2. The daemon is killed. 3. A submission starts it as it was,
    with the policy that was switched to. 4. Its folder takes no other store."""
    store = f"sqlite:///{home.folder}/own.db"
    home.done("up", "--devices", "3", "--policy", "fifo", "--store", store)
    home.done("policy", "srtf")
    kept = home.folder / "treadle" / "up.json"
    assert json.loads(kept.read_text()) == {"words": ["--devices", "3"], "store": store}
    assert kept.stat().st_mode & 0o777 == 0o600
    first = json.loads(home.done("status", "--json"))
    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: home.treadle("status").code == 110)
    answer = home.treadle("submit", "-q", "--", "true")
    assert (answer.code, answer.out) == (0, "1\n"), answer
    assert answer.err.endswith(" 3 devices)\n")
    second = json.loads(home.done("status", "--json"))
    assert (second["devices"], second["policy"]) == (3, "srtf")
    assert home.treadle("wait", "1").code == 0
    home.done("down")
    # The state folder belongs to the store, also if that is not named.
    answer = home.treadle("up", "--devices", "2")
    assert answer.code == 2
    assert f"{home.folder}/own.db" in answer.err


def test_a_state_folder_keeps_its_engine_as_long_as_its_jobs_may_run_there(home: Home) -> None:
    """1. A job runs on another engine. 2. `treadle up` with options goes on with that engine.
    3. The engine of this machine is refused while the job holds its devices."""
    home.done("up", "--engine", "memory", "--no-port")
    home.done("submit", "-q", "--", "forever")
    until(lambda: home.state("1") == "RUNNING")
    home.done("down")
    answer = home.treadle("up", "--policy", "fifo")
    assert answer.code == 0, answer
    assert answer.err == (
        "treadle: using the engine of the last treadle up: --engine memory (--engine chooses "
        "another)\n"
        "treadle: options of the last treadle up that are not kept: --no-port\n"
    )
    assert json.loads(home.done("status", "--json"))["engine"] == "memory"
    until(lambda: home.state("1") == "RUNNING")
    home.done("down")
    answer = home.treadle("up", "--engine", "local")
    assert answer.code == 2
    assert re.search(
        "jobs of this store hold devices of the engine memory, such as .*:0, and may run there; "
        "start with --engine memory and let them end, or cancel them\n",
        answer.err,
    )


def test_a_shared_daemon_listens_where_it_is_told(home: Home, monkeypatch) -> None:
    path = str(home.folder / "mine.sock")
    monkeypatch.setenv("TREADLE_SOCKET", str(home.folder / "unused.sock"))
    home.done("up", "--share", "--devices", "1", "--socket", path)
    assert json.loads(home.done("status", "--json"))["socket"] == path
    assert not (home.folder / "unused.sock").exists()


def test_a_daemon_that_cannot_start_says_why(home: Home) -> None:
    answer = home.treadle("up", "--devices", "2", "--policy", "nonsense")
    assert answer.code == 2
    assert answer.err.startswith(
        "treadle: the daemon did not start: there is no policy 'nonsense'; did you mean"
    )
    assert home.treadle("status").code == 110


def test_what_was_recorded_can_be_studied(site: Home) -> None:
    job = site.submit("-n", "a", "--", "true")
    assert site.treadle("wait", job).code == 0
    site.done("journal", "-o", "live.jsonl")
    assert site.done("analyze", "live.jsonl").startswith("Analysis of live.jsonl")
    assert f"job {job} finished" in site.done("events", "--job", job)
    assert site.done("usage", "--csv").splitlines()[0] == (
        "user,tenant,jobs,allocated_h,used_h,failed_h"
    )
    site.done("debug-bundle", "-o", "bundle.tar.gz")
    assert site.done("policy").startswith("policy fifo\n")


def test_secrets_reach_the_job_and_nothing_else(site: Home) -> None:
    secret = "tok-5f1c0b7e9d"
    (site.folder / "key").write_text(f"{secret}\n")
    script = 'test ${#KEY} = 14 && echo "$KEY" > seen'
    job = site.submit("--secret-file", "KEY=key", "--", "bash", "-c", script)
    assert site.treadle("wait", job).code == 0
    assert (site.folder / "seen").read_text() == f"{secret}\n"
    (site.folder / "key").unlink()
    (site.folder / "seen").unlink()
    shown = site.done("describe", job)
    assert "  secrets    KEY\n" in shown
    assert secret not in shown + site.done("events", "--json") + site.done("snapshot")
    kept = [path for path in site.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in kept if secret.encode() in path.read_bytes()]


def test_top_shows_the_site_until_q(site: Home) -> None:
    site.submit("-n", "shown", *site.gate("shown"))
    site.ready("shown")
    ours, theirs = pty.openpty()
    try:
        process = site.start("top", stdin=theirs, stdout=theirs, stderr=theirs)
        seen = _read_until(ours, b"shown")
        assert b"policy fifo" in seen
        os.write(ours, b"q")
        _read_until(ours, b"\x1b[?1049l")  # the other screen is left
        assert process.wait(timeout=PATIENCE_S) == 0
        site.open("shown")
    finally:
        os.close(theirs)
        os.close(ours)


def _read_until(terminal: int, wanted: bytes) -> bytes:
    seen = b""
    deadline = time.monotonic() + PATIENCE_S
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65_536)
    return seen
