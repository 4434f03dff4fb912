"""Printed ranges of starts, tried on a queue that was recorded: a part of calibration.py.

Each job that waits is given the range that `submit` and `why` print: from the same simulations
(queued_starts.py), corrected by the errors of earlier starts (models/learning/start_errors.py).
"""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple, Protocol

from benchmarks.queued_starts import Record, Wait

from treadle.control.api.start_draws import comparable
from treadle.core.job import JobId
from treadle.models.learning.start_errors import Range, StartErrors
from treadle.models.lengths.distribution import SHORT_SHARES
from treadle.sim.start_estimate import NotYet


class Overall(Protocol):
    """All waits that are over."""

    @property
    def count(self) -> int: ...

    def add(self, seconds: float) -> None: ...

    def width_s(self, age_s: float, below: float) -> float: ...

    def by_share(self) -> Sequence[Range]: ...


class Shown(NamedTuple):
    """A range that was printed for a job that waits."""

    tenant: str
    low_s: float
    high_s: float
    waited_s: float  # what became of it
    # The ranges of all waits that were over when it was printed, by the share that they span.
    overall: Sequence[Range]
    narrowest_s: float  # of the same that has 80 %, chosen as printed ranges are
    simulated_s: float  # the middle of its simulations


class _Said(NamedTuple):
    """A range that counts, of a job that still waits."""

    said: Range
    overall: Sequence[Range]
    narrowest_s: float
    simulated_s: float


class Series:
    """Ranges that are made in one way, each corrected by the errors of those before."""

    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self.unsure = 0  # jobs that were given no range
        self._errors = StartErrors()
        self._open: dict[JobId, _Said] = {}

    def queue(
        self, name: JobId, answers: Sequence[float | NotYet], now: float, overall: Overall | None
    ) -> None:
        """A job waits; overall: None if its range does not count."""
        moments = comparable(answers)
        if not moments:
            self.unsure += 1
            return
        whole = not any(isinstance(answer, NotYet) for answer in answers)
        printed = whole or self._errors.compared > 0
        said = self._errors.range_of(moments, now=now)
        self._errors.promise(name, moments, now=now)
        if not printed:
            self.unsure += 1
        elif overall is not None:
            narrowest_s = min(overall.width_s(0.0, below) for below in SHORT_SHARES)
            self._open[name] = _Said(said, overall.by_share(), narrowest_s, median(moments))

    def begin(self, name: JobId, tenant: str, waited_s: float, now: float) -> None:
        self._errors.started(name, now=now)
        if name in self._open:
            said, overall, narrowest_s, simulated_s = self._open.pop(name)
            shown = Shown(tenant, *said, waited_s, overall, narrowest_s, simulated_s)
            self.shown.append(shown)


class Judged(NamedTuple):
    """The ranges of one queue."""

    waits: int  # jobs that did not start at once
    devices: int
    learned: Series
    known: Series  # as if lengths were known


def judged(record: Record, overall: Overall, *, ended_min: int) -> Judged:
    """overall: takes the waits of jobs that did not start at once. ended_min: jobs of a tenant,
    before its ranges are counted."""
    learned, known = Series(), Series()
    since: dict[JobId, float] = {}
    for moment in record.moments:
        if isinstance(moment, Wait):
            since[moment.job] = now = moment.since_at
            counts = overall if moment.ended >= ended_min and overall.count else None
            learned.queue(moment.job, moment.answers, now, counts)
            known.queue(moment.job, () if moment.known is None else (moment.known,), now, counts)
        else:
            waited_s = moment.at - since[moment.job]
            overall.add(waited_s)
            for series in (learned, known):
                series.begin(moment.job, record.jobs[moment.job].tenant, waited_s, moment.at)
    return Judged(len(since), record.devices, learned, known)
