"""One drawn situation of a live cluster: nodes, jobs, and what happens to both at which moment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Self

from treadle.core.cluster import Cluster
from treadle.core.events import Event
from treadle.core.job import JobId, JobSpec
from treadle.core.ports import PerformanceModel
from treadle.core.retry import Answer, Failure
from treadle.sim.costs import AsProfiled
from treadle.sim.engine import SimulatedEngine
from treadle.sim.faults import Faults, FaultSettings

Fact = tuple[float, Event]


@dataclass(frozen=True)
class LiveCase:
    """What a live scheduler may meet; every change of an allocation costs a job's `restart_s`."""

    cluster: Cluster  # as it is at first
    jobs: tuple[JobSpec, ...]  # in order of submission
    facts: tuple[Fact, ...] = ()  # holds and releases; nodes that are lost, drained and join
    failing: Mapping[JobId, tuple[float, ...]] = field(default_factory=dict)  # s of each attempt
    backoff_s: float = 0.0  # between a failure and the next attempt
    avoids: bool = False  # a job that failed avoids the nodes it was on
    quotas: str = ""  # such as a:2/b:2

    def engine(self, truth: PerformanceModel) -> SimulatedEngine:
        """A fresh engine, before the first moment."""
        faults = Script(self.facts, self.failing)
        return SimulatedEngine(self.jobs, truth, cost=AsProfiled(), faults=faults)

    def retry(self, failure: Failure) -> Answer:
        """What becomes of a job that failed."""
        again = failure.number <= failure.spec.retries
        return Answer(again, self.backoff_s, failure.nodes if self.avoids else ())


class Script(Faults):
    """Faults and orders of users that are known beforehand, instead of drawn from a seed."""

    def __init__(
        self, facts: Iterable[Fact], failing: Mapping[JobId, Sequence[float]], *, begun: int = 0
    ) -> None:
        super().__init__(FaultSettings())
        self._facts = sorted(facts, key=lambda fact: fact[0])
        self._failing = failing
        self._begun = begun
        self._look_ahead()

    def fork(self) -> Self:
        return type(self)(self._facts, self._failing, begun=self._begun)

    def due(self, now: float) -> list[Event]:
        first = self._begun
        while self.next_at <= now:
            self._begun += 1
            self._look_ahead()
        return [event for _, event in self._facts[first : self._begun]]

    def strikes(self, spec: JobSpec, attempt: int, now: float) -> tuple[float, str]:
        after_s = self._failing.get(spec.id, ())
        return (now + after_s[attempt - 1], "drawn") if attempt <= len(after_s) else (inf, "")

    def kept(self, spec: JobSpec, iterations: float) -> float:
        """Half of the work is in a checkpoint, of a job that can resume."""
        return iterations / 2 if spec.resumable else 0.0

    def _look_ahead(self) -> None:
        left = getattr(self, "_facts", ())[getattr(self, "_begun", 0) :]
        self.next_at = self.next_return_at = left[0][0] if left else inf
