"""What is kept of a job beside the row of the core: how to launch it, and what became of it.

A record is written to the store whenever it changes, with the row, in one transaction. Secrets are
no part of it; they are sealed and kept apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from treadle.core.errors import InvalidInputError
from treadle.core.job import JobId
from treadle.core.state import Kept
from treadle.store.rows import JobRow
from treadle.wire.jobs import AttemptView, Code, FailureView, Progress, State


@dataclass(slots=True, kw_only=True)
class JobRecord:
    """One job. Fields change only in the controller's loop."""

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
    workdir: str = ""
    ranks: str = "auto"
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()  # names
    time_limit_s: float | None = None
    grace_s: float = 30.0
    stop_signal: str = "SIGTERM"
    after: tuple[JobId, ...] = ()
    after_any: tuple[JobId, ...] = ()
    broken: str = ""  # why what it waits for can never be
    model: str = ""
    sizes: tuple[int, ...] = (1,)
    priority: int = 0
    retries: int = 0
    resumable: bool = False
    known: bool = False  # its length is known from jobs like it, or was told
    code: Code | None = None  # but for its difference, which is kept apart
    diff: str = ""  # by what name (diffs.py)
    # What became of it.
    state: State = State.PENDING
    started_at: float | None = None  # first
    ended_at: float | None = None
    attempts: int = 0  # orders to launch so far
    launched: dict[int, int] = field(default_factory=dict)  # order -> number, of the newest few
    size: int = 0  # devices of the newest attempt
    resizes: int = 0
    resizing: bool = False  # its newest order gave it another size
    began_s: float | None = None  # when the newest attempt began, by the run's own clock
    ran_s: float = 0.0  # seconds of attempts that have ended
    device_s: float = 0.0  # the same of device-seconds
    failures: int = 0
    exit: int | None = None
    cancelled: bool = False  # somebody asked for that
    told: str = ""  # "cancelled", "time-limit" ...: what ended it from outside
    failure: FailureView | None = None
    progress: Progress | None = None
    checkpoint: float | None = None  # share of the work that is known to be safe
    paused: float = 0.0  # share of the work done when it was last stopped
    dirty: bool = field(default=True, compare=False)  # to be written


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
    record.dirty = False
    return record


def kept_of(row: JobRow) -> Kept:
    assert row.row is not None, "asked only for jobs that have not ended"
    try:
        return _saved.decode(row.row).kept
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"job {row.id} in the store cannot be read: {error}") from None


def attempt_body(view: AttemptView) -> bytes:
    return _encoder.encode(view)


def attempt_of(body: bytes) -> AttemptView:
    return _attempts.decode(body)
