"""What a user may set of Rubick, and what one decision hands to the next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from treadle.core.job import Job, JobId
from treadle.policies.base.costs import restart_s
from treadle.policies.base.quotas import Quotas


@dataclass(frozen=True, slots=True)
class Rules:
    """What a user may set."""

    gate: float = 0.9
    restart_s: float = 78.0
    moves: bool = True  # devices may be taken from one job for another
    promises: bool = True
    quotas: Quotas | None = None  # None: the whole cluster

    def change_s(self, job: Job) -> float:
        """What a change costs a job."""
        return restart_s(job.spec, self.restart_s)


class Memory(NamedTuple):
    """What one decision tells the next."""

    restarts: Mapping[JobId, int] = {}  # of jobs that were changed
    meanwhile: frozenset[JobId] = frozenset()  # guaranteed jobs that run without their promise
