"""The simulations behind a forecast: which length every job takes in each, and how many are made.

The draws are stratified: over all simulations a job goes through its whole distribution, in an
order of its own.
"""

from collections import ChainMap, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple, TypeVar
from zlib import crc32

from treadle.control.api.context import Context
from treadle.control.api.job_progress import Left
from treadle.control.jobs import ARRAY, DEPENDENCY, JobRecord
from treadle.control.loop import worked_for
from treadle.core.events import Event, JobReleased
from treadle.core.job import JobId
from treadle.sim.start_estimate import Effort, NotYet

HORIZON_S = 30 * 86_400.0
STEPS = 60_000  # of one simulation, divided by how many jobs wait: a decision looks at them all
SPEND_S = 0.45  # of the processor, for all simulations
RUNS = 10
RUNS_MIN = 3

Answer = TypeVar("Answer")


class Ahead(NamedTuple):
    """What is known of the jobs that run or wait."""

    lengths: Mapping[JobId, Left]
    limited: Mapping[JobId, float]  # only that they end within these seconds
    endless: Sequence[JobId]  # nothing
    unread: Sequence[JobId]  # not looked up: there are too many

    @property
    def lasting(self) -> Sequence[JobId]:
        """Jobs that are assumed not to end."""
        return [*self.endless, *self.unread]


def steps_of(waiting: int) -> int:
    """How many steps a simulation may take where this many jobs wait."""
    return max(20, STEPS // (1 + waiting))


def simulated(steps: int, ask: Callable[[int, Effort], Answer | NotYet]) -> list[Answer | NotYet]:
    """The answers of simulations; fewer of them where they take long."""
    answers: list[Answer | NotYet] = []
    spent = worked_for(SPEND_S)
    for run in _order(RUNS):
        effort = Effort(HORIZON_S, steps, worked_for(SPEND_S / RUNS_MIN))
        try:
            answers.append(ask(run, effort))
        except Exception:  # A third party's policy may raise anything; status shows it.
            answers.append(NotYet(0.0))
        if isinstance(answers[0], NotYet) or (len(answers) >= RUNS_MIN and spent()):
            break  # Not even with the shortest lengths: the others would come no further.
    return answers


def comparable(answers: Sequence[float | NotYet]) -> list[float]:
    """When simulations put a start, to be compared with what happens.

    Those that ended before it are taken to put it last. Where they are fewer than half, the middle
    of all does not depend on how late that is; otherwise nothing can be compared.
    """
    found = [answer for answer in answers if not isinstance(answer, NotYet)]
    late = [answer.in_s for answer in answers if isinstance(answer, NotYet)]
    if 2 * len(late) >= len(answers):
        return []
    return [*found, *[max(*found, *late)] * len(late)] if late else found


def _order(runs: int) -> list[int]:
    """The shortest lengths first, then the longest, then those between."""
    return [0, runs - 1, runs // 2, *(run for run in range(1, runs - 1) if run != runs // 2)]


def drawn(ahead: Ahead, run: int) -> dict[JobId, float]:
    """What is left of each job in one of the simulations."""
    found = {}
    for job, lengths in ahead.lengths.items():
        found[job] = lengths.at((_stratum(job, run, len(ahead.lengths)) + 0.5) / RUNS)
    for job, limit_s in ahead.limited.items():
        # All that is known is that it ends by then: at once, or only then.
        found[job] = limit_s if _stratum(job, run, len(ahead.limited)) >= RUNS // 2 else 0.0
    return found


def _stratum(job: JobId, run: int, jobs: int) -> int:
    """Which tenth of its distribution a job draws from: every tenth once, in its own order.

    The first and the last simulation are the shortest and the longest, so that a job that waits for
    few others has its whole range.
    """
    if jobs == 1 or run in (0, RUNS - 1):
        return run
    return _strata(job)[run - 1]


@lru_cache(maxsize=4096)  # All simulations ask for it: 15 microseconds each otherwise.
def _strata(job: JobId) -> Sequence[int]:
    order = list(range(1, RUNS - 1))
    Random(crc32(job.encode())).shuffle(order)
    return order


class GatesAhead:
    """Which blocked jobs a simulation lets through: what the gates do live, told in advance.

    A job that depends on others is released when the last of them has ended, which is taken to go
    well. The next member of an array with a limit is released when one has ended.
    """

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
