"""The demo's jobs: small real trainings of different shapes, submitted a few seconds apart."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from treadle.wire.jobs import JobRequest
from treadle.wire.notation import CARRIED

TRAIN = Path(__file__).with_name("train.py")
POLICY = "afs+live?restart_s=0.5"
TWIN_STEPS = 1_000_000  # more than are ever done


class Act(NamedTuple):
    """One submission."""

    after_s: float  # since the first job trains
    request: JobRequest
    said: str  # a short description


WIDTH = 24
STEP_S = 0.06  # of a step on one device, as the lengths below are meant


def pace() -> float:
    """How many steps to do for one that the story has: faster machines do more of them."""
    words = [sys.executable, str(TRAIN), "measure", str(WIDTH)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        return max(1.0, STEP_S / float(done.stdout))
    except (ValueError, subprocess.TimeoutExpired):
        return 1.0  # The jobs will say what is wrong, or the machine is very busy.


def acts(slots: int, scale: float = 1.0) -> tuple[Act, ...]:
    """The submissions for a number of devices; `scale` makes the training jobs longer.

    Jobs of any size are as much longer as there are devices, so that they still train when the
    others come.
    """
    both = f"1..{slots}"
    return (
        Act(0, _job("vision", both, 160 * slots, scale, resumable=True), "long, any size"),
        Act(4, _job("probe-a", "1", 60, scale), "short, one device"),
        Act(6, _job("probe-b", "1", 60, scale), "short, one device"),
        Act(9, _job("tuning", both, 60 * slots, scale, resumable=True), "medium, any size"),
        Act(12, _job("probe-c", "1", 40, scale), "short, one device"),
    )


def twins() -> tuple[Act, ...]:
    """Two submissions of the same training, which are stopped when enough was seen of them."""
    first = _job("twin-a", "1", TWIN_STEPS, 1.0)
    second = _job("twin-b", "1", TWIN_STEPS, 1.0)
    return Act(0, first, "one device"), Act(2, second, "the same training, one device")


def _job(
    name: str, devices: str, steps: int, scale: float, *, resumable: bool = False
) -> JobRequest:
    count = max(4, round(steps * scale))
    return JobRequest(
        name=name,
        command=(sys.executable, str(TRAIN), str(count), str(WIDTH)),
        devices=devices,
        resumable=resumable,
        env={name: os.environ[name] for name in CARRIED if name in os.environ},
        workdir=str(Path.cwd()),
        model="small-cnn",
        grace_s=20.0,
        retries=0,
    )
