"""What `submit`, `ps` and `why` print is what docs/estimates.md shows, to the letter."""

import re
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.cli.printed import Transcript, check_page
from tests.control.daemons import Daemon, daemon
from tests.waiting import until

from treadle.core.job_report import Report
from treadle.wire.jobs import JobRequest, State

PAGE = Path(__file__).parents[2] / "docs" / "estimates.md"
LOGS = "  treadle logs"

# Little work and much waiting, as a job that waits for its data.
TRAIN = """
import sys, time
steps = int(sys.argv[sys.argv.index("--steps") + 1])
for step in range(steps):
    time.sleep(0.1)
    print(f"step {step + 1}/{steps} loss {1 / (step + 1):.4f}", flush=True)
"""


def sleeping(seconds: float, **fields: object) -> JobRequest:
    return requested(("sleep", f"{seconds:g}"), **fields)


def requested(command: tuple[str, ...], **fields: object) -> JobRequest:
    """The same command in another folder would be another kind of job."""
    return JobRequest(command=command, workdir=str(Path.cwd()), grace_s=1.0, **fields)  # type: ignore[arg-type]


def submitted(said: Transcript, *words: str) -> None:
    said.run(f"treadle submit {' '.join(words)}", "submit", *words, upto=LOGS)


def asked(said: Transcript, *words: str) -> str:
    return said.run(f"treadle {' '.join(words)}", *words)


def test_u4_a_fresh_install_says_unknown_and_no_number() -> None:
    with daemon("--devices", "1") as here:
        said = Transcript(here)
        submitted(said, "--", "sleep", "600")
        here.reached(State.RUNNING, "1")
        submitted(said, "--", "sleep", "600")
        asked(said, "ps")
        asked(said, "why", "1")
        asked(said, "why", "2")
        check_page(PAGE, "a fresh install", str(said))
        assert not re.search(r"80%", str(said)), "no range is claimed"


def test_u4_a_known_job_has_a_range_wherever_it_is_shown() -> None:
    with daemon("--devices", "3") as here:
        here.ended(*(here.client.submit(sleeping(15)).id for _ in range(3)))
        here.client.submit(sleeping(15, devices="2"))
        here.reached(State.RUNNING, "4")
        said = Transcript(here)
        submitted(said, "--", "sleep", "15")
        here.reached(State.RUNNING, "5")
        submitted(said, "--", "sleep", "15")
        asked(said, "ps")
        asked(said, "why", "5")
        asked(said, "why", "6")
        end, start = here.view("5").end, here.client.why("6").estimate
        assert end is not None
        assert start is not None
        assert (end.known, end.coverage, end.because) == (True, 0.8, "from 3 runs of this command")
        assert (end.high_s or 1e9, start.latest_s or 1e9) < (30.0, 30.0)
        assert start.coverage == 0.8
        submitted(said, "-t", "2s", "--", "sleep", "15")
        check_page(PAGE, "a known job", str(said))


def test_u4_a_time_limit_is_a_bound_and_no_estimate() -> None:
    with daemon("--devices", "1") as here:
        said = Transcript(here)
        submitted(said, "-t", "20m", "--", "sleep", "600")
        here.reached(State.RUNNING, "1")
        submitted(said, "-t", "20s", "--", "sleep", "601")
        asked(said, "ps")
        asked(said, "why", "1")
        asked(said, "why", "2")
        check_page(PAGE, "only a time limit", str(said))


def test_u5_no_percentage_without_steps_that_the_job_said() -> None:
    """1. A job of a known length says nothing: no percentage, no step. 2. It reports: both."""
    with daemon("--devices", "1") as here:
        said = Transcript(here)
        job = here.client.submit(sleeping(600, estimate_s=600.0)).id
        here.reached(State.RUNNING, job)
        assert here.view(job).progress is None
        assert "%" not in asked(said, "ps").replace("80%", "")
        shown = asked(said, "describe", job)
        assert "progress" not in shown
        assert "step" not in shown
        assert "done" not in dict(here.client.why(job).details)
        here.client.report(job, Report(step=30, total=120))
        progress = here.view(job).progress
        assert progress is not None
        assert (progress.step, progress.total) == (30, 120)
        assert "progress   25%, step 30 of 120" in asked(said, "describe", job)
        assert dict(here.client.why(job).details)["done"] == "25%"


