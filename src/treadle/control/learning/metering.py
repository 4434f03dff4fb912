"""How far a running job is and how fast it goes, from its reports or its output.

How fast the reported share of the work grows tells how long the whole job takes at its present
size. When the attempt ends, that is what the learner is given
(`outcomes.py`).
"""

from dataclasses import dataclass, replace

from treadle.core.job import JobId

SPAN_S = 2.0  # a speed is measured over at least this long
FORGET_S = 60.0  # and over about this long at most
SLOWEST = 1e-15  # share of the work a second; a lower speed says nothing of how long a job takes


@dataclass(slots=True)
class Gauge:
    """Shares of the work seen in the present attempt."""

    action: int
    size: int
    from_at: float
    from_share: float
    seen_at: float
    seen_share: float
    steps: float = 0.0
    total: float | None = None
    company: tuple[JobId, ...] = ()  # the other jobs on its devices while it was measured

    @property
    def measured_s(self) -> float:
        """How long the present speed has been measured."""
        return self.seen_at - self.from_at

    def share_per_s(self) -> float | None:
        """Share of the whole work done each second; None while too little was seen."""
        gained = self.seen_share - self.from_share
        if self.measured_s < SPAN_S or gained <= 0:
            return None
        speed = gained / self.measured_s
        return speed if speed >= SLOWEST else None

    def seen_by(self, at: float) -> "Gauge":
        """The same, if what was seen last was so far no later than at that moment."""
        return replace(self, seen_at=max(self.from_at, min(self.seen_at, at)))


class Meter:
    """The gauges of running jobs."""

    def __init__(self) -> None:
        self._gauges: dict[JobId, Gauge] = {}

    def begin(self, job: JobId, action: int, size: int, share: float, now: float) -> None:
        """An attempt begins; `share` of the work was done before."""
        self._gauges[job] = Gauge(action, size, now, share, now, share)

    def see(
        self,
        job: JobId,
        step: float,
        total: float,
        now: float,
        company: tuple[JobId, ...] = (),
    ) -> Gauge | None:
        """A job reports its progress; None if the report says nothing.

        company: the other jobs on its devices. A speed is measured in one company only.
        """
        gauge = self._gauges.get(job)
        if gauge is None or not total > 0:
            return None
        share = min(1.0, step / total)
        if gauge.total is not None and gauge.total != total:
            # The same steps are another share of the work: the total was revised.
            gauge.from_share *= gauge.total / total
            gauge.seen_share *= gauge.total / total
        if gauge.total is None or share < gauge.seen_share or company != gauge.company:
            # The first report of this attempt or in this company, or it started over: measure from
            # here.
            gauge.from_at, gauge.from_share = now, share
        elif now - gauge.from_at > FORGET_S:
            gauge.from_at, gauge.from_share = gauge.seen_at, gauge.seen_share
        gauge.seen_at, gauge.seen_share = now, share
        gauge.steps, gauge.total, gauge.company = step, total, company
        return gauge

    def put_back(self, job: JobId, gauge: Gauge | None) -> None:
        """Take back the last report of a job: this is what was seen before it."""
        if gauge is None:
            self._gauges.pop(job, None)
        else:
            self._gauges[job] = gauge

    def gauge(self, job: JobId) -> Gauge | None:
        return self._gauges.get(job)

    def end(self, job: JobId) -> None:
        self._gauges.pop(job, None)
