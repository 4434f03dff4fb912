"""What is kept of a job beside the core's row: how to launch it, and what became of it.

A record is made by JobAccepted and changed by facts alone (facts_to_records.py). It is written to
the store with the core's row in one transaction. Secrets are not part of it: they are sealed and
kept apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
from msgspec import structs

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Pause
from treadle.core.attempt import LastProgress
from treadle.core.errors import InvalidInputError
from treadle.core.events import Event, JobCancelled, JobUpdated
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.state import Kept
from treadle.journal.facts import (
    DependenciesDropped,
    DependencyBroken,
    JobAccepted,
    JobEdited,
    RecordFact,
)
from treadle.store.rows import JobRow
from treadle.wire.jobs import AttemptView, Code, FailureView, PauseView, Progress, State


class JobRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One job. Only the reducer changes its fields.

    What is as by default is not written: another default would give older rows another meaning.
    """

    id: JobId
    number: int
    name: str
    owner: str
    command: tuple[str, ...]
    submitted_at: float  # seconds since 1970, as all moments here
    uid: int | None = None
    gid: int | None = None
    tenant: str = ""
    member: int | None = None
    array: str = ""
    array_size: int = 0
    array_limit: int = 0  # members that may run at once; 0: all
    array_text: str = ""  # as its user wrote it: "0-99%8"
    workdir: str = ""
    archive: str = ""  # its code, for nodes that do not see that folder
    ranks: str = "auto"
    env: Mapping[str, str] = {}  # a Struct gives each its own
    slurm: bool = False  # it is given SLURM_* variables
    secrets: tuple[str, ...] = ()  # names
    time_limit_s: float | None = None
    memory_gib: float | None = None  # host memory of the whole job on a node
    cpus: float | None = None
    gpu_memory_gib: float | None = None  # of each GPU
    device_type: str = ""  # types that it may use, as its user wrote them
    exclusive: bool = False  # its user said that it shares its devices with no other job
    warm: bool = True  # it may start from a warm interpreter
    notify: str = ""  # when its user is told; empty: as in general
    elastic: str = ""  # "auto": its script is made elastic
    grace_s: float = 30.0
    stop_signal: str = "SIGTERM"
    after: tuple[JobId, ...] = ()
    after_any: tuple[JobId, ...] = ()
    broken: str = ""  # why a job that it waits for can never end well
    model: str = ""
    sizes: tuple[int, ...] = (1,)
    priority: int = 0
    guaranteed: bool = True
    estimate_s: float | None = None  # how long its user says that it takes alone
    submitted_held: bool = False
    wait_for_capacity: bool = False
    retries: int = 0
    retry_unknown: bool = False  # also failures that no rule knows
    resumable: bool = False
    preemptible: bool = True
    code: Code | None = None  # but for its difference, which is kept apart
    diff: str = ""  # its name in code_diffs.py
    nonce: str = ""  # of its submission: ids begin again in another store, nonces never repeat
    # What became of it.
    state: State = State.PENDING
    started_at: float | None = None  # first
    ended_at: float | None = None
    attempts: int = 0  # the highest number that was given to an attempt
    begun: int = 0  # the highest of an attempt that ran; numbers above it are given again
    starts: int = 0  # attempts that ran
    # Steps a second that earlier runs of its kind let expect when it first started, and of how many
    # devices; None: there were none.
    predicted_per_s: float | None = None
    predicted_size: int = 0
    running: int = 0  # the attempt that runs now; 0: none
    # By order, of the newest few: the attempt that it may begin, or that carried it out.
    launched: dict[int, int] = {}
    changes: tuple[str, ...] = ()  # what the newest attempt can change without a restart
    uses_train: bool = False  # an attempt of it spoke the protocol of treadle.train
    stall_s: float | None = None  # how long the newest attempt stood still for its last change
    size: int = 0  # devices of the newest attempt
    devices: tuple[str, ...] = ()  # those of the newest attempt that ran
    resizes: int = 0
    resizing: bool = False  # its newest order gave it another size
    refused: str = ""  # why it could not grow when that was last tried
    preempted_at: float | None = None  # since when it waits to resume; None: it was not preempted
    preempted_for: JobId = ""  # the job that got its devices; empty: none is known
    shrunk_for: JobId = ""  # the job that got some of them
    # When the newest attempt began, by the run's own clock; later by the time that it was paused.
    began_s: float | None = None
    lost_on: tuple[str, ...] = ()  # the nodes that had its checkpoints, and were lost
    pauses: tuple[Pause, ...] = ()  # how the newest attempt can be paused
    pause: PauseView | None = None  # it is paused, or about to be
    paused_s: float | None = None  # since when, by the run's own clock: it ran until then
    away_s: float = 0.0  # for how long the newest attempt was paused before that
    not_paused: str = ""  # why it could not be paused when that was last tried
    held_by: str = ""  # who put it on hold last; empty: not known
    lost_s: float | None = None  # when a node of it was lost: it counts as having run until then
    ran_s: float = 0.0  # seconds of attempts that have ended
    device_s: float = 0.0  # the same of device-seconds
    counted_s: float = 0.0  # of the running attempt, seconds that device_s has already
    failures: int = 0
    exit: int | None = None
    cancelled: bool = False  # a user asked for that
    cancelled_by: str = ""  # that user
    alone_because: str = ""  # why it does not share its devices any more, in one sentence
    mps_failed: bool = False  # that is because of the MPS server, which another job may have ended
    memory_failed: bool = False  # that is because it ran out of GPU memory beside another job
    how: str = ""  # "cancelled", "time-limit" ...: what ended it from outside
    failure: FailureView | None = None
    progress: Progress | None = None
    metered: bool = False  # its work is known from its own steps, at whatever size it made them
    checkpoint: float | None = None  # share of the work that is known to be safe
    safe: float = 0.0  # share of the work that the next attempt can build on

    @property
    def newest(self) -> int:
        """The attempt that runs, else the last one; one that may follow it does not count yet."""
        return self.running or self.attempts


