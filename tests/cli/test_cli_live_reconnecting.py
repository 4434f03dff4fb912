"""Following and waiting across restarts of the daemon."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.live_session import Moment, ValueClient, detail, running, treadle
from tests.cli.test_cli_live_logs import DONE, Living, attempts
from tests.control.daemons import Daemon, daemon
from tests.waiting import until

from treadle.cli.live.log_following import PIECE, Follower, Printer
from treadle.cli.live.session import Session
from treadle.client.errors import LostError, UnreachableError
from treadle.wire.jobs import JobDetail, JobRequest, LogPiece, State
from treadle.wire.problems import UnavailableError


class AwayFor(ValueClient):
    """A daemon that does not answer for a while, in the middle of a job."""

    def __init__(self, moment: Moment, away_s: float, error: Exception) -> None:
        super().__init__()
        self.moment, self.away_s, self.error = moment, away_s, error
        self.since_s: float | None = None

    def job(self, identity: str) -> JobDetail:
        if self.since_s is None:
            self.since_s = self.moment.s
            self.logs[1, 0] = "before\n"
            return detail(running("9"), attempts=attempts(None))
        if self.moment.s - self.since_s < self.away_s:
            raise self.error
        self.logs[1, 0] = "before\nafter\n"
        return detail(DONE, attempts=attempts(1.0))


@pytest.mark.parametrize(
    "error", [UnreachableError("no daemon"), LostError("lost"), UnavailableError("starting")]
)
def test_u17_a_daemon_that_is_away_for_ten_minutes_is_waited_for(capsys, error) -> None:
    moment = Moment()
    client = AwayFor(moment, 600.0, error)
    session = Session(connect=lambda: client, stopwatch=moment.stopwatch, pause=moment.pause)
    assert Follower(session, "9", Printer(raw=True)).follow() == 0
    out, err = capsys.readouterr()
    assert out == "before\nafter\n"
    assert err.splitlines() == [
        "treadle: the daemon does not answer; jobs keep running, waiting for it (Ctrl-C stops)",
        "treadle: the daemon answers again",
        "treadle: job 9 (big) succeeded",
    ]


def test_u17_what_was_printed_before_the_connection_broke_is_not_printed_again(capsys) -> None:
    content = "0123456789\n" * (2 * PIECE // 11)

    class Breaking(Living):
        broken = False

        def job(self, identity: str) -> JobDetail:
            self.logs[1, 0] = content
            ended = self.broken
            return detail(
                DONE if ended else running("9"), attempts=attempts(1.0 if ended else None)
            )

        def log(self, identity: str, **how: int) -> LogPiece:
            if how["offset"] and not self.broken:
                self.broken = True
                raise UnreachableError("no daemon")
            return super().log(identity, **how)

    assert treadle(Breaking(), "logs", "9", "-f") == 0
    assert capsys.readouterr().out == content


def _follow(made: Daemon, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "treadle", *words],
        env={**os.environ, "TREADLE_SOCKET": str(made.socket), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _looks(made: Daemon) -> float:
    """How often a job was asked for."""
    lines = [
        line.rpartition(" ")[2]
        for line in made.client.metrics().splitlines()
        if line.startswith("treadle_http_request_duration_seconds_count")
        and 'route="/api/v1/jobs/{identity}"' in line
    ]
    return sum(map(float, lines))


def test_u17_logs_and_wait_go_on_when_the_daemon_is_killed_and_started_again(
    tmp_path: Path,
) -> None:
    """1. A job prints a line and waits for a file. 2. The daemon is killed with -9; both commands
    notice. 3. The job prints more meanwhile. 4. The daemon starts again; both end as the job."""
    gate = tmp_path / "gate"
    body = f"echo one; while [ ! -e {gate} ]; do sleep 0.02; done; echo two; exit 5"
    with daemon("--devices", "1") as made:
        request = JobRequest(command=("bash", "-c", body), workdir=str(tmp_path))
        job = made.client.submit(request).id
        made.reached(State.RUNNING, job)
        before = _looks(made)
        waiter = _follow(made, "wait", job)
        until(lambda: _looks(made) > before + 2)
        follower = _follow(made, "logs", "-f", job)
        assert follower.stdout is not None
        assert follower.stdout.readline() == "one\n"
        made.kill()
        for process in (follower, waiter):
            assert process.stderr is not None
            assert process.stderr.readline().startswith("treadle: the daemon does not answer; ")
        gate.touch()
        made.start()
        out, err = follower.communicate(timeout=60)
        assert (out, follower.returncode) == ("two\n", 5), err
        out, err = waiter.communicate(timeout=60)
        assert waiter.returncode == 5, err
        assert "failed with exit code 5" in out
        until(lambda: made.view(job).state.ended)
