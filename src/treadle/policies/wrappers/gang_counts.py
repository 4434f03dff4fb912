"""How often gangs that never ran were overtaken (reserve.py): counted at each decision.

A gang is out of the policy's sight while nodes that it needs are drained or lost. It waits all the
same, and later jobs take devices that it will need: its count goes on, as after a restart, when the
store is asked (control/jobs/gang_turns.py). One that was held waits anew from its release on.
"""

from collections.abc import Iterable, Mapping, Sequence

from treadle.core.device_types import Nodes
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.snapshot import Snapshot
from treadle.policies.base.suited import usable_by
from treadle.policies.wrappers.gang_turn import waiting_gangs
from treadle.policies.wrappers.reservation import Count
from treadle.policies.wrappers.views import Changes, taking_free

Counts = Mapping[JobId, Count]


def counted(job: Job, before: Counts) -> int:
    """How often a gang was overtaken since it waits."""
    count = before.get(job.id)
    return count.times if count is not None and count.since_at == job.since_at else 0


def counted_after(
    snapshot: Snapshot,
    gangs: Sequence[Job],
    before: Counts,
    changes: Changes,
    quotas: Mapping[str, float] | None,
) -> dict[JobId, Count]:
    """The counts once these changes are made, of gangs in the queue and of those out of sight.

    Jobs that are given devices of types that a gang may not use do not overtake it.
    """
    begun = [snapshot.jobs[name] for name in taking_free(snapshot, changes)]
    first = [(job, new.nodes()) for job in begun if not job.starts and (new := changes[job.id])]
    # All rows are looked at only where one of them may have been overtaken just now.
    names = snapshot.jobs if first else [name for name in before if name in snapshot.jobs]
    unseen = waiting_gangs(_unseen(snapshot, names), quotas)
    found = {}
    for gang in (*gangs, *unseen):
        usable = usable_by(gang.spec, snapshot.cluster, gang.only_on) if first else Nodes()
        more = sum(
            other.sequence > gang.sequence
            and other.spec.priority <= gang.spec.priority
            and not usable.isdisjoint(nodes)
            for other, nodes in first
        )
        found[gang.id] = Count(counted(gang, before) + more, gang.since_at)
    return found


def _unseen(snapshot: Snapshot, names: Iterable[JobId]) -> list[Job]:
    """Gangs of these that wait, never ran and are not in the queue."""
    rows = (snapshot.jobs[name] for name in names)
    return [
        job
        for job in rows
        if job.spec.sizes[0] > 1
        and job.phase is Phase.WAITING
        and not job.starts
        and job.id not in snapshot.ranking
    ]
