"""All jobs at hand: those that have not ended, some that have, and their attempts.

The reducer changes it. Everything else asks it. It never asks the store, which may be slow: what it
does not have any more is read through `StoreReads` with `stored_state` and `Store.job`.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from treadle.control.jobs.job_kinds import likeness_of
from treadle.control.jobs.records import JobRecord
from treadle.control.jobs.weights import Weights
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.store.rows import AttemptRow, JobFilter
from treadle.store.store import Store
from treadle.wire.jobs import State

_WAITING = (State.PENDING, State.HELD)  # an array of both is pending
KINDS = 2  # of a job, by which it is found: those close enough to change what is expected of it
ENDED_MAX = 2000  # records of ended jobs that are kept in memory, and rows of ended attempts
_BAD = (State.FAILED, State.CANCELLED, State.TIMEOUT)

Worst = tuple[int, State]  # the highest member of an array that ended badly, and how


class AttemptKey(NamedTuple):
    """An attempt within one store."""

    job: JobId
    number: int


def id_of(row: AttemptRow) -> AttemptId:
    """The attempt as an engine knows it."""
    return AttemptId(row.job, row.number, row.nonce)


def nodes_in(devices: Iterable[str]) -> frozenset[str]:
    """The nodes of devices, as an attempt's row names them."""
    return frozenset(device.rpartition(":")[0] for device in devices)


