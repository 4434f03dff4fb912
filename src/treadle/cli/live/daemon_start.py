"""Start the daemon in the background and wait until it answers.

Two terminals may start it at the same moment: a lock lets one do it, and the other then finds it
running.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from treadle.cli.live.saved_options import recall, remember
from treadle.cli.live.session import Session, note
from treadle.client.address import default_socket
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.wire.machine import Status

STORE_VARIABLE = "TREADLE_STORE"
WAIT_MAX_S = 60.0
REFUSED = 2  # exit code
LOG_BYTES_MAX = 10 << 20
_NOT_KEPT = ("--state", "--policy", "--placement", "--lost-cluster")  # options of one start


class NotStartedError(TreadleError):
    """The daemon ended before it answered, or did not answer in time."""


def state_folder(given: Path | None = None) -> Path:
    """The folder of the daemon's store, its logs and its jobs' files."""
    if given is not None:
        return given.expanduser().absolute()
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "treadle"


def running(here: Session) -> Status | None:
    """The daemon's status; None if none listens. Raises if one listens and does not answer."""
    try:
        return here.client.status()
    except UnreachableError:
        return None


def answer(here: Session) -> Status | None:
    """The daemon's status; None if no daemon answers."""
    try:
        return here.client.status()
    except (UnreachableError, NoAnswerError):
        return None


def start_daemon(
    here: Session,
    words: Sequence[str] = (),
    *,
    state: Path | None = None,
    store: str = "",
    keep: bool = False,
) -> Status:
    """Start `treadle up --foreground` with these options, detached from this terminal.

    The store's address goes through the environment, since all users can read a command line. With
    `keep` the options are saved for the next start.
    """
    folder = state_folder(state)
    log = folder / "daemon.log"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock(folder / "up.lock"):
            found = answer(here)
            if found is not None:
                return found
            begins = _make_room(log)
            process = _spawn(words, log, {STORE_VARIABLE: store} if store else {})
            found = _await(here, process, log, begins)
            if keep:
                _keep(folder, words, store)
            return found
    except OSError as error:
        raise NotStartedError(
            f"the daemon cannot be started in {folder}: {error.strerror or error}"
        ) from None


def start_as_last(here: Session) -> Status:
    """Start it with the options of the last `treadle up`, on the socket that this command uses."""
    socket = default_socket().absolute()
    last = recall(state_folder())
    words = [*_without(last.words, "--socket"), "--socket", str(socket)]
    return start_daemon(here, words, store=os.environ.get(STORE_VARIABLE) or last.store)


def _without(words: Sequence[str], *options: str) -> list[str]:
    """The words without those options and their one value each."""
    kept = list(words)
    for option in options:
        if option in kept:
            place = kept.index(option)
            del kept[place : place + 2]
    return kept


def _keep(folder: Path, words: Sequence[str], store: str) -> None:
    """Save the options for the next start; a failure is only noted, since the daemon runs.

    The state folder is where the file is, and the policy, which may be switched, is in the store.
    That a cluster is lost is said once.
    """
    try:
        remember(folder, _without(words, *_NOT_KEPT), store)
    except OSError as error:
        note(f"the options could not be saved for the next start: {error.strerror or error}")


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _spawn(words: Sequence[str], log: Path, secrets: dict[str, str]) -> "subprocess.Popen[bytes]":
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    descriptor = os.open(log, flags, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "treadle", "up", "--foreground", *words],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            cwd="/",
            env={**os.environ, **secrets},
            start_new_session=True,
        )
    finally:
        os.close(descriptor)


def _make_room(log: Path) -> int:
    """Rotate a log that is too long; returns where the new daemon's lines begin."""
    size = log.lstat().st_size if log.exists() else 0
    if size <= LOG_BYTES_MAX:
        return size
    log.replace(log.with_name(f"{log.name}.1"))
    return 0


def _await(here: Session, process: "subprocess.Popen[bytes]", log: Path, begins: int) -> Status:
    begun_s = here.stopwatch()
    while True:
        found = answer(here)
        if found is not None:
            process.returncode = 0  # It keeps running: without this, Python warns about that.
            return found
        if process.poll() is not None:
            # A refusal is the user's to mend, as if this command had refused.
            kind = InvalidInputError if process.returncode == REFUSED else NotStartedError
            raise kind(f"the daemon did not start: {_last_words(log, begins)}")
        if here.stopwatch() - begun_s > WAIT_MAX_S:
            raise NotStartedError(
                f"the daemon (pid {process.pid}) has not answered for {WAIT_MAX_S:.0f} s; see {log}"
            )
        here.pause(0.02)


def _last_words(log: Path, begins: int) -> str:
    """The error message that it ended with, or where to look for it."""
    try:
        with log.open("rb") as file:
            file.seek(max(begins, log.stat().st_size - 65_536))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        lines = []
    said = [line.removeprefix("treadle: ") for line in lines if line.startswith("treadle: ")]
    return said[-1] if said else f"see {log}"
