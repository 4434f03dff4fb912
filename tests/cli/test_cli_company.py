"""A job that was seen alone joins a running one at once, and what people read of it.

Real daemons and real processes; on CPU slots a device is busy by the cores that a job uses.
"""

import sys
from pathlib import Path

import pytest
from tests.cli.test_cli_estimates import row_of, said
from tests.control.daemons import Daemon, daemon

from treadle.wire.jobs import JobRequest, State

# Little work and much waiting, as a job that waits for its data.
LIGHT = """
import sys, time
steps = int(sys.argv[sys.argv.index("--steps") + 1])
for step in range(steps):
    time.sleep(0.1)
    print(f"step {step + 1}/{steps}", flush=True)
"""


def light(folder: Path, steps: int, **fields: object) -> JobRequest:
    script = folder / "light.py"
    script.write_text(LIGHT)
    command = (sys.executable, str(script), "--steps", str(steps))
    return JobRequest(command=command, grace_s=1.0, **fields)  # type: ignore[arg-type]


@pytest.mark.slow
def test_u10_a_newcomer_joins_a_running_job_and_stops_nobody(tmp_path: Path) -> None:
    """1. A job of this kind ran alone. 2. Two more: the second starts beside the first.
    3. An exclusive one waits and says why."""
    with daemon("--devices", "1") as here:
        here.ended(here.client.submit(light(tmp_path, 60)).id)
        here.client.submit(light(tmp_path, 6000))
        here.reached(State.RUNNING, "2")
        here.client.submit(light(tmp_path, 5000))
        here.reached(State.RUNNING, "3")
        assert [here.view(job).attempts for job in ("2", "3")] == [1, 1]
        here.client.submit(light(tmp_path, 10, exclusive=True))
        assert row_of(here, "4")[2] == "PENDING"
        assert said(here, "why", "3").startswith("job 3 shares a slot with job 2")
        assert "with job 2" in " ".join(row_of(here, "3"))
        assert here.view("3").beside == ("2",)
        assert "sharing    now with job 2" in said(here, "describe", "3")


def test_u12_what_people_read_of_a_reserved_gang(tmp_path: Path) -> None:
    with daemon("--devices", "2") as here:
        _long(here, "1")
        gang = here.client.submit(JobRequest(command=("sleep", "1"), devices="2")).id
        for number in range(12):  # Each is another command: what its user says of it counts.
            words = ("true", "x" * (number + 1))
            here.client.submit(JobRequest(command=words, estimate_s=3600.0))
        assert "2 slots are reserved for it, 1 still busy" in _kept(here, gang)
        waits = [job for job in map(str, range(3, 15)) if here.view(job).state is State.PENDING]
        assert here.client.why(waits[-1]).code == "reserved"


def _long(here: Daemon, job: str) -> None:
    here.client.submit(JobRequest(command=("sleep", "600"), grace_s=1.0))
    here.reached(State.RUNNING, job)


def _kept(here: Daemon, gang: str) -> str:
    """What `why` prints of the gang once a device is kept for it."""
    for _ in range(100):
        text = said(here, "why", gang)
        if "reserved for it" in text and "1 still busy" in text:
            return text
    raise AssertionError(text)
