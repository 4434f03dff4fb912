"""A Ray head of Treadle's own, on this machine and on loopback alone.

It outlives the daemon, as the jobs do, and the next `treadle up` finds it by its record. Everybody
who may connect to Ray may run programs as its user, and all users of a machine may connect to
loopback: so it asks for a token, which is in a file that only its owner reads.
"""

import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from treadle.core.errors import EngineError, InvalidInputError
from treadle.engines.clusters.ray.address import check_answers, free_port, surroundings
from treadle.engines.node import processes
from treadle.engines.node.processes import ProcessId
from treadle.files import replace

START_WITHIN_S = 50.0
TOKEN = "token"  # its file
_PREFIX = "treadle-ray-"  # of the folder that Ray is given
_MADE = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}", re.ASCII)
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
        folder=tempfile.mkdtemp(prefix=_PREFIX),
    )
    _start(made, node_name, slots)
    replace(record, msgspec.json.encode(made), mode=0o600)
    return made


def had_one(folder: Path) -> bool:
    """Whether a head was ever started in this folder: its token stays."""
    return (folder / TOKEN).exists()


def stop(folder: Path) -> int | None:
    """End the head that was started in this folder, and remove its files.

    How many of its processes were ended; None if there is no record of a head. Raises
    InvalidInputError, and touches nothing, if that is not this user's, or names what Treadle does
    not make.
    """
    record = folder / "head.json"
    try:
        found = msgspec.json.decode(record.read_bytes(), type=Head)
    except (OSError, msgspec.MsgspecError):
        return None
    for path in (folder, record):
        _check_own(path)
    _check_made(Path(found.folder))
    own = processes_of(found)
    ended = sum(processes.send(process, signal.SIGKILL) for process in own)
    record.unlink()
    shutil.rmtree(found.folder, ignore_errors=True)
    return ended


def _check_own(path: Path) -> None:
    owner = path.lstat().st_uid
    if owner != os.geteuid():
        raise InvalidInputError(
            f"{path} belongs to user {owner}, and this is user {os.geteuid()}: the owner of a head "
            "ends it"
        )


def _check_made(folder: Path) -> None:
    """Raise InvalidInputError if a folder is none that `head` makes for Ray."""
    places = {Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")}
    if folder.parent not in places or not _MADE.fullmatch(folder.name):
        raise InvalidInputError(
            f"the record of the head names {folder}, which is no folder that Treadle makes for "
            "Ray; nothing was ended"
        )
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise InvalidInputError(f"{folder} is no folder; nothing was ended")
        _check_own(folder)


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


def processes_of(found: Head) -> list[ProcessId]:
    """Ray's own programs of this user that were started for the head's folder.

    Workers of a raylet that have taken another command line end with it.
    """
    own = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            pid = int(path.name)
            start = processes.start_of(pid)
            if start is None or path.stat().st_uid != os.geteuid() or pid == os.getpid():
                continue
            if _is_rays(words) and any(_is_under(word, found.folder) for word in words):
                own.append(ProcessId(pid, start))
    return own


def _is_rays(words: Sequence[str]) -> bool:
    """Whether a command line is that of a program of Ray, or of a module of it under Python."""
    program = Path(words[0]).name
    if program in ("raylet", "gcs_server"):
        return True
    scripts = [word for word in words[1:] if word.endswith(".py")]
    return program.startswith("python") and any("/ray/" in script for script in scripts[:1])


def _is_under(word: str, folder: str) -> bool:
    """Whether a word, or the value of an option, is a path in the folder."""
    path = word.partition("=")[2] if word.startswith("-") else word
    return path == folder or path.startswith(f"{folder}/")
