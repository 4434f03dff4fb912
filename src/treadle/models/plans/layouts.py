"""Devices by node, and the ways to lay a job out on them."""

from collections.abc import Iterator, Mapping, Sequence

from treadle.core.cluster import Device
from treadle.models.plans.iteration_time import Shape

Counts = Mapping[str, int]  # devices by node
NOTHING: Counts = {}
_BLOCKS = (4, 2, 1)  # devices that stay together where a job is laid out unevenly


def counted(devices: Sequence[Device]) -> Counts:
    counts: dict[str, int] = {}  # A Counter takes three times as long.
    for device in devices:
        counts[device.node] = counts.get(device.node, 0) + 1
    return counts


def shape(counts: Counts) -> Shape:
    return tuple(sorted(counts.values(), reverse=True))


def layouts(size: int, room: Counts, own: Counts) -> Iterator[Counts]:
    """Ways to lay a job out where there is so much room, the best first.

    One node; else equal parts of as few nodes as possible; else whatever there is, on the nodes
    with the most: by fours or by twos, so that a model that is split so finds whole groups, or one
    by one. Nodes where the job already is come first, then those that fit tightest.
    """
    if size > sum(room.values()):
        return
    for parts in range(1, len(room) + 1):
        each, rest = divmod(size, parts)
        if rest or not each:
            continue
        fitting = [node for node, count in room.items() if count >= each]
        if len(fitting) >= parts:
            fitting.sort(key=lambda node: (-own.get(node, 0), room[node]))
            yield dict.fromkeys(fitting[:parts], each)
            if parts == 1:
                return
            break
    order = sorted(room, key=lambda node: (-room[node], -own.get(node, 0)))
    for block in _BLOCKS:
        left = size
        counts: dict[str, int] = {}
        for node in order:
            taken = min(room[node], left) // block * block
            if not taken:
                break
            counts[node] = taken
            left -= taken
        if not left:
            yield counts
