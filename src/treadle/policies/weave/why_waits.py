"""Why a job waits, as far as quotas are the reason: one clause, or none."""

from collections.abc import Callable
from typing import NamedTuple

from treadle.core.job import Job
from treadle.core.snapshot import Snapshot
from treadle.core.wording import are, devices, named_jobs
from treadle.policies.base.placement import Placement
from treadle.policies.base.quotas import Quotas
from treadle.policies.weave.places import Wanted, settle
from treadle.policies.weave.promises import Promised, left_by, used

_NAMED_MAX = 3


class Waits(NamedTuple):
    """A job that waits, and what is promised now."""

    job: Job
    snapshot: Snapshot
    placement: Placement
    quotas: Quotas
    promised: Promised
    size_of: Callable[[Job], int]  # what a job would be promised
    runs_without: Callable[[], bool]  # whether it is known to be served if there were no quotas


def why_waits(waits: Waits) -> str:
    """What of quotas keeps the job waiting; empty: nothing."""
    if waits.job.id in waits.promised:
        return ""
    return _beyond(waits) or _behind(waits)


def _beyond(waits: Waits) -> str:
    """That its tenant's quota is too small, if it would be promised its size otherwise."""
    spec, size = waits.job.spec, waits.size_of(waits.job)
    quota = int(waits.quotas.get(spec.tenant, 0.0))
    if not spec.guaranteed or not quota:
        return ""
    taken = used(waits.snapshot, waits.promised, spec.tenant, waits.size_of)
    free = left_by(waits.promised, waits.snapshot, waits.placement)
    if size + taken <= quota or settle(free, waits.placement, Wanted(size, (), (size,))) is None:
        return ""
    if size > quota:
        return f"its tenant's quota is {devices(quota)}, and it asks for {size}"
    return f"{taken} of {devices(quota)} of its tenant's quota {are(taken)} promised to other jobs"


def _behind(waits: Waits) -> str:
    """That devices are promised to others, if it would run otherwise."""
    if not waits.promised or not waits.runs_without():
        return ""
    whose = named_jobs(list(waits.promised), _NAMED_MAX)
    count = devices(sum(waits.promised.values()))
    return f"quotas promise {count} to {whose} alone, without which it would run"
