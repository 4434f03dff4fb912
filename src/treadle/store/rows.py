"""The rows of the store, as plain values.

A batch is everything that one step of the controller changed; it is written in one transaction or
not at all. Bodies are JSON that the store does not parse. Moments that end in `_at` are seconds
since 1970, except `at`, which counts from the start of the run as the core does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class JournalRow(NamedTuple):
    """One fact, decision or order. The store gives the id, ascending."""

    at: float
    wall_at: float
    kind: str
    job: str  # empty if the line is about no job
    body: bytes  # the line as journal/codec.py writes it, without its number
    id: int = 0  # 0 until it is written


class JobRow(NamedTuple):
    """A job's present state: columns that queries use, and two bodies that they do not."""

    id: str
    number: int  # ascending in order of submission; the members of an array share it
    member: int | None  # its number within the array
    array: str  # id of the array; empty for a single job
    name: str
    owner: str
    tenant: str
    state: str  # treadle.wire.jobs.State
    priority: int
    submitted_at: float
    ended_at: float | None
    record: bytes  # the controller's record
    row: bytes | None  # the core's row; None once the job has ended


class AttemptRow(NamedTuple):
    """One launch; (job, number) is the key."""

    job: str
    number: int  # from 1
    action: int  # the order that started it
    owner: str
    tenant: str
    devices: tuple[str, ...]
    started_at: float | None  # None until its processes run
    ended_at: float | None
    busy: float | None  # mean utilization of its devices, 0 to 1; None if not measured
    failed: bool
    body: bytes  # exit status, verdict, ...
    nonce: str = ""  # what its folder and its processes carry; empty before revision 0003


class HistoryRow(NamedTuple):
    """What was measured of one attempt over time; (job, attempt) is the key."""

    job: str
    attempt: int
    started_at: float  # of its first measurement
    body: bytes  # compressed, as control/learning/load_history.py packs it


class OutputRow(NamedTuple):
    """What an ended job left on disk."""

    job: str
    owner: str
    ended_at: float
    bytes: int  # of its logs and attempt folders
    pruned_at: float | None = None


class ProfileRow(NamedTuple):
    """What was learned from similar jobs."""

    key: str
    body: bytes
    changed_at: float


class TokenRow(NamedTuple):
    id: str
    digest: str  # SHA-256 of the token, in hexadecimal
    name: str
    owner: str
    role: str
    created_at: float
    expires_at: float | None
    used_at: float | None
    uid: int | None = None  # the owner's when it was made; names can be given to others later
    used_from: str | None = None  # the address of its last use


class KeyRow(NamedTuple):
    """A user's idempotency key, and the answer to its request."""

    owner: str  # Who.account
    key: str
    digest: str  # of the request; the same key with another request is a conflict
    body: bytes
    made_at: float


class UsageSum(NamedTuple):
    owner: str
    tenant: str
    jobs: int
    allocated_s: float  # device-seconds
    used_s: float | None
    failed_s: float


@dataclass(slots=True)
class Batch:
    """What one transaction writes. A row replaces the one with the same key."""

    journal: list[JournalRow] = field(default_factory=list)
    jobs: list[JobRow] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)
    profiles: list[ProfileRow] = field(default_factory=list)
    histories: list[HistoryRow] = field(default_factory=list)
    tokens: list[TokenRow] = field(default_factory=list)
    keys: list[KeyRow] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, bytes] = field(default_factory=dict)  # by job, sealed
    forgotten: list[str] = field(default_factory=list)  # jobs whose secrets are deleted

    def __bool__(self) -> bool:
        return any(
            (
                self.journal,
                self.jobs,
                self.attempts,
                self.profiles,
                self.histories,
                self.tokens,
                self.keys,
                self.settings,
                self.secrets,
                self.forgotten,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; an empty field matches all."""

    states: Sequence[str] = ()
    owner: str = ""
    tenant: str = ""
    array: str = ""
    name: str = ""
    ended: bool | None = None
