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

DAEMON = """
import asyncio, sys
from pathlib import Path
from treadle.engines.registry import EngineOptions
from treadle.server.daemon import DaemonSettings, run_daemon
state, socket = map(Path, sys.argv[1:])
two = EngineOptions(devices=2)
asyncio.run(run_daemon(DaemonSettings(state=state, socket=socket, options=two, port=0)))
"""


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
