"""What a reason rests on: who holds devices, how many are free, who waits."""

from treadle.control.api.context import Context
from treadle.control.api.queue_order import (
    STOPPING,
    all_devices,
    drained_text,
    held_devices,
    idle_devices,
    usable,
    waiting_jobs,
)
from treadle.control.jobs import ARRAY
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.wording import are, free_devices_of, jobs, several, times

NAMED_MAX = 4


def evidence(context: Context, row: Job) -> tuple[str, ...]:
    """Of a job that has not ended."""
    scheduler = context.scheduler
    held = [
        job
        for job in scheduler.jobs.values()
        if job.allocation is not None or (job.phase in STOPPING and held_devices(scheduler, job))
    ]
    starting = [job for job in held if job.phase is Phase.STARTING]
    next_up = [job for job in starting if scheduler.in_the_way(job.id)]
    total, holding = all_devices(scheduler), len(held) - len(next_up)
    hold = jobs(holding, "holds devices", "hold devices") if holding else "no job holds devices"
    if stopping := sum(1 for job in held if job.phase in STOPPING):
        hold += f" ({stopping} of them {are(stopping)} being stopped)"
    if next_up:
        hold += f", {several(len(next_up), 'more is', 'more are')} starting as they are released"
    free = free_devices_of(idle_devices(scheduler), total, usable(scheduler))
    free += drained_text(scheduler)
    limited = sum(1 for reasons in scheduler.blocked.values() if {*reasons} == {ARRAY})
    waiting = waiting_jobs(scheduler) - limited
    away = len(scheduler.unfit) if waiting > len(scheduler.unfit) else 0
    wait = jobs(waiting - away, "waits", "wait") if waiting else "no job waits"
    if away:
        wait += f", {several(away, 'more does', 'more do')} not fit even if all are free"
    if limited:
        wait += f", {several(limited, 'more waits', 'more wait')} for the limit of an array"
    lines = [f"{hold}, {free}, {wait}"]
    if row.failures:
        lines.append(f"it failed {times(row.failures)} so far")
    for device, text in list(scheduler.closed.items())[:NAMED_MAX]:
        lines.append(f"{device} is closed: {text}")
    return tuple(lines)
