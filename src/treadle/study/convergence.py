"""Device time spent after a job's loss had settled.

A loss has settled once it is within 0.1 % of the lowest that the job ever reported. With noise the
lowest loss comes late and by chance, so the result is a lower bound. Device time is assumed to be
spread evenly over a job's iterations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from treadle.models.loss_streams import stream
from treadle.models.losses import Numbers
from treadle.reports.run_history import JobHistory
from treadle.study.record import Record

WITHIN = 0.001
# The share of device time spent on the last 0.1 % in the Philly study, by final status.
STUDIED: Mapping[str, float] = {"passed": 0.62, "killed": 0.56}
_ALIKE = {"finished": "passed", "succeeded": "passed", "cancelled": "killed"}


@dataclass(frozen=True, slots=True)
class Convergence:
    """Jobs that reported losses, and those that did not."""

    jobs: int
    gpu_h: float
    settled_gpu_h: float  # of it, after the loss had settled
    share: float | None
    silent_jobs: int  # their losses are not recorded
    silent_gpu_h: float
    studied_gpu_h: float  # of it, if they were like the study's jobs: an assumption


def convergence(record: Record) -> Convergence:
    jobs = silent = 0
    held_s = settled_s = silent_s = studied_s = 0.0
    for identity, history in record.recorder.histories.items():
        if not history.service_s:
            continue
        reported = _losses(history, record.settings.seed)
        if reported is None:
            silent += 1
            silent_s += history.service_s
            status = record.statuses.get(identity, history.status)
            studied_s += history.service_s * STUDIED.get(_ALIKE.get(status, status), 0.0)
        else:
            jobs += 1
            held_s += history.service_s
            settled_s += history.service_s * settled_share(*reported)
    return Convergence(
        jobs=jobs,
        gpu_h=held_s / 3600.0,
        settled_gpu_h=settled_s / 3600.0,
        share=settled_s / held_s if held_s else None,
        silent_jobs=silent,
        silent_gpu_h=silent_s / 3600.0,
        studied_gpu_h=studied_s / 3600.0,
    )


def settled_share(iterations: Numbers, losses: Numbers) -> float:
    """The share of the iterations after the first loss within 0.1 % of the lowest."""
    first = int(np.argmax(losses <= float(losses.min()) * (1.0 + WITHIN)))
    return float(1.0 - iterations[first] / iterations[-1])


def _losses(history: JobHistory, seed: int) -> tuple[Numbers, Numbers] | None:
    """Iterations and losses of an AITurbo-like job; other jobs report none yet."""
    if history.status != "finished" or not history.done:
        return None
    # A job may declare a limit of steps; the steps it really took count.
    reports = stream(replace(history.spec, iterations=history.done), seed)
    count = 0 if reports is None else reports.count(history.done)
    return reports.losses(count) if reports is not None and count else None
