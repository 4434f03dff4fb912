"""The order for a supervisor, as one JSON document: command, environment, devices, limits."""

import os
import pwd
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from treadle.core.allocation import Allocation
from treadle.core.errors import EngineError
from treadle.core.launch import Launch
from treadle.engines.node import environment
from treadle.engines.node.cgroup import RECORD, Cgroups, cgroups_here
from treadle.engines.node.host_shares import Beside, shares
from treadle.engines.node.interfaces import interface_of
from treadle.engines.node.scope import Limits, RecordedScope, Scope

NEWCOMER_READY_S = 120.0  # a newcomer that takes longer is given up, and the change with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The daemon's own environment and cores, as far as jobs get to see them."""

    environment: Mapping[str, str]
    cores: tuple[int, ...]
    beside: Beside = field(default_factory=dict)  # the cores closest to each device
    cgroups: Cgroups | None = None  # groups for attempts; None: this machine lets us make none
    # Where the agent of this node says until when ranks may run (fence.py); None: for ever.
    grant: Path | None = None
    checkpoints: Path | None = None  # the folder of all jobs' checkpoints; None: in the root
    node: str = ""  # the name of this one
    address: str = ""  # at which others can reach it; empty: there are none

    @classmethod
    def here(cls) -> Self:
        return cls(
            environment=dict(os.environ),
            cores=tuple(sorted(os.sched_getaffinity(0))),
            cgroups=cgroups_here(),
        )


class Paths(NamedTuple):
    """The folders of one attempt."""

    folder: Path
    checkpoints: Path
    scope: Scope | None = None  # the group of its processes; None: they are written down


def order_document(
    launch: Launch,
    allocation: Allocation,
    *,
    action: int,
    tag: str,
    paths: Paths,
    uuids: Sequence[str],
    around: Surroundings,
) -> dict[str, Any]:
    """Everything a supervisor must know, for JSON."""
    _check_user(launch)
    base = environment.inherited(around.environment, uid=launch.uid)
    feeds = shares(
        allocation,
        ranks=launch.ranks,
        cores=around.cores,
        device_count=len(uuids),
        cpus=launch.cpus,
        beside=around.beside,
    )
    gid, groups = _groups(launch)
    return {
        "folder": str(paths.folder),
        "job": launch.job,
        "attempt": launch.attempt,
        "nonce": launch.nonce,
        "action": action,
        "tag": tag,
        "devices": [device.number for device in allocation.devices],
        "turn": allocation.turn,
        "plan": environment.plan_of(launch, allocation),
        "command": list(launch.command),
        "workdir": launch.workdir,
        "env": environment.common(
            launch, allocation, uuids=uuids, tag=tag, checkpoints=str(paths.checkpoints), base=base
        ),
        "ranks": [
            {"env": environment.of_rank(launch, rank, share), "cpus": list(share.cores)}
            for rank, share in enumerate(feeds)
        ],
        "secrets": list(launch.secrets.values()),
        "uid": launch.uid,
        "gid": gid,
        "groups": groups,
        "stop_signal": _signal_number(launch),
        "grace_s": launch.grace_s,
        "time_limit_s": launch.time_limit_s,
        "log_bytes_max": launch.log_bytes_max,
        "scope": (paths.scope or RecordedScope(f"{paths.folder}/{RECORD}")).document(),
        "memory_bytes": limits_of(launch).memory_bytes,
        # A rank for each device can be a member that joins and leaves.
        "members": launch.ranks == allocation.size and not launch.launcher and _has_team(launch),
        "node": around.node,
        "address": around.address,
        "interface": interface_of(around.address) if around.address else "",
        "ready_s": NEWCOMER_READY_S,
        "grant": None if around.grant is None else str(around.grant),
        "part": None if launch.part is None else asdict(launch.part),
    }


def _has_team(launch: Launch) -> bool:
    return launch.part is None or launch.part.team is not None


def limits_of(launch: Launch) -> Limits:
    """What the job asked for, as limits of its group."""
    memory = None if launch.memory_gib is None else round(launch.memory_gib * 2**30)
    return Limits(memory, launch.cpus)


def _check_user(launch: Launch) -> None:
    """Under root a job runs as the user it names. Without one it would run as root."""
    if launch.uid is None and os.geteuid() == 0:
        raise EngineError(
            f"job {launch.job} of {launch.user or 'an unknown user'} has no user id, and Treadle, "
            "which runs as root here, launches nothing as root in its place; submit it again",
            retryable=False,
        )


def _groups(launch: Launch) -> tuple[int | None, list[int]]:
    """The group to run as and the supplementary groups; none if the user stays the daemon's.

    They are those that the user has now, not those of when the job was submitted. Name and id must
    still belong together: either may be another user's by now.
    """
    if launch.uid is None or launch.uid == os.geteuid():
        return launch.gid, []
    try:
        entry = pwd.getpwnam(launch.user) if launch.user else pwd.getpwuid(launch.uid)
    except KeyError:
        entry = None
    if entry is None or entry.pw_uid != launch.uid:
        raise EngineError(
            f"job {launch.job} was submitted by {launch.user or 'a user'} with the user id "
            f"{launch.uid}, and this machine has no such user now",
            retryable=False,
        )
    return entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)


def _signal_number(launch: Launch) -> int:
    try:
        return int(signal.Signals[launch.stop_signal])
    except KeyError:
        raise EngineError(
            f"job {launch.job} has the stop signal {launch.stop_signal}, which does not exist; "
            "expected a name such as SIGTERM",
            retryable=False,
        ) from None
