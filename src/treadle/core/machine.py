"""Machines as an engine sees them: nodes, devices, output of ranks, measurements."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from treadle.core.cluster import Device, Node
from treadle.core.events import DeviceClosed
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.core.sighting import Load


class DeviceOrder(StrEnum):
    """What an admin may order about a device."""

    AVOID = "avoid"  # start nothing new on it
    MANAGE = "manage"  # use it again, also if it was quarantined


class NodeOrder(StrEnum):
    """What an admin may order about a node."""

    DRAIN = "drain"  # start nothing new on it; jobs that can be resized go elsewhere
    UNDRAIN = "undrain"  # use it again
    FORGET = "forget"  # it has no contact, and a person says that nothing runs there any more


class Output(NamedTuple):
    """A piece of what a rank wrote."""

    offset: int  # of the first byte; later than asked for where that was dropped
    data: bytes
    size: int  # where the output ends now
    lost: int = 0  # bytes between what was asked for and what is still there
    ranks: int = 0  # of the attempt that have output: an elastic one may have had more than it has


class Leftovers(NamedTuple):
    """What an ended job has left where it ran, or what was removed of that."""

    bytes: int = 0  # on disk, of its output and everything else in the folders of its attempts
    attempts: int = 0  # folders of attempts that were removed
    checkpoint_folders: int = 0  # empty ones that were removed


class Measurement(NamedTuple):
    """What was measured of one attempt that runs. None: not measured."""

    attempt: AttemptId
    busy: float | None = None  # share of the last second in which its devices worked, 0 to 1
    load: Load = Load()  # since the measurement before
    at: float = 0.0  # when it was taken, by the run's own clock
    energy_j: float | None = None  # of its devices, since it began
    alone: bool = True  # no other job was on its devices
    mps: bool = False  # it runs under CUDA MPS

    @property
    def job(self) -> JobId:
        return self.attempt.job


UNUSED = "unused"  # the health of a node that is there, and is not used
NOT_USED = "is not used: "  # behind its name, before why


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
    # free, held, foreign, quarantined, avoided, paused, silent, unconfirmed, lost
    state: str = "free"
    because: str = ""
    jobs: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()  # jobs that go on there
    memory_gib: float | None = None
    memory_used_gib: float | None = None
    busy: float | None = None  # share of the last second, 0 to 1
    foreign: tuple[ProcessView, ...] = ()

    @classmethod
    def of(
        cls, device: Device, jobs: tuple[JobId, ...], closed: DeviceClosed | None, *, model: str
    ) -> "DeviceView":
        """A device of which nothing is measured."""
        return cls(
            name=str(device),
            number=device.number,
            model=model,
            state="held" if jobs else "free" if closed is None else closed.cause,
            because="" if closed is None else closed.reason,
            jobs=jobs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    name: str
    device_type: str
    cores: int
    memory_gib: float
    devices: tuple[DeviceView, ...]
    # What keeps the processes of a job together: "cgroup v2", "cgroup v1", "processes only"; empty
    # if the engine does not say.
    containment: str = ""
    enforced: tuple[str, ...] = ()  # limits of jobs that are enforced there: "cpus", "memory"
    # Jobs that do not begin or do not end, and why, in one sentence.
    stuck: Mapping[JobId, str] = field(default_factory=dict)
    drained: bool = False  # it takes no new work
    rack: str = ""
    # Of its agent: "answers", "slow", "silent", "joining"; "unconfirmed" if its cluster does not
    # answer to it; "unused" if it is there and cannot be used; "lost" if the node is; empty on one
    # machine, which has none.
    health: str = ""
    since_at: float | None = None  # its last answer, confirmation, or loss; seconds since 1970
    because: str = ""  # why it is lost, not confirmed, or not used
    noticed: bool = False  # it was lost while no controller was there, and missed at `since_at`
    warning: str = ""  # what its administrator should mend, in one sentence

    @classmethod
    def of(cls, node: Node, view: Callable[[Device], DeviceView]) -> "NodeView":
        return cls(
            name=node.name,
            device_type=node.device_type,
            cores=node.cores,
            memory_gib=node.memory_gib,
            rack=node.rack,
            devices=tuple(view(Device(node.name, number)) for number in range(node.device_count)),
        )


@dataclass(frozen=True, slots=True)
class JobFiles:
    """What an engine says of the files of a job that is submitted."""

    archive: str = ""  # its code, for nodes that do not see its folder
    note: str = ""  # why there is none, though some do not see it
    apart: bool = False  # some nodes do not see the checkpoints of the others
