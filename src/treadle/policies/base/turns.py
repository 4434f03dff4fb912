"""Turns of jobs that share devices."""

from collections.abc import Iterable

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId


def add_in_turns(
    allocations: dict[JobId, Allocation], members: Iterable[Job], devices: tuple[Device, ...]
) -> None:
    """One turn for each member; a member that is there already keeps its own."""
    taken: set[int] = set()
    newcomers: list[JobId] = []
    for job in members:
        now = job.allocation
        if now is not None and now.devices == devices and now.turn not in taken:
            allocations[job.id] = now
            taken.add(now.turn)
        else:
            newcomers.append(job.id)
    turn = 0
    for name in newcomers:
        while turn in taken:
            turn += 1
        allocations[name] = Allocation(devices, turn=turn)
        taken.add(turn)
