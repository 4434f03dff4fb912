"""The smallest change that would start a waiting job, tried on a copy of the scheduler first."""

from collections.abc import Sequence
from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.api.queue_order import free_devices
from treadle.core.events import Event, JobSubmitted, JobUpdated
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.wording import are, devices, named_jobs, span
from treadle.sim.start_estimate import Begin

NAMED_MAX = 3


def remedy(context: Context, row: Job, typical: Begin | None) -> str:
    """What would help: fewer devices, then a higher priority, then time.

    typical: how it is expected to start, if that is known.
    """
    found = _fewer(context, row) or _higher(context, row)
    if found or typical is None:
        return found
    return _next_end(context, typical)


def released(name: str, them: str = "it") -> str:
    """What lets a job start that its user holds, or all such jobs of an array."""
    return f"treadle release {name} lets {them} start"


def despite(name: str, them: str = "it") -> str:
    """What can be done about jobs whose dependency has failed."""
    return f"treadle release {name} runs {them} anyway; treadle cancel {name} drops {them}"


def _fewer(context: Context, row: Job) -> str:
    free = free_devices(context.scheduler, row)
    if not 0 < free < row.spec.sizes[0]:
        return ""
    other = f"{row.id}.smaller"
    smaller = replace(row.spec, id=other, sizes=(free,), asked=free)
    if _after(context, [JobSubmitted(smaller)], other) is None:
        return ""
    return f"submitted with --devices {free} it would start now"


def _higher(context: Context, row: Job) -> str:
    scheduler = context.scheduler
    rivals = [scheduler.jobs[identity].spec.priority for _, _, identity in scheduler.ranking.queue]
    rivals += [
        job.spec.priority
        for job in scheduler.jobs.values()
        if job.phase is Phase.RUNNING and job.spec.resumable
    ]
    wanted = max([row.spec.priority, *rivals]) + 1
    twin = _after(context, [JobUpdated(replace(row.spec, priority=wanted))], row.id)
    if twin is None:
        return ""
    before = {name: job.size for name, job in scheduler.jobs.items() if job.allocation is not None}
    after = {name: job.size for name, job in twin.jobs.items() if job.allocation is not None}
    stopped = [name for name in before if name not in after]
    resized = [name for name, size in before.items() if after.get(name, size) != size]
    admins = " (for admins)" if wanted > 0 else ""
    order = f"treadle priority {row.id} {wanted}{admins} starts it now"
    parts = [
        f"{verb} {named_jobs(names, NAMED_MAX)}"
        for verb, names in (("stops", stopped), ("resizes", resized))
        if names
    ]
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


def _next_end(context: Context, begin: Begin) -> str:
    """Whose ends free the devices that it will be given."""
    rows, in_s = context.scheduler.jobs, begin.in_s
    later = [name for name in begin.freed_by if rows[name].allocation is None]
    names = [*(name for name in begin.freed_by if name not in later), *later]
    if not names:
        return ""
    yet = "which has yet to start" if len(later) == 1 else "which have yet to start"
    apart = f", {yet}," if len(later) == len(names) else ""
    who = f"{named_jobs(names, NAMED_MAX)}{apart} {are(len(names))} expected to end"
    when = "any moment" if in_s < 1 else f"{'in' if len(names) == 1 else 'within'} about "
    when += "" if in_s < 1 else span(in_s)
    mixed, has = later and not apart, "has" if len(later) == 1 else "have"
    first = f"; {named_jobs(later, NAMED_MAX)} {has} yet to start" if mixed else ""
    return f"wait: {who} {when}, which frees {devices(begin.freed)} for it{first}"
