"""Gangs run in turns: one that had to wait is not stopped at once for jobs that came later.

A policy that serves the shortest or the least served first would stop a gang whenever small jobs
arrive, and each time all its devices must come free together again. So a gang is left where it is
until it has run for as long as it has waited in all. When it then must make way, it gets a
reservation once it has waited for `lengths` times as long as it has run (reserve.py). Turns thus
grow with the job: one of length L is stopped about log2(L) times, and beside jobs that never end it
waits for about `lengths` times L.

Both are told from the job's row, so a restart of the scheduler ends no turn. A change of size or
place remains the policy's.
"""

from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ports import Policy
from treadle.core.snapshot import Reason, Schedule, Snapshot
from treadle.core.wording import are, named_jobs, span
from treadle.policies.wrappers.views import plain

_NAMED_MAX = 3


def is_gang(job: Job) -> bool:
    """Whether it needs several devices at once."""
    return job.spec.sizes[0] > 1 and plain(job.spec)


def outranked(snapshot: Snapshot, job: Job) -> bool:
    """Whether a job of higher priority waits."""
    own = job.spec.priority
    return any(other.spec.priority > own for other in snapshot.waiting())


def turn_left_s(job: Job, now: float) -> float:
    """For how long a gang that runs is not stopped yet; 0 if it is the policy's to stop."""
    if job.allocation is None or job.phase is Phase.STOPPING or not is_gang(job):
        return 0.0
    return max(0.0, job.waited_at(now) - job.held_at(now))


def in_turn(snapshot: Snapshot, job: Job) -> bool:
    """Whether a gang is left where it is for now."""
    return turn_left_s(job, snapshot.now) > 0 and not outranked(snapshot, job)


def decided(inner: Policy, seen: Snapshot) -> Schedule:
    """What a policy decides if gangs whose turn it is are not stopped."""
    view, kept = seen, list[Job]()
    while True:
        schedule = inner.decide(view)
        stopped = [seen.jobs[name] for name, new in schedule.changes.items() if new is None]
        early = [job for job in stopped if in_turn(seen, job)]
        if not early:
            break
        kept += early
        view = seen.keeping(kept)
    ends = (seen.now + turn_left_s(job, seen.now) for job in kept)
    return Schedule(schedule.changes, min((schedule.valid_until, *ends)), schedule.memory)


def waits_for_turn(inner: Policy, seen: Snapshot, job: JobId) -> Reason | None:
    """The gangs that would make way for a waiting job if it were not their turn, if that is it."""
    turns = [other for other in seen.holding() if in_turn(seen, other)]
    if not turns:
        return None
    wanted = inner.decide(seen).changes
    stopped = [other for other in turns if other.id in wanted and wanted[other.id] is None]
    if wanted.get(job) is None or not stopped or decided(inner, seen).changes.get(job) is not None:
        return None
    over_s = max(turn_left_s(other, seen.now) for other in stopped)
    each = "they have" if len(stopped) > 1 else "it has"
    return Reason(
        "settling",
        f"{named_jobs([other.id for other in stopped], _NAMED_MAX)} would make way for it, but "
        f"{are(len(stopped))} left alone until {each} run for as long as {each} waited; that is "
        f"over in {span(over_s)}",
    )
