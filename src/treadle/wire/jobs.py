"""Jobs as users submit and see them.

Everything here is a plain dataclass: the server makes its OpenAPI document from these, and the
client reads answers back into them. Moments that end in `_at` are seconds since 1970 here, because
people and other programs read them; inside, time is counted from the start of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from treadle.core.allocation import Pause
from treadle.core.value import value

Default = TypeVar("Default")


def described(default: Default, text: str) -> Default:
    """A field with this default, described in the OpenAPI document."""
    return field(default=default, metadata={"description": text})


def described_map(text: str) -> Mapping[str, object]:
    """An empty mapping by default, described likewise."""
    found: Mapping[str, object] = field(default_factory=dict, metadata={"description": text})
    return found


class State(StrEnum):
    """The state of a job; `cause` and `because` explain it."""

    PENDING = "PENDING"
    HELD = "HELD"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RESIZING = "RESIZING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"

    @property
    def ended(self) -> bool:
        return self in _ENDED


@value
class PauseView:
    """A pause of a job: it computes nothing, and others may have its devices."""

    how: Pause  # frozen: its memory stays on its devices; suspended: it is in the host's
    since_at: float
    by: str = ""  # the user who paused it; empty: the scheduler did
    for_job: str = ""  # the job that got its devices, if the scheduler paused it for one
    devices: tuple[str, ...] = ()  # where it goes on
    memory_gib: float | None = None  # of its devices: kept there, or moved; None: not known
    stuck: str = ""  # why it could not go on when that was last tried


COMMAND_SHOWN_MAX = 2000
UNUSED = "called off"  # AttemptView.told: nothing of the attempt ran; it is not shown
_ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.TIMEOUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The git state of the working directory at submission."""

    commit: str = ""  # of HEAD; empty where there is no git
    branch: str = ""
    dirty: bool = False
    diff: str = ""  # of tracked files against HEAD, cut at 1 MiB
    cut: bool = False  # the diff is longer; if it is not dirty, whether it was is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A submission. All fields but the command have defaults."""

    command: tuple[str, ...]
    name: str = ""
    devices: str = "1"  # "4", "1..4" or "1,2,4"; several sizes mean that Treadle may choose
    device_type: str = described(
        "",
        "Types that it may use, by parts of their names: h200 or a100,h200; gpu, cpu or any. Empty:"
        " GPUs of any type where there are some.",
    )
    ranks: str = "auto"  # "device": one process for each device; "one"; "auto": see docs/jobs.md
    workdir: str = ""  # absolute; empty means the submitter's home directory
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # given to the job, never shown
    tenant: str = ""
    priority: int = 0  # higher goes first
    guaranteed: bool = True  # False: it counts against no quota, and makes way for those that do
    resumable: bool = False  # it keeps checkpoints, so that it can be stopped and restarted
    preemptible: bool = True  # False: the scheduler takes no devices from it for others
    time_limit_s: float | None = None  # of running, over all attempts
    memory_gib: float | None = None  # host memory of the whole job on a node; None: no limit
    cpus: float | None = None  # cores of the whole job on a node; None: no limit
    gpu_memory_gib: float | None = None  # memory of each GPU that it needs; None: it does not say
    exclusive: bool = False  # it shares its devices with no other job
    warm: bool = True  # it may start from an interpreter that has imported what it imports
    elastic: str = described("", "auto: run a script for one device as an elastic job.")
    grace_s: float = 30.0  # between the stop signal and SIGKILL
    stop_signal: str = "SIGTERM"
    # At most; failures that would repeat are never retried. None: 3, of transient failures only.
    retries: int | None = None
    after: tuple[str, ...] = ()  # jobs that must end well first
    after_any: tuple[str, ...] = ()  # jobs that must end, however
    array: str = ""  # "0-99%8": a job for each number, at most 8 at once
    model: str = ""  # the network's name: jobs of one name are taken to train alike
    estimate_s: float | None = None  # how long it will take alone, if the user knows
    held: bool = False  # to be released by hand
    wait_for_capacity: bool = False  # queue it even if it fits no device that is there now
    slurm: bool = False  # its script was written for Slurm and is given SLURM_* variables
    notify: str = ""  # "end,fail": when its user is told; "none"; empty: as its user is in general
    code: Code | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The answer to a submission: one job, or the members of an array."""

    id: str  # of the job, or of the array as a whole
    jobs: tuple[str, ...]
    # In the policy's order, from 1; None if it has already been started. Which job starts first
    # also depends on what fits: `why` has the order of starts.
    position: int | None = None
    repeated: bool = False  # the idempotency key was known: nothing new was made
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A range of seconds that holds the true value with the stated probability."""

    low_s: float | None = None  # None: unknown
    high_s: float | None = None  # if only this is known, it is an upper bound
    coverage: float | None = None  # the share of such ranges that hold what happens; None: no claim
    known: bool = False  # False: no range is known, at most a bound
    because: str = ""  # what it rests on, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEstimate:
    """When a pending job would start, from simulations of the current state."""

    earliest_s: float | None  # from now; None: not within the simulated time
    latest_s: float | None
    runs: int
    sentence: str  # what it rests on
    coverage: float | None = None  # as of an Estimate
    unknown: tuple[str, ...] = described((), "Jobs in its way of which no length is known.")
    order: int | None = described(None, "Its place among the starts of jobs that wait now, from 1.")
    orders: tuple[int, int] | None = described(
        None, "The first and the last place that it has in the simulations."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The result of checking a submission; nothing was submitted."""

    jobs: int
    sizes: tuple[int, ...]
    starts_now: bool
    beside: tuple[str, ...] = described((), "The jobs with which it would share its devices.")
    never_fits: str = ""  # why it could never run here, if it could not
    because: str = ""  # why it would wait, if it needs nodes that are drained or lost
    estimate: StartEstimate | None = None
    length: Estimate | None = None  # of the whole job, with the devices it asks for
    spec: Mapping[str, object] = field(default_factory=dict)  # as it would be kept
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    step: float
    total: float | None = None
    per_s: float | None = None  # steps a second
    eta_s: float | None = None  # seconds to go: steps left at the present speed
    loss: float | None = None
    source: str = ""  # "report" or "log"
    stages: dict[str, float] = field(default_factory=dict)  # as in Report


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """Why an attempt failed, from the classifier of its logs."""

    kind: str  # deterministic, transient, resource, unknown
    rule: str
    sentence: str
    advice: str
    evidence: str = ""
    more: str = described("", "What it needs more of, such as gpu memory.")
    retried: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyView:
    """A time in which an attempt shared its devices."""

    jobs: tuple[str, ...]  # the others
    seconds: float
    relative: float | None = None  # its speed as a share of its speed alone, 0 to 1; None: unknown
    lasts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One launch of a job's processes."""

    number: int  # from 1
    devices: tuple[str, ...]
    started_at: float
    ended_at: float | None = None
    paused_s: float = described(0.0, "For how long it was paused between the two.")
    code: int | None = None  # exit status as shells write it: 128 + n for a signal
    told: str = ""  # what ended it from outside: "stopped", "resized", "time-limit", "lost" ...
    failure: FailureView | None = None
    memory_peak_gib: float | None = None  # host memory, where it was measured
    memory_kills: int = described(0, "Its processes that the kernel killed for memory.")
    company: tuple[CompanyView, ...] = described((), "With which jobs it shared its devices.")
    lost: tuple[str, ...] = described((), "Nodes of it that were lost before it had ended.")
    fallback: str = described(
        "", "That it started from the beginning, if its checkpoints were lost with a node."
    )
    workdirs: tuple[str, ...] = described(
        (), "NODE:FOLDER where it ran in a copy of the folder it was submitted from."
    )
    ranks: int = described(0, "Its processes; 0 if the server does not say.")
    replaced: tuple[str, ...] = described((), "Its ranks that were killed and replaced.")


@value  # A frozen dataclass of so many fields takes 31 us to make, this 5; lists have thousands.
class JobView:
    """A job as `treadle ps` lists it."""

    id: str
    name: str
    user: str
    tenant: str
    state: State
    uid: int | None = None  # of the user; who may touch the job goes by it, not by the name
    cause: str = described("", "The code of its reason, to count by: devices, held, preempted ...")
    numbers: Mapping[str, object] = described_map("The numbers of its reason.")
    because: str = described("", "Its reason, in one clause.")
    preempted_for: str = described("", "The job that got its devices, while it waits to resume.")
    preempted_at: float | None = described(None, "Since when it waits to resume.")
    pause: PauseView | None = None  # it is paused
    devices: tuple[str, ...] = ()  # held now
    used: tuple[str, ...] = described((), "Those that it had last, of a job that has ended.")
    beside: tuple[str, ...] = described((), "The other jobs on its devices.")
    plan: str = described(
        "", "Its execution plan while it runs, of jobs that say which plans they can have."
    )
    sizes: tuple[int, ...] = (1,)
    priority: int = 0
    guaranteed: bool = True
    resumable: bool = False
    progress: Progress | None = None  # what it said of its steps; None if it said nothing
    end: Estimate | None = None  # seconds from now; only while it runs
    submitted_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    running_s: float = 0.0  # with devices, all attempts together
    device_s: float = 0.0  # device-seconds
    attempts: int = 0
    resizes: int = 0
    failures: int = 0
    code: int | None = None  # exit status, once it ended
    array: str = ""  # id of the array it belongs to
    index: int | None = None
    command: tuple[str, ...] = described(
        (), f"Cut after {COMMAND_SHOWN_MAX:,} characters in lists; whole in a JobDetail."
    )
    model: str = ""
    arguments: Mapping[str, object] = described_map(
        "In a list of one array or name: what its command is given, by option, place or $VARIABLE."
    )


def in_short(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command for a list of jobs: what is beyond the limit is left out, and that is shown."""
    if sum(map(len, command)) + len(command) <= COMMAND_SHOWN_MAX:
        return command
    left, words = COMMAND_SHOWN_MAX, []
    for word in command:
        words.append(word[:left])
        left -= len(word) + 1
        if left <= 0:
            break
    return (*words[:-1], f"{words[-1]}...")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitAgain:
    """How to submit a job again as it was submitted."""

    command: str  # for a shell, over several lines
    notes: tuple[str, ...] = ()  # what the command cannot repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """A job's full record, without its secrets."""

    job: JobView
    workdir: str
    env: Mapping[str, str]
    secrets: tuple[str, ...]  # names only
    time_limit_s: float | None
    grace_s: float
    retries: int  # at most
    after: tuple[str, ...]
    after_any: tuple[str, ...]
    code: Code | None
    attempts: tuple[AttemptView, ...]
    failure: FailureView | None = None
    ranks: int = 1  # of the newest attempt
    logs_pruned_at: float | None = None  # its output was removed to make room
    memory_gib: float | None = None  # host memory of the whole job on a node
    cpus: float | None = None  # cores of the whole job on a node
    gpu_memory_gib: float | None = None  # of each GPU, as its user says
    device_type: str = described("", "Types of device that it may use, as its user says.")
    preemptible: bool = True
    exclusive: bool = False  # it shares its devices with no other job
    # It failed while it shared its devices, so it runs alone from then on.
    alone_because: str = ""
    enforced: tuple[str, ...] = ()  # which of the two this machine enforces: "memory", "cpus"
    retry_unknown: bool = False  # also failures that no rule knows; others are transient ones
    changes: tuple[str, ...] = ()  # what the running attempt can change without a restart
    pauses: tuple[Pause, ...] = ()  # how the running attempt can be paused
    not_paused: str = described("", "Why it could not be paused when that was last tried.")
    uses_train: bool = described(
        False, "Its processes train together by treadle.train, each with the same script."
    )
    stall_s: float | None = None  # how long it stood still for the last such change
    restart_s: float = described(0.0, "What a stop and a start cost it; 0: not measured.")
    script: str = described("", "By which GET /learned knows what it runs.")
    notify: str = described("", "When its user is told of it; empty: as configured.")
    again: SubmitAgain | None = None  # only for its owner and admins


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    jobs: tuple[JobView, ...]
    cursor: str = ""  # for the next page; empty at the end
    total: int | None = None  # active jobs in all, where it is cheap to say


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a job waits, or has its devices, or ended."""

    id: str
    state: State
    name: str = ""
    code: str = described("", "What bound it; docs/reasons.md lists all codes and their numbers.")
    numbers: Mapping[str, object] = described_map("The numbers of the code.")
    sentence: str = described("", "The reason in one clause, as `ps` shows it.")
    details: tuple[tuple[str, str], ...] = described((), "Labels with one fact each.")
    change: str = described("", "What would help: a command, where there is one.")
    never: bool = False  # it can never run as it is; waiting does not help
    position: int | None = described(
        None,
        "In the queue, from 1: by priority, then as the policy ranks. Which job starts first also "
        "depends on what fits: estimate.order has that.",
    )
    waiting: int = described(0, "Jobs that wait, this one included.")
    estimate: StartEstimate | None = None  # when it starts or resumes, while it waits
    freed_by: tuple[str, ...] = described((), "Jobs whose ends are expected to let it start.")
    length: Estimate | None = None  # of the whole job, with the devices it asks for
    end: Estimate | None = None  # seconds from now, while it runs
    beside: tuple[str, ...] = described((), "The other jobs on its devices.")
    members: int = described(
        0, "Of an array: how many of its jobs have not ended, or all once they have."
    )
    alternatives: tuple[tuple[str, str], ...] = described(
        (), "With `verbose`: what was tried and would start it now."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """A change of a job; None leaves a field as it is."""

    priority: int | None = None
    time_limit_s: float | None = None
    name: str | None = None
    devices: str | None = None  # only while it waits, as the next
    tenant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """Bytes of one rank's output."""

    attempt: int
    rank: int
    offset: int  # of the first byte
    next: int  # where to go on
    text: str
    ended: bool  # nothing will be added any more
    size: int  # bytes there are now
    lost: int = 0  # bytes that the limit on logs kept out, in the middle
    ranks: int = 0  # of this attempt that have output: all that it ever had
