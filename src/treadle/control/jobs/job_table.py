"""All jobs at hand: those that have not ended, some that have, and their attempts.

The reducer changes it. Everything else asks it.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from treadle.control.jobs.records import JobRecord, record_of
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.store.rows import AttemptRow, JobFilter, JobRow
from treadle.store.store import Store
from treadle.wire.jobs import State

MEMBERS_PAGE = 1000
_WAITING = (State.PENDING, State.HELD)  # an array of both is pending
ENDED_MAX = 2000  # records of ended jobs that are kept in memory


class AttemptKey(NamedTuple):
    """An attempt within one store."""

    job: JobId
    number: int


def id_of(row: AttemptRow) -> AttemptId:
    """The attempt as an engine knows it."""
    return AttemptId(row.job, row.number, row.nonce)


class JobTable:
    """Records and attempts by job."""

    def __init__(self, store: Store | None = None, *, next_number: int = 1) -> None:
        """store: where ended jobs are looked up; without one there are only those at hand."""
        self.records: dict[JobId, JobRecord] = {}  # of jobs that have not ended
        self.arrays: dict[str, dict[JobId, None]] = {}  # their members, likewise
        self.open: dict[AttemptKey, AttemptRow] = {}  # attempts that have not ended
        self.sealed: dict[JobId, bytes] = {}  # secrets of jobs that have not ended
        self.run = ""  # of the controller that gives orders now
        self.next_number = next_number
        self._store = store
        self._ended: OrderedDict[JobId, JobRecord] = OrderedDict()
        self._changed: dict[AttemptKey, AttemptRow] = {}  # attempts to be written

    # -- what the reducer does ------------------------------------------------------------------

    def add(self, record: JobRecord) -> None:
        self.records[record.id] = record
        self.next_number = max(self.next_number, record.number + 1)
        if record.array:
            self.arrays.setdefault(record.array, {})[record.id] = None

    def put_attempt(self, row: AttemptRow) -> None:
        """An attempt as it stands now."""
        key = AttemptKey(row.job, row.number)
        self._changed[key] = row
        if row.ended_at is None:
            self.open[key] = row
        else:
            self.open.pop(key, None)

    def take_changed_attempts(self) -> list[AttemptRow]:
        """Attempts that changed since this was last asked."""
        changed, self._changed = self._changed, {}
        return list(changed.values())

    def drop(self, record: JobRecord) -> None:
        """A job has ended, and that is on disk."""
        self.records.pop(record.id, None)
        self.sealed.pop(record.id, None)
        members = self.arrays.get(record.array)
        if members is not None:
            members.pop(record.id, None)
            if not members:
                del self.arrays[record.array]
        self._ended[record.id] = record
        while len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    # -- what others ask ------------------------------------------------------------------------

    def record(self, identity: JobId) -> JobRecord | None:
        """Of a job, ended or not."""
        known = self.records.get(identity) or self._ended.get(identity)
        if known is not None or self._store is None:
            return known
        row = self._store.job(identity)
        return None if row is None else record_of(row)

    def newest_attempt(self, identity: JobId) -> AttemptId | None:
        record = self.records.get(identity)
        number = 0 if record is None else record.running or record.attempts
        row = self.open.get(AttemptKey(identity, number))
        return None if row is None else id_of(row)

    def attempt_id(self, identity: JobId, number: int) -> AttemptId:
        """The attempt as an engine knows it; without a nonce if there is no such attempt."""
        row = self.open.get(AttemptKey(identity, number))
        if row is None and self._store is not None:
            row = self._store.attempt(identity, number)
        return AttemptId(identity, number) if row is None else id_of(row)

    def open_of(self, identity: JobId) -> list[AttemptRow]:
        """Attempts of a job that have not ended, in order."""
        return [row for (job, _), row in sorted(self.open.items()) if job == identity]

    def overtaken(self, attempt: AttemptKey) -> bool:
        """Whether a later attempt of the job has started since."""
        later = (row for row in self.open_of(attempt.job) if row.number > attempt.number)
        return any(row.started_at is not None for row in later)

    def shown_state(self, record: JobRecord) -> State:
        """The state as people see it: an end only once it is on disk, because they act on it."""
        if record.state.ended and record.id in self.records:
            return State.STOPPING
        return record.state

    def state_of(self, identity: str) -> State | None:
        """Of a job, or of an array as a whole; None if there is none."""
        record = self.record(identity)
        if record is not None:
            return record.state
        here = [self.records[member] for member in self.arrays.get(identity, ())]
        alive = {member.state for member in here if not member.state.ended}
        if alive:
            waiting = alive <= set(_WAITING)
            return min(alive, key=_WAITING.index) if waiting else State.RUNNING
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
        while self._store is not None:
            rows = self._store.jobs(JobFilter(array=array), before=before, limit=MEMBERS_PAGE)
            if not rows:
                return
            yield from rows
            before = (rows[-1].number, -1 if rows[-1].member is None else rows[-1].member)
