"""Host shares: to which cores a rank is pinned, and how many threads it should use.

Ranks are pinned to the cores that the driver names as closest to their devices. Where no driver
says (CPU slots, virtual machines) none is pinned: the numbers of cores tell nothing about where
they are, and the kernel finds those that are idle. Several devices may be close to the same cores.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from treadle.core.allocation import Allocation

Beside = Mapping[int, Collection[int]]  # the cores closest to each device, where they are known


class Share(NamedTuple):
    """What one rank gets of the host."""

    cores: tuple[int, ...]  # it is pinned to these; empty: to none
    threads: int


def shares(
    allocation: Allocation,
    *,
    ranks: int,
    cores: Collection[int],
    device_count: int,
    cpus: float | None = None,
    beside: Beside,
) -> tuple[Share, ...]:
    """The share of each rank; the allocation's devices are split among the ranks in order.

    cores: those of the machine that may be used. cpus: how many the job asked for in all.
    """
    size = allocation.size
    each = len(cores) / device_count  # for each device
    if allocation.host is not None:
        each = allocation.host.cores
    elif cpus is not None:
        each = cpus / size
    found = []
    for rank in range(ranks):
        numbers = _devices_of(rank, ranks, allocation)
        known = all(beside.get(number) for number in numbers)
        close = {core for number in numbers for core in beside[number]} if known else set()
        close.intersection_update(cores)
        # All cores are no restriction, and too few would keep the job from what it asked for.
        pins = each * len(numbers) <= len(close) < len(cores)
        threads = max(1, int(each * len(numbers) / max(1, ranks / size)))
        found.append(Share(tuple(sorted(close)) if pins else (), threads))
    return tuple(found)


def _devices_of(rank: int, ranks: int, allocation: Allocation) -> tuple[int, ...]:
    """Numbers of the devices that a rank uses, in the usual order."""
    numbers = tuple(device.number for device in allocation.devices)
    size = len(numbers)
    if ranks >= size:
        return (numbers[rank % size],)
    return numbers[rank * size // ranks : (rank + 1) * size // ranks]
