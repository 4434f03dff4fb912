"""Everything the live controller knows, in one place: the scheduler and what people want to see.

One event loop reads and changes it; nothing here waits.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from weft.control.gates import Gates
from weft.control.meter import Meter
from weft.control.profiles import Profiles
from weft.control.records import JobRecord, record_of
from weft.core.cluster import Cluster, Node
from weft.core.events import Event
from weft.core.job import Job, JobId
from weft.core.lifecycle import Phase
from weft.core.ports import Clock, InterleavingModel
from weft.core.scheduler import Scheduler
from weft.failures.memory import Memory
from weft.store.rows import AttemptRow, JobFilter
from weft.store.seal import Seal
from weft.store.store import Store
from weft.wire.jobs import FailureView, State

ENDED_MAX = 2000  # records of ended jobs that are kept at hand


@dataclass(slots=True)
class Decider:
    """The policy as its user named it."""

    policy: str
    placement: str
    worn: str  # with what the controller puts around it
    since_at: float
    error: str = ""  # of its last decision, if that failed
    last_s: float = 0.0  # how long its last decision took
    longest_s: float = 0.0


@dataclass(slots=True)
class Desk:
    scheduler: Scheduler
    belief: InterleavingModel
    store: Store
    seal: Seal
    clock: Clock
    node: Node
    decider: Decider
    root: Path
    profiles: Profiles
    failures: Memory  # of the scheduler's retry rule
    inbox: "asyncio.Queue[Event | None]" = field(default_factory=asyncio.Queue)
    records: dict[JobId, JobRecord] = field(default_factory=dict)  # of jobs that have not ended
    arrays: dict[str, dict[JobId, None]] = field(default_factory=dict)  # their members, likewise
    meter: Meter = field(default_factory=Meter)
    gates: Gates = field(init=False)
    # Attempts that have not ended, and those whose rows have to be written.
    open: dict[tuple[JobId, int], AttemptRow] = field(default_factory=dict)
    changed: dict[tuple[JobId, int], AttemptRow] = field(default_factory=dict)
    verdicts: dict[JobId, FailureView] = field(default_factory=dict)  # of the newest attempt
    not_before: dict[JobId, float] = field(default_factory=dict)  # after a failure
    next_number: int = 1
    last_event: int = 0  # id of the newest line of the journal
    draining: bool = False
    store_error: str = ""  # why the store cannot be written now
    ended: "OrderedDict[JobId, JobRecord]" = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.gates = Gates(self.state_of)

    @property
    def cluster(self) -> Cluster:
        return self.scheduler.cluster

    @property
    def free(self) -> int:
        """Devices that somebody could be given now."""
        free, closed = self.scheduler.tenancy.free, self.scheduler.closed
        if not closed:
            return free.total
        return sum(1 for device in free if device not in closed)

    def row(self, identity: JobId) -> Job | None:
        return self.scheduler.jobs.get(identity)

    def attempt(self, row: AttemptRow) -> None:
        """An attempt as it stands now."""
        key = (row.job, row.number)
        self.changed[key] = row
        if row.ended_at is None:
            self.open[key] = row
        else:
            self.open.pop(key, None)

    def add(self, record: JobRecord) -> None:
        self.records[record.id] = record
        if record.array:
            self.arrays.setdefault(record.array, {})[record.id] = None

    def drop(self, record: JobRecord) -> None:
        """A job has ended, and that is on disk."""
        self.records.pop(record.id, None)
        members = self.arrays.get(record.array)
        if members is not None:
            members.pop(record.id, None)
            if not members:
                del self.arrays[record.array]
        self.ended[record.id] = record
        while len(self.ended) > ENDED_MAX:
            self.ended.popitem(last=False)

    def record(self, identity: JobId) -> JobRecord | None:
        """Of a job, ended or not."""
        known = self.records.get(identity) or self.ended.get(identity)
        if known is not None:
            return known
        row = self.store.job(identity)
        return None if row is None else record_of(row)

    def state_of(self, identity: str) -> State | None:
        """Of a job, or of an array as a whole; None if there is none."""
        record = self.record(identity)
        if record is not None:
            return record.state
        if identity in self.arrays:
            return State.RUNNING
        rows = self.store.jobs(JobFilter(array=identity), limit=10_000)
        if not rows:
            return None
        bad = [row.state for row in rows if row.state != State.SUCCEEDED]
        return State(bad[0]) if bad else State.SUCCEEDED

    def tell(self, *events: Event) -> None:
        for event in events:
            self.inbox.put_nowait(event)


def state_of_row(job: Job, record: JobRecord, *, held: bool) -> State:
    """What people call the phase of a job."""
    match job.phase:
        case Phase.WAITING:
            return State.HELD if held else State.PENDING
        case Phase.STARTING:
            return State.RESIZING if record.resizing else State.STARTING
        case Phase.RUNNING:
            return State.RUNNING
        case _:
            return State.STOPPING
