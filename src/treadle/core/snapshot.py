"""What a policy may know (Snapshot), and what it answers (Schedule)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from math import inf
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple, Self

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.free import FreeDevices
from treadle.core.job import Job, JobId
from treadle.core.ranking import Ranking
from treadle.core.value import value

_IDENTITY = itemgetter(2)  # of an entry of the ranking


class Snapshot(NamedTuple):
    """The state of the world at one moment, to be read only.

    It is a view and not a copy, so it holds for one decision. Plans are made on `free.copy()`.
    """

    now: float
    cluster: Cluster
    jobs: Mapping[JobId, Job]  # every job that has not ended
    free: FreeDevices
    tenants: Mapping[Device, Mapping[int, JobId]]
    ranking: Ranking
    memory: object = None  # that of the policy's last answer; None at first and after a restart
    # Jobs that are paused, also those that are blocked, as they are: what they keep is not free.
    paused: Mapping[JobId, Job] = MappingProxyType({})

    @property
    def supply(self) -> int:
        """Devices to share out, free or held. More than the cluster's while a drained node's jobs
        run on.
        """
        return self.free.total + len(self.tenants)

    def emptied(self) -> FreeDevices:
        """All devices as if no job held any, to plan everything from scratch."""
        return self.free.emptied()

    def hiding(self, jobs: Iterable[JobId]) -> "Snapshot":
        """Without these in the policy's order, so that it does not start, stop or change them."""
        ranking = self.ranking.copy()
        for identity in jobs:
            ranking.drop(identity)
        return self._replace(ranking=ranking)

    def withholding(self, devices: Sequence[Device]) -> "Snapshot":
        """Without these devices, free or held; hide the jobs that hold one as well."""
        if not devices:
            return self
        gone = set(devices)
        return self._replace(
            free=self.free.withholding(devices),
            tenants={device: own for device, own in self.tenants.items() if device not in gone},
        )

    def keeping(self, jobs: Iterable[Job]) -> "Snapshot":
        """Without these jobs, the jobs that share devices with them, and all those devices."""
        rows = [job for job in jobs if job.allocation is not None]
        if not rows:
            return self
        return self._keeping_all(rows) or self._keeping_some(rows)

    def _keeping_all(self, rows: Sequence[Job]) -> "Snapshot | None":
        """The same if these are all jobs that hold devices, each on its own; None if not.

        Where no job can be stopped, most decisions begin so.
        """
        jobs = {job.spec.id: job.allocation.devices for job in rows if job.allocation is not None}
        if sum(map(len, jobs.values())) != len(self.tenants):
            return None
        if sum(map(len, self.tenants.values())) != len(self.tenants):
            return None
        if set().union(*jobs.values()) != self.tenants.keys():
            return None
        free = self.free.withholding_held(len(self.tenants))
        if free is None:
            return None
        return self._replace(free=free, tenants={}, ranking=self.ranking.waiting_only())

    def _keeping_some(self, rows: list[Job]) -> "Snapshot":
        devices: dict[Device, None] = {}
        names: dict[JobId, None] = {}
        while rows:
            job = rows.pop()
            if job.allocation is None or job.spec.id in names:
                continue
            names[job.spec.id] = None
            for device in job.allocation.devices:
                devices[device] = None
                here = self.tenants.get(device)
                if here is not None and len(here) > 1:  # Most jobs have no company.
                    rows += [self.jobs[other] for other in here.values()]
        return self.withholding(tuple(devices)).hiding(names)

    def on(self, devices: Iterable[Device]) -> list[JobId]:
        """The jobs that compute on any of these."""
        names = (name for device in devices for name in self.tenants.get(device, {}).values())
        return list(dict.fromkeys(names))

    def waiting(self) -> Iterator[Job]:
        """Jobs that wait and could run some day, in the policy's order."""
        return map(self.jobs.__getitem__, map(_IDENTITY, self.ranking.queue))

    def holding(self) -> Iterator[Job]:
        """Jobs with devices, the last in the policy's order first."""
        return map(self.jobs.__getitem__, map(_IDENTITY, self.ranking.from_the_back(self.now)))


@value
class Schedule:
    """The whole target, written as what differs from now: a job not named keeps what it holds.

    Most decisions change one job of thousands; a full table would cost more to build and compare
    than the decision itself. `Schedule.whole` is for policies that plan everything from scratch.
    """

    changes: Mapping[JobId, Allocation | None] = field(default_factory=dict)  # None: stop
    valid_until: float = inf  # "ask me again then", even if nothing happens
    # An immutable value that the next snapshot hands back, so that a policy can remember and stay
    # pure. It is not in the journal: a policy must be able to do without.
    memory: object = None
    # For whom each job is stopped or shrunk, where the policy knows.
    for_whom: Mapping[JobId, JobId] = field(default_factory=dict)
    once_running: frozenset[JobId] = frozenset()  # "ask me again when one of these runs"

    @classmethod
    def whole(
        cls,
        snapshot: Snapshot,
        allocations: Mapping[JobId, Allocation],
        *,
        valid_until: float = inf,
    ) -> Self:
        """The schedule in which exactly these jobs hold devices."""
        changes: dict[JobId, Allocation | None] = {
            job.spec.id: None for job in snapshot.holding() if job.spec.id not in allocations
        }
        jobs = snapshot.jobs
        for identity, new in allocations.items():
            held = jobs[identity].allocation
            if held is not new and held != new:
                changes[identity] = new
        return cls(changes, valid_until)


KEEP = Schedule()


class Standing(NamedTuple):
    """Where one user stands among those who have jobs."""

    weight: float
    used_s: float  # device-seconds, counted less the longer ago they were used
    entitled: float  # devices
    wants: int  # devices
