"""What all wrappers have in common: a policy around a policy.

A wrapper ranks as its inner policy does and changes what that decides: it refuses starts, finds
other devices, adds moves of its own, or hides something from the inner policy. A wrapper may be
wrapped again, so each relies only on the contract of a policy.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from treadle.core.cluster import Cluster
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import Policy
from treadle.core.ranking import Rank
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot, Standing


class Note(NamedTuple):
    """The memory of a wrapper that remembers, around its inner policy's."""

    own: object
    inner: object


class Wrapper(Policy):
    """A policy that asks another for everything; subclasses change the decision."""

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.in_order = inner.in_order
        self.shares = inner.shares
        self.resizes = inner.resizes
        self.knows_slots = inner.knows_slots
        self.half_life_s = inner.half_life_s

    def decide(self, snapshot: Snapshot) -> Schedule:
        return self.inner.decide(snapshot)

    def rank(self, job: Job, now: float) -> Rank:
        return self.inner.rank(job, now)

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        return self.inner.never_fits(spec, cluster)

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        return self.inner.reason(self.inside(snapshot), job)

    def take_over(self, memory: object) -> object:
        return self.inner.take_over(memory)

    def held_back(self, snapshot: Snapshot) -> Mapping[int, int]:
        return self.inner.held_back(self.inside(snapshot))

    def standings(self, snapshot: Snapshot) -> Mapping[str, Standing] | None:
        return self.inner.standings(snapshot)

    def quotas(self, snapshot: Snapshot) -> Mapping[str, float] | None:
        return self.inner.quotas(snapshot)

    def inside(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as the inner policy is to be given it."""
        return snapshot

    def held_up(self, seen: Snapshot, refused: Iterable[JobId]) -> list[JobId]:
        """The refused, and if jobs never overtake, all behind them."""
        names = set(refused)
        if not self.in_order:
            return list(names)
        queue = [identity for _, _, identity in seen.ranking.queue]
        return queue[min(queue.index(name) for name in names) :]


class Refusing(Wrapper):
    """A wrapper that keeps jobs from starting; the inner policy then decides without them."""

    @abstractmethod
    def refused(
        self, snapshot: Snapshot, seen: Snapshot, schedule: Schedule
    ) -> Mapping[JobId, float]:
        """Waiting jobs that may not start now, and until when; of those started if any.

        `seen` is what the inner policy saw: the snapshot without jobs that were refused before.
        """

    def decide(self, snapshot: Snapshot) -> Schedule:
        seen, until = snapshot, inf
        while refused := self.refused(snapshot, seen, schedule := self.inner.decide(seen)):
            until = min(until, *refused.values())
            seen = seen.hiding(self.held_up(seen, refused))
        return Schedule(schedule.changes, min(until, schedule.valid_until), schedule.memory)


class Remembering(Wrapper):
    """A wrapper that hands a note to its next decision, and its inner policy's with it."""

    def inside(self, snapshot: Snapshot) -> Snapshot:
        note = snapshot.memory
        return snapshot._replace(memory=note.inner if isinstance(note, Note) else None)

    def take_over(self, memory: object) -> object:
        return Note(None, self.inner.take_over(memory))

    def remembered(self, snapshot: Snapshot) -> object:
        """This wrapper's own note; None at first and after a restart."""
        return snapshot.memory.own if isinstance(snapshot.memory, Note) else None


def innermost(policy: Policy) -> Policy:
    """The policy itself, without wrappers."""
    while isinstance(policy, Wrapper):
        policy = policy.inner
    return policy