class Saved(msgspec.Struct, omit_defaults=True):
    """One job as its row holds it."""

    kept: Kept


_encoder = msgspec.json.Encoder()
_records = msgspec.json.Decoder(JobRecord)
_saved = msgspec.json.Decoder(Saved)
_attempts = msgspec.json.Decoder(AttemptView)


def row_of(record: JobRecord, kept: Kept | None) -> JobRow:
    """The row of a job; `kept` is None once it has ended."""
    return JobRow(
        record.id,
        record.number,
        record.member,
        record.array,
        record.name,
        record.owner,
        record.tenant,
        record.state,
        record.priority,
        record.submitted_at,
        record.ended_at,
        _encoder.encode(record),
        None if kept is None else _encoder.encode(Saved(kept)),
    )


def record_of(row: JobRow) -> JobRecord:
    try:
        record = _records.decode(row.record)
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"job {row.id} in the store cannot be read: {error}") from None
    return record


def kept_of(row: JobRow) -> Kept:
    assert row.row is not None, "asked only for jobs that have not ended"
    try:
        return _saved.decode(row.row).kept
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"job {row.id} in the store cannot be read: {error}") from None


def accepted(records: Sequence[JobRecord]) -> JobAccepted:
    """The fact that records begin with: of one job, or of all members of an array."""
    first = records[0]
    members = tuple(record.member for record in records if record.member is not None)
    return JobAccepted(first.array or first.id, msgspec.to_builtins(first), members)


def records_from(fact: JobAccepted) -> list[JobRecord]:
    """The records as they were accepted."""
    first = msgspec.convert(fact.record, JobRecord)
    if not fact.members:
        return [first]
    return [
        structs.replace(first, id=f"{first.array}_{member}", member=member, launched={})
        for member in fact.members
    ]


def attempt_body(view: AttemptView) -> bytes:
    return _encoder.encode(view)


def attempt_of(body: bytes) -> AttemptView:
    return _attempts.decode(body)


def progress_of(said: LastProgress) -> Progress:
    """What a job said of its steps, as users see it."""
    return Progress(
        step=said.step,
        total=said.total,
        per_s=said.per_s,
        loss=said.loss,
        source=said.source,
        stages=dict(said.stages),
    )


def to_build_on(said: Progress | None, safe: float) -> Progress | None:
    """What a new attempt has of the progress of the one before, until it speaks for itself.

    One that begins from scratch has none of it. One that is started again after its last step
    may begin anywhere: that it is done would be wrong.
    """
    if said is None or not 0.0 < safe < 1.0:
        return None
    return said if not said.total else replace(said, step=min(said.step, safe * said.total))


def state_of_phase(job: Job, record: JobRecord, *, blocked: bool) -> State:
    """What people call the phase of a job."""
    match job.phase:
        case Phase.WAITING:
            return State.HELD if blocked else State.PENDING
        case Phase.PAUSED:
            return State.PAUSED
        case Phase.STARTING if job.allocation is not None and job.allocation.paused:
            return State.PAUSED
        case Phase.STARTING:
            return State.RESIZING if record.resizing else State.STARTING
        case Phase.RUNNING:
            return State.RUNNING
        case _:
            return State.STOPPING


def note_preemption(record: JobRecord, action: Action, at: float, *, asked: bool) -> None:
    """For whom a job was stopped or shrunk, until it has devices again.

    at: seconds since 1970. asked: its user stopped it, or it was blocked otherwise.
    """
    record.preempted_at, record.preempted_for, record.shrunk_for = None, "", ""
    if isinstance(action, Start):
        return
    if (isinstance(action, Stop) or action.allocation.paused) and not asked:
        record.preempted_at, record.preempted_for = at, action.for_job
    elif isinstance(action, Change) and action.allocation.size < record.size:
        record.shrunk_for = action.for_job


def note_wish(record: JobRecord, fact: Event | RecordFact) -> None:
    """What users change, or what follows from other jobs."""
    match fact:
        case JobUpdated():
            record.priority, record.tenant = fact.spec.priority, fact.spec.tenant
            record.sizes = fact.spec.sizes
        case JobEdited():
            record.name = fact.name or record.name
            record.time_limit_s = fact.time_limit_s or record.time_limit_s
        case JobCancelled():
            record.cancelled_by = record.cancelled_by or ("" if record.cancelled else fact.by)
            record.cancelled = True
        case DependencyBroken():
            record.broken = fact.reason
        case DependenciesDropped():
            record.after, record.after_any, record.broken = (), (), ""
        case _:
            pass