def test_u14_an_array_has_an_end_and_jobs_behind_it_a_start() -> None:
    """Four jobs, two at once, of a kind that is known; and one that starts after them."""
    with daemon("--devices", "3") as here:
        here.ended(*(here.client.submit(sleeping(15)).id for _ in range(3)))
        said = Transcript(here)
        submitted(said, "--array", "0-3%2", "--name", "sweep", "--", "sleep", "15")
        here.reached(State.RUNNING, "4_0", "4_1")
        asked(said, "why", "sweep")
        asked(said, "why", "4_3")
        submitted(said, "--after", "sweep", "--", "sleep", "15")
        check_page(PAGE, "an array", str(said))


def _known(here: Daemon, script: Path) -> None:
    """One of its kind ran alone for 20 s: looks are 2 s apart, later on a busy machine, and a
    speed counts if it was measured for 5 s."""
    command = (sys.executable, str(script), "--steps", "200")
    here.ended(here.client.submit(requested(command)).id)


@pytest.mark.slow
def test_u10_sharing_is_shown_at_submission_in_lists_and_afterwards(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    with daemon("--devices", "1") as here:
        _known(here, script)
        said = Transcript(here)
        for job, steps in (("2", "6000"), ("3", "5000")):
            words = ("submit", "--grace", "1s", "--", sys.executable, str(script), "--steps", steps)
            line = f"treadle submit -- python train.py --steps {steps}"
            said.run(line, *words, upto=LOGS)
            until(partial(_speaks, here, job))
        until(lambda: all(_paced(here, job) for job in ("2", "3")))
        assert [here.view(job).attempts for job in ("2", "3")] == [1, 1]
        assert here.view("3").beside == ("2",)
        asked(said, "ps")
        asked(said, "why", "3")
        exclusive = ("submit", "--exclusive", "--", sys.executable, str(script), "--steps", "10")
        said.run("treadle submit --exclusive -- python train.py --steps 10", *exclusive, upto=LOGS)
        asked(said, "why", "4")
        until(lambda: _shared(here))
        said.run("treadle cancel 3", "cancel", "3", show=False)
        here.ended("3")
        described = said.run("treadle describe 3", "describe", "3", show=False)
        check_page(PAGE, "a sharing job", str(said))
        assert re.search(r"^  sharing    with job 2", described, re.MULTILINE)


def _speaks(here: Daemon, job: str) -> bool:
    return here.view(job).progress is not None


def _paced(here: Daemon, job: str) -> bool:
    end = here.view(job).end
    return end is not None and end.because == "from its steps"


def _shared(here: Daemon) -> bool:
    """Whether it was measured in company."""
    history = here.client.job_history("3").attempts
    return bool(history) and len(history[-1].points) >= 6


def test_u12_a_gang_says_when_devices_are_kept_for_it_and_that_they_are() -> None:
    """1. One of two slots is taken. 2. Jobs that are said to be long overtake a gang, up to four.
    3. Then devices are kept for it."""
    with daemon("--devices", "2") as here:
        here.client.submit(sleeping(600))
        here.reached(State.RUNNING, "1")
        said = Transcript(here)
        submitted(said, "-d", "2", "--", "sleep", "60")
        asked(said, "why", "2")
        for number in range(8):  # Each is another script, so that what its user says counts.
            command = ("sh", "-c", "true " + "x" * (number + 1))
            here.client.submit(JobRequest(command=command, name="true", estimate_s=3600.0))
        until(lambda: here.client.why("2").code == "reservation")
        until(lambda: here.client.why("2").numbers["free"] == 1)
        asked(said, "why", "2")
        pending = here.client.job_page(states=("PENDING",)).jobs[-1].id
        said.run("treadle why 10", "why", pending)
        assert here.client.why(pending).code == "reserved"
        asked(said, "ps")
        check_page(PAGE, "a reserved gang", str(said))
