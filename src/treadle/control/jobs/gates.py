"""What keeps a job from starting besides the policy: other jobs, its array's limit, its user.

A gate is a reason for which a job is held (core JobHeld). Each is opened here when what it waits
for has come: a job ended, a member of an array ended, its user released it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from treadle.control.jobs.records import JobRecord
from treadle.core.events import Event, JobHeld, JobReleased
from treadle.core.job import JobId
from treadle.store.errors import StoreError
from treadle.wire.jobs import State

USER, DEPENDENCY, ARRAY = "user", "dependency", "array"

_HOW = {
    State.FAILED: "failed",
    State.CANCELLED: "was cancelled",
    State.TIMEOUT: "ran into its time limit",
}

# How a job that is not active any more ended; None if there never was one.
Ended = Callable[[JobId], State | None]


class Gates:
    """Who waits for whom."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._waiting: dict[JobId, set[JobId]] = defaultdict(set)  # job -> who waits for its end
        self._queued: dict[str, dict[JobId, None]] = defaultdict(dict)  # array -> held members
        self._open: dict[str, set[JobId]] = defaultdict(set)  # array -> members let through
        self._unjudged: list[JobId] = []

    def join(self, records: Iterable[JobRecord], *, held: bool) -> list[Event]:
        """New jobs; the holds that they begin with."""
        events: list[Event] = []
        for record in records:
            if held:
                events.append(JobHeld(record.id, USER))
            if self._must_wait(record):
                events.append(JobHeld(record.id, DEPENDENCY))
            if record.array_limit and not self._let_through(record):
                events.append(JobHeld(record.id, ARRAY))
        return events

    def restore(
        self, records: Mapping[JobId, JobRecord], held: Mapping[JobId, tuple[str, ...]]
    ) -> list[Event]:
        """After a restart: who waits for whom, from what is held; and whoever may go on since,
        because the controller before was killed between the end of one and the release of the
        other."""
        events: list[Event] = []
        for record in records.values():
            reasons = held.get(record.id, ())
            if DEPENDENCY in reasons and not self._must_wait(record):
                events.append(JobReleased(record.id, DEPENDENCY))
            if record.array_limit:
                if ARRAY in reasons:
                    self._queued[record.array][record.id] = None
                else:
                    self._open[record.array].add(record.id)
        limits = {r.array: r for r in records.values() if r.array_limit}
        for member in limits.values():
            events += self._next_member(member)
        return events

    def left(self, record: JobRecord, records: Mapping[JobId, JobRecord]) -> list[Event]:
        """A job has ended; whoever may go on now."""
        events: list[Event] = []
        if record.array_limit:
            self._open[record.array].discard(record.id)
            self._queued[record.array].pop(record.id, None)
            events += self._next_member(record)
        waiting = self._waiting.pop(record.id, set())
        if record.array:
            waiting |= self._waiting.pop(record.array, set())
        return events + self._released(sorted(waiting), records)

    def look_again(self, records: Mapping[JobId, JobRecord]) -> list[Event]:
        """Whoever could not be judged, because the store could not be asked, is judged now."""
        unjudged, self._unjudged = self._unjudged, []
        return self._released(unjudged, records)

    def _released(self, names: Iterable[JobId], records: Mapping[JobId, JobRecord]) -> list[Event]:
        events: list[Event] = []
        for name in names:
            waiter = records.get(name)
            try:
                if waiter is not None and not self._must_wait(waiter):
                    events.append(JobReleased(name, DEPENDENCY))
            except StoreError:
                self._unjudged.append(name)
        return events

    def forget(self, record: JobRecord) -> None:
        """Its user lets it go without what it waits for."""
        record.after = record.after_any = ()
        record.broken = ""

    def _next_member(self, record: JobRecord) -> list[Event]:
        queued, through = self._queued[record.array], self._open[record.array]
        events: list[Event] = []
        while queued and len(through) < record.array_limit:
            name = next(iter(queued))
            del queued[name]
            through.add(name)
            events.append(JobReleased(name, ARRAY))
        if not queued and not through:
            self._queued.pop(record.array, None)
            self._open.pop(record.array, None)
        return events

    def _let_through(self, record: JobRecord) -> bool:
        through = self._open[record.array]
        if len(through) < record.array_limit:
            through.add(record.id)
            return True
        self._queued[record.array][record.id] = None
        return False

    def _must_wait(self, record: JobRecord) -> bool:
        """Whether somebody that it waits for has not ended, or ended badly for good."""
        waits = False
        for name in (*record.after, *record.after_any):
            state = self._ended(name)
            if state is None or not state.ended:
                self._waiting[name].add(record.id)
                waits = True
            elif name in record.after and state is not State.SUCCEEDED:
                record.broken = f"job {name} {_HOW[state]}"
                record.dirty = True
                waits = True
        return waits
