"""The one allocation type: which devices, under which plan, in which turn, with which host share.

Growing, shrinking, moving, changing the plan and sharing a device are all "another allocation
value". Two jobs on one device with different turns interleave; with the same turn they collide.
"""

from treadle.core.cluster import Device
from treadle.core.errors import PolicyError
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.value import value

TURNS_MAX = 8


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
        """What would change: "size" or else "devices"; "plan", "turn", "host"."""
        found = []
        if self.size != other.size:
            found.append("size")
        elif self.devices != other.devices:
            found.append("devices")
        found += [
            name for name in ("plan", "turn", "host") if getattr(self, name) != getattr(other, name)
        ]
        return tuple(found)
