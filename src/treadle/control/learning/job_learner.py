"""Everything that is learned from jobs: profiles by kind, and how far each running job is.

It learns from facts alone, so that replaying the journal gives the same profiles.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from treadle.control.learning.kept_plans import changed, restored
from treadle.control.learning.kept_starts import Starts
from treadle.control.learning.learned_lengths import Profiles
from treadle.control.learning.load_history import packed
from treadle.control.learning.metering import Gauge, Meter
from treadle.control.learning.sightings import Sightings
from treadle.core.attempt import LastProgress
from treadle.core.cluster import Cluster
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.core.sighting import Sighting
from treadle.models.learning.kinds import Kind, Likeness
from treadle.models.learning.outcome import Outcome
from treadle.models.plans.live_plans import LivePlans
from treadle.store.rows import HistoryRow, ProfileRow


class JobLearner:
    """Changed by facts about jobs; asked by submissions and by people."""

    def __init__(self, rows: Iterable[ProfileRow] = (), plans: LivePlans | None = None) -> None:
        self.plans = LivePlans(Cluster(())) if plans is None else plans
        self.profiles = Profiles(restored(rows, self.plans))
        self._announced: dict[JobId, None] = {}  # jobs that said what they can change to
        self.meter = Meter()
        self.seen = Sightings()
        self.starts = Starts()  # of people's forecasts, which are no facts
        self._heard: dict[JobId, LastProgress] = {}  # of jobs that run
        self.listens_from = 0.0  # since when reports are heard
        self._paced: dict[JobId, int] = {}  # the order under which a job's speed was learned
        self._news: dict[Kind, None] = {}  # kinds that were learned, to be looked at again

    def changes(self, at: float) -> list[ProfileRow]:
        """Rows to write of what was learned, each change once."""
        return [*self.profiles.changes(at), *changed(self.plans, at)]

    def progress(self, job: JobId) -> LastProgress | None:
        """What a running job last said, if it said anything."""
        return self._heard.get(job)

    def hear(self, job: JobId, progress: LastProgress) -> None:
        self._heard[job] = progress

    def unheard_s(self, since: float) -> float:
        """For how long after that moment no controller listened."""
        return max(0.0, self.listens_from - since)

    def forget(self, jobs: Collection[JobId]) -> None:
        """These jobs have ended."""
        self.seen.forget(jobs)
        self.starts.forget(jobs)

    def histories(self, *, running: bool = False) -> list[HistoryRow]:
        """Rows to write of attempts that have ended, each once; or of all that run."""
        found = self.seen.running() if running else self.seen.over()
        return [
            HistoryRow(
                attempt.job,
                attempt.number,
                history.started_at,
                packed(history.points(), self.seen.so_far(attempt)),
            )
            for attempt, history in found
        ]

    def steps(self) -> dict[JobId, float]:
        """How far running jobs are, of those that say it."""
        return {job: said.step for job, said in self._heard.items()}

    def begin(self, job: JobId, action: int, size: int, *, share: float, now: float) -> None:
        """An attempt begins with so much of the work done."""
        self.meter.begin(job, action, size, share, now)
        self.starts.started(job, now)
        if (said := self._heard.get(job)) is not None:
            # It changed without a restart: its speed was that of another size.
            self._heard[job] = replace(said, per_s=None, share_per_s=None, measured_s=0.0)
        self.seen.began(job, now)

    def paused(self, job: JobId, now: float) -> None:
        """The attempt computes nothing for a while."""
        self.profiles.pause(job, now)
        self.seen.paused(job)

    def go_on_after(self, job: JobId, action: int, away_s: float, *, now: float) -> None:
        """It computes again under this order, where it was."""
        self.meter.skip(job, action, away_s, now)
        self.seen.goes_on(job, away_s, now)

    def end(self, job: JobId, now: float) -> None:
        """The attempt is over; what it said is in its AttemptEnded."""
        self.meter.end(job)
        self.profiles.pause(job, now)
        self._heard.pop(job, None)
        self._paced.pop(job, None)

    def gauge(self, job: JobId) -> Gauge | None:
        return self.meter.gauge(job)

    def sighting(self, attempt: AttemptId) -> Sighting | None:
        """What was seen from outside of an attempt that runs; None if nothing is measured."""
        return self.seen.sighting(attempt)

    def learn(self, likeness: Likeness, outcome: Outcome | None, *, job: JobId = "") -> None:
        """Take in what an attempt taught; None if it taught nothing. `job`: whose, at its end."""
        if outcome is not None:
            self._news.update(dict.fromkeys(self.profiles.observe(likeness, outcome, job=job)))

    def drop(self, kinds: Iterable[Kind]) -> None:
        """Forget these kinds: jobs like them are expected anew."""
        self._news.update(dict.fromkeys(self.profiles.drop(kinds)))

    def pace(self, job: JobId, action: int, likeness: Likeness, outcome: Outcome | None) -> None:
        """The speed of a job that runs under this order, once for each order."""
        if outcome is not None and self._paced.get(job) != action:
            self._paced[job] = action
            self.learn(likeness, outcome)

    def announced(self, job: JobId) -> None:
        """Its attempt said which plans it can change to, or what a change cost it."""
        self._announced[job] = None

    def take_announced(self) -> list[JobId]:
        """Jobs that said so since this was last asked."""
        announced, self._announced = list(self._announced), {}
        return announced

    def take_news(self) -> list[Kind]:
        """Kinds that were learned since this was last asked."""
        news, self._news = list(self._news), {}
        return news
