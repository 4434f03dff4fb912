"""Tells the scheduler what was learned of jobs that wait or run: their kind was learned meanwhile.

Ten jobs of one kind may wait while the first of them runs for the first time. Once that is seen, or
has ended, the others are known too. Only jobs of the kinds that changed are looked at, and only so
many at a time, so that learning from one job costs no more with ten thousand in the queue.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from treadle.control.jobs.job_kinds import program_of
from treadle.control.jobs.job_table import JobTable
from treadle.control.jobs.records import JobRecord
from treadle.control.learning import CLOSE, Expectation, JobLearner, Question
from treadle.core.events import Event, JobProgressed, JobsLearned, JobUpdated
from treadle.core.job import Job, JobId, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.core.live_plans import leader
from treadle.core.scheduler import Scheduler
from treadle.models.learning.kinds import closeness

AT_ONCE = 16  # jobs that are looked at in the step that learned something
A_LOOK = 200  # and in every look at running jobs: about 20 ms
DRIFT = 0.2  # a length that is so much different replaces the one before
LEFT_MIN_S = 0.1  # a job that runs has something left
SIZE = "size"  # announced by attempts that are resized without a restart
LIVE_CHANGE_S = 2.0  # what such a change is taken to cost until one is measured: 0.05 to 1.9 s
NEARLY_DONE = 0.9  # a job whose estimate is nearly over, and that does not say where it is


def question_about(record: JobRecord, spec: JobSpec) -> Question:
    """What is to be asked of the learner about a job."""
    return Question.of(
        program_of(record),
        asked=spec.asked,
        sizes=spec.sizes,
        estimate_s=spec.estimate_s or None,
        limit_s=record.time_limit_s,
        device_gib=record.gpu_memory_gib,
    )


class Respec:
    """Jobs whose kind was learned, to be told to the scheduler."""

    def __init__(
        self,
        jobs: JobTable,
        learner: JobLearner,
        scheduler: Scheduler,
        spec: Callable[[Job], JobSpec],
    ) -> None:
        self._jobs = jobs
        self._learner = learner
        self._scheduler = scheduler
        self._spec = spec  # as it will be once all facts on their way have arrived
        self._due: dict[JobId, None] = {}

    def at_once(self, now: float) -> list[Event]:
        """What the scheduler is to know of a few jobs before it decides again.

        Only in a step that learned something: what is left waits for the next look, so that a long
        queue of one kind does not fill every step.
        """
        return self._facts(now, AT_ONCE) if self._heard() else []

    def in_a_look(self, running: Iterable[Job], now: float) -> list[Event]:
        """The same of more jobs, and of those that run longer than expected."""
        self._heard()
        return [*self._facts(now, A_LOOK), *self._overdue(running, now)]

    def _heard(self) -> bool:
        """Note the jobs of kinds that were learned; whether any was."""
        news = [kind for kind in self._learner.take_news() if closeness(kind) in CLOSE]
        for kind in news:
            self._due.update(self._jobs.of_kind(kind))
        announced = self._learner.take_announced()
        self._due.update(dict.fromkeys(announced))
        return bool(news or announced)

    def _facts(self, now: float, limit: int) -> list[Event]:
        """What has changed; of jobs that wait, all of one kind in one fact."""
        found: list[Event] = []
        alike: dict[tuple[float, Profile, float], list[JobId]] = {}
        for identity in list(islice(self._due, limit)):
            del self._due[identity]
            row, record = self._scheduler.jobs.get(identity), self._jobs.records.get(identity)
            if row is None or record is None or row.phase not in (Phase.WAITING, Phase.RUNNING):
                continue  # It is on its way; the next lesson will find it.
            before = self._spec(row)
            after = self._news(record, row, before, now)
            if after == before:
                continue
            if row.phase is Phase.WAITING:
                lesson = (after.iterations, after.profile, after.order_work)
                alike.setdefault(lesson, []).append(identity)
            else:
                found += self._changed(row, before, after, now)
        lessons = [JobsLearned(tuple(jobs), *learned) for learned, jobs in alike.items()]
        return [*found, *lessons]

    def _overdue(self, rows: Iterable[Job], now: float) -> list[Event]:
        """Longer lengths of running jobs that have nearly used theirs up and say nothing."""
        found: list[Event] = []
        for row in rows:
            spec, record = row.spec, self._jobs.records.get(row.id)
            if record is None or row.iterations_at(now) < NEARLY_DONE * spec.iterations:
                continue
            if not record.metered:
                spec = self._spec(row)
                expected = self._learner.profiles.ask(question_about(record, spec))
                longer = replace(spec, iterations=_outliving(expected, row, record, now))
                found += self._changed(row, spec, longer, now)
        return found

    def _news(self, record: JobRecord, row: Job, spec: JobSpec, now: float) -> JobSpec:
        """The spec with what is known of the job now."""
        expected = self._learner.profiles.ask(question_about(record, spec))
        found = expected.profile
        if SIZE in record.changes:  # Its own last change counts, before what its kind has shown.
            stall_s = record.stall_s or found.resize_s or LIVE_CHANGE_S
            lead = leader(record.changes)
            found = replace(found, resize_s=stall_s, lead="" if lead is None else lead.node)
        elif row.phase is Phase.RUNNING:
            found = replace(found, resize_s=0.0)  # This attempt cannot, whatever others could.
        profile = spec.profile if _alike(spec.profile, found) else found
        iterations, order_work = spec.iterations, spec.order_work
        if expected.known and not record.metered:
            wanted = expected.length_s
            if row.phase is Phase.RUNNING:
                wanted = _outliving(expected, row, record, now)
            elif row.iterations_done:
                wanted = _resuming(expected, row)
            if abs(wanted / iterations - 1.0) > DRIFT:
                iterations = wanted
            if abs(expected.order_s - order_work) > DRIFT * order_work:
                order_work = expected.order_s
        known = replace(spec, profile=profile, iterations=iterations, order_work=order_work)
        return self._learner.plans.offered(known, record.changes)

    def _changed(self, row: Job, before: JobSpec, after: JobSpec, now: float) -> list[Event]:
        if after == before:
            return []
        if row.phase is not Phase.RUNNING or after.iterations == before.iterations:
            return [JobUpdated(after)]
        # A change of the whole keeps the share that is done, and of this job none is known: the
        # seconds that it has run are what stays.
        done = min(row.iterations_at(now), after.iterations)
        return [JobUpdated(after), JobProgressed(row.id, row.action, done, row.iterations_per_s)]


def _outliving(expected: Expectation, row: Job, record: JobRecord, now: float) -> float:
    """The work of a running job: done, and the mean of what is left of one that ran so long."""
    done = row.iterations_at(now)
    lengths = expected.learned.length.given(worked_s(row, now))
    left_s = lengths.mean()
    if record.time_limit_s is not None and record.began_s is not None:
        left_limit_s = record.time_limit_s - record.ran_s - (now - record.began_s)
        left_s = min(left_s, max(LEFT_MIN_S, left_limit_s * row.iterations_per_s))
    return done + max(left_s, LEFT_MIN_S)


def _resuming(expected: Expectation, row: Job) -> float:
    """The work of a job that waits to go on: the share that is done stays, so the rest counts."""
    left_s = max(LEFT_MIN_S, expected.learned.length.given(row.iterations_done).mean())
    return left_s / (1.0 - min(0.99, row.iterations_done / row.spec.iterations))


def worked_s(row: Job, now: float) -> float:
    """The work that a job has done, in seconds at the size it asks for, also past its estimate."""
    return row.iterations_done + row.iterations_per_s * (now - row.observed_at)


def _alike(one: Profile, other: Profile) -> bool:
    """Whether a policy would decide the same by both."""
    if (one.size, one.model, one.measured) != (other.size, other.model, other.measured):
        return False
    if one.lead != other.lead:
        return False
    if [size for size, _ in one.curve] != [size for size, _ in other.curve]:
        return False
    if other.memory_gib > one.memory_gib:
        return False  # What may share a device is decided by it.
    pairs = [
        *((a, b) for (_, a), (_, b) in zip(one.curve, other.curve, strict=True)),
        (one.memory_gib, other.memory_gib),
        (one.restart_s, other.restart_s),
        (one.resize_s, other.resize_s),
        (one.suspend_s, other.suspend_s),
        (one.resume_s, other.resume_s),
        (one.busy, other.busy),
        (one.memory_busy, other.memory_busy),
        (one.cores, other.cores),
    ]
    return all(_close(a, b) for a, b in pairs)


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= 0.1 * max(abs(a), abs(b))
