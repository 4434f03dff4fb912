"""What an engine is made from."""

import platform
from dataclasses import dataclass, field
from pathlib import Path

from treadle.core.ports import Clock, Controls

FAILOVER_S, FAILOVER_MIN_S = 600.0, 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What `treadle up` was given; an engine refuses what it cannot use."""

    node_name: str = field(default_factory=platform.node)
    devices: int | None = None  # CPU slots, in place of GPUs
    gpus: tuple[str, ...] = ()  # use only these: numbers or UUIDs
    avoid: tuple[str, ...] = ()  # use all but these
    warm: bool = True  # Python jobs may start from warm interpreters
    address: str = ""  # of a cluster, for an engine that attaches to one
    lost_cluster: str = ""  # the address of one that is gone for good, with the jobs there
    # How long jobs go on without contact, before they may begin elsewhere; None: for ever.
    failover_s: float | None = FAILOVER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """What an engine is made from."""

    controls: Controls
    clock: Clock
    root: Path  # a folder of its own on the controller's machine
    options: EngineOptions = field(default_factory=EngineOptions)
    identity: str = ""  # of the state folder; empty: it has none
    holding: int = 0  # jobs that hold devices, as the last controller left them
