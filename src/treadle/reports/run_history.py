"""The data of a recorder: job histories, holds, failed attempts, the cluster over time."""

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.job import JobId, JobSpec


class JobHistory:
    """The history of one job.

    Not a dataclass: most fields keep their defaults, which class attributes share.
    """

    status = "waiting"  # waiting, running, finished, failed, cancelled
    first_start_at: float | None = None
    ended_at: float | None = None
    waiting_since_at: float | None = None
    waited_s = 0.0
    blocking = 0.0  # integral of (time since it last held a device / its remaining work)
    service_s = 0.0
    starts = 0
    attempt = -1  # id of the order that began the present hold
    failed = -1  # id of the order that the last failure answered
    preemptions = 0  # stops
    pauses = 0
    interruptions = 0  # stops forced by a lost node
    resizes = 0
    moves = 0
    failures = 0
    overtaken = 0  # starts, while it waited, of jobs that came later; up to its last start
    tried_s = 0.0  # seconds with devices up to the last failure
    tried_device_s = 0.0  # the same of device-seconds
    lost_s = 0.0  # device-seconds of work that had to be done again
    allocation: Allocation | None = None
    held_since_at = 0.0
    held_s = 0.0  # seconds with devices, the present hold not counted
    last_hold = -1  # index of the last hold that ended; -1 if none
    begun = 0.0  # iterations done when the present hold began
    done = 0.0  # iterations, as of observed_at
    speed = 0.0
    useful = 0.0  # that speed over the speed on one device
    observed_at = 0.0

    def __init__(
        self, spec: JobSpec, submitted_at: float, *, place: int, contention: float
    ) -> None:
        self.spec = spec
        self.place = place  # in order of arrival
        self.submitted_at = submitted_at
        self.contention = contention  # integral of the number of unfinished jobs over its life

    def iterations_at(self, now: float) -> float:
        return min(self.done + self.speed * (now - self.observed_at), self.spec.iterations)


class Hold(NamedTuple):
    """One job on one set of devices from one moment to another."""

    job: JobId
    allocation: Allocation
    from_at: float
    to_at: float
    iterations: float = 0.0  # done in this hold, less work that was lost


class FailedAttempt(NamedTuple):
    """One failed attempt of a job: everything it held since its last failure."""

    job: JobId
    at: float
    reason: str
    number: int  # 1: the first of this job
    size: int  # devices it held when it failed
    ran_s: float
    device_s: float
    retried: bool


def _floats() -> "array[float]":
    return array("d")


@dataclass(slots=True)
class Series:
    """The state of the cluster after each step."""

    at: "array[float]" = field(default_factory=_floats)
    busy: "array[float]" = field(default_factory=_floats)  # devices with a job
    waiting: "array[float]" = field(default_factory=_floats)  # jobs
    running: "array[float]" = field(default_factory=_floats)  # jobs
    useful: "array[float]" = field(default_factory=_floats)  # sum of speed-ups
