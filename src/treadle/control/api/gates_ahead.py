"""Which blocked jobs a simulation lets through: what the gates do live, told in advance.

A job that depends on others is released when the last of them has ended, which is taken to go well.
The next member of an array with a limit is released when one has ended.
"""

from collections import ChainMap, defaultdict, deque
from collections.abc import Sequence

from treadle.control.api.context import Context
from treadle.control.jobs import ARRAY, DEPENDENCY, JobRecord
from treadle.core.events import Event, JobReleased
from treadle.core.job import JobId


class GatesAhead:
    """The blocked jobs of one simulation."""

    def __init__(self, context: Context, tried: Sequence[JobRecord] = ()) -> None:
        """tried: jobs that are in the scheduler only, to see what would become of them."""
        self._open: dict[JobId, set[JobId]] = {}  # waiter -> jobs that it waits for
        self._waiters: dict[JobId, list[JobId]] = defaultdict(list)
        self._limited: dict[str, deque[JobId]] = defaultdict(deque)  # array -> its next members
        self._array_of: dict[JobId, str] = {}
        records = ChainMap({record.id: record for record in tried}, context.jobs.records)
        for name, reasons in list(context.scheduler.blocked.items()):
            record = records.get(name)
            if record is None or record.broken:
                continue
            if ARRAY in reasons:
                self._limited[record.array].append(name)
            if DEPENDENCY in reasons:
                self._open[name] = _waited_for(context, record)
                for other in self._open[name]:
                    self._waiters[other].append(name)
        for array, names in self._limited.items():
            self._limited[array] = deque(sorted(names, key=lambda n: records[n].member or 0))
            for member in list(context.jobs.arrays.get(array, ())):
                self._array_of[member] = array

    def after(self, ended: JobId) -> list[Event]:
        """What follows from the end of a job."""
        facts: list[Event] = []
        for waiter in self._waiters.get(ended, ()):
            self._open[waiter].discard(ended)
            if not self._open[waiter]:
                facts.append(JobReleased(waiter, DEPENDENCY))
        limited = self._limited.get(self._array_of.get(ended, ""))
        if limited:
            facts.append(JobReleased(limited.popleft(), ARRAY))
        return facts


def _waited_for(context: Context, record: JobRecord) -> set[JobId]:
    """The jobs that have not ended and that a job depends on, members of arrays one by one."""
    found: set[JobId] = set()
    for name in (*record.after, *record.after_any):
        found.update(list(context.jobs.arrays.get(name, ())) or [name])
    return {name for name in found if name in context.scheduler.jobs}
