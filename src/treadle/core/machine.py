"""Machines as an engine sees them: nodes, devices, output of ranks, measurements."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from treadle.core.job import JobId
from treadle.core.launch import AttemptId


class DeviceOrder(StrEnum):
    """What an admin may order about a device."""

    AVOID = "avoid"  # start nothing new on it
    MANAGE = "manage"  # use it again, also if it was quarantined


class Output(NamedTuple):
    """A piece of what a rank wrote."""

    offset: int  # of the first byte; later than asked for where that was dropped
    data: bytes
    size: int  # where the output ends now
    lost: int = 0  # bytes between what was asked for and what is still there


class Measurement(NamedTuple):
    """What was measured of one attempt that runs. None: not measured."""

    attempt: AttemptId
    busy: float | None = None  # share of the last second in which its devices worked, 0 to 1

    @property
    def job(self) -> JobId:
        return self.attempt.job


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """A process on a device that Treadle did not start."""

    pid: int
    user: str
    memory_gib: float | None = None
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    name: str  # as in an allocation: "host:3"
    number: int
    uuid: str = ""
    model: str = ""
    state: str = "free"  # free, held, foreign, quarantined, avoided
    because: str = ""
    jobs: tuple[str, ...] = ()
    memory_gib: float | None = None
    memory_used_gib: float | None = None
    busy: float | None = None  # share of the last second, 0 to 1
    foreign: tuple[ProcessView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    name: str
    device_type: str
    cores: int
    memory_gib: float
    devices: tuple[DeviceView, ...]
