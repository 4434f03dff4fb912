"""Handing attempts over to the nursery: the order as a document, and the pipe to listen on."""

import json
import os
import pwd
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from treadle.core.allocation import Allocation
from treadle.core.errors import EngineError
from treadle.engines.launch import Launch
from treadle.engines.node import environment
from treadle.engines.node.cgroup import own_cgroup
from treadle.engines.node.host_shares import shares
from treadle.engines.node.processes import boot_id

SEND_WITHIN_S = 5  # a nursery that takes no order for so long is replaced
LEAVE_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the daemon itself lives in, as far as jobs get to see it."""

    environment: Mapping[str, str]
    cores: tuple[int, ...]
    cgroup: Path | None = None  # below which scopes may be made

    @classmethod
    def here(cls) -> Self:
        return cls(
            environment=dict(os.environ),
            cores=tuple(sorted(os.sched_getaffinity(0))),
            cgroup=own_cgroup(),
        )


class Nursery:
    """The process that forks supervisors; it is started when it is needed, and again if it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        limit = struct.pack("ll", SEND_WITHIN_S, 0)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        program = str(Path(__file__).with_name("nursery.py"))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours
        return ours

    def launch(self, order: Mapping[str, Any]) -> int:
        """Have an attempt launched; returns the end of the pipe on which its supervisor reports."""
        document = _nameless_file(json.dumps(order).encode())
        try:
            report, theirs = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(report, False)
            try:
                self._send([document, theirs])
            except OSError:
                os.close(report)
                raise
            finally:
                os.close(theirs)
        finally:
            os.close(document)
        return report

    def _send(self, files: Sequence[int]) -> None:
        try:
            socket.send_fds(self.start(), [b"launch"], files)
        except OSError:  # It was killed, or hangs: try once more with a fresh one.
            self.close()
            socket.send_fds(self.start(), [b"launch"], files)

    def close(self) -> None:
        """Let it go; supervisors that it forked go on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LEAVE_WITHIN_S)
            if self._process.returncode is None:
                self._process.kill()
                self._process.wait()
            self._process = None


def _nameless_file(data: bytes) -> int:
    """A file in memory that has no name and no place on any disk."""
    file = os.memfd_create("order", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    except OSError:
        os.close(file)
        raise
    return file


def order_of(
    launch: Launch,
    allocation: Allocation,
    *,
    action: int,
    folder: Path,
    tag: str,
    uuids: Sequence[str],
    around: "Surroundings",
    scope: Path | None = None,
) -> dict[str, Any]:
    """Everything a supervisor must know."""
    base = environment.inherited(around.environment, uid=launch.uid)
    feeds = shares(allocation, ranks=launch.ranks, cores=around.cores, device_count=len(uuids))
    gid, groups = _groups(launch)
    return {
        "folder": str(folder),
        "job": launch.job,
        "attempt": launch.attempt,
        "action": action,
        "tag": tag,
        "devices": [device.number for device in allocation.devices],
        "turn": allocation.turn,
        "boot": boot_id(),
        "command": list(launch.command),
        "workdir": launch.workdir,
        "env": environment.common(launch, allocation, uuids=uuids, tag=tag, base=base),
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
        "scope": None if scope is None else str(scope),
    }


def _groups(launch: Launch) -> tuple[int | None, list[int]]:
    """The group and all groups of whoever the job runs as, if that is somebody else."""
    if launch.uid is None or launch.uid == os.geteuid():
        return launch.gid, []
    try:
        entry = pwd.getpwuid(launch.uid)
    except KeyError:
        if launch.gid is None:
            raise EngineError(
                f"job {launch.job} is to run as user {launch.uid}, who is not known here",
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
            f"job {launch.job} is to be stopped by {launch.stop_signal}, "
            "which is no signal; expected a name such as SIGTERM",
            retryable=False,
        ) from None
