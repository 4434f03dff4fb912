"""Why a running job that could use more devices does not have them."""

from treadle.control.api.context import Context
from treadle.control.api.job_progress import GAIN_MIN
from treadle.control.api.queue_order import free_devices
from treadle.core.job import Job
from treadle.core.wording import devices, free_of
from treadle.policies.wrappers.pays import why_no_larger


def why_small(context: Context, row: Job) -> str:
    """The reason, as a part of a sentence."""
    spec = row.spec
    if not spec.resumable:
        return "its size stays as it started, since it cannot resume (--resumable)"
    free, total = free_devices(context.scheduler), context.cluster.device_count
    larger = [size for size in spec.sizes if row.size < size]
    fits = [size for size in larger if size <= row.size + free]
    if not fits:
        return f"{devices(larger[0])} are its next size, and {free_of(free, total)}"
    alone = context.belief.alone
    faster = max(alone(spec, size) for size in fits) / alone(spec, row.size)
    if faster < GAIN_MIN:
        return "more of them were not seen to make it faster"
    policy, now = context.scheduler.policy, context.clock.now()
    if (wrong := why_no_larger(policy, row, fits, now)) is not None:
        return wrong
    if context.scheduler.ranking.queue:
        return "jobs wait that the policy prefers, or it has just started or been resized"
    return "it has just started or been resized, or another job tries a new size"
