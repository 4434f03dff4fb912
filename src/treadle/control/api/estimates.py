"""When a waiting job would start, or an array end: the live scheduler, simulated from now on.

In each simulation every job takes a length of its own, drawn from what is known of it
(job_progress.py). The draws are stratified: over all simulations a job goes through its whole
distribution, in an order of its own. The range leaves out the earliest and the latest tenth.

A job of which no length is known is assumed not to end, or only at its time limit. If the job then
starts all the same, the range is an upper bound; otherwise the start is unknown. The same holds for
the end of an array.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple, TypeVar
from zlib import crc32

from treadle.control.api.context import Context
from treadle.control.api.gates_ahead import GatesAhead
from treadle.control.api.job_progress import Left, left_of, limit_left_s
from treadle.control.api.queue_order import in_queue, position
from treadle.control.jobs import JobRecord, question_about
from treadle.control.loop import worked_for
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.wording import named_jobs, several
from treadle.models.learning.expectation import COVERAGE
from treadle.sim.start_estimate import Begin, Effort, World, ends_in, starts_in
from treadle.wire.jobs import Estimate, StartEstimate

HORIZON_S = 30 * 86_400.0
STEPS = 60_000  # of one simulation, divided by how many jobs wait: a decision looks at them all
SPEND_S = 0.45  # of the processor, for all simulations
RUNS = 10
RUNS_MIN = 3
NAMED_MAX = 3
KINDS_MAX = 2000  # of jobs whose lengths are looked up: about 0.2 s


Answer = TypeVar("Answer")


class Ahead(NamedTuple):
    """What is known of the jobs that run or wait."""

    lengths: Mapping[JobId, Left]
    limited: Mapping[JobId, float]  # only that they end within so many seconds
    endless: Sequence[JobId]  # nothing
    unread: Sequence[JobId]  # not looked up: there are too many

    @property
    def lasting(self) -> Sequence[JobId]:
        """Jobs that are assumed not to end."""
        return [*self.endless, *self.unread]


class Found(NamedTuple):
    """What simulations say of a moment: between which seconds from now, and what that rests on."""

    low_s: float | None
    high_s: float | None
    sure: bool  # the range has the coverage that is claimed of such ranges
    sentence: str


class Forecast(NamedTuple):
    """When a job would start, and how it does in a simulation that is like most."""

    start: StartEstimate
    typical: Begin | None = None


def estimate(
    context: Context,
    job: JobId,
    scheduler: Scheduler | None = None,
    tried: Sequence[JobRecord] = (),
) -> StartEstimate:
    """A range, with the sentence that says what it is based on.

    scheduler, tried: with jobs that were not submitted, and their records.
    """
    return forecast(context, job, scheduler, tried).start


def forecast(
    context: Context,
    job: JobId,
    scheduler: Scheduler | None = None,
    tried: Sequence[JobRecord] = (),
) -> Forecast:
    """The same, and what has to happen before."""
    scheduler = scheduler or context.scheduler
    steps = _steps(context, scheduler)
    place = position(scheduler, job)
    if place is not None and place > steps * context.cluster.device_count:
        # Even if every step freed all devices, it would not be its turn.
        return Forecast(_unknown(f"{place - 1:,} jobs are ahead of it, too many to simulate"))
    ahead = _ahead(context, scheduler, job)
    now = context.clock.now()

    def ask(run: int, effort: Effort) -> Begin | None:
        gates = GatesAhead(context, scheduler, tried)
        world = World(_drawn(ahead, run), ahead.lasting, gates.after)
        return starts_in(scheduler, context.belief, job, now=now, effort=effort, world=world)

    answers = _simulated(steps, ask)
    begun = [answer for answer in answers if answer is not None]
    moments = [None if answer is None else answer.in_s for answer in answers]
    sooner = _sooner(scheduler, job, ahead)
    found = _found(context, scheduler, ahead, moments, sooner=sooner, what="start of it")
    queued = in_queue(scheduler, job)  # Others have no place in the order of those that wait.
    after = sorted(answer.after for answer in begun) if queued else []
    start = StartEstimate(
        earliest_s=0.0 if sooner and begun else found.low_s,
        latest_s=found.high_s,
        runs=0 if ahead.lasting and not begun else len(answers),
        sentence=found.sentence,
        coverage=COVERAGE if found.sure else None,
        order=1 + after[len(after) // 2] if after else None,
        orders=(1 + after[0], 1 + after[-1]) if after else None,
    )
    # Of a job that is known by its time limit alone nothing is typical.
    whole = len(begun) == len(answers) and not ahead.limited
    return Forecast(start, _typical(begun) if begun and whole else None)


def end_of_all(context: Context, jobs: Collection[JobId]) -> Estimate:
    """When the last of these jobs has ended, waiting and running, from the same simulations."""
    scheduler, now = context.scheduler, context.clock.now()
    steps = _steps(context, scheduler)
    if len(jobs) > steps * context.cluster.device_count:
        return Estimate(because=f"{len(jobs):,} jobs are too many to simulate")
    ahead = _ahead(context, scheduler, "")
    if unknown := [name for name in ahead.endless if name in jobs]:
        return Estimate(because=_not_known(unknown))

    def ask(run: int, effort: Effort) -> float | None:
        gates = GatesAhead(context, scheduler)
        world = World(_drawn(ahead, run), ahead.lasting, gates.after)
        return ends_in(scheduler, context.belief, jobs, now=now, effort=effort, world=world)

    answers = _simulated(steps, ask)
    sooner = _sooner(scheduler, "", ahead)
    found = _found(context, scheduler, ahead, answers, sooner=sooner, what="end of all its jobs")
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
    context: Context,
    scheduler: Scheduler,
    ahead: Ahead,
    answers: Sequence[float | None],
    *,
    sooner: Sequence[str],
    what: str,
) -> Found:
    """What the answers of all simulations come to.

    sooner: what they leave out and may let it happen earlier.
    """
    known = sorted(answer for answer in answers if answer is not None)
    policy = context.charge.policy
    if not known and ahead.lasting:
        # The default length would give figures, and they would be invented.
        return Found(None, None, sure=False, sentence=_hindered(scheduler, ahead))
    if not known:
        sentence = f"a simulation under {policy} came to no {what} within its limits"
        return Found(None, None, sure=False, sentence=sentence)
    sentence = f"{several(len(answers), 'simulation')} under {policy}, assuming no new jobs"
    if ahead.limited:
        sentence += "; some jobs are known only by their time limits"
    sentence += f"; earlier if {' or if '.join(sooner)}" if sooner else ""
    whole = len(known) == len(answers)
    if not whole:
        missing = several(len(answers) - len(known), "simulation")
        sentence += f"; {missing} came to no {what} within the limits"
    high_s = _quantile(known, 0.9) if whole else None
    sure = whole and not (sooner or ahead.limited)
    return Found(_quantile(known, 0.1), high_s, sure=sure, sentence=sentence)


def _hindered(scheduler: Scheduler, ahead: Ahead) -> str:
    """Why simulations in which some jobs do not end came to nothing."""
    if ahead.endless:
        return _not_known(_first(scheduler, ahead.endless))
    return f"{len(ahead.lengths) + len(ahead.unread):,} jobs are too many to simulate"


def _not_known(jobs: Sequence[JobId]) -> str:
    return f"how long {named_jobs(jobs, NAMED_MAX)} will run is not known"


def _steps(context: Context, scheduler: Scheduler) -> int:
    """How many steps a simulation may take."""
    steps = max(20, STEPS // (1 + len(scheduler.ranking.queue)))
    if context.charge.worked_s > 0:
        steps = max(3, min(steps, int(SPEND_S / RUNS_MIN / context.charge.worked_s)))
    return steps


def _sooner(scheduler: Scheduler, job: JobId, ahead: Ahead) -> list[str]:
    """What the simulations leave out and may let it start earlier, or at once.

    job: empty if it is about the ends of several.
    """
    spec = scheduler.jobs[job].spec if job in scheduler.jobs else None
    found = ["jobs of unknown length end before"] if ahead.endless else []
    found += ["jobs that are not simulated end before"] if ahead.unread else []
    if spec is not None and scheduler.policy.shares and not spec.exclusive:
        found += ["it can share a device"] if spec.profile.busy is not None else []
    return found


def _simulated(steps: int, ask: Callable[[int, Effort], Answer | None]) -> list[Answer | None]:
    """The answers of simulations; fewer of them where they take long."""
    answers: list[Answer | None] = []
    spent = worked_for(SPEND_S)
    for run in _order(RUNS):
        effort = Effort(HORIZON_S, steps, worked_for(SPEND_S / RUNS_MIN))
        try:
            answers.append(ask(run, effort))
        except Exception:  # A third party's policy may raise anything; status shows it.
            answers.append(None)
        if answers == [None] or (len(answers) >= RUNS_MIN and spent()):
            break  # Not even with the shortest lengths: the others would come no further.
    return answers


def _order(runs: int) -> list[int]:
    """The shortest lengths first, then the longest, then those between."""
    return [0, runs - 1, runs // 2, *(run for run in range(1, runs - 1) if run != runs // 2)]


def _drawn(ahead: Ahead, run: int) -> dict[JobId, float]:
    """What is left of each job in one of the simulations."""
    drawn = {}
    for job, lengths in ahead.lengths.items():
        drawn[job] = lengths.at((_stratum(job, run, len(ahead.lengths)) + 0.5) / RUNS)
    for job, limit_s in ahead.limited.items():
        # All that is known is that it ends by then: at once, or only then.
        drawn[job] = limit_s if _stratum(job, run, len(ahead.limited)) >= RUNS // 2 else 0.0
    return drawn


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


def _ahead(context: Context, scheduler: Scheduler, job: JobId) -> Ahead:
    lengths: dict[JobId, Left] = {}
    limited: dict[JobId, float] = {}
    endless: list[JobId] = []
    unread: list[JobId] = []
    kinds: dict[Hashable, Left | None] = {}
    for name, row in scheduler.jobs.items():
        record = context.jobs.records.get(name)
        if name == job or record is None or row.phase is Phase.CANCELLING:
            continue  # What is cancelled ends within its grace, however long it was.
        kind = _kind(context, record, row)
        if kind not in kinds:
            if len(kinds) >= KINDS_MAX:
                unread.append(name)
                continue
            kinds[kind] = left_of(context, record, row)
        left, limit_s = kinds[kind], limit_left_s(context, record)
        if left is not None:
            lengths[name] = left
        elif limit_s is not None:
            limited[name] = limit_s
        else:
            endless.append(name)
    return Ahead(lengths, limited, endless, unread)


def _kind(context: Context, record: JobRecord, row: Job) -> Hashable:
    """What the length of a job follows from: thousands of one array are looked up once."""
    if row.allocation is not None or row.phase is not Phase.WAITING or row.starts:
        return row.id
    return question_about(record, row.spec), limit_left_s(context, record)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """On the straight line between the two values around it."""
    at = share * len(ordered) - 0.5
    below = min(len(ordered) - 1, max(0, int(at)))
    above = min(len(ordered) - 1, below + 1)
    part = min(1.0, max(0.0, at - below))
    return ordered[below] + part * (ordered[above] - ordered[below])


def _typical(begun: Sequence[Begin]) -> Begin:
    """With the jobs whose ends free its devices most often, and half of such starts before it."""
    ordered = sorted(begun)
    freed_by, _ = Counter(begin.freed_by for begin in ordered).most_common(1)[0]
    alike = [begin for begin in ordered if begin.freed_by == freed_by]
    in_s = _quantile([begin.in_s for begin in alike], 0.5)
    return alike[len(alike) // 2]._replace(in_s=in_s)


def _first(scheduler: Scheduler, endless: Sequence[JobId]) -> list[JobId]:
    """Of jobs of unknown length, those that hold devices; else those that wait."""
    holding = [name for name in endless if scheduler.jobs[name].allocation is not None]
    return holding or list(endless)


def _unknown(sentence: str) -> StartEstimate:
    return StartEstimate(earliest_s=None, latest_s=None, runs=0, sentence=sentence)
