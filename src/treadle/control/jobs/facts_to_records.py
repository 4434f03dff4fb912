"""Turns facts and orders into records, attempts and what is learned. The only place that does.

It runs after the scheduler has taken the same facts, live and when a journal is replayed, with the
moments that the journal has. It reads no clock and no file, so both give the same records.
"""

from collections.abc import Sequence
from math import inf

from treadle.control.jobs.attempts import (
    closed,
    cut,
    failure_of,
    moved,
    opened,
    started,
    unused,
    with_loss,
    with_replaced,
)
from treadle.control.jobs.company_faults import out_of_memory, server_failed, why_alone
from treadle.control.jobs.fact_subjects import Fact, job_of, moment_of
from treadle.control.jobs.gates import ARRAY
from treadle.control.jobs.job_kinds import likeness_of
from treadle.control.jobs.job_table import AttemptKey, JobTable, id_of, nodes_in
from treadle.control.jobs.pauses import away_s, goes_on, has_paused, held, pause_ordered
from treadle.control.jobs.records import (
    JobRecord,
    note_preemption,
    note_wish,
    progress_of,
    records_from,
    state_of_phase,
    to_build_on,
)
from treadle.control.jobs.refusals import MACHINE
from treadle.control.learning import (
    Attempted,
    JobLearner,
    Question,
    learn_plans,
    of_end,
    of_pace,
    of_pause,
    of_sight,
)
from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.attempt import How
from treadle.core.cluster import Node
from treadle.core.events import (
    AttemptEnded,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobPaused,
    JobProgressed,
    JobReleased,
    JobStarted,
    JobStopped,
    NodeLost,
    RankReplaced,
)
from treadle.core.job import JobId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.journal.facts import ControllerBegan, JobAccepted, ScriptForgotten
from treadle.models.learning.spread import spread_of
from treadle.models.learning.unlike import type_of
from treadle.store.rows import AttemptRow
from treadle.wire.jobs import State

LAUNCHED_MAX = 8  # orders of a job whose attempt is remembered


