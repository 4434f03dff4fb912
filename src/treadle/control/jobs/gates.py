"""What blocks a job besides the policy: other jobs, its array's limit, its user.

A gate is a reason for which a job is blocked (core JobHeld). It opens when what the job waits for
has happened: a job ended, a member of its array ended, its user released it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from treadle.control.jobs.records import JobRecord
from treadle.control.jobs.refusals import MACHINE, Refusals
from treadle.core.events import JobHeld, JobReleased
from treadle.core.job import JobId
from treadle.journal.facts import DependencyBroken
from treadle.wire.jobs import State

USER, DEPENDENCY, ARRAY = "user", "dependency", "array"

_HOW = {
    State.FAILED: "failed",
    State.CANCELLED: "was cancelled",
    State.TIMEOUT: "ran into its time limit",
}

# The state of a job or array that has not ended, or did so lately; None of any other.
StateOf = Callable[[JobId], State | None]
Fact = JobHeld | JobReleased | DependencyBroken


class Gates:
    """Who waits for whom."""

    def __init__(self, state_of: StateOf) -> None:
        self._state_of = state_of
        # job or array -> jobs that wait for its end, and the other way round
        self._waiting: dict[JobId, set[JobId]] = defaultdict(set)
        self._names: dict[JobId, tuple[JobId, ...]] = {}
        # How jobs ended for which one waits that also waits for others: the table of jobs forgets
        # them, and the store is not asked in the middle of a step.
        self._over: dict[JobId, State] = {}
        self._queued: dict[str, dict[JobId, None]] = defaultdict(dict)  # array -> blocked members
        self._open: dict[str, set[JobId]] = defaultdict(set)  # array -> members let through
        self.refusals = Refusals()

    def join(
        self, records: Iterable[JobRecord], over: Mapping[JobId, State], *, held: bool
    ) -> list[Fact]:
        """New jobs; what they begin with: the reasons that block them.

        over: the states of jobs that they depend on and that the table of jobs has forgotten.
        """
        self._over |= over
        events: list[Fact] = []
        for record in records:
            if held:
                events.append(JobHeld(record.id, USER))
            waits, broken = self._judge(record)
            if waits:
                events.append(JobHeld(record.id, DEPENDENCY))
            events += broken
            if record.array_limit and not self._let_through(record):
                events.append(JobHeld(record.id, ARRAY))
        self._tidy(over)
        return events

    def restore(
        self,
        records: Mapping[JobId, JobRecord],
        held: Mapping[JobId, tuple[str, ...]],
        over: Mapping[JobId, State],
    ) -> list[Fact]:
        """After a restart: who waits for whom, and which jobs are not blocked any more.

        The controller before may have been killed between the end of one job and the release of
        the next.
        """
        self._over |= over
        events: list[Fact] = []
        for record in records.values():
            reasons = held.get(record.id, ())
            if DEPENDENCY in reasons:
                events += self._judged(record)
            if MACHINE in reasons:  # The machine may be well by now.
                events.append(JobReleased(record.id, MACHINE))
            if record.array_limit:
                if ARRAY in reasons:
                    self._queued[record.array][record.id] = None
                else:
                    self._open[record.array].add(record.id)
        limits = {r.array: r for r in records.values() if r.array_limit}
        for member in limits.values():
            events += self._next_member(member)
        self._tidy(over)
        return events

    def left(self, record: JobRecord, records: Mapping[JobId, JobRecord]) -> list[Fact]:
        """A job has ended; which jobs are not blocked by it any more."""
        events: list[Fact] = []
        self.refusals.forget(record.id)
        if record.array_limit:
            self._open[record.array].discard(record.id)
            self._queued[record.array].pop(record.id, None)
            events += self._next_member(record)
        self._forget(record.id)
        waiting = set(self._waiting.get(record.id, ()))
        if waiting:
            self._over[record.id] = record.state
        waiting |= self._waiting.get(record.array, set()) if record.array else set()
        for name in sorted(waiting):
            waiter = records.get(name)
            if waiter is not None:
                events += self._judged(waiter)
        return events

    def through(self, array: str) -> tuple[JobId, ...]:
        """The members of an array with a limit that may run."""
        return tuple(self._open.get(array, ()))

    def before(self, record: JobRecord) -> int:
        """How many members of its array come before one: let through, or queued earlier."""
        line = (*self.through(record.array), *tuple(self._queued.get(record.array, ())))
        return line.index(record.id) if record.id in line else 0

    def _judged(self, record: JobRecord) -> list[Fact]:
        """What is new about a job that waits for others."""
        waits, broken = self._judge(record)
        return [*broken] if waits else [JobReleased(record.id, DEPENDENCY)]

    def _next_member(self, record: JobRecord) -> list[Fact]:
        queued, through = self._queued[record.array], self._open[record.array]
        events: list[Fact] = []
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

    def _judge(self, record: JobRecord) -> tuple[bool, list[DependencyBroken]]:
        """Whether a job must wait for others, and whether one of them ended badly for good."""
        waits, broken = False, ""
        names = (*record.after, *record.after_any)
        for name in names:
            state = self._over.get(name) or self._state_of(name)
            if state is None or not state.ended:
                waits = True
                continue
            self._over[name] = state
            if name in record.after and state is not State.SUCCEEDED:
                broken = f"job {name} {_HOW[state]}"
                waits = True
        if waits:
            self._remember(record.id, names)
        else:
            self._forget(record.id)
            self._tidy(names)
        news = broken and broken != record.broken
        return waits, [DependencyBroken(record.id, broken)] if news else []

    def _remember(self, waiter: JobId, names: tuple[JobId, ...]) -> None:
        self._names[waiter] = names
        for name in names:
            self._waiting[name].add(waiter)

    def _forget(self, waiter: JobId) -> None:
        """A job that waits no more."""
        names = self._names.pop(waiter, ())
        for name in names:
            self._waiting[name].discard(waiter)
        self._tidy(names)

    def _tidy(self, names: Iterable[JobId]) -> None:
        """Drop what is known of jobs for which none waits any more."""
        for name in names:
            if not self._waiting.get(name):
                self._waiting.pop(name, None)
                self._over.pop(name, None)
