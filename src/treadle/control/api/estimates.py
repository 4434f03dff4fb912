"""When a waiting job would start, as a range: the live scheduler, simulated from now on.

In each simulation every job takes a length of its own, drawn from what is known of it
(job_progress.py). The draws are stratified: over all simulations a job goes through its whole
distribution, in an order of its own. The range leaves out the earliest and the latest tenth.

A job of which no length is known is assumed not to end, or only at its time limit. If the job then
starts all the same, the estimate does not depend on it; otherwise the start is unknown.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import NamedTuple, TypeVar
from zlib import crc32

from treadle.control.api.context import Context
from treadle.control.api.gates_ahead import GatesAhead
from treadle.control.api.job_progress import Left, left_of, limit_left_s
from treadle.control.api.queue_order import in_queue, position
from treadle.control.jobs import JobRecord
from treadle.control.loop import worked_for
from treadle.core.job import JobId
from treadle.core.scheduler import Scheduler
from treadle.core.wording import named_jobs
from treadle.models.learning.expectation import COVERAGE
from treadle.sim.start_estimate import Begin, Effort, World, ends_in, starts_in
from treadle.wire.jobs import Estimate, StartEstimate

HORIZON_S = 30 * 86_400.0
STEPS = 60_000  # of one simulation, divided by how many jobs wait: a decision looks at them all
SPEND_S = 0.45  # of the processor, for all simulations
RUNS = 10
RUNS_MIN = 3
NAMED_MAX = 3
KNOWN_MAX = 2000  # jobs whose lengths are looked up; those that came later take for ever


Answer = TypeVar("Answer")


class Ahead(NamedTuple):
    """What is known of the jobs that run or wait."""

    lengths: Mapping[JobId, Left]
    limited: Mapping[JobId, float]  # only that they end within so many seconds
    endless: Sequence[JobId]  # nothing


def estimate(
    context: Context,
    job: JobId,
    scheduler: Scheduler | None = None,
    tried: Sequence[JobRecord] = (),
) -> StartEstimate:
    """A range, with the sentence that says what it is based on.

    scheduler, tried: with jobs that were not submitted, and their records.
    """
    scheduler = scheduler or context.scheduler
    steps = _steps(context, scheduler)
    place = position(scheduler, job)
    if place is not None and place > steps * context.cluster.device_count:
        # Even if every step freed all devices, it would not be its turn.
        return _unknown(f"{place - 1:,} jobs are ahead of it, too many to simulate")
    ahead = _ahead(context, scheduler, job)
    now = context.clock.now()

    def ask(run: int, effort: Effort) -> Begin | None:
        gates = GatesAhead(context, scheduler, tried)
        world = World(_drawn(ahead, run), ahead.endless, gates.after)
        return starts_in(scheduler, context.belief, job, now=now, effort=effort, world=world)

    answers = _simulated(steps, ask)
    begun = [answer for answer in answers if answer is not None]
    known = sorted(answer.in_s for answer in begun)
    if ahead.endless and not known:
        # The default length would give figures, and they would be invented.
        holding = _first(scheduler, ahead.endless)
        return _unknown(f"how long {named_jobs(holding, NAMED_MAX)} will run is not known")
    policy = context.charge.policy
    if not known:
        sentence = f"a simulation under {policy} came to no start of it within its limits"
        return StartEstimate(earliest_s=None, latest_s=None, runs=len(answers), sentence=sentence)
    sentence = f"{len(answers)} simulations under {policy}, assuming no new jobs"
    if ahead.limited:
        sentence += "; some jobs are known only by their time limits"
    sooner = _sooner(scheduler, job, ahead)
    sentence += f"; earlier if {' or if '.join(sooner)}" if sooner else ""
    whole = len(known) == len(answers)
    sure = whole and not (sooner or ahead.limited)
    queued = in_queue(scheduler, job)  # Others have no place in the order of those that wait.
    return StartEstimate(
        earliest_s=0.0 if sooner else _quantile(known, 0.1),
        latest_s=_quantile(known, 0.9) if whole else None,
        runs=len(answers),
        sentence=sentence,
        coverage=COVERAGE if sure else None,
        order=1 + sorted(a.after for a in begun)[len(begun) // 2] if queued else None,
        orders=(1 + min(a.after for a in begun), 1 + max(a.after for a in begun))
        if queued
        else None,
    )


def end_of_all(context: Context, jobs: Collection[JobId]) -> Estimate:
    """When the last of these jobs has ended, waiting and running, from the same simulations."""
    scheduler, now = context.scheduler, context.clock.now()
    ahead = _ahead(context, scheduler, "")
    if unknown := [name for name in ahead.endless if name in jobs]:
        length = f"how long {named_jobs(unknown, NAMED_MAX)} will run is not known"
        return Estimate(because=length)

    def ask(run: int, effort: Effort) -> float | None:
        gates = GatesAhead(context, scheduler)
        world = World(_drawn(ahead, run), ahead.endless, gates.after)
        return ends_in(scheduler, context.belief, jobs, now=now, effort=effort, world=world)

    answers = _simulated(_steps(context, scheduler), ask)
    known = sorted(answer for answer in answers if answer is not None)
    because = f"{len(answers)} simulations under {context.charge.policy}, assuming no new jobs"
    if len(known) < len(answers):
        return Estimate(because=f"{because}, came to no end within their limits")
    if ahead.limited:
        bound = f"{because}; some jobs are known only by their time limits"
        return Estimate(high_s=round(_quantile(known, 0.9), 1), because=bound)
    low_s, high_s = (round(_quantile(known, share), 1) for share in (0.1, 0.9))
    return Estimate(low_s=low_s, high_s=high_s, coverage=COVERAGE, known=True, because=because)


def _steps(context: Context, scheduler: Scheduler) -> int:
    """How many steps a simulation may take."""
    steps = max(20, STEPS // (1 + len(scheduler.ranking.queue)))
    if context.charge.last_s > 0:
        steps = max(3, min(steps, int(SPEND_S / RUNS_MIN / context.charge.last_s)))
    return steps


def _sooner(scheduler: Scheduler, job: JobId, ahead: Ahead) -> list[str]:
    """What the simulations leave out and may let it start earlier, or at once."""
    spec = scheduler.jobs[job].spec if job in scheduler.jobs else None
    found = ["jobs of unknown length end before"] if ahead.endless else []
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
    order = list(range(1, RUNS - 1))
    Random(crc32(job.encode())).shuffle(order)
    return order[run - 1]


def _ahead(context: Context, scheduler: Scheduler, job: JobId) -> Ahead:
    lengths: dict[JobId, Left] = {}
    limited: dict[JobId, float] = {}
    endless: list[JobId] = []
    for looked, (name, row) in enumerate(scheduler.jobs.items()):
        record = context.jobs.records.get(name)
        if name == job or record is None:
            continue
        if looked >= KNOWN_MAX:
            endless.append(name)
            continue
        left = left_of(context, record, row)
        limit_s = limit_left_s(context, record)
        if left is not None:
            lengths[name] = left
        elif limit_s is not None:
            limited[name] = limit_s
        else:
            endless.append(name)
    return Ahead(lengths, limited, endless)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """On the straight line between the two values around it."""
    at = share * len(ordered) - 0.5
    below = min(len(ordered) - 1, max(0, int(at)))
    above = min(len(ordered) - 1, below + 1)
    part = min(1.0, max(0.0, at - below))
    return ordered[below] + part * (ordered[above] - ordered[below])


def _first(scheduler: Scheduler, endless: Sequence[JobId]) -> list[JobId]:
    """Of jobs of unknown length, those that hold devices; else those that wait."""
    holding = [name for name in endless if scheduler.jobs[name].allocation is not None]
    return holding or list(endless)


def _unknown(sentence: str) -> StartEstimate:
    return StartEstimate(earliest_s=None, latest_s=None, runs=0, sentence=sentence)
