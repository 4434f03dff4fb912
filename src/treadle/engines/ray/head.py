"""A Ray head of Treadle's own, on this machine and on loopback alone.

It outlives the daemon, as the jobs do, and the next `treadle up` finds it by its record. Everybody
who may connect to Ray may run programs as its user, and all users of a machine may connect to
loopback: so it asks for a token, which is in a file that only its owner reads.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from treadle.core.errors import EngineError, InvalidInputError
from treadle.engines.ray.address import check_answers, free_port, surroundings
from treadle.files import replace

START_WITHIN_S = 50.0
TOKEN = "token"  # its file
OBJECT_STORE_BYTES = 80 << 20  # Agents keep nothing in it; Ray's least is 75 MiB.


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a head that was started."""

    address: str
    token: str  # the path of its file
    folder: str  # Ray's logs and sockets

    @property
    def environment(self) -> dict[str, str]:
        return {
            **surroundings(self.address),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": self.token,
            "RAY_TMPDIR": self.folder,
        }


def head(folder: Path, *, node_name: str, slots: int | None = None) -> Head:
    """The head that was started in this folder if it answers, else a fresh one.

    slots: the CPUs of a fresh one; None: those of the machine.
    """
    record = folder / "head.json"
    with suppress(OSError, msgspec.MsgspecError, InvalidInputError):
        found = msgspec.json.decode(record.read_bytes(), type=Head)
        check_answers(found.address)
        return found
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = folder / TOKEN
    replace(token, secrets.token_hex(32).encode(), mode=0o600)
    # Paths of Unix sockets are short, and those of state folders may not be.
    made = Head(
        address=f"127.0.0.1:{free_port()}",
        token=str(token),
        folder=tempfile.mkdtemp(prefix="treadle-ray-"),
    )
    _start(made, node_name, slots)
    replace(record, msgspec.json.encode(made), mode=0o600)
    return made


def had_one(folder: Path) -> bool:
    """Whether a head was ever started in this folder: its token stays."""
    return (folder / TOKEN).exists()


def stop(folder: Path) -> bool:
    """End the head that was started in this folder and all that belongs to it; False if none is."""
    record = folder / "head.json"
    try:
        found = msgspec.json.decode(record.read_bytes(), type=Head)
    except (OSError, msgspec.MsgspecError):
        return False
    for pid in processes_of(found):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    record.unlink()
    shutil.rmtree(found.folder, ignore_errors=True)
    return True


def _start(made: Head, node_name: str, slots: int | None) -> None:
    host, _, port = made.address.rpartition(":")
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head"]
    command += [f"--node-ip-address={host}", f"--port={port}", f"--node-name={node_name}"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    command += [f"--temp-dir={made.folder}", f"--object-store-memory={OBJECT_STORE_BYTES}"]
    command += [] if slots is None else [f"--num-cpus={slots}"]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **made.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=START_WITHIN_S,
            check=False,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        raise EngineError(
            f"Ray's head did not start within {START_WITHIN_S:.0f} s; its logs are in "
            f"{made.folder}",
            retryable=True,
        ) from None
    if done.returncode:
        lines = done.stdout.decode(errors="replace").strip().splitlines()
        raise EngineError(
            f"Ray's head did not start: {lines[-1][:200] if lines else done.returncode}",
            retryable=True,
        )


def processes_of(found: Head) -> list[int]:
    """Those that have the head's own folder in their command line, the raylet's workers too."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if found.folder.encode() in path.read_bytes() and path.stat().st_uid == os.geteuid():
                pids.append(int(path.parent.name))
    return [pid for pid in pids if pid != os.getpid()]
