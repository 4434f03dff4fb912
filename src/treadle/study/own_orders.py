"""A recorded run's own orders, carried out again by the simulator: the check of its model.

What-if answers rest on a model of the recorded jobs (whatif.py). If the run's own orders, given to
that model, do not lead to the run's own times, no comparison with another policy can be believed.
An order is carried out at the time at which it was given, or later, once the simulated jobs have
released its devices.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import NamedTuple

from treadle.core.actions import Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.journal.journal import Journal

CLOSE = 0.15  # a model that is further off than this is not compared with


class Order(NamedTuple):
    """A job is to hold this from that moment on; None: nothing."""

    at: float
    job: JobId
    allocation: Allocation | None


class AsOrdered(Policy):
    """Gives the orders of a record again."""

    def __init__(self, journal: Journal) -> None:
        self._orders = tuple(_orders(journal))

    def decide(self, snapshot: Snapshot) -> Schedule:
        wanted: dict[JobId, Allocation | None] = {}
        next_at = inf
        for order in self._orders:
            if order.at > snapshot.now:
                next_at = order.at
                break
            wanted.pop(order.job, None)  # the newest order last
            wanted[order.job] = order.allocation
        return Schedule(self._possible(snapshot, wanted), next_at)

    def _possible(
        self, snapshot: Snapshot, wanted: Mapping[JobId, Allocation | None]
    ) -> dict[JobId, Allocation | None]:
        """The orders that differ from what is held and whose devices are free by then.

        Simulated jobs may take longer than the recorded ones, so several may wait for one device:
        the order that was given first comes first.
        """
        jobs = snapshot.jobs
        changes = {
            job: new for job, new in wanted.items() if job in jobs and jobs[job].allocation != new
        }
        # A job that cannot move yet keeps what it has, which may keep others from moving.
        while (blocked := _blocked(jobs, changes)) is not None:
            del changes[blocked]
        return changes


def _blocked(jobs: Mapping[JobId, Job], changes: Mapping[JobId, Allocation | None]) -> JobId | None:
    """The first job whose new devices are taken."""
    held: dict[tuple[Device, int], JobId] = {}
    for identity, row in jobs.items():
        if identity not in changes:
            _hold(held, identity, row.allocation)
    for name, new in changes.items():
        if _collides(name, new, held):
            return name
        _hold(held, name, new)
    return None


def _hold(held: dict[tuple[Device, int], JobId], job: JobId, allocation: Allocation | None) -> None:
    if allocation is not None and not allocation.paused:
        held |= {(device, allocation.turn): job for device in allocation.devices}


def _collides(job: JobId, new: Allocation | None, held: Mapping[tuple[Device, int], JobId]) -> bool:
    if new is None or new.paused:
        return False
    return any(held.get((device, new.turn), job) != job for device in new.devices)


def _orders(journal: Journal) -> Iterator[Order]:
    for step in journal.steps:
        for action in step.actions:
            yield Order(
                step.now, action.job, None if isinstance(action, Stop) else action.allocation
            )


def error(recorded: Mapping[JobId, float], simulated: Mapping[JobId, float]) -> float:
    """How far simulated times are from recorded ones: the mean relative error."""
    both = [job for job in recorded if job in simulated]
    if not both or len(both) < len(recorded):
        return inf
    return sum(abs(simulated[job] / recorded[job] - 1.0) for job in both) / len(both)
