"""Processes that pretend to be of another user's job."""

import subprocess
from contextlib import closing

from tests.attack.conftest import Machine
from treadle.wire.jobs import State


def test_a_process_that_forges_the_tag_of_anothers_job_does_not_keep_it_from_ending(
    machine: Machine,
) -> None:
    """Ada knows the form of a tag from her own job. She starts processes with the tag of bob's,
    again and again; bob's job ends all the same."""
    own = machine.prints(machine.ada, 'echo "$TREADLE_ATTEMPT_TAG" "$TREADLE_JOB_ID"')
    tag, number = own.split()
    job = machine.runs(machine.bob, "exec sleep 60", grace_s=0.2)
    forged = tag.replace(f"-{number}-", f"-{job}-")
    assert forged != tag
    storm = subprocess.Popen(
        ["bash", "-c", "while true; do sleep 5 & sleep 5 & wait -n; done"],
        user=machine.ada.uid,
        group=machine.ada.gid,
        extra_groups=(),
        env={"TREADLE_ATTEMPT_TAG": forged, "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    with closing(_Ended(storm)):
        machine.asks(machine.bob, "POST", f"/jobs/{job}/cancel")
        (view,) = machine.daemon.ended(job)
        assert view.state is State.CANCELLED
        assert storm.poll() is None, "root must not signal a process of another user for it"


class _Ended:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
