"""Processes that pretend to be of another user's job."""

import json
import os
import signal
import subprocess
from contextlib import closing

from tests.attack.conftest import Machine
from treadle.wire.jobs import State


def test_a_process_that_forges_the_tag_of_anothers_job_does_not_keep_it_from_ending(
    machine: Machine,
) -> None:
    """Tags can be seen in the names of control groups. Ada starts processes with the tag of bob's
    job, again and again; its supervisor dies, and the job ends all the same."""
    job = machine.runs(machine.bob, "exec sleep 60", grace_s=0.2, retries=0)
    (path,) = (machine.daemon.state / "jobs" / job).glob("*/supervisor.json")
    supervisor = json.loads(path.read_text().splitlines()[0])
    storm = subprocess.Popen(
        ["bash", "-c", "while true; do sleep 5 & sleep 5 & wait -n; done"],
        user=machine.ada.uid,
        group=machine.ada.gid,
        extra_groups=(),
        env={"TREADLE_ATTEMPT_TAG": supervisor["tag"], "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    with closing(_Ended(storm)):
        os.kill(supervisor["pid"], signal.SIGKILL)
        (view,) = machine.daemon.ended(job)
        assert view.state is State.FAILED
        assert storm.poll() is None, "root must not signal a process of another user for it"


class _Ended:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