class Reducer:
    """Applies what happened to the table of jobs."""

    def __init__(self, jobs: JobTable, learner: JobLearner, scheduler: Scheduler) -> None:
        self._jobs = jobs
        self._learner = learner
        self._scheduler = scheduler

    def apply(
        self, facts: Sequence[Fact], actions: Sequence[Action], *, now: float, at: float
    ) -> list[JobRecord]:
        """Bring records up to date; those that ended.

        now: the run's own clock. at: seconds since 1970.
        """
        if any(isinstance(fact, ControllerBegan) for fact in facts):
            self._learner.profiles.forget_all()  # Memory is gone, live as in a replay.
        for forgotten in (fact for fact in facts if isinstance(fact, ScriptForgotten)):
            self._learner.drop(forgotten.kinds)
        if facts:  # Lines without any are not all replayed.
            self._learner.profiles.advance(now)
        ends = self._ending_facts(facts)
        for place, fact in enumerate(facts):
            # What came after the end changes nothing.
            if place <= ends.get(job_of(fact), place):
                self._happened(fact, now=now, at=at)
        learn_plans(self._learner.plans, facts, self._scheduler.jobs)
        over = [
            self._jobs.records[job] for job in self._scheduler.ended if job in self._jobs.records
        ]
        self._learner.forget(self._scheduler.ended)
        for record in over if facts else ():
            end = facts[ends[record.id]] if record.id in ends else None
            self._learner.profiles.forget(record.id)
            self._over(record, self._scheduler.ended[record.id], moment_of(end, at))
        for action in actions:
            self._ordered(action, now=now, at=at)
        touched = dict.fromkeys([*map(job_of, facts), *(action.job for action in actions)])
        for identity in touched:
            self._follow_phase(identity, at)
        return over if facts else []

    def _ending_facts(self, facts: Sequence[Fact]) -> dict[JobId, int]:
        """Which of these facts ended a job, by their place."""
        found: dict[JobId, int] = {}
        for place, fact in enumerate(facts):
            phase = self._scheduler.ended.get(job_of(fact))
            if phase is None:
                continue
            meaning = fact.meaning if isinstance(fact, AttemptEnded) else fact
            done = isinstance(meaning, JobFinished) and phase is Phase.FINISHED
            failed = isinstance(meaning, JobFailed) and phase is Phase.FAILED
            cancelled = phase is Phase.CANCELLED and isinstance(
                meaning, JobCancelled | JobStopped | JobFailed
            )
            if done or failed or cancelled:
                found[job_of(fact)] = place
        return found

    # -- facts ----------------------------------------------------------------------------------

    def _happened(self, fact: Fact, *, now: float, at: float) -> None:
        if isinstance(fact, ControllerBegan):
            self._jobs.run = fact.run
            return
        if isinstance(fact, JobAccepted):
            self._accepted(fact)
            return
        if isinstance(fact, RankReplaced):
            self._replaced(fact)
            return
        if isinstance(fact, NodeLost):
            self._lost(fact.node, now)
            return
        record = self._jobs.records.get(job_of(fact))
        if record is not None:
            self._happened_to(record, fact, now=now, at=at)

    def _happened_to(self, record: JobRecord, fact: Fact, *, now: float, at: float) -> None:
        match fact:
            case JobStarted():
                self._started(record, fact, now=now, at=at)
            case JobProgressed():
                self._progressed(record, fact)
                record.metered = record.metered or _metered(fact)
                self._learn_running(record, fact)
            case AttemptEnded():
                self._ended(record, fact, now=now, at=at)
            case JobPaused():
                self._paused(record, fact, now=now, at=at)
            case JobHeld() | JobReleased():
                held(record, fact)
            case _:
                note_wish(record, fact)

    def _accepted(self, fact: JobAccepted) -> None:
        for accepted in records_from(fact):
            if accepted.id not in self._jobs.records:
                self._jobs.add(accepted)

    def _replaced(self, fact: RankReplaced) -> None:
        attempt = self._jobs.attempt(AttemptKey(fact.job, fact.attempt))
        if attempt is not None:
            self._jobs.put_attempt(with_replaced(attempt, fact))

    def _lost(self, node: str, now: float) -> None:
        """What ran there may run on until its engine says that it has ended."""
        for row in list(self._jobs.open.values()):
            if node not in nodes_in(row.devices):
                continue
            self._jobs.put_attempt(with_loss(row, node))
            record = self._jobs.records.get(row.job)
            if record is not None and record.running == row.number and record.lost_s is None:
                record.lost_s = now
        for job in self._scheduler.jobs.values():
            if job.starts_over and node in job.kept_on:
                record = self._jobs.records[job.id]
                record.lost_on, record.safe, record.checkpoint = job.kept_on, 0.0, None

    def _started(self, record: JobRecord, fact: JobStarted, *, now: float, at: float) -> None:
        number = fact.attempt or record.launched.get(fact.action, 0)
        attempt = self._jobs.open.get(AttemptKey(record.id, number))
        if attempt is None:
            return
        if fact.changes and fact.changes != record.changes:
            self._learner.announced(record.id)
        if record.pause is None:
            self._resized(record, fact)
        record.changes, record.running, record.pauses = fact.changes, number, fact.pauses
        record.uses_train = record.uses_train or bool(fact.changes)
        if fact.stall_s is not None:
            record.stall_s = fact.stall_s
            self._learner.seen.changed(record.id, fact.stall_s)
            self._learner.announced(record.id)
        record.begun, record.launched[fact.action] = max(record.begun, number), number
        # Those that were ordered for a change that this attempt made itself.
        self._drop_unused(record, at, upto=fact.action)
        if attempt.started_at is None:
            # Where the controller was down when it started, the fact comes later than the start.
            started_at = at if fact.started_at is None else min(at, fact.started_at)
            # A clock that was set back must not make a job start before it was submitted.
            started_at = max(started_at, min(at, record.submitted_at))
            record.started_at = record.started_at or max(started_at, record.submitted_at)
            record.began_s, record.counted_s, record.lost_s = now - (at - started_at), 0.0, None
            record.starts += 1
            if record.starts == 1:
                self._predict(record, len(attempt.devices))
            record.progress = to_build_on(record.progress, record.safe)
            attempt = started(attempt, fact, started_at, record.lost_on)
            record.lost_on = ()
            self._jobs.put_attempt(attempt)
        self._changed_live(record, attempt, now)
        record.devices = self._jobs.open[AttemptKey(record.id, number)].devices
        size = len(record.devices)
        if record.pause is not None:
            self._learner.learn(likeness_of(record), of_pause(fact, record.pause.how))
            self._learner.go_on_after(record.id, fact.action, goes_on(record, fact, now), now=now)
        else:
            self._learner.begin(record.id, fact.action, size, share=record.safe, now=now)
        self._watch_ranges(record, size, now)

    def _paused(self, record: JobRecord, fact: JobPaused, *, now: float, at: float) -> None:
        self._learner.learn(likeness_of(record), of_pause(fact, fact.how))
        has_paused(record, fact, now=now, at=at)
        self._learner.paused(record.id, now)
        self._drop_unused(record, at, upto=fact.action)

    def _resized(self, record: JobRecord, fact: JobStarted) -> None:
        """It has another size, or could not be given it."""
        if fact.refused and record.resizing:
            record.resizes -= 1
            row = self._scheduler.jobs.get(record.id)
            record.size = record.size if row is None else row.size
        if fact.refused or record.resizing:
            record.refused = fact.refused
        record.resizing = False

    def _predict(self, record: JobRecord, size: int) -> None:
        """Keep what its kind lets expect of its speed, before its own run says anything."""
        record.predicted_size = size
        step_s = self._learner.profiles.step_expected_s(likeness_of(record), size)
        record.predicted_per_s = None if step_s is None else 1.0 / step_s

    def _watch_ranges(self, record: JobRecord, size: int, now: float) -> None:
        """Compare the ranges of a job that begins; not of one that had another size or shares.

        Such a job is slower or faster than its ranges said, and that is no fault of theirs.
        """
        profiles, job = self._learner.profiles, self._scheduler.jobs.get(record.id)
        devices = () if job is None or job.allocation is None else job.allocation.devices
        tenants = self._scheduler.tenancy.tenants
        there = (tenants.get(device, {}) for device in devices)  # None, if it is paused at once.
        beside = {other for each in there for other in each.values()} - {record.id}
        for other in beside:
            profiles.forget(other)
        if beside or record.resizes:
            profiles.forget(record.id)
            return
        question = Question(likeness_of(record), size)
        ran_s = record.ran_s if record.resumable else 0.0
        profiles.begin(record.id, question, now=now, age_s=ran_s)

    def _changed_live(self, record: JobRecord, attempt: AttemptRow, now: float) -> None:
        """If the attempt itself moved to other devices: count those it had until now."""
        job = self._scheduler.jobs.get(record.id)
        if job is None or job.allocation is None or job.phase is not Phase.RUNNING:
            return
        devices, began_s = tuple(map(str, job.allocation.devices)), record.began_s
        if devices == attempt.devices or began_s is None:
            return
        passed_s = max(0.0, now - began_s - record.counted_s)
        record.device_s += passed_s * len(attempt.devices)
        record.counted_s += passed_s
        self._jobs.put_attempt(moved(attempt, devices))

    def _progressed(self, record: JobRecord, fact: JobProgressed) -> None:
        said = fact.progress
        if said is None:
            return
        record.progress = progress_of(said)
        record.checkpoint = record.checkpoint if said.checkpoint is None else said.checkpoint

    def _ended(self, record: JobRecord, fact: AttemptEnded, *, now: float, at: float) -> None:
        """An attempt is over. A repeated report changes nothing."""
        failed = isinstance(fact.meaning, JobFailed)
        key = AttemptKey(record.id, fact.attempt)
        attempt = self._jobs.open.get(key)
        if failed and not fact.attempt:  # Nothing was launched: what was ordered has failed.
            ordered = AttemptKey(record.id, record.launched.get(fact.action, 0))
            row = self._jobs.open.get(ordered)
            attempt = row if row is not None and row.started_at is None else None
        lost = self._scheduler.ended.get(record.id) is Phase.FAILED
        retried = failed or bool(fact.beside) or fact.mps_failed or fact.node_lost
        view = failure_of(fact, retried=retried and not (lost or record.cancelled))
        if attempt is not None:
            self._learn(record, fact, attempt.devices)
            self._learner.seen.ended(id_of(attempt), now)
            paused_s = away_s(record, now)
            row = closed(attempt, fact, view, at, away_s=paused_s)
            record.begun = max(record.begun, row.number)
            self._jobs.put_attempt(row)
            if row.started_at is not None:
                record.devices = row.devices
                ran_s = fact.ran_s or 0.0
                record.starts += attempt.started_at is None  # It ended before its start was seen.
                if record.started_at is None or record.starts == 1:
                    record.started_at = max(row.started_at - paused_s, record.submitted_at)
                record.ran_s += ran_s
                record.device_s += max(0.0, ran_s - record.counted_s) * len(attempt.devices)
        elif fact.attempt:
            return
        if fact.attempt and self._jobs.overtaken(key):
            return
        record.began_s, record.changes, record.running, record.counted_s = None, (), 0, 0.0
        record.lost_s, record.pause, record.paused_s, record.pauses = None, None, None, ()
        record.away_s = 0.0
        self._learner.end(record.id, now)
        if attempt is not None:
            record.exit, record.how = fact.code, fact.how.shown
            record.safe = fact.safe
            if fact.progress is not None:
                self._progressed(record, _last_words(fact))
        _keep_apart(record, fact)
        if failed:
            record.failures += fact.how is not How.TIME_LIMIT  # It did what it was to do.
            record.failure = view

    def _learn(self, record: JobRecord, fact: AttemptEnded, devices: tuple[str, ...]) -> None:
        """What the end of an attempt taught.

        A job that cannot resume did all its work in this attempt. Attempts of one that can add up,
        if all had one size and none failed.
        """
        resumed = record.resumable and record.starts > 1
        attempted = Attempted(
            len(devices),
            record.ran_s if resumed else 0.0,
            alone=not resumed or not (record.resizes or record.failures),
            over=record.id in self._scheduler.ended,
            spread=spread_of(nodes_in(devices), len(devices), self._scheduler.cluster),
            device_type=type_of(nodes_in(devices), self._all_nodes()),
        )
        self._learner.learn(likeness_of(record), of_end(fact, attempted), job=record.id)

    def _all_nodes(self) -> list[Node]:
        return [*self._scheduler.cluster.nodes, *self._scheduler.drained.values()]

    def _learn_running(self, record: JobRecord, fact: JobProgressed) -> None:
        """What a job taught that still runs: its speed at this size, and what it uses."""
        row = self._scheduler.jobs.get(record.id)
        if row is None or row.allocation is None or fact.action != row.action:
            return
        if fact.progress is not None:
            nodes, cluster = row.allocation.nodes(), self._scheduler.cluster
            pace = of_pace(
                fact.progress,
                row.attempt_size,
                spread=spread_of(nodes, row.attempt_size, cluster),
                device_type=type_of(nodes, self._all_nodes()),
            )
            self._learner.pace(record.id, fact.action, likeness_of(record), pace)
        if fact.seen is not None:
            self._learner.learn(likeness_of(record), of_sight(fact.seen, row.attempt_size))

    def _over(self, record: JobRecord, phase: Phase, at: float) -> None:
        """The job has ended, and so has every attempt at it."""
        for row in self._jobs.open_of(record.id):
            self._jobs.put_attempt(unused(row, at) if row.started_at is None else cut(row, at))
        record.ended_at = max(at, record.submitted_at, record.started_at or 0.0)
        if phase is Phase.FINISHED:
            record.state, record.exit = State.SUCCEEDED, 0
        elif phase is Phase.FAILED:
            record.state = State.TIMEOUT if record.how == "time-limit" else State.FAILED
        else:
            record.state, record.how = State.CANCELLED, "cancelled"

    # -- orders ---------------------------------------------------------------------------------

    def _ordered(self, action: Action, *, now: float, at: float) -> None:
        """An order that launches processes begins an attempt."""
        record = self._jobs.records.get(action.job)
        if record is None:
            return
        stops, launches = not isinstance(action, Start), not isinstance(action, Stop)
        asked = record.cancelled or action.job in self._scheduler.blocked
        note_preemption(record, action, at, asked=asked)
        if isinstance(action, Change) and action.allocation.paused:
            pause_ordered(record, action, now=now, at=at, asked=asked)
            return
        if record.pause is None:
            self._learner.seen.ordered(record.id, now, stops=stops, launches=launches)
        if isinstance(action, Stop):
            return
        size = len(action.allocation.devices)
        record.resizing = bool(record.size) and record.size != size
        record.resizes += record.resizing
        record.size = size
        record.attempts += 1
        self._jobs.put_attempt(opened(record, action, self._jobs.run))
        record.launched[action.id] = record.attempts
        while len(record.launched) > LAUNCHED_MAX:
            del record.launched[next(iter(record.launched))]

    # -- what follows from the scheduler's row --------------------------------------------------

    def _follow_phase(self, identity: JobId, at: float) -> None:
        """The state that people see follows the phase."""
        record, row = self._jobs.records.get(identity), self._scheduler.jobs.get(identity)
        if record is None:
            return
        if row is None or row.phase is Phase.WAITING:
            self._drop_unused(record, at)
        if row is not None:
            # What waits for a machine or for the limit of its array is not held.
            blocked = bool({*self._scheduler.blocked.get(identity, ())} - {MACHINE, ARRAY})
            record.state = state_of_phase(row, record, blocked=blocked)

    def _drop_unused(self, record: JobRecord, at: float, upto: float = inf) -> None:
        """Forget attempts of these orders that nothing ran of; their numbers are given again."""
        for row in self._jobs.open_of(record.id):
            if row.started_at is None and row.action <= upto and row.number != record.running:
                self._jobs.put_attempt(unused(row, at))
        numbers = (row.number for row in self._jobs.open_of(record.id))
        record.attempts = max(record.begun, *numbers, 0)


def _keep_apart(record: JobRecord, fact: AttemptEnded) -> None:
    """Note why the job shares no more, if this end is a reason."""
    if because := why_alone(fact):
        record.alone_because, record.mps_failed = because, server_failed(fact)
        record.memory_failed = out_of_memory(fact)


def _metered(fact: JobProgressed) -> bool:
    """Whether the scheduler has heard the job's own speed, and counts its work by it.

    A sighting repeats what the job said, and the spec does not follow it.
    """
    said = fact.progress
    return fact.seen is None and said is not None and said.share_per_s is not None


def _last_words(fact: AttemptEnded) -> JobProgressed:
    return JobProgressed(fact.job, fact.action, fact.iterations_done, 0.0, fact.progress)
