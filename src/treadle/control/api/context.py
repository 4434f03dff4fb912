"""Everything that commands and queries work with. Each part changes itself; nothing here does."""

from dataclasses import dataclass

from treadle.control.jobs import Diffs, Gates, JobTable
from treadle.control.learning import JobLearner
from treadle.control.loop import Commit, Condition, Inbox, PolicyInCharge, StoreReads
from treadle.core.cluster import Cluster
from treadle.core.job import Job, JobId
from treadle.core.ports import Clock, Engine, InterleavingModel
from treadle.core.scheduler import Scheduler
from treadle.store.seal import Seal
from treadle.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    scheduler: Scheduler
    belief: InterleavingModel
    jobs: JobTable
    gates: Gates
    learner: JobLearner
    charge: PolicyInCharge
    condition: Condition
    commit: Commit
    inbox: Inbox
    engine: Engine
    clock: Clock
    store: Store  # to be asked through `reads` only, once requests are served
    reads: StoreReads
    seal: Seal
    diffs: Diffs

    @property
    def cluster(self) -> Cluster:
        return self.scheduler.cluster

    def row(self, identity: JobId) -> Job | None:
        """The scheduler's row of a job that has not ended."""
        return self.scheduler.jobs.get(identity)
