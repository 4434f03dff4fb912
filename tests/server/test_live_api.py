"""The API with the real controller behind it: a daemon in a process of its own, real jobs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.waiting import until
from treadle.client import Client, UnreachableError
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import Role, TokenRequest
from treadle.wire.problems import NotAllowedError

DAEMON = """
import asyncio, sys
from pathlib import Path
from treadle.engines.registry import EngineOptions
from treadle.server.daemon import DaemonSettings, run_daemon
state, socket = map(Path, sys.argv[1:])
two = EngineOptions(devices=2)
asyncio.run(run_daemon(DaemonSettings(state=state, socket=socket, options=two, port=0)))
"""
SECRET = "correct-horse-battery"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with TemporaryDirectory(prefix="treadle-") as folder:
        path = Path(folder) / "s" / "treadle.sock"
        daemon = subprocess.Popen(
            [sys.executable, "-c", DAEMON, str(Path(folder) / "state"), str(path)],
            env={**os.environ, "PYTHONPATH": "src"},
            stderr=subprocess.PIPE,
            text=True,
        )
        with Client(f"unix:{path}", timeout_s=60) as found, daemon:
            try:
                until(lambda: _answers(found))
                yield found
                found.shut_down("cancel")
                daemon.wait(30)
            finally:
                daemon.kill()


def _answers(client: Client) -> bool:
    try:
        return client.health() == {"status": "ok"}
    except UnreachableError:
        return False


def test_a_job_runs_and_its_output_is_followed_to_the_end(client: Client):
    made = client.submit(JobRequest(command=("bash", "-c", "echo grüße; sleep 0.3; echo bye")))
    assert "".join(piece.text for piece in client.follow_log(made.id)) == "grüße\nbye\n"
    (ended,) = client.wait([made.id], timeout_s=30)
    assert (ended.job.state, ended.job.code) == (State.SUCCEEDED, 0)
    assert made.id in [job.id for job in client.jobs(ended=True)]


def test_events_are_followed_from_the_first_on(client: Client):
    made = client.submit(JobRequest(command=("true",)))
    client.wait([made.id], timeout_s=30)
    kinds = []
    for event in client.follow_events(after=0, job=made.id):
        kinds.append(event.kind)
        if event.kind == "AttemptEnded":
            break
    assert kinds[:2] == ["JobAccepted", "JobSubmitted"]


def test_a_job_reports_on_itself_with_its_own_token(client: Client):
    code = "import treadle.report; treadle.report(7, 10, loss=0.25); import time; time.sleep(30)"
    made = client.submit(JobRequest(command=(sys.executable, "-c", code)))
    until(lambda: client.job(made.id).job.progress)
    progress = client.job(made.id).job.progress
    assert progress is not None
    assert (progress.step, progress.total, progress.loss) == (7, 10, 0.25)
    client.cancel(made.id)


def test_the_token_of_a_job_opens_nothing_else(client: Client, tmp_path: Path):
    written = tmp_path / "token"
    tell = f"echo $TREADLE_JOB_TOKEN | tee {written}.part; mv {written}.part {written}; sleep 30"
    made = client.submit(JobRequest(command=("bash", "-c", tell)))
    until(written.exists)
    token = written.read_text().strip()
    assert token not in client.log(made.id).text
    with Client(client.status().url, token) as job:
        for asked in (job.status, job.nodes, lambda: job.cancel(made.id), job.tokens):
            with pytest.raises(NotAllowedError, match="may only report"):
                asked()
    client.cancel(made.id)


def test_a_token_cannot_have_a_role_above_its_creators(client: Client):
    token = client.make_token(TokenRequest(name="u", role=Role.USER)).token
    with Client(client.status().url, token) as user:
        assert user.make_token(TokenRequest(name="v", role=Role.VIEWER)).view.role is Role.VIEWER
        with pytest.raises(NotAllowedError, match="cannot grant admin"):
            user.make_token(TokenRequest(name="a", role=Role.ADMIN))


def test_a_secret_is_in_no_answer(client: Client):
    command = ("bash", "-c", "test -n $KEY; echo the key is $KEY")
    made = client.submit(JobRequest(command=command, secrets={"KEY": SECRET}, name="secretive"))
    client.wait([made.id], timeout_s=30)
    assert client.job(made.id).secrets == ("KEY",)
    texts = [
        repr(client.job(made.id)),
        repr(list(client.jobs(ended=True))),
        repr(client.events(limit=1000)),
        repr(client.snapshot()),
        repr(client.debug()),
        repr(b"".join(client.journal())),
        client.metrics(),
        client.log(made.id).text,
    ]
    assert not any(SECRET in text for text in texts)
