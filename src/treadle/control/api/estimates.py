"""When a waiting job would start, or an array end: the live scheduler, simulated from now on.

In each simulation every job takes a length of its own, drawn from what is known of it
(start_draws.py). The range leaves out the earliest and the latest tenth. Once some starts were
compared with what was said of them, the range follows these errors (models/learning/start_errors).

A job of unknown length is assumed not to end, or only at its time limit. If the job then
starts all the same, the range is an upper bound; otherwise the start is unknown. The same holds for
the end of an array.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

from treadle.control.api.context import Context
from treadle.control.api.job_progress import Left, left_of, limit_left_s
from treadle.control.api.queue_order import in_queue, position
from treadle.control.api.sentences import Said
from treadle.control.api.start_draws import (
    Ahead,
    GatesAhead,
    comparable,
    drawn,
    simulated,
    steps_of,
)
from treadle.control.jobs import USER, JobRecord, question_about
from treadle.control.learning import Question
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.wording import named_jobs, several
from treadle.models.learning.expectation import COVERAGE
from treadle.models.learning.start_errors import as_simulated, quantile
from treadle.models.lengths.distribution import as_shown
from treadle.sim.start_estimate import (
    Begin,
    Effort,
    NotYet,
    World,
    all_starts_in,
    ends_in,
    starts_in,
)
from treadle.wire.jobs import Estimate, StartEstimate

NAMED_MAX = 3
KINDS_MAX = 2000  # of jobs whose lengths are looked up: about 0.2 s


class Found(NamedTuple):
    """What simulations say of a moment: between which seconds from now, and what that rests on."""

    low_s: float | None
    high_s: float | None
    sure: bool  # the range has the coverage that is claimed of such ranges
    sentence: str
    unknown: tuple[JobId, ...] = ()  # jobs of unknown length, if that is why nothing is known


class Forecast(NamedTuple):
    """When a job would start, and how it does in a simulation that is like most."""

    start: StartEstimate
    typical: Begin | None = None

    @property
    def freed_by(self) -> tuple[JobId, ...]:
        """The jobs whose ends free the devices that it will be given."""
        return () if self.typical is None else tuple(self.typical.freed_by)


def forecast(context: Context, job: JobId, tried: Sequence[JobRecord] = ()) -> Forecast:
    """A range, with the sentence that says what it is based on, and what has to happen before.

    tried: of jobs that were not submitted and are only in this context's scheduler.
    """
    scheduler = context.scheduler
    steps = steps_of(len(scheduler.ranking.queue))
    place = position(scheduler, job)
    if place is not None and place > steps * context.cluster.device_count:
        # Even if every step freed all devices, it would not be its turn.
        return Forecast(_unknown(f"{place - 1:,} jobs are ahead of it"))
    ahead = _ahead(context, job)
    now = context.clock.now()

    def ask(run: int, effort: Effort) -> Begin | NotYet:
        context.condition.orders.rest()
        gates = GatesAhead(context, tried)
        world = World(drawn(ahead, run), ahead.lasting, gates.after)
        return starts_in(scheduler, context.belief, job, now=now, effort=effort, world=world)

    answers = simulated(steps, ask)
    begun = [answer for answer in answers if isinstance(answer, Begin)]
    moments = [answer.in_s if isinstance(answer, Begin) else answer for answer in answers]
    start, compared = _start(context, ahead, job, moments)
    if compared and not tried:
        context.learner.starts.promise(job, compared, now)
    queued = in_queue(scheduler, job)  # Others have no place in the order of those that wait.
    if after := sorted(answer.after for answer in begun) if queued else []:
        orders = (1 + after[0], 1 + after[-1])
        start = replace(start, order=1 + after[len(after) // 2], orders=orders)
    # Of a job that is known by its time limit alone nothing is typical.
    whole = len(begun) == len(answers) and not ahead.limited
    return Forecast(start, _typical(begun) if begun and whole else None)


def starts_of_all(context: Context, jobs: Sequence[JobId]) -> dict[JobId, StartEstimate]:
    """When each of these waiting jobs would start, all from the same simulations.

    Their order is not claimed, and no promise is noted: `forecast` does both for one job.
    """
    scheduler, now = context.scheduler, context.clock.now()
    steps = steps_of(len(scheduler.ranking.queue))
    ahead = _ahead(context, "")

    def ask(run: int, effort: Effort) -> dict[JobId, float | NotYet]:
        context.condition.orders.rest()
        world = World(drawn(ahead, run), ahead.lasting, GatesAhead(context).after)
        return all_starts_in(scheduler, context.belief, jobs, now=now, effort=effort, world=world)

    answers = simulated(steps, ask)
    found: dict[JobId, StartEstimate] = {}
    for job in jobs:
        moments = [answer if isinstance(answer, NotYet) else answer[job] for answer in answers]
        found[job], _ = _start(context, ahead, job, moments)
    return found


def _start(
    context: Context, ahead: Ahead, job: JobId, moments: Sequence[float | NotYet]
) -> tuple[StartEstimate, Sequence[float]]:
    """What simulations say of a start, and those of their moments that can be compared with it."""
    sooner = _sooner(context, job, ahead)
    compared = [] if sooner or ahead.limited else comparable(moments)
    found = _found(context, ahead, moments, sooner=sooner)
    if found.high_s is None and (person := _by_a_person(context, job)):
        found = Found(None, None, sure=False, sentence=person)
    found = _narrow_enough(_corrected(context, found, compared, context.clock.now()))
    begun = not all(isinstance(moment, NotYet) for moment in moments)
    start = StartEstimate(
        earliest_s=0.0 if sooner and begun else found.low_s,
        latest_s=found.high_s,
        runs=0 if ahead.lasting and not begun else len(moments),
        sentence=found.sentence,
        coverage=COVERAGE if found.sure else None,
        unknown=found.unknown,
    )
    return start, compared


def end_of_all(context: Context, jobs: Collection[JobId]) -> Estimate:
    """When the last of these jobs has ended, waiting and running, from the same simulations."""
    scheduler, now = context.scheduler, context.clock.now()
    steps = steps_of(len(scheduler.ranking.queue))
    if len(jobs) > steps * context.cluster.device_count:
        return Estimate(because=f"{len(jobs):,} jobs are too many to look ahead")
    ahead = _ahead(context, "")
    if unknown := [name for name in ahead.endless if name in jobs]:
        return Estimate(because=_not_known(context, unknown))

    def ask(run: int, effort: Effort) -> float | NotYet:
        context.condition.orders.rest()
        gates = GatesAhead(context)
        world = World(drawn(ahead, run), ahead.lasting, gates.after)
        return ends_in(scheduler, context.belief, jobs, now=now, effort=effort, world=world)

    answers = simulated(steps, ask)
    sooner = _sooner(context, "", ahead)
    found = _narrow_enough(_found(context, ahead, answers, sooner=sooner))
    if found.high_s is None:
        return Estimate(because=found.sentence)
    high_s = round(found.high_s, 1)
    if not found.sure or found.low_s is None:
        return Estimate(high_s=high_s, because=found.sentence)
    return Estimate(
        low_s=round(found.low_s, 1),
        high_s=high_s,
        coverage=COVERAGE,
        known=True,
        because=found.sentence,
    )


def _found(
    context: Context, ahead: Ahead, answers: Sequence[float | NotYet], *, sooner: Sequence[str]
) -> Found:
    """What the answers of all simulations come to.

    sooner: what they leave out and may let it happen earlier.
    """
    known = sorted(answer for answer in answers if not isinstance(answer, NotYet))
    if not known and ahead.endless:
        # The default length would give figures, and they would be invented.
        jobs = tuple(_first(context, ahead.endless))
        return Found(None, None, sure=False, sentence=_not_known(context, jobs), unknown=jobs)
    if not known:
        return Found(None, None, sure=False, sentence="too far ahead to say")
    whole = len(known) == len(answers)
    parts = ["some jobs are known only by their time limits"] if ahead.limited else []
    parts += [f"earlier if {' or '.join(sooner)}"] if sooner else []
    parts += [] if whole else ["or much later"]
    low_s, high_s = as_simulated(known)
    sure = whole and not (sooner or ahead.limited)
    sentence = "; ".join(parts) or "if no jobs are added"
    return Found(low_s, high_s if whole else None, sure=sure, sentence=sentence)


def _corrected(context: Context, found: Found, moments: Sequence[float], now: float) -> Found:
    """The same by how far off earlier simulations were, once enough starts were compared.

    moments: none if these simulations cannot be compared.
    """
    starts = context.learner.starts
    if not (moments and starts.compared):
        return found
    low_s, high_s = starts.range_of(moments, now)
    sentence = f"from {several(starts.compared, 'earlier start')}"
    return Found(low_s, high_s, sure=True, sentence=sentence)


def _narrow_enough(found: Found) -> Found:
    """The same as people are shown it: of a range that is too wide, what would make it known."""
    if not found.sure or found.low_s is None or found.high_s is None:
        return found
    shown = as_shown(found.low_s, found.high_s)
    if shown is None:
        sentence = "the lengths of the jobs before it are hardly known"
        return Found(None, None, sure=False, sentence=sentence)
    return found._replace(low_s=shown[0], high_s=shown[1])


def _by_a_person(context: Context, job: JobId) -> str:
    """What a person has to end before it can start; empty: nothing."""
    scheduler, seen, due = context.scheduler, set[JobId](), [job]
    while due:
        name = due.pop()
        row, record = scheduler.jobs.get(name), context.jobs.records.get(name)
        if row is None or record is None or name in seen:
            continue
        seen.add(name)
        if name != job and USER in scheduler.blocked.get(name, ()):
            state = "on hold" if row.allocation is None else "paused"
            return f"{_label(Said(context), name)} is {state}"
        held = row.allocation if row.phase is Phase.PAUSED else None
        devices = () if held is None else held.devices
        if closed := [device for device in devices if device in scheduler.closed]:
            return f"device {closed[0]} is closed"
        due += [*record.after, *record.after_any]
    return ""


def _label(said: Said, job: JobId) -> str:
    name = said.label(job)
    return name if name != job else f"job {name}"


def _not_known(context: Context, jobs: Sequence[JobId]) -> str:
    said = Said(context)
    if len(jobs) == 1:
        return f"nothing is known about {_label(said, jobs[0])}'s length"
    names = named_jobs([said.label(job) for job in jobs], NAMED_MAX)
    return f"nothing is known about the lengths of {names}"


def _sooner(context: Context, job: JobId, ahead: Ahead) -> list[str]:
    """What the simulations leave out and may let it start earlier, or at once.

    job: empty if it is about the ends of several.
    """
    row = context.scheduler.jobs.get(job)
    found = ["a job of unknown length ends"] if ahead.endless or ahead.unread else []
    if row is not None and row.phase is Phase.WAITING and not row.spec.exclusive:
        may_share = context.scheduler.policy.shares and row.spec.profile.busy is not None
        found += ["it can share a device"] if may_share else []
    return found


def _ahead(context: Context, job: JobId) -> Ahead:
    lengths: dict[JobId, Left] = {}
    limited: dict[JobId, float] = {}
    endless: list[JobId] = []
    unread: list[JobId] = []
    kinds: dict[Hashable, Left | None] = {}
    questions: dict[Hashable, Question] = {}
    for name, row in context.scheduler.jobs.items():
        record = context.jobs.records.get(name)
        if name == job or record is None or row.phase is Phase.CANCELLING:
            continue  # What is cancelled ends within its grace, however long it was.
        limit_s = limit_left_s(context, record)
        kind = _kind(record, row, limit_s, questions)
        if kind not in kinds:
            if len(kinds) >= KINDS_MAX:
                unread.append(name)
                continue
            kinds[kind] = left_of(context, record, row)
        left = kinds[kind]
        if left is not None:
            lengths[name] = left
        elif limit_s is not None:
            limited[name] = limit_s
        else:
            endless.append(name)
    return Ahead(lengths, limited, endless, unread)


def _kind(
    record: JobRecord, row: Job, limit_s: float | None, questions: dict[Hashable, Question]
) -> Hashable:
    """What the length of a job follows from: thousands of one array are looked up once.

    questions: those that were made of other jobs, by what they are made of.
    """
    if row.allocation is not None or row.phase is not Phase.WAITING or row.starts:
        return row.id
    spec = row.spec
    said = (record.owner, record.model, record.command, record.workdir, *record.env.items())
    made_of = said, spec.asked, spec.sizes, spec.estimate_s, record.time_limit_s
    question = questions.get(made_of)
    if question is None:
        question = questions[made_of] = question_about(record, spec)
    return question, limit_s


def _typical(begun: Sequence[Begin]) -> Begin:
    """With the jobs whose ends free its devices most often, and half of such starts before it."""
    ordered = sorted(begun)
    freed_by, _ = Counter(begin.freed_by for begin in ordered).most_common(1)[0]
    alike = [begin for begin in ordered if begin.freed_by == freed_by]
    in_s = quantile([(begin.in_s, 1.0) for begin in alike], 0.5)
    return alike[len(alike) // 2]._replace(in_s=in_s)


def _first(context: Context, endless: Sequence[JobId]) -> list[JobId]:
    """Of jobs of unknown length, those that hold devices; else those that wait."""
    jobs = context.scheduler.jobs
    holding = [name for name in endless if jobs[name].allocation is not None]
    return holding or list(endless)


def _unknown(sentence: str) -> StartEstimate:
    return StartEstimate(earliest_s=None, latest_s=None, runs=0, sentence=sentence)
