"""Everything the live controller knows, in one place: the scheduler and what people want to see.

One event loop reads and changes it; nothing here waits.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from treadle.control.jobs.code_diffs import Diffs
from treadle.control.jobs.gates import Gates
from treadle.control.jobs.records import JobRecord, record_of
from treadle.control.learning.device_use import Busyness
from treadle.control.learning.metering import Meter
from treadle.control.learning.profiles import Profiles
from treadle.core.cluster import Cluster, Node
from treadle.core.events import Event, JobUpdated
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.ports import Clock, InterleavingModel
from treadle.core.scheduler import Scheduler
from treadle.engines.inbox import Inbox
from treadle.failures.failure_history import FailureHistory
from treadle.store.rows import AttemptRow, JobFilter, JobRow
from treadle.store.seal import Seal
from treadle.store.store import Store
from treadle.wire.jobs import FailureView, State

MEMBERS_PAGE = 1000
ENDED_MAX = 2000  # records of ended jobs that are kept at hand


@dataclass(slots=True)
class Decider:
    """The policy as its user named it."""

    policy: str
    placement: str
    worn: str  # with what the controller puts around it
    since_at: float
    error: str = ""  # of its last decision, if that failed
    trouble: str = ""  # of anything else it was asked; that stays until there is another policy
    last_s: float = 0.0  # how long its last decision took
    longest_s: float = 0.0

    @property
    def failing(self) -> str:
        """What is wrong with it, if something is."""
        return self.error or self.trouble


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
    failures: FailureHistory  # of the scheduler's retry rule
    inbox: Inbox = field(default_factory=Inbox)
    records: dict[JobId, JobRecord] = field(default_factory=dict)  # of jobs that have not ended
    arrays: dict[str, dict[JobId, None]] = field(default_factory=dict)  # their members, likewise
    meter: Meter = field(default_factory=Meter)
    busyness: Busyness = field(default_factory=Busyness)
    gates: Gates = field(init=False)
    diffs: Diffs = field(init=False)
    # Attempts that have not ended, and those whose rows have to be written.
    open: dict[tuple[JobId, int], AttemptRow] = field(default_factory=dict)
    changed: dict[tuple[JobId, int], AttemptRow] = field(default_factory=dict)
    verdicts: dict[JobId, FailureView] = field(default_factory=dict)  # of the newest attempt
    sealed: dict[JobId, bytes] = field(default_factory=dict)  # secrets of jobs that have not ended
    told: dict[JobId, JobSpec] = field(default_factory=dict)  # on their way to the scheduler
    next_number: int = 1
    last_event: int = 0  # id of the newest line of the journal
    draining: bool = False
    store_error: str = ""  # why the store cannot be written now
    ended: "OrderedDict[JobId, JobRecord]" = field(default_factory=OrderedDict)
    # What the engine makes of a device: avoided, quarantined, foreign ...
    device_state: Callable[[int], str] = field(default=lambda _: "")
    device_orders: Callable[[], str] = field(default=lambda: "{}")  # what outlives a restart

    def __post_init__(self) -> None:
        self.gates = Gates(self.state_of)
        self.diffs = Diffs(self.root / "code")

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

    def spec(self, job: Job) -> JobSpec:
        """What the job is, or is about to be: whoever changes it builds on this."""
        return self.told.get(job.id, job.spec)

    def in_queue(self, identity: JobId) -> bool:
        """Whether it waits for nothing but its turn."""
        row, scheduler = self.row(identity), self.scheduler
        waits = row is not None and row.phase is Phase.WAITING
        return waits and identity not in scheduler.held and identity not in scheduler.unfit

    def places(self) -> dict[JobId, int]:
        """Who waits at which place, from 1: by priority, then in the policy's order."""
        jobs = self.scheduler.jobs
        line = [identity for _, _, identity in self.scheduler.ranking.queue]
        line.sort(key=lambda identity: -jobs[identity].spec.priority)
        return {identity: place for place, identity in enumerate(line, 1)}

    def place(self, identity: JobId) -> int | None:
        """The same of one job, without sorting."""
        if not self.in_queue(identity):
            return None
        jobs, place, behind = self.scheduler.jobs, 1, False
        own = jobs[identity].spec.priority
        for _, _, other in self.scheduler.ranking.queue:
            behind = behind or other == identity
            priority = jobs[other].spec.priority
            place += priority > own or (priority == own and not behind)
        return place

    def sharers(self, job: Job) -> list[JobId]:
        """Everybody on the devices of a job."""
        if job.allocation is None:
            return []
        tenants = self.scheduler.tenancy.tenants
        found = [tenants[device].values() for device in job.allocation.devices]
        return list(dict.fromkeys(name for names in found for name in names))

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
        self.sealed.pop(record.id, None)
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

    def shown(self, record: JobRecord) -> State:
        """The state as people may see it: an end only once it is on disk, for they go by it."""
        if record.state.ended and record.id in self.records:
            return State.STOPPING
        return record.state

    def state_of(self, identity: str) -> State | None:
        """Of a job, or of an array as a whole; None if there is none."""
        record = self.record(identity)
        if record is not None:
            return record.state
        here = [self.records[member] for member in self.arrays.get(identity, ())]
        if any(not member.state.ended for member in here):
            return State.RUNNING
        # Members that ended a moment ago may not be in the store yet.
        ends = {row.id: State(row.state) for row in self._members(identity)}
        ends |= {member.id: member.state for member in here}
        if not ends:
            return None
        return next(
            (state for state in ends.values() if state is not State.SUCCEEDED), State.SUCCEEDED
        )

    def _members(self, array: str) -> Iterator[JobRow]:
        before: tuple[int, int] | None = None
        while rows := self.store.jobs(JobFilter(array=array), before=before, limit=MEMBERS_PAGE):
            yield from rows
            before = (rows[-1].number, -1 if rows[-1].member is None else rows[-1].member)

    def tell(self, *events: Event) -> None:
        for event in events:
            if isinstance(event, JobUpdated):
                self.told[event.spec.id] = event.spec
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
