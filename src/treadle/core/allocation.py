"""The one allocation type: which devices, under which plan, in which turn, with which host share.

Growing, shrinking, moving, changing the plan, sharing a device and pausing are all "another
allocation value". Two jobs on one device with different turns interleave; with the same turn they
collide. A paused job computes nothing and holds no turn: others may have its devices, and it goes
on there once they are free again.
"""

from dataclasses import replace
from enum import StrEnum

from treadle.core.cluster import Device
from treadle.core.errors import PolicyError
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.value import value

TURNS_MAX = 8
_OTHERS = ("plan", "turn", "host", "paused")  # what may differ beside devices


class Pause(StrEnum):
    """How a job is paused, and where its memory is meanwhile."""

    FROZEN = "frozen"  # its processes stand still; what they have of device memory stays there
    SUSPENDED = "suspended"  # the same, and its device memory was moved to the host's

    __hash__ = str.__hash__


@value
class Host:
    """Cores and memory for each device; without one, a job gets its node's fair share."""

    cores: float
    memory_gib: float


@value
class Allocation:
    """What a job holds, or is to hold."""

    devices: tuple[Device, ...]  # in rank order: rank 3 runs on devices[3]
    plan: Plan = DATA_PARALLEL
    turn: int = 0
    host: Host | None = None
    paused: Pause | None = None  # None: it computes

    def __post_init__(self) -> None:
        devices = self.devices
        if not devices:
            raise PolicyError(
                "an allocation needs at least one device; to take a job's devices away, use None"
            )
        if len(devices) > 1 and len(set(devices)) != len(devices):
            raise PolicyError(f"an allocation names a device twice: {' '.join(map(str, devices))}")
        if self.plan is not DATA_PARALLEL and not self.plan.fits(len(devices)):
            raise PolicyError(f"{self.plan} does not fit {len(devices)} devices")
        if not 0 <= self.turn < TURNS_MAX:
            raise PolicyError(f"turn {self.turn} is outside 0..{TURNS_MAX - 1}")

    @property
    def size(self) -> int:
        return len(self.devices)

    def nodes(self) -> tuple[str, ...]:
        """The nodes it touches, in rank order, each once."""
        return tuple(dict.fromkeys(device.node for device in self.devices))

    def grows_to(self, other: "Allocation") -> bool:
        """Whether the other has all these devices and more, and is the same otherwise."""
        more = set(other.devices) > set(self.devices)
        return more and self.differences(other) == ("size",)

    def differences(self, other: "Allocation") -> tuple[str, ...]:
        """What would change: "size" or else "devices"; "plan", "turn", "host", "paused"."""
        found = []
        if self.size != other.size:
            found.append("size")
        elif self.devices != other.devices:
            found.append("devices")
        found += [name for name in _OTHERS if getattr(self, name) != getattr(other, name)]
        return tuple(found)

    def as_paused(self, how: Pause | None) -> "Allocation":
        """The same, paused so; None: going on."""
        return replace(self, paused=how)
