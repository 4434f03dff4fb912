"""How far a running job is and how fast it goes, from its reports or its output.

How fast the reported share of the work grows tells how long the whole job takes at its present
size. When the attempt ends, that is what the learner is given
(`outcomes.py`).
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise

from treadle.core.job import JobId

SPAN_S = 2.0  # a speed is measured over at least this long
FORGET_S = 60.0  # and over about this long at most
SLOWEST = 1e-15  # share of the work a second; a lower speed says nothing of how long a job takes
WINDOWS_MAX = 32  # over which the speed is compared; then every two become one
WINDOW_STEPS = 5.0  # steps are counted whole: in fewer, one more or less looks like a change
OUTER = 0.1  # of the windows, this share was slower and this share faster than the range
# Before a speed is measured: it may be this many times slower, or faster once it has started up.
EARLY_SLOWER, EARLY_FASTER = 3.0, 6.0
RESUMED_SHARE = 0.1  # a job that has done more when it is first heard may have resumed by itself


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
    began: tuple[float, float] = (0.0, 0.0)  # the attempt: when, and with which share
    # Moments and shares in between, since it shares with these: the ends of the windows.
    marks: list[tuple[float, float]] = field(default_factory=list)
    window_s: float = SPAN_S
    grew_at: float | None = None  # when it was last seen to have done another step
    longest_s: float = 0.0  # between two such moments

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

    def speeds(self) -> tuple[float, float] | None:
        """Steps a second, where it was slow and where it was fast; None: nothing was seen yet."""
        if self.total is None:
            return None
        found = sorted(
            (share - from_share) / (at - from_at)
            for (from_at, from_share), (at, share) in pairwise(self.marks)
        )
        if len(found) > 1:
            out = int(OUTER * len(found))
            return found[out] * self.total, found[-1 - out] * self.total
        began_at, began_share = self.began
        gained = (self.seen_share - began_share) * self.total
        if self.share_per_s() is not None or gained <= 0 or self.seen_at <= began_at:
            return None
        if self.from_share - began_share > RESUMED_SHARE:
            return (
                None  # An earlier job may have done these steps, and they say nothing of a speed.
            )
        per_s = gained / (self.seen_at - began_at)
        return per_s / EARLY_SLOWER, per_s * EARLY_FASTER

    def tail_s(self, ran_s: float) -> float | None:
        """From its last step to the end of an attempt that ran so long; None if steps are left."""
        if self.grew_at is None or self.seen_share < 1.0:
            return None
        return round(max(0.0, ran_s - (self.grew_at - self.began[0])), 1)

    def measure_from(self, at: float, share: float) -> None:
        """What was seen before says nothing of its speed from now on."""
        self.from_at, self.from_share = at, share
        self.marks, self.window_s = [(at, share)], SPAN_S

    def mark(self, at: float, share: float) -> None:
        """End a window if it is long enough."""
        from_at, from_share = self.marks[-1]
        gained = (share - from_share) * (self.total or 0.0)
        if at - from_at >= self.window_s and gained >= WINDOW_STEPS:
            self.marks.append((at, share))
        if len(self.marks) > WINDOWS_MAX:
            self.marks, self.window_s = self.marks[::2], 2.0 * self.window_s

    def seen_by(self, at: float) -> "Gauge":
        """The same, if what was seen last was so far no later than at that moment."""
        return replace(self, seen_at=max(self.from_at, min(self.seen_at, at)))


class Meter:
    """The gauges of running jobs."""

    def __init__(self) -> None:
        self._gauges: dict[JobId, Gauge] = {}

    def begin(self, job: JobId, action: int, size: int, share: float, now: float) -> None:
        """An attempt begins; `share` of the work was done before."""
        self._gauges[job] = Gauge(action, size, now, share, now, share, began=(now, share))

    def see(
        self, job: JobId, step: float, total: float, now: float, company: tuple[JobId, ...] = ()
    ) -> Gauge | None:
        """A job reports its progress; None if the report says nothing.

        company: the other jobs on its devices. A speed is measured with the same jobs only.
        """
        gauge = self._gauges.get(job)
        if gauge is None or not total > 0:
            return None
        share = min(1.0, step / total)
        if gauge.total is not None and gauge.total != total:
            # The same steps are another share of the work: the total was revised.
            gauge.from_share *= gauge.total / total
            gauge.seen_share *= gauge.total / total
            gauge.marks = [(at, done * gauge.total / total) for at, done in gauge.marks]
        if gauge.total is None or share < gauge.seen_share or company != gauge.company:
            # The first report of this attempt or with these jobs, or it started over: measure from
            # here.
            gauge.measure_from(now, share)
        elif now - gauge.from_at > FORGET_S:
            gauge.from_at, gauge.from_share = gauge.seen_at, gauge.seen_share
        if gauge.grew_at is None or share != gauge.seen_share:
            pause_s = 0.0 if gauge.grew_at is None else now - gauge.grew_at
            gauge.grew_at, gauge.longest_s = now, max(gauge.longest_s, pause_s)
        gauge.seen_at, gauge.seen_share = now, share
        gauge.steps, gauge.total, gauge.company = step, total, company
        gauge.mark(now, share)
        return gauge

    def skip(self, job: JobId, action: int, away_s: float, now: float) -> None:
        """It was paused: that time is no time of its attempt, nor of its speed."""
        if (gauge := self._gauges.get(job)) is not None:
            began_at, share = gauge.began
            gauge.action, gauge.began = action, (began_at + away_s, share)
            gauge.grew_at = None if gauge.grew_at is None else gauge.grew_at + away_s
            gauge.from_at = min(now, gauge.from_at + away_s)
            gauge.seen_at = min(now, gauge.seen_at + away_s)
            gauge.marks = [(min(now, at + away_s), share) for at, share in gauge.marks]

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
