"""Who waits for what, whose share is used, and how the free devices lie."""

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.wire.jobs import StartEstimate, described, described_map


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    job: str
    name: str
    user: str
    tenant: str
    place: int  # from 1, as `why` counts it
    asks: str  # "2 devices", "1..4 devices"
    start: StartEstimate | None = None  # None: not computed
    cause: str = described("", "The code of its reason.")
    numbers: Mapping[str, object] = described_map("The numbers of its reason.")
    because: str = described("", "Its reason, in one clause.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantShare:
    """Devices of one tenant."""

    tenant: str
    used: float  # a device that n jobs share counts for each of them as 1/n
    waiting: int  # jobs
    deserved: float | None = described(None, "None: the policy has no shares.")
    borrowed: float | None = None  # used beyond what it deserves
    lent: float | None = None  # deserved, and used by others


@dataclass(frozen=True, slots=True, kw_only=True)
class UserShare:
    """Where one user with jobs stands."""

    user: str
    weight: float
    used_h: float  # device-hours, counted less the longer ago they were used
    entitled: float  # devices that its jobs have before others' of equal priority
    holds: int  # devices
    waiting: int  # jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFree:
    node: str
    free: int
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """How free devices lie."""

    free: int
    largest_gang: int  # the most free devices of one node
    nodes: tuple[NodeFree, ...]  # those with a free device, the most first
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    jobs: tuple[QueuedJob, ...]  # the first ones, in order of place
    waiting: int  # in all, as in Status
    # Of them, those that stand in no line: they wait for a machine or for others of their array, or
    # can never run here as they are.
    held_back: int
    shares: tuple[TenantShare, ...]
    fragmentation: Fragmentation
    users: tuple[UserShare, ...] = described((), "Empty: who used how much does not matter.")
