"""The machine, its policy and its history as users see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from treadle.core.machine import DeviceOrder, NodeOrder


class Role(StrEnum):
    VIEWER = "viewer"
    USER = "user"
    ADMIN = "admin"

    @property
    def level(self) -> int:
        return list(Role).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """The caller. `job` is set for a token that belongs to a running job."""

    user: str
    role: Role
    uid: int | None = None
    job: str = ""
    # When what they showed expires, in seconds since 1970; None if it does not.
    expires_at: float | None = field(default=None, compare=False)

    @property
    def account(self) -> str:
        """What tells users apart: both a name and an id can be another user's later.

        Only tokens of a daemon that is not root can lack an id: those of users whom the machine
        does not have.
        """
        return f"name:{self.user}" if self.uid is None else f"uid:{self.uid}:{self.user}"

    def is_owner(self, owner: str, uid: int | None) -> bool:
        """Whether something of that user is theirs; a job owns nothing."""
        if self.job:
            return False
        return self.uid == uid and self.user == owner


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    policy: str  # what a user set: "afs", "tiresias?limits=3250:7200"
    placement: str
    since_at: float
    error: str = ""  # of its last decision, if that failed
    warning: str = ""  # what its user may not have meant, such as more devices than there are
    offered: tuple[str, ...] = ()  # names of all policies that there are here


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    policy: str
    placement: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One row of the journal, for people."""

    id: int
    at: float  # seconds since 1970
    kind: str
    job: str = ""
    text: str = ""
    body: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    events: tuple[EventView, ...]
    next: int  # the id to go on after
    pruned_before: int = 0  # if above 0: some events before this one were pruned


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """Device-hours of one user in one tenant."""

    user: str
    tenant: str
    jobs: int
    allocated_h: float  # devices held
    used_h: float | None  # the same times how busy they were, where that was measured
    failed_h: float  # of allocated_h, in attempts that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    version: str
    pid: int
    since_at: float
    store: str  # "sqlite" or "postgresql"; never a password
    socket: str
    url: str  # over TCP; empty if it does not listen there
    policy: str
    devices: int  # also those of drained nodes
    free: int
    running: int
    waiting: int
    held: int
    paused: int = 0  # they compute nothing, and go on where they were; also by the scheduler
    starting: int = 0  # they have devices, and their processes do not run yet
    stopping: int = 0  # they have been ordered to end, and their processes have not yet
    grace_left_s: float = 0.0  # of the one that may take longest
    draining: bool = False
    problem: str = ""  # what keeps it from working as it should, in one sentence
    state_folder: str = ""
    engine: str = "local"
    fingerprint: str = ""  # of the key of its certificate; empty without TLS
    drained_devices: int = 0  # of devices, in nodes that take no new jobs
    nodes: int = 1  # also those that are drained
    drained_nodes: int = 0
    lost_nodes: int = 0  # that have not come back; not among nodes
    unused_nodes: int = 0  # of the cluster, which others use; not among nodes
    cluster: str = ""  # the address of the cluster that the engine attached to


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    id: str
    name: str
    user: str
    role: Role
    created_at: float
    expires_at: float | None = None
    used_at: float | None = None
    used_from: str = ""  # the address of its last use; "socket" on the server's own machine
    uid: int | None = None  # the user id that it is bound to


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    name: str
    user: str = ""  # empty: the caller
    role: Role = Role.USER
    days: float | None = 90.0  # until it expires


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMade:
    token: str  # shown this once
    view: TokenView


class ShutdownMode(StrEnum):
    LEAVE = "leave"  # jobs keep running
    DRAIN = "drain"  # start no jobs, stop when all have ended
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOrderRequest:
    order: DeviceOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrderRequest:
    order: NodeOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    mode: ShutdownMode = ShutdownMode.LEAVE
