"""Facts on their way to the controller, in order."""

import asyncio

from treadle.control.jobs import Fact
from treadle.core.events import AttemptEnded, JobsLearned, JobUpdated
from treadle.core.job import Job, JobId, JobSpec


class Inbox(asyncio.Queue[Fact | None]):
    """A queue of facts; None wakes the reader and says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: dict[JobId, AttemptEnded] = {}  # the newest end that is not a record yet
        self._specs: dict[JobId, JobSpec] = {}  # changed specs that are still in the queue
        self._learned: dict[JobId, JobsLearned] = {}  # the same, told after those

    def tell(self, *facts: Fact) -> None:
        """Add facts at the end."""
        for fact in facts:
            if isinstance(fact, JobUpdated):
                self._specs[fact.spec.id] = fact.spec
                self._learned.pop(fact.spec.id, None)  # It builds on that.
            elif isinstance(fact, JobsLearned):
                self._learned |= dict.fromkeys(fact.jobs, fact)
            elif isinstance(fact, AttemptEnded) and fact.attempt:
                self._ends[fact.job] = fact
            self.put_nowait(fact)

    def wake(self) -> None:
        self.put_nowait(None)

    def newest_spec(self, job: Job) -> JobSpec:
        """The job's spec once all facts here are taken: changes build on this."""
        spec = self._specs.get(job.id, job.spec)
        learned = self._learned.get(job.id)
        return spec if learned is None else learned.applied(spec)

    def pending_end(self, job: JobId) -> AttemptEnded | None:
        """The end of an attempt that was reported and is not a record yet."""
        return self._ends.get(job)

    def taken(self, fact: Fact) -> None:
        """A fact has reached the scheduler and the records."""
        if isinstance(fact, AttemptEnded):
            waiting = self._ends.get(fact.job)
            if waiting is not None and waiting.attempt == fact.attempt:
                del self._ends[fact.job]
        if isinstance(fact, JobsLearned):
            for job in fact.jobs:
                if self._learned.get(job) is fact:
                    del self._learned[job]
        if isinstance(fact, JobUpdated) and self._specs.get(fact.spec.id) is fact.spec:
            del self._specs[fact.spec.id]
