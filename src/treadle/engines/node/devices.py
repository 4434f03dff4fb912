"""The devices of a node: GPUs, or CPU slots on a node without GPUs.

A `DeviceSource` reads the state of the devices. It is called from a thread, since a driver may be
slow. Three classes implement it: `NvmlGpus` (gpus.py), `CpuSlots` here, and a scripted one for
tests.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from treadle.core.cluster import CPU, Node
from treadle.core.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProcess:
    """A process that computes on a device."""

    pid: int
    memory_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One device as it was read last."""

    number: int
    uuid: str = ""
    model: str = ""
    memory_gib: float | None = None
    memory_used_gib: float | None = None
    busy: float | None = None  # share of the last second, 0 to 1
    processes: tuple[DeviceProcess, ...] = ()
    error: str = ""  # why it could not be read; the other fields are then unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What one device did since the look before. None: not measured."""

    number: int
    busy: float | None = None  # share of time in which a kernel ran, 0 to 1
    memory_busy: float | None = None  # share of time in which its memory was read or written
    active: float | None = None  # share of its multiprocessors that worked
    bandwidth: float | None = None  # share of its memory's bandwidth that was used
    energy_j: float | None = None  # as its counter stands
    memory_used_gib: float | None = None  # by all processes
    memory_gib: Mapping[int, float] = field(default_factory=dict)  # by pid, where NVML says
    process_busy: Mapping[int, float] = field(default_factory=dict)  # by pid, where NVML says


class DeviceSource(Protocol):
    """Reads the devices of one node."""

    kind: str  # "gpu" or "cpu"
    uuids: tuple[str, ...]  # by number; empty strings for CPU slots
    watched: bool  # whether other programs can use the devices, so that they must be polled

    @property
    def beside(self) -> Mapping[int, tuple[int, ...]]:
        """The cores closest to each device, where they are known."""
        ...

    def look(self) -> tuple[Sight, ...]:
        """All devices, in order of their numbers. It may block for seconds; it does not raise."""
        ...

    def activity(self) -> tuple[Activity, ...]:
        """What they did since the last call; empty where that cannot be read, as of CPU slots."""
        ...


class CpuSlots:
    """A fixed number of CPU slots; only jobs of Treadle use them."""

    kind = "cpu"
    watched = False
    beside: Mapping[int, tuple[int, ...]] = MappingProxyType({})

    def __init__(self, count: int) -> None:
        if count < 1:
            raise InvalidInputError(f"{count} CPU slots were requested; expected at least 1")
        self.uuids = ("",) * count

    def look(self) -> tuple[Sight, ...]:
        return tuple(Sight(number=number, model="CPU slot") for number in range(len(self.uuids)))

    def activity(self) -> tuple[Activity, ...]:
        return ()


def node_of(source: DeviceSource, name: str) -> Node:
    """This machine as a node of the cluster. Of GPUs that differ, the smallest memory counts."""
    seen = source.look()
    sizes = [sight.memory_gib or 0.0 for sight in seen]
    return Node(
        name=name,
        device_count=len(source.uuids),
        device_type=_type_of(source.kind, seen),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=_memory_gib(),
        device_memory_gib=min(sizes) if sizes and all(sizes) else 0.0,
    )


def _type_of(kind: str, seen: Sequence[Sight]) -> str:
    """The model of the GPUs; their kind if they are unlike, or one does not say."""
    models = {sight.model for sight in seen}
    return next(iter(models)) if kind != CPU and len(models) == 1 and all(models) else kind


def _memory_gib() -> float:
    """Memory of the host; 0 where it is not known."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) / 2**20
    except (OSError, ValueError, IndexError):
        return 0.0
    return 0.0
