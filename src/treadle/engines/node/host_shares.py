"""Host shares: which cores feed which rank, and how many threads it should use.

Device i of n on a node with c cores has the cores from i·c/n to (i+1)·c/n beside it. No two devices
have a core in common, so jobs that are pinned only to cores beside their own devices never share
one. A job that asks for more cores than lie beside its devices is pinned to none: the quota of its
group limits it, and the kernel finds the cores that are idle.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from treadle.core.allocation import Allocation


class Share(NamedTuple):
    """What one rank gets of the host."""

    cores: tuple[int, ...]  # it is pinned to these; empty: to none
    threads: int


def shares(
    allocation: Allocation,
    *,
    ranks: int,
    cores: Sequence[int],
    device_count: int,
    cpus: float | None = None,
) -> tuple[Share, ...]:
    """The share of each rank; the allocation's devices are split among the ranks in order.

    cpus: what the job asked for in all.
    """
    size = allocation.size
    each = len(cores) / device_count
    wanted: float | None = None  # cores for each device; None: those beside it
    if allocation.host is not None:
        each = wanted = allocation.host.cores
    elif cpus is not None:
        each = wanted = cpus / size
    beside = {
        device.number: _beside(device.number, wanted, cores, device_count)
        for device in allocation.devices
    }
    # Ranks are pinned all or none: together they must see as many cores as the job asked for.
    pins = each >= 1 and all(beside.values())
    found = []
    for rank in range(ranks):
        numbers = _devices_of(rank, ranks, allocation)
        pinned = tuple(sorted(core for number in numbers for core in beside[number]))
        # All cores are no restriction, so nothing is pinned.
        pinned = pinned if pins and len(pinned) < len(cores) else ()
        threads = max(1, int(each * len(numbers) / max(1, ranks / size)))
        found.append(Share(pinned, threads))
    return tuple(found)


def _devices_of(rank: int, ranks: int, allocation: Allocation) -> tuple[int, ...]:
    """Numbers of the devices that a rank uses, in the usual order."""
    numbers = tuple(device.number for device in allocation.devices)
    size = len(numbers)
    if ranks >= size:
        return (numbers[rank % size],)
    return numbers[rank * size // ranks : (rank + 1) * size // ranks]


def _beside(
    number: int, wanted: float | None, cores: Sequence[int], device_count: int
) -> tuple[int, ...]:
    """So many of the cores beside a device; none if there are fewer."""
    first, last = (at * len(cores) // device_count for at in (number, number + 1))
    beside = tuple(cores[first:last])
    if wanted is None:
        return beside
    count = ceil(wanted)
    return beside[:count] if count <= len(beside) else ()
