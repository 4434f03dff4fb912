"""A daemon that is killed and started again says of running jobs what it said before."""

import sys
import time
from typing import NamedTuple

from tests.control.daemons import Daemon, daemon
from tests.waiting import until
from treadle.wire.jobs import JobRequest, State

# It says how far it is for three seconds, and then nothing more that could repair a lapse.
REPORTS = """
import time
import treadle

for step in range(1, 61):
    treadle.report(step, 2000)
    time.sleep(0.05)
time.sleep(600)
"""
OFF_S = 5.0  # the machine may be slow; a lapse was 10 s and more


class Said(NamedTuple):
    """The middle of when a job was said to end, by this process's clock."""

    at: float


def said(daemon: Daemon, job: str) -> Said:
    end = daemon.client.why(job).end
    assert end is not None
    assert end.low_s is not None, end
    assert end.high_s is not None
    return Said(time.monotonic() + (end.low_s + end.high_s) / 2)


def on_record(daemon: Daemon, job: str) -> float:
    """The last step that is written down."""
    events = daemon.client.events_last(job=job, limit=1000).events
    steps = [event.body["progress"]["step"] for event in events if event.kind == "JobProgressed"]  # type: ignore[index]
    return steps[-1] if steps else 0.0


def test_u14_progress_and_ends_go_on_after_the_daemon_was_killed() -> None:
    """1. One job reports its steps, another one has an estimate of its user only. 2. The daemon is
    killed and started again. 3. Neither the step nor the ends have moved."""
    with daemon("--devices", "2") as here:
        command = (sys.executable, "-c", REPORTS)
        reports = here.client.submit(JobRequest(command=command, workdir="/")).id
        request = JobRequest(command=("sleep", "600"), workdir="/", estimate_s=300.0)
        silent = here.client.submit(request).id
        here.reached(State.RUNNING, reports, silent)
        until(lambda: on_record(here, reports) == 60.0)
        before = {job: said(here, job) for job in (reports, silent)}
        here.kill()
        here.start()
        progress = here.view(reports).progress
        assert progress is not None
        assert progress.step == 60.0
        for job, earlier in before.items():
            # Until it reports again, its speed is what its record says, and not measured.
            off_s = OFF_S + 0.2 * (earlier.at - time.monotonic())
            assert abs(said(here, job).at - earlier.at) < off_s
