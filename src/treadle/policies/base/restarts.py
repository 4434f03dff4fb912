"""How often running jobs were changed."""

from collections.abc import Mapping

from treadle.core.allocation import Allocation
from treadle.core.job import Job, JobId
from treadle.core.snapshot import Snapshot


class Restarts:
    """How often running jobs were changed, as the schedule's memory tells the next decision.

    After a crash they begin again with the starts that the scheduler knows of.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        memory = snapshot.memory
        self._jobs = snapshot.jobs
        self._counts: Mapping[JobId, int] = memory if isinstance(memory, dict) else {}

    def of(self, job: Job) -> int:
        """How often it was changed, or stopped and started again."""
        return self._counts.get(job.id, 0) + max(job.starts - 1, 0)

    def after(self, changes: Mapping[JobId, Allocation | None]) -> dict[JobId, int]:
        """The memory with these changes counted."""
        counts = {job: count for job, count in self._counts.items() if job in self._jobs}
        for identity, new in changes.items():
            if new is not None and self._jobs[identity].allocation is not None:
                counts[identity] = counts.get(identity, 0) + 1
        return counts
