"""Why a running job that could use more devices does not have them."""

from collections.abc import Sequence

from treadle.control.api.context import Context
from treadle.control.api.queue_order import free_devices, free_text
from treadle.control.jobs import USER
from treadle.core.events import JobHeld
from treadle.core.job import Job, JobId
from treadle.core.wording import devices, several

NAMED_MAX = 3
TRIED_MAX = 1000  # jobs that a trial does without


def why_small(context: Context, row: Job) -> str:
    """The reason, as a part of a sentence."""
    spec = row.spec
    if not spec.resumable:
        return "its size stays as it started, since it cannot resume (--resumable)"
    scheduler = context.scheduler
    free = free_devices(scheduler, row)
    larger = [size for size in spec.sizes if row.size < size]
    fits = [size for size in larger if size <= row.size + free]
    if not fits:
        have, next_size = free_text(scheduler, row), f"{devices(larger[0])} are its next size"
        if elsewhere := _elsewhere(context, row):
            return f"{next_size}; of its type {have}, and {elsewhere}"
        return f"{next_size}, and {have}"
    return _why_none_of(context, row, fits)


def _elsewhere(context: Context, row: Job) -> str:
    return ""


def _why_none_of(context: Context, row: Job, fits: Sequence[int]) -> str:
    return _by_the_policy(context, row)


def scaling_doubt(context: Context, row: Job) -> str:
    """What to add where other sizes are spoken of; empty if its speed at all of them was seen."""
    spec = row.spec
    if not spec.elastic or set(spec.sizes) <= set(spec.profile.measured):
        return ""
    if not spec.profile.measured:
        return "; how it scales was not measured yet"
    # Its speed on more nodes than a size needs is told apart, and says nothing of the size.
    where = " on as few nodes as it needs" if len(context.cluster.nodes) > 1 else ""
    return f"; its speed{where} was measured with {_sizes_text(spec.profile.measured)} only"


def _sizes_text(sizes: Sequence[int]) -> str:
    """1 device; 2 to 4 and 8 devices."""
    runs: list[list[int]] = []
    for size in sizes:
        if runs and size == runs[-1][-1] + 1:
            runs[-1].append(size)
        else:
            runs.append([size])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    named = ", ".join(parts).rpartition(", ")
    text = " and ".join(filter(None, named[::2]))
    return f"{text} {'device' if tuple(sizes) == (1,) else 'devices'}"


def _by_the_policy(context: Context, row: Job) -> str:
    """Whether jobs that wait keep it small, tried on copies of the scheduler."""
    if _grows(context, row, without=()):
        return "it grows at the next decision"
    waiting = [name for _, _, name in context.scheduler.ranking.queue]
    if waiting and _grows(context, row, without=waiting[:TRIED_MAX]):
        first = several(len(waiting), "job that waits comes", "jobs that wait come")
        return f"{first} first under {context.charge.policy}"
    return f"{context.charge.policy} gives it no more"


def _grows(context: Context, row: Job, *, without: Sequence[JobId]) -> bool:
    twin, now = context.scheduler.fork(), context.clock.now()
    try:
        twin.take([JobHeld(name, USER) for name in without], now)
        twin.decide(now)
    except Exception:  # a third party's policy may raise anything
        return False
    found = twin.jobs.get(row.id)
    return found is not None and found.size > row.size
