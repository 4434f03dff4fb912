"""How far a running job is and how fast it goes, from its reports or its output.

Work is counted in seconds at the asked size (profiles.py). A report of a share of the whole, and
how that share grows, tell how long the whole takes at the present size.
"""

from dataclasses import dataclass

from treadle.core.job import JobId

SPAN_S = 2.0  # a speed is measured over at least so long
FORGET_S = 60.0  # ... and over about so long at most


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

    def share_per_s(self) -> float | None:
        """Of the whole work, each second; None while too little was seen."""
        span_s = self.seen_at - self.from_at
        gained = self.seen_share - self.from_share
        return gained / span_s if span_s >= SPAN_S and gained > 0 else None


class Meter:
    """Gauges of jobs that run."""

    def __init__(self) -> None:
        self._gauges: dict[JobId, Gauge] = {}

    def begin(self, job: JobId, action: int, size: int, share: float, now: float) -> None:
        """An attempt begins; what was done before is `share`."""
        self._gauges[job] = Gauge(action, size, now, share, now, share)

    def see(self, job: JobId, step: float, total: float, now: float) -> Gauge | None:
        """A job says how far it is; None if that says nothing."""
        gauge = self._gauges.get(job)
        if gauge is None or not total > 0:
            return None
        share = min(1.0, step / total)
        if gauge.total is None or share < gauge.seen_share:
            # The first word of this attempt, or it started over: speed counts from here.
            gauge.from_at, gauge.from_share = now, share
        elif now - gauge.from_at > FORGET_S:
            gauge.from_at, gauge.from_share = gauge.seen_at, gauge.seen_share
        gauge.seen_at, gauge.seen_share = now, share
        gauge.steps, gauge.total = step, total
        return gauge

    def gauge(self, job: JobId) -> Gauge | None:
        return self._gauges.get(job)

    def end(self, job: JobId) -> None:
        self._gauges.pop(job, None)
