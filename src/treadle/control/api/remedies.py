"""What helps a waiting job, for `why --verbose`: tried on copies of the scheduler."""

from collections.abc import Sequence
from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.api.queue_order import free_devices
from treadle.control.api.sentences import Said
from treadle.core.events import Event, JobSubmitted, JobUpdated
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.wording import named_jobs
from treadle.policies.live.decide import remembered
from treadle.policies.live.reasons import patience_of
from treadle.policies.wrappers.wrapper import innermost

NAMED_MAX = 3


def alternatives(context: Context, row: Job, said: Said) -> tuple[tuple[str, str], ...]:
    """Fewer devices, a higher priority, and patience; those of them that help.

    A paused job goes on where it was, so that only time helps it.
    """
    found = [("patience", _patience(context, row, said))]
    if row.allocation is None:
        found[:0] = [("fewer", _fewer(context, row)), ("priority", _higher(context, row, said))]
    return tuple((label, text) for label, text in found if text)


def _patience(context: Context, row: Job, said: Said) -> str:
    """When devices are reserved for it."""
    scheduler = context.scheduler
    if innermost(scheduler.policy).in_order:
        return ""
    last, snapshot = remembered(scheduler.memory), scheduler.snapshot(context.clock.now())
    return said.sentence(patience_of(context.belief, last, snapshot, row))


def _fewer(context: Context, row: Job) -> str:
    free = free_devices(context.scheduler, row)
    if not 0 < free < row.spec.sizes[0]:
        return ""
    other = f"{row.id}.smaller"
    smaller = replace(row.spec, id=other, sizes=(free,), asked=free)
    if _after(context, [JobSubmitted(smaller)], other) is None:
        return ""
    return f"with --devices {free} it would start now"


def _higher(context: Context, row: Job, said: Said) -> str:
    scheduler = context.scheduler
    rivals = [scheduler.jobs[identity].spec.priority for _, _, identity in scheduler.ranking.queue]
    rivals += [
        job.spec.priority
        for job in scheduler.jobs.values()
        if job.phase is Phase.RUNNING and job.spec.gives_way
    ]
    wanted = max([row.spec.priority, *rivals]) + 1
    twin = _after(context, [JobUpdated(replace(row.spec, priority=wanted))], row.id)
    if twin is None:
        return ""
    before = {name: job.size for name, job in scheduler.jobs.items() if job.allocation is not None}
    after = {name: job.size for name, job in twin.jobs.items() if job.allocation is not None}
    changed = {
        "preempts": [said.label(name) for name in before if name not in after],
        "resizes": [said.label(n) for n, size in before.items() if after.get(n, size) != size],
    }
    parts = [f"{verb} {named_jobs(names, NAMED_MAX)}" for verb, names in changed.items() if names]
    order = f"treadle priority {row.id} {wanted} starts it now"
    return " and ".join([order, *parts])


def _after(context: Context, events: Sequence[Event], job: JobId) -> Scheduler | None:
    """A copy of the scheduler after these events and a decision, if the job then has devices."""
    context.condition.orders.rest()
    twin = context.scheduler.fork()
    now = context.clock.now()
    try:
        twin.take(events, now)
        twin.decide(now)
    except Exception:  # a third party's policy may raise anything; then there is no known remedy
        return None
    return twin if twin.jobs[job].allocation is not None else None
