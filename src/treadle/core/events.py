"""Facts, in the past tense: what the scheduler learns.

A report about a job carries the id of the order it answers, which tells a late report of an
earlier attempt from a report of this one.
"""

from dataclasses import field, replace

from treadle.core.allocation import Pause
from treadle.core.attempt import How, LastProgress, Verdict
from treadle.core.cluster import Device, Node
from treadle.core.job import JobId, JobSpec, Profile
from treadle.core.sighting import Sighting
from treadle.core.value import value


@value
class JobSubmitted:
    spec: JobSpec


@value
class JobCancelled:
    job: JobId
    by: str = ""  # who asked for it; empty: not known


@value
class JobHeld:
    """The job is blocked until every reason is gone; if it runs, it is paused or stopped.

    One that is starting is paused once it runs.
    """

    job: JobId
    reason: str
    how: Pause | None = None  # how it is paused if it runs; None: it is stopped
    by: str = ""  # who asked for it; empty: not known


@value
class JobReleased:
    job: JobId
    reason: str  # the one that is gone
    by: str = ""  # who asked for it; empty: not known


@value
class JobUpdated:
    """The job's spec changed: its owner changed it, or more is known about the job."""

    spec: JobSpec


@value
class JobsLearned:
    """More is known of jobs of one kind: all of them are expected to be like this.

    One fact for many jobs: a lesson about a kind of which thousands wait is as short as about one.
    """

    jobs: tuple[JobId, ...]
    iterations: float
    profile: Profile
    order_work: float = 0.0  # as of a JobSpec

    def applied(self, spec: JobSpec) -> JobSpec:
        return replace(
            spec, iterations=self.iterations, profile=self.profile, order_work=self.order_work
        )


@value
class JobStarted:
    """The job runs under the allocation of that order, at that speed."""

    job: JobId
    action: int
    iterations_done: float
    iterations_per_s: float
    # What this attempt can change without a restart, as it announced itself: "size", "devices",
    # "plan", "turn", "host" (core/allocation.py, differences).
    changes: tuple[str, ...] = ()
    attempt: int = 0  # which attempt runs; 0 in engines that do not number them (the simulator)
    started_at: float | None = None  # seconds since 1970; None: when the fact is taken
    # For a change without a restart: for how long the processes that went on stood still.
    stall_s: float | None = None
    # Why it could not be given more devices while it runs, or not be paused: it has what it had
    # before that order.
    refused: str = ""
    kept_on: tuple[str, ...] = ()  # the nodes that see its checkpoints, unless all do
    # Nodes and their folders in which it runs in place of the one it was submitted from.
    workdirs: tuple[tuple[str, str], ...] = ()
    pauses: tuple[Pause, ...] = ()  # how it can be paused
    took_s: float | None = None  # of a job that was paused: from the order to go on


@value
class JobPaused:
    """The job computes nothing, and its devices are free for others. It can go on there."""

    job: JobId
    action: int
    how: Pause
    attempt: int = 0
    # Of the memory of its devices: kept there, or moved to the host's. None: not known.
    memory_gib: float | None = None
    took_s: float | None = None  # from the order to pause it
    refused: str = ""  # why it could not go on: it is paused as it was


@value
class JobProgressed:
    """A measurement. It never causes a decision: least-service policies would livelock."""

    job: JobId
    action: int
    iterations_done: float
    iterations_per_s: float
    progress: LastProgress | None = None  # what the job itself said, live
    seen: Sighting | None = None  # what was measured of it from outside, live and seldom


@value
class TrainingEnded:
    """The job's members said that their training is over: the attempt is about to end by itself."""

    job: JobId
    action: int


@value
class RankReplaced:
    """A rank was killed while the others trained on; another one takes its place on its device."""

    job: JobId
    action: int
    attempt: int
    rank: int
    code: int  # its exit code as shells write it: 128 + the signal


