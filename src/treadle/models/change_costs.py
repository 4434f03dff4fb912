"""What a change costs a running job, in seconds: one table for every policy.

    change                                         as measured          not measured
    another size, the other ranks go on            profile.resize_s     it restarts
    another plan, other devices or other cores     profile.restart_s    RESTART_S
    a stop, and a start later                      profile.restart_s    RESTART_S
    frozen, and going on later                     -                    FREEZE_S
    suspended                                      profile.suspend_s    its device memory at
    and going on later                             profile.resume_s     these rates

A policy whose authors state what a restart takes has that as its default instead, and a parameter
for it.
"""

from treadle.core.allocation import Allocation, Pause
from treadle.core.company import needed_gib
from treadle.core.job import Job, JobSpec

RESTART_S = 30.0
FREEZE_S = 0.05  # that, and to go on: two orders to a supervisor
# Device memory that moves to the host in a second and back, each device's by itself; as much host
# memory has to be allocated on the way out.
OUT_GIB_PER_S, IN_GIB_PER_S = 2.0, 5.0


def restart_s(spec: JobSpec, default_s: float = RESTART_S) -> float:
    """What a stop and a start from the checkpoint cost a job."""
    return spec.profile.restart_s or default_s


def resize_s(spec: JobSpec, default_s: float = RESTART_S) -> float:
    """What another size costs a job that keeps its devices, or some of them."""
    return spec.profile.resize_s or restart_s(spec, default_s)


def pause_s(spec: JobSpec, how: Pause) -> float:
    """From the order to pause it until others can have its devices."""
    if how is Pause.FROZEN:
        return FREEZE_S / 2
    return spec.profile.suspend_s or FREEZE_S / 2 + needed_gib(spec) / OUT_GIB_PER_S


def go_on_s(spec: JobSpec, how: Pause) -> float:
    """From the order to go on until it computes."""
    if how is Pause.FROZEN:
        return FREEZE_S / 2
    return spec.profile.resume_s or FREEZE_S / 2 + needed_gib(spec) / IN_GIB_PER_S


def change_s(job: Job, new: Allocation | None, default_s: float = RESTART_S) -> float:
    """What it costs a running job to go from what it holds to this."""
    held = job.allocation
    if new is None or held is None:
        return restart_s(job.spec, default_s)
    if new.paused:
        return pause_s(job.spec, new.paused) + go_on_s(job.spec, new.paused)
    same = (new.plan, new.turn, new.host) == (held.plan, held.turn, held.host)
    live = same and new.size != held.size and _nested(held, new, job.spec.profile.lead)
    return resize_s(job.spec, default_s) if live else restart_s(job.spec, default_s)


def _nested(held: Allocation, new: Allocation, lead: str) -> bool:
    """Whether it only gains or only loses devices: the other ranks go on there.

    lead: the node that stays if others join or leave.
    """
    mine, others = set(held.devices), set(new.devices)
    nested = mine <= others or others <= mine
    if set(held.nodes()) == set(new.nodes()):
        return nested
    return nested and lead in new.nodes() and new.plan.replicated
