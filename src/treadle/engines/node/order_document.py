"""The order for a supervisor, as one JSON document: command, environment, devices, limits."""

import os
import pwd
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from treadle.core.allocation import Allocation
from treadle.core.errors import EngineError
from treadle.core.launch import Launch
from treadle.engines.node import environment
from treadle.engines.node.cgroup import own_cgroup
from treadle.engines.node.host_shares import shares
from treadle.engines.node.processes import boot_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The daemon's own environment and cores, as far as jobs get to see them."""

    environment: Mapping[str, str]
    cores: tuple[int, ...]
    cgroup: Path | None = None  # scopes are made below it

    @classmethod
    def here(cls) -> Self:
        return cls(
            environment=dict(os.environ),
            cores=tuple(sorted(os.sched_getaffinity(0))),
            cgroup=own_cgroup(),
        )


class Paths(NamedTuple):
    """The folders of one attempt."""

    folder: Path
    checkpoints: Path
    scope: Path | None = None  # its cgroup


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
    feeds = shares(allocation, ranks=launch.ranks, cores=around.cores, device_count=len(uuids))
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
        "boot": boot_id(),
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
        "scope": None if paths.scope is None else str(paths.scope),
    }


def _check_user(launch: Launch) -> None:
    """Under root a job runs as the user it names. Without one it would run as root."""
    if launch.uid is None and os.geteuid() == 0:
        raise EngineError(
            f"job {launch.job} of {launch.user or 'an unknown user'} has no user id, and Treadle, "
            "which runs as root here, launches nothing as root in its place; submit it again",
            retryable=False,
        )


def _groups(launch: Launch) -> tuple[int | None, list[int]]:
    """The group to run as and the supplementary groups; none if the user stays the daemon's."""
    if launch.uid is None or launch.uid == os.geteuid():
        return launch.gid, []
    try:
        entry = pwd.getpwuid(launch.uid)
    except KeyError:
        if launch.gid is None:
            raise EngineError(
                f"job {launch.job} is to run as user {launch.uid}, which does not exist here",
                retryable=False,
            ) from None
        return launch.gid, [launch.gid]
    gid = entry.pw_gid if launch.gid is None else launch.gid
    return gid, os.getgrouplist(entry.pw_name, gid)


def _signal_number(launch: Launch) -> int:
    try:
        return int(signal.Signals[launch.stop_signal])
    except KeyError:
        raise EngineError(
            f"job {launch.job} has the stop signal {launch.stop_signal}, which does not exist; "
            "expected a name such as SIGTERM",
            retryable=False,
        ) from None