class JobTable:
    """Records and attempts by job."""

    def __init__(self, *, next_number: int = 1) -> None:
        self.records: dict[JobId, JobRecord] = {}  # of jobs that have not ended
        self.arrays: dict[str, dict[JobId, None]] = {}  # their members, likewise
        self.open: dict[AttemptKey, AttemptRow] = {}  # attempts that have not ended
        self._open_numbers: dict[JobId, set[int]] = {}  # of the same, by job
        self.sealed: dict[JobId, bytes] = {}  # secrets of jobs that have not ended
        self.weights = Weights()
        self.run = ""  # of the controller that gives orders now
        self.next_number = next_number
        self._ended: OrderedDict[JobId, JobRecord] = OrderedDict()
        self._worst: dict[str, Worst] = {}  # of arrays that have members which have not ended
        self._arrays_over: OrderedDict[str, State] = OrderedDict()  # arrays that ended lately
        self._attempts_over: OrderedDict[AttemptKey, AttemptRow] = OrderedDict()  # ended lately
        self._just_ended: deque[JobRecord] = deque(maxlen=ENDED_MAX)
        self._changed: dict[AttemptKey, AttemptRow] = {}  # attempts to be written
        self._kinds: dict[str, dict[JobId, None]] = {}  # jobs that have not ended, by their kinds

    # -- what the reducer does ------------------------------------------------------------------

    def add(self, record: JobRecord) -> None:
        self.records[record.id] = record
        self.weights.add(record, self.sealed.get(record.id, b""))
        self.next_number = max(self.next_number, record.number + 1)
        if record.array:
            self.arrays.setdefault(record.array, {})[record.id] = None
        for kind in likeness_of(record).kinds[:KINDS]:
            self._kinds.setdefault(kind, {})[record.id] = None

    def put_attempt(self, row: AttemptRow) -> None:
        """An attempt as it stands now."""
        key = AttemptKey(row.job, row.number)
        self._changed[key] = row
        if row.ended_at is None:
            self.put_open(row)
        else:
            self._close(key)
            self._attempts_over[key] = row
            _shorten(self._attempts_over)

    def put_open(self, row: AttemptRow) -> None:
        """An attempt that has not ended, and is on disk like this."""
        self.open[AttemptKey(row.job, row.number)] = row
        self._open_numbers.setdefault(row.job, set()).add(row.number)

    def _close(self, key: AttemptKey) -> None:
        if self.open.pop(key, None) is None:
            return
        numbers = self._open_numbers[key.job]
        numbers.discard(key.number)
        if not numbers:
            del self._open_numbers[key.job]

    def take_changed_attempts(self) -> list[AttemptRow]:
        """Attempts that changed since this was last asked."""
        changed, self._changed = self._changed, {}
        return list(changed.values())

    def drop(self, record: JobRecord) -> None:
        """A job has ended, and that is on disk."""
        self.records.pop(record.id, None)
        self.weights.drop(record)
        self.sealed.pop(record.id, None)
        for kind in likeness_of(record).kinds[:KINDS]:
            alike = self._kinds.get(kind, {})
            alike.pop(record.id, None)
            if not alike:
                self._kinds.pop(kind, None)
        members = self.arrays.get(record.array)
        if members is not None:
            members.pop(record.id, None)
            self.note_end(record.array, record.member, record.state)
            if not members:
                del self.arrays[record.array]
                worst = self._worst.pop(record.array, None)
                self._arrays_over[record.array] = State.SUCCEEDED if worst is None else worst[1]
        self._ended[record.id] = record
        self._just_ended.append(record)
        _shorten(self._ended)
        _shorten(self._arrays_over)

    def note_end(self, array: str, member: int | None, state: State) -> None:
        """A member of an array has ended; others of it have not."""
        if state in _BAD:
            found = (member or 0, state)
            self._worst[array] = max(self._worst.get(array, found), found)

    def of_kind(self, kind: str) -> Mapping[JobId, None]:
        """Jobs of a close kind that have not ended."""
        return self._kinds.get(kind, {})

    def take_just_ended(self) -> list[JobRecord]:
        """Jobs that ended since this was last asked; only the newest of very many."""
        ended = list(self._just_ended)
        self._just_ended.clear()
        return ended

    def forget(self, identities: Iterable[JobId]) -> None:
        """Records of ended jobs are deleted; nothing more is written about them."""
        gone = frozenset(identities)
        for identity in gone:
            self._ended.pop(identity, None)
        for key in [key for key in self._attempts_over if key.job in gone]:
            del self._attempts_over[key]
        left = [record for record in self._just_ended if record.id not in gone]
        self._just_ended = deque(left, maxlen=ENDED_MAX)

    # -- what others ask ------------------------------------------------------------------------

    def record(self, identity: JobId) -> JobRecord | None:
        """Of a job that has not ended, or did so lately."""
        return self.records.get(identity) or self._ended.get(identity)

    def attempt(self, key: AttemptKey) -> AttemptRow | None:
        """An attempt that has not ended, or did so lately in this controller's life."""
        return self.open.get(key) or self._attempts_over.get(key)

    def newest_attempt(self, identity: JobId) -> AttemptId | None:
        record = self.records.get(identity)
        number = 0 if record is None else record.newest
        row = self.open.get(AttemptKey(identity, number))
        return None if row is None else id_of(row)

    def open_of(self, identity: JobId) -> list[AttemptRow]:
        """Attempts of a job that have not ended, in order."""
        numbers = sorted(self._open_numbers.get(identity, ()))
        return [self.open[AttemptKey(identity, number)] for number in numbers]

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
        """Of a job, or of an array as a whole; None of one that ended long ago or never was."""
        record = self.record(identity)
        if record is not None:
            return record.state
        here = [self.records[member] for member in self.arrays.get(identity, ())]
        alive = {member.state for member in here if not member.state.ended}
        if alive:
            waiting = alive <= set(_WAITING)
            return min(alive, key=_WAITING.index) if waiting else State.RUNNING
        if not here:
            return self._arrays_over.get(identity)
        ends = [(member.member or 0, member.state) for member in here if member.state in _BAD]
        if identity in self._worst:
            ends.append(self._worst[identity])
        return max(ends)[1] if ends else State.SUCCEEDED


def stored_state(store: Store, identity: str) -> State | None:
    """The state of a job or an array by the store; None if there is none."""
    row = store.job(identity)
    if row is not None:
        return State(row.state)
    bad = store.jobs(JobFilter(array=identity, states=_BAD), limit=1)
    if bad:
        return State(bad[0].state)
    return State.SUCCEEDED if store.jobs(JobFilter(array=identity), limit=1) else None


def stored_states(store: Store, names: Iterable[str]) -> dict[JobId, State]:
    """The same of several, without those that there are not."""
    found = {name: stored_state(store, name) for name in names}
    return {name: state for name, state in found.items() if state is not None}


def worst_ends(store: Store, arrays: Iterable[str]) -> dict[str, Worst]:
    """Of arrays that have members which have not ended: the highest one that ended badly."""
    found = {}
    for array in arrays:
        for row in store.jobs(JobFilter(array=array, states=_BAD, ended=True), limit=1):
            found[array] = (row.member or 0, State(row.state))
    return found


def _shorten(window: "OrderedDict[Any, Any]") -> None:
    while len(window) > ENDED_MAX:
        window.popitem(last=False)
