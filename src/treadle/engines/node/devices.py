"""What there is to run on: GPUs, or slots of the CPU where there are none.

A source of devices is asked what it sees, from a thread, since a driver may take its time. Three
implement it: `NvmlGpus` (gpus.py), `CpuSlots` here, and a scripted one for tests.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from treadle.core.cluster import Node
from treadle.core.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProcess:
    """A process that computes on a device."""

    pid: int
    memory_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One device as it was seen just now."""

    number: int
    uuid: str = ""
    model: str = ""
    memory_gib: float | None = None
    memory_used_gib: float | None = None
    busy: float | None = None  # share of the last second, 0 to 1
    processes: tuple[DeviceProcess, ...] = ()
    error: str = ""  # why it could not be seen; the rest then says nothing


class DeviceSource(Protocol):
    """Where devices come from."""

    kind: str  # "gpu" or "cpu"
    uuids: tuple[str, ...]  # by number; empty strings for slots of the CPU
    watched: bool  # whether others can be on the devices, so that looking makes sense

    def look(self) -> tuple[Sight, ...]:
        """All devices, in order of their numbers. It may block for a while; it does not raise."""
        ...


class CpuSlots:
    """So many slots of the CPU; nobody else is ever seen on them."""

    kind = "cpu"
    watched = False

    def __init__(self, count: int) -> None:
        if count < 1:
            raise InvalidInputError(f"{count} slots were asked for; expected at least 1")
        self.uuids = ("",) * count

    def look(self) -> tuple[Sight, ...]:
        return tuple(Sight(number=number, model="CPU slot") for number in range(len(self.uuids)))


def node_of(source: DeviceSource, name: str) -> Node:
    """This machine as a node of the cluster."""
    return Node(
        name=name,
        device_count=len(source.uuids),
        device_type=source.kind,
        cores=len(os.sched_getaffinity(0)),
        memory_gib=_memory_gib(),
    )


def _memory_gib() -> float:
    """Of the host; 0 where it is not known."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) / 2**20
    except (OSError, ValueError, IndexError):
        return 0.0
    return 0.0