@value
class JobStopped:
    """The job released its devices and can resume from iterations_done."""

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
class AttemptEnded:
    """An attempt ended: everything about its end in one fact.

    An engine fills in what it saw. The controller adds the verdict, the last report and
    `iterations_done` before the fact is journaled. To the scheduler it is a `JobFinished`, a
    `JobFailed` or a `JobStopped` (`meaning`).
    """

    job: JobId
    action: int  # the newest order about the job, which this end answers
    attempt: int  # 0 if nothing was launched
    how: How
    code: int | None = None  # exit code as shells write it; of the rank that failed first
    codes: tuple[int | None, ...] = ()  # of each rank
    error: str = ""  # why it was not launched, or lost; or which limit it exceeded; one sentence
    started_at: float | None = None  # seconds since 1970, as the next
    ended_at: float | None = None
    ran_s: float | None = None  # by a clock that cannot be set; None if it was not measured
    memory_peak_gib: float | None = None  # host memory, all ranks; None if it was not measured
    memory_kills: int = 0  # of its processes that the kernel killed for memory
    # It was lost with a node of its cluster, or because the agent there was away, as `error` says
    # then: it goes back to the queue, and no failure is counted.
    node_lost: bool = False
    # It was not launched, and can be only on these nodes; what binds it to them (core/job.py).
    only_on: tuple[str, ...] = ()
    only_because: str = ""
    # From here on filled in by the controller.
    iterations_done: float = 0.0  # what the next attempt can build on
    safe: float = 0.0  # the same as a share of the whole work
    verdict: Verdict | None = None  # why it failed
    progress: LastProgress | None = None
    busy: float | None = None  # mean share of time in which its devices worked
    seen: Sighting | None = None  # what was measured of it from outside
    # The jobs beside which it failed, if that was the scheduler's mistake and not the job's: it
    # goes back to the queue, and no failure is counted.
    beside: tuple[JobId, ...] = ()
    # The same without company: the MPS server that the scheduler had it run under failed.
    mps_failed: bool = False

    @property
    def meaning(self) -> "JobFinished | JobFailed | JobStopped | None":
        """What the end is to the scheduler; None if the job continues in another attempt."""
        match self.how:
            case How.REPLACED:
                return None
            case How.STOPPED | How.MACHINE_ERROR:
                return JobStopped(self.job, self.action, self.iterations_done)
            case How.EXITED if self.code == 0:
                return JobFinished(self.job, self.action)
            case _ if self.beside or self.mps_failed or self.node_lost:
                return JobStopped(self.job, self.action, self.iterations_done)
            case _:
                rule = "" if self.verdict is None else self.verdict.rule
                return JobFailed(self.job, self.action, self.iterations_done, rule)


@value
class NodeJoined:
    node: Node
    # It was there and took no new work; for people only.
    undrained: bool = field(default=False, compare=False)


@value
class NodeLost:
    node: str
    # In one sentence, for people: two reports of one loss are the same.
    why: str = field(default="", compare=False)


@value
class NodeDrained:
    """The node takes no new work. What runs there runs on, unless it can go on elsewhere."""

    node: str


@value
class DeviceClosed:
    """The device takes no new work; what runs there runs on."""

    device: Device
    reason: str = ""
    # "avoided", "quarantined", "foreign", "unseen", "excluded", "machine", "stuck", "silent",
    # "unconfirmed"
    cause: str = ""
    also: tuple[Device, ...] = ()  # others, which are closed for the same reason at once

    @property
    def devices(self) -> tuple[Device, ...]:
        return (self.device, *self.also)


@value
class DeviceOpened:
    device: Device
    also: tuple[Device, ...] = ()

    @property
    def devices(self) -> tuple[Device, ...]:
        return (self.device, *self.also)


Report = (
    JobStarted
    | JobPaused
    | JobProgressed
    | TrainingEnded
    | RankReplaced
    | JobStopped
    | JobFinished
    | JobFailed
    | AttemptEnded
)
Wish = JobSubmitted | JobCancelled | JobHeld | JobReleased | JobUpdated | JobsLearned
Machine = NodeJoined | NodeLost | NodeDrained | DeviceClosed | DeviceOpened
Event = Wish | Report | Machine
