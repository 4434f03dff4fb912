"""Jobs that have waited for long, and which others may therefore not join running jobs before.

A join keeps devices taken for longer. A job that needs devices to itself would wait without end if
ever new ones joined; so those that came after it wait with it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from treadle.core.device_types import Nodes
from treadle.core.job import Job
from treadle.core.snapshot import Snapshot
from treadle.policies.base.placement import Placement
from treadle.policies.base.suited import place, places
from treadle.policies.wrappers.host_requests import fits_empty


class Late(NamedTuple):
    """A job that has waited for long, past which others join no more."""

    job: Job
    joins_none: bool  # it was seen that there is no company for it

    @property
    def why(self) -> str:
        """Behind "job a came before it"."""
        if self.joins_none:
            return ", has waited for long and can join none"
        return " and has waited for long"

    def goes_before(self, other: Job) -> bool:
        mine = self.job
        return mine.sequence < other.sequence and mine.spec.priority >= other.spec.priority


class Passed:
    """The first of the jobs that have waited for long, for each priority.

    What any other of them keeps from joining, the first of its priority does.
    """

    def __init__(self) -> None:
        self._first: dict[int, Late] = {}

    def __iter__(self) -> Iterator[Late]:
        return iter(self._first.values())

    def add(self, job: Job, *, joins_none: bool) -> None:
        first = self._first.get(job.spec.priority)
        if first is None or job.sequence < first.job.sequence:
            self._first[job.spec.priority] = Late(job, joins_none)

    def before(self, job: Job) -> Late | None:
        """One that goes before this job, or None."""
        return next((late for late in self._first.values() if late.goes_before(job)), None)


class Room:
    """Whether jobs could start on the open devices if no other job ran."""

    def __init__(self, snapshot: Snapshot, placement: Placement) -> None:
        self._snapshot = snapshot
        self._placement = placement
        self._known: dict[tuple[tuple[Nodes, ...], int, float, float], bool] = {}

    def has(self, job: Job) -> bool:
        spec = job.spec
        where = places(job, self._snapshot.cluster)
        key = where, spec.sizes[0], spec.host_memory_gib, spec.host_cores
        if key not in self._known:
            self._known[key] = self._has(job)
        return self._known[key]

    def _has(self, job: Job) -> bool:
        spec, cluster, placement = job.spec, self._snapshot.cluster, self._placement
        nodes = cluster.nodes
        small = {node.name for node in nodes if not fits_empty(spec, node)}
        free = self._snapshot.emptied()
        gone = [device for device in free if device.node in small] if small else []
        left = free.withholding(gone)
        return place(job, spec.sizes[0], left, cluster=cluster, placement=placement) is not None
