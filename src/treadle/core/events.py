"""Facts, in the past tense: what the scheduler is told.

A report about a job carries the id of the order it answers, so that a late report of an earlier
attempt can be told from a report of this one.
"""

from treadle.core.cluster import Device, Node
from treadle.core.job import JobId, JobSpec
from treadle.core.value import value


@value
class JobSubmitted:
    spec: JobSpec


@value
class JobCancelled:
    job: JobId


@value
class JobHeld:
    """The job may not start until every reason for holding it is gone; what runs is stopped."""

    job: JobId
    reason: str


@value
class JobReleased:
    job: JobId
    reason: str  # the one that is gone


@value
class JobUpdated:
    """The job is another from now on: its user wants something else, or more is known of it."""

    spec: JobSpec


@value
class JobStarted:
    """The job runs under the allocation of that order, at that speed."""

    job: JobId
    action: int
    iterations_done: float
    iterations_per_s: float


@value
class JobProgressed:
    """A measurement. It never causes a decision: least-service policies would livelock."""

    job: JobId
    action: int
    iterations_done: float
    iterations_per_s: float


@value
class JobStopped:
    """The job let go of its devices and can resume from iterations_done."""

    job: JobId
    action: int
    iterations_done: float


@value
class JobFinished:
    job: JobId
    action: int


@value
class JobFailed:
    """The job ended by itself, badly; iterations_done is what a retry can build on."""

    job: JobId
    action: int
    iterations_done: float
    reason: str = ""


@value
class NodeJoined:
    node: Node


@value
class NodeLost:
    node: str


@value
class NodeDrained:
    """The node takes no new work; what runs there runs on."""

    node: str


@value
class DeviceClosed:
    """The device takes no new work, whoever is on it; what runs there runs on."""

    device: Device
    reason: str = ""


@value
class DeviceOpened:
    device: Device


Report = JobStarted | JobProgressed | JobStopped | JobFinished | JobFailed
Wish = JobSubmitted | JobCancelled | JobHeld | JobReleased | JobUpdated
Machine = NodeJoined | NodeLost | NodeDrained | DeviceClosed | DeviceOpened
Event = Wish | Report | Machine
