"""What `submit`, `ps`, `why` and `describe` say of progress, end and start.

test_printed_estimates.py has the whole answers, to the letter. A real daemon and the real command
line. Lengths of time are written as <t>: they are measured.
"""

import os
import re
from collections.abc import Iterator

import pytest
from tests.control.daemons import Daemon, daemon
from tests.control.warm_start import ran

from treadle.core.job_report import Report
from treadle.wire.jobs import JobRequest, State

_TIME = re.compile(r"\b\d+(?:\.\d+)? ?(?:s|m|min)\b(?: ago)?|\ba moment\b")


@pytest.fixture
def here() -> Iterator[Daemon]:
    with daemon("--devices", "1") as made:
        yield made


def said(here: Daemon, *words: str) -> str:
    """What one command prints at 80 columns."""
    env = {**os.environ, "TREADLE_URL": f"unix:{here.socket}", "COLUMNS": "80"}
    done = ran(*words, env=env)
    assert done.returncode == 0, done.stderr
    return _TIME.sub("<t>", done.stdout)


def submitted(here: Daemon, body: str, *options: str) -> str:
    text = said(here, "submit", "--grace", "1s", *options, "--", "bash", "-c", body)
    return text.partition("  treadle logs")[0]


def row_of(here: Daemon, job: str) -> list[str]:
    found = [line.split() for line in said(here, "ps").splitlines()]
    return next(row for row in found if row[0] == job)


def test_u4_a_known_job_has_one_range_wherever_it_is_shown(here: Daemon) -> None:
    for _ in range(3):  # In the folder of the next ones, which is part of a kind.
        submitted(here, "sleep 3")
    here.ended("1", "2", "3")
    first = submitted(here, "sleep 3")
    assert re.fullmatch(
        r"job 4 submitted: starting now\n"
        r"  length: (about |\d-)?<t> \(from 3 runs of this command\)\n",
        first,
    )
    second = submitted(here, "sleep 3")
    assert second.startswith("job 5 submitted: starts "), second
    end = here.view("4").end
    assert end is not None
    assert (end.known, end.coverage, end.because) == (True, 0.8, "from 3 runs of this command")
    assert end.high_s is not None
    assert end.high_s < 10
    waiting = here.client.why("5")
    assert waiting.estimate is not None
    assert waiting.estimate.latest_s is not None
    assert waiting.estimate.latest_s < 10
    assert waiting.estimate.coverage == 0.8


def test_u5_no_percentage_without_steps_that_the_job_said(here: Daemon) -> None:
    """1. A job of a known length says nothing: no percentage, no step. 2. It reports: both."""
    request = JobRequest(command=("bash", "-c", "sleep 600; exit 0"), estimate_s=600, grace_s=1.0)
    (job,) = here.client.submit(request).jobs
    here.reached(State.RUNNING, job)
    assert here.view(job).progress is None
    assert "%" not in said(here, "ps").replace("80%", "")
    shown = said(here, "describe", job)
    assert "progress" not in shown
    assert "step" not in shown
    assert "done" not in dict(here.client.why(job).details)
    here.client.report(job, Report(step=30, total=120))
    progress = here.view(job).progress
    assert progress is not None
    assert (progress.step, progress.total) == (30, 120)
    assert "progress   25%, step 30 of 120" in said(here, "describe", job)
    assert dict(here.client.why(job).details)["done"] == "25%"
