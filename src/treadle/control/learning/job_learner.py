"""Everything that is learned from jobs: profiles by kind, and how far each running job is.

It learns from facts alone, so that replaying the journal gives the same profiles.
"""

from collections.abc import Iterable, Sequence

from treadle.control.learning.history import packed
from treadle.control.learning.learned_lengths import Profiles
from treadle.control.learning.metering import Gauge, Meter
from treadle.control.learning.sightings import Sightings
from treadle.core.attempt import How, LastProgress
from treadle.core.events import AttemptEnded
from treadle.core.job import JobId
from treadle.models.learning.observations import of_end
from treadle.store.rows import HistoryRow, ProfileRow


class JobLearner:
    """Changed by facts about jobs; asked by submissions and by people."""

    def __init__(self, rows: Iterable[ProfileRow] = ()) -> None:
        self.profiles = Profiles(rows)
        self.meter = Meter()
        self.seen = Sightings()
        self._heard: dict[JobId, LastProgress] = {}  # the newest words of jobs that run

    def progress(self, job: JobId) -> LastProgress | None:
        """What a running job last said, if it said anything."""
        return self._heard.get(job)

    def hear(self, job: JobId, progress: LastProgress) -> None:
        self._heard[job] = progress

    def histories(self, *, running: bool = False) -> list[HistoryRow]:
        """Rows to write of attempts that have ended, each once; or of all that run."""
        found = self.seen.running() if running else self.seen.over()
        return [
            HistoryRow(attempt.job, attempt.number, history.started_at, packed(history.points()))
            for attempt, history in found
        ]

    def steps(self) -> dict[JobId, float]:
        """How far running jobs are, of those that say it."""
        return {job: said.step for job, said in self._heard.items()}

    def begin(self, job: JobId, action: int, size: int, *, share: float, now: float) -> None:
        """An attempt begins with so much of the work done."""
        self.meter.begin(job, action, size, share, now)
        self.seen.began(job, now)

    def end(self, job: JobId) -> None:
        """The attempt is over; what it said is in its AttemptEnded."""
        self.meter.end(job)
        self._heard.pop(job, None)

    def gauge(self, job: JobId) -> Gauge | None:
        return self.meter.gauge(job)

    def learn(self, keys: Sequence[str], ended: AttemptEnded, *, size: int, only: bool) -> None:
        """How long the whole job takes at this size, if this attempt shows it.

        only: no other attempt at the job was made, so that this one did all the work.
        """
        if ended.started_at is None:
            return
        said = ended.progress
        seen = of_end(
            size,
            whole=only and ended.how is How.EXITED and ended.code == 0,
            ran_s=ended.ran_s or 0.0,
            share_per_s=None if said is None else said.share_per_s,
            measured_s=0.0 if said is None else said.measured_s,
        )
        self.profiles.observe(keys, seen)
