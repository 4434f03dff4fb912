"""Reporting from inside a job: in a process of its own, against a real server."""

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
from tests.server.running import Running, running

from treadle.client import Client
from treadle.wire.jobs import JobRequest, Progress


@pytest.fixture
def server() -> Iterator[Running]:
    with running() as found:
        with Client(found.unix) as client:
            client.submit(JobRequest(command=("true",)))
        found.within(lambda: found.service.run("1"))
        yield found


def run(code: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**{k: v for k, v in os.environ.items() if k != "RANK"}, **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )


def job_env(server: Running, address: str | None = None) -> dict[str, str]:
    return {
        "TREADLE_API_URL": address or server.unix,
        "TREADLE_JOB_TOKEN": server.service.job_token("1"),
        "TREADLE_JOB_ID": "1",
    }


def progress(server: Running) -> Progress | None:
    return server.service._detail("1").job.progress


@pytest.mark.parametrize("door", ["unix", "tcp"])
def test_the_last_report_of_a_short_job_arrives(server: Running, door: str):
    address = server.unix if door == "unix" else server.url
    run("import treadle.report as r; r.report(3, 10, loss=0.5)", job_env(server, address))
    assert progress(server) == Progress(step=3.0, total=10.0, loss=0.5, source="report")


def test_the_module_can_be_called_like_the_function(server: Running):
    run("import treadle.report; treadle.report(4)", job_env(server))
    found = progress(server)
    assert found is not None
    assert found.step == 4


def test_many_reports_are_one_request_a_second_and_the_newest_wins(server: Running):
    run(
        """
        from treadle.report import report
        for step in range(20_000):
            report(step, 20_000)
        """,
        job_env(server),
    )
    found = progress(server)
    assert found is not None
    assert found.step == 19_999
    assert len([kind for kind, _ in server.service.asked if kind == "report"]) <= 5


def test_a_loss_that_is_not_a_number_is_left_out(server: Running):
    run("from treadle.report import report; report(5, loss=float('nan'))", job_env(server))
    assert progress(server) == Progress(step=5.0, source="report")


def test_numbers_of_other_libraries_are_taken(server: Running):
    run("import numpy; from treadle.report import report; report(numpy.int64(6))", job_env(server))
    assert progress(server) == Progress(step=6.0, source="report")


def test_other_ranks_say_nothing(server: Running):
    run("from treadle.report import report; report(7)", {**job_env(server), "RANK": "1"})
    assert progress(server) is None


def test_forked_children_say_nothing(server: Running):
    run(
        """
        import os
        from treadle.report import report
        report(1)
        child = os.fork()
        report(9 if child == 0 else 2)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        """,
        job_env(server),
    )
    found = progress(server)
    assert found is not None
    assert found.step == 2


def test_outside_treadle_no_thread_is_started():
    code = """
    import threading
    from treadle.report import report
    report(1)
    assert threading.active_count() == 1
    """
    run(code, {"TREADLE_API_URL": "", "TREADLE_JOB_TOKEN": "", "TREADLE_JOB_ID": ""})


@pytest.mark.parametrize("address", ["unix:/nowhere/at/all", "http://127.0.0.1:1", "nonsense"])
def test_a_server_that_is_gone_is_no_reason_to_fail(address: str):
    env = {"TREADLE_API_URL": address, "TREADLE_JOB_TOKEN": "t", "TREADLE_JOB_ID": "1"}
    assert run("from treadle.report import report; report(1); report(object())", env).stderr == ""


def test_a_report_that_nothing_took_is_sent_again():
    """The server that was asked first dies before it answers, as when a daemon starts again."""
    name = f"treadle-test-{os.urandom(8).hex()}"
    code = "import sys; from treadle.report import report; report(4, 10); sys.stdin.read()"
    env = {"TREADLE_API_URL": f"unix:@{name}", "TREADLE_JOB_TOKEN": "t", "TREADLE_JOB_ID": "1"}
    with (
        socket.socket(socket.AF_UNIX) as listening,
        subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, **env}, stdin=subprocess.PIPE
        ) as job,
    ):
        listening.bind(f"\0{name}")
        listening.listen()
        listening.settimeout(30)
        listening.accept()[0].close()
        second, _ = listening.accept()
        with second:
            second.settimeout(30)
            said = b""
            while not said.endswith(b"}"):
                said += second.recv(4096)
            second.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        assert b'{"step": 4.0, "total": 10.0}' in said
        job.communicate()
    assert job.returncode == 0


def test_nothing_of_treadle_but_the_reporter_is_loaded():
    code = """
    import sys
    import treadle.report
    assert {n for n in sys.modules if n.startswith("treadle")} == {
        "treadle", "treadle.report", "treadle.version"
    }
    assert not {"numpy", "msgspec", "httpx2", "fastapi"} & set(sys.modules)
    """
    run(code, {})
