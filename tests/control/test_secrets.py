"""A planted secret reaches the job and nothing else: no file, no row, no answer, no argument."""

import base64
import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.control.daemons import (
    Daemon,
    daemon,
    everybodys_words,
    everything_on_disk,
    everything_said,
)
from tests.server.tls import certificate_files
from tests.waiting import until
from treadle.client import Client
from treadle.client.address import Address
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import Role, TokenRequest
from treadle.wire.problems import ConflictError

SECRET = "planted-5f0c1e2d9ab84377-never-to-be-seen"
PROOF = hashlib.sha256(SECRET.encode()).hexdigest()
NCCL = "torch.distributed.DistBackendError: NCCL error: unhandled system error"

BODY = f"""
printf %s "$THE_TOKEN" | sha256sum
echo "the token is $THE_TOKEN"
if [ "$TREADLE_ATTEMPT" = 1 ]; then echo "{NCCL} with $THE_TOKEN"; exit 1; fi
until [ -e "$GO" ]; do sleep 0.02; done
python3 -c 'import os; raise ValueError("bad token " + os.environ["THE_TOKEN"])'
exit 9
"""


@pytest.fixture
def here() -> Iterator[Daemon]:
    with daemon("--devices", "2", "--policy", "backfill") as made:
        yield made


def check_unseen(here: Daemon, *jobs: str) -> None:
    forms = [SECRET.encode(), base64.b64encode(SECRET.encode())]
    for form in forms:
        for path, data in everything_on_disk(here.state):
            assert form not in data, f"the secret is in {path}"
        assert form not in everything_said(here, *jobs)
        assert not any(form in words for words in everybodys_words())


def kept(here: Daemon) -> list[tuple[str]]:
    """Jobs whose sealed secrets are in the store."""
    with closing(sqlite3.connect(here.state / "treadle.db")) as connection:
        return connection.execute("SELECT job FROM secrets ORDER BY job").fetchall()


def test_a_secret_is_given_to_the_job_and_seen_nowhere_else(here: Daemon, tmp_path: Path) -> None:
    request = JobRequest(
        command=("/bin/bash", "-c", BODY),
        name="secretive",
        env={"GO": str(tmp_path / "go")},
        secrets={"THE_TOKEN": SECRET},
        array="0-1",
        retries=1,
    )
    jobs = here.client.submit(request, key="once").jobs
    until(lambda: all(here.view(job).failures == 1 for job in jobs))
    check_unseen(here, *jobs)
    assert kept(here) == [(job,) for job in jobs]

    # A job of lower priority would start: rather than let it pass, the failed ones are tried.
    here.client.submit(JobRequest(command=("true",), priority=-1))
    here.reached(State.RUNNING, *jobs)
    until(lambda: all(PROOF in here.client.log(job, attempt=2).text for job in jobs))
    assert all(PROOF in here.client.log(job, attempt=1).text for job in jobs)
    check_unseen(here, *jobs)

    here.kill()
    check_disk(here)
    here.start()
    for job in jobs:
        assert here.view(job).state is State.RUNNING
        assert here.client.job(job).secrets == ("THE_TOKEN",)
    (tmp_path / "go").touch()
    views = here.ended(*jobs)
    assert [(view.state, view.code) for view in views] == [(State.FAILED, 9)] * 2
    for job in jobs:
        why = here.client.why(job)
        assert why.details == (("output", "ValueError: bad token ***"),), why
    check_unseen(here, *jobs)
    assert kept(here) == []


def test_a_secret_that_came_over_tls_is_seen_nowhere_either(tmp_path: Path) -> None:
    """The same from another machine, as a user with a token."""
    files = certificate_files(tmp_path / "tls")
    words = ("--port", "0", "--tls-cert", str(files.certificate), "--tls-key", str(files.key))
    with daemon("--devices", "1", *words) as here:
        status, local = here.client.status(), here.client
        assert status.url.startswith("https://127.0.0.1:")
        token = here.client.make_token(TokenRequest(name="x", role=Role.ADMIN)).token
        with Client(Address("", status.url, status.fingerprint), token) as remote:
            here.client = remote
            body = 'printf %s "$THE_TOKEN" | sha256sum; echo "it is $THE_TOKEN"'
            request = JobRequest(
                command=("/bin/bash", "-c", body), secrets={"THE_TOKEN": SECRET}, workdir="/"
            )
            job = remote.submit(request, key="once").id
            here.ended(job)
            assert PROOF in remote.log(job).text
            check_unseen(here, job)
            assert token.encode() not in everything_said(here, job)
            assert not any(token.encode() in data for _, data in everything_on_disk(here.state))
            here.client = local


def check_disk(here: Daemon) -> None:
    for path, data in everything_on_disk(here.state):
        assert SECRET.encode() not in data, f"the secret is in {path}"


def test_a_job_that_is_launched_by_the_next_controller_gets_its_secret(here: Daemon) -> None:
    request = JobRequest(
        command=("/bin/bash", "-c", 'printf %s "$THE_TOKEN" | sha256sum'),
        secrets={"THE_TOKEN": SECRET},
        held=True,
    )
    (job,) = here.client.submit(request).jobs
    here.kill()
    here.start()
    here.client.release(job)
    assert here.ended(job)[0].code == 0
    assert here.client.log(job).text.startswith(PROOF)
    check_unseen(here, job)
    assert kept(here) == []


def test_a_cancelled_job_leaves_no_secret_behind(here: Daemon) -> None:
    request = JobRequest(command=("sleep", "60"), secrets={"THE_TOKEN": SECRET}, held=True)
    (job,) = here.client.submit(request, key="k").jobs
    assert kept(here) == [(job,)]
    here.client.cancel(job)
    here.ended(job)
    assert kept(here) == []
    with pytest.raises(ConflictError):
        here.client.cancel(job)
    check_unseen(here, job)
