"""Host shares: which cores feed which rank, and how many threads it should use.

Device i of n on a node with c cores is fed by the cores from i·c/n to (i+1)·c/n. An allocation
that names its host share gets so many cores for each device instead, beginning at the same one.
"""

from collections.abc import Sequence
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
    each = len(cores) / device_count
    if cpus is not None:
        each = cpus / allocation.size
    if allocation.host is not None:
        each = allocation.host.cores
    found = []
    for rank in range(ranks):
        numbers = _devices_of(rank, ranks, allocation)
        beside = max(1, ranks // allocation.size)  # ranks that share those devices
        threads = max(1, int(each * len(numbers) / beside))
        pinned = _pinned(numbers, each, cores, device_count) if each >= 1 else ()
        found.append(Share(pinned, threads))
    return tuple(found)


def _devices_of(rank: int, ranks: int, allocation: Allocation) -> tuple[int, ...]:
    """Numbers of the devices that a rank uses, in the usual order."""
    numbers = tuple(device.number for device in allocation.devices)
    size = len(numbers)
    if ranks >= size:
        return (numbers[rank % size],)
    return numbers[rank * size // ranks : (rank + 1) * size // ranks]


def _pinned(
    numbers: Sequence[int], each: float, cores: Sequence[int], device_count: int
) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for number in numbers:
        first = number * len(cores) // device_count
        # A fraction is rounded up: the last core is shared with the next device.
        count = min(len(cores), -int(-each // 1))
        for step in range(count):
            found[cores[(first + step) % len(cores)]] = None
    # All cores are no restriction, so nothing is pinned.
    return () if len(found) == len(cores) else tuple(sorted(found))
