"""A daemon that is there and does not answer: stopped, hung, or listening somewhere else.

Without a look at it `treadle down` would find no daemon, and `treadle up` would be refused because
of one.
"""

import socket
import struct
from pathlib import Path

from treadle.cli.live.session import Session, remote
from treadle.cli.show.wording import plain
from treadle.client.address import find_address
from treadle.client.errors import UnreachableError
from treadle.client.exchange import check_owner
from treadle.core.errors import TreadleError

# How long it may take to begin an answer. A healthy one takes milliseconds; on a machine that is
# very busy it may take seconds.
WITHIN_S = 10.0
LEAVES_WITHIN_S = 5.0  # it closes its socket first, and gives up its folder last
_QUESTION = b"GET /api/v1/health HTTP/1.1\r\nHost: treadle\r\nConnection: close\r\n\r\n"
_CREDENTIALS = struct.Struct("iII")  # pid, user, group
_RUNS_ON = "its jobs run on, and the next treadle up takes them over"


class SilentDaemonError(TreadleError):
    """A daemon runs on this machine and does not answer."""


def check_answers(within_s: float = WITHIN_S) -> None:
    """Raise if a daemon of this machine listens and does not answer.

    That none listens is no error: the caller finds that out. A socket of another user is not asked.
    """
    if remote():
        return
    address = find_address()
    try:
        check_owner(address)
    except UnreachableError:
        return
    if because := _silence(Path(address.socket), within_s):
        raise SilentDaemonError(because)


def check_not_held(here: Session, folder: Path) -> None:
    """Raise if a daemon holds the state folder; asked when none listens on the socket."""
    # Only where no daemon answers is the time for the store's imports worth it.
    from treadle.store.bond import LOCK  # noqa: PLC0415
    from treadle.store.filelock import holder_of  # noqa: PLC0415

    begun_s = here.stopwatch()
    while True:
        try:
            holder = holder_of(folder / LOCK)
        except OSError:  # Another user's, perhaps.
            return
        if holder is None:
            return
        if here.stopwatch() - begun_s > LEAVES_WITHIN_S:
            break
        here.pause(0.1)
    number = holder.process.removeprefix("process ")
    how = "end it there"
    if number.isdigit():
        how = f"kill {number} ends it (kill -9 {number} if it hangs); {_RUNS_ON}"
    raise SilentDaemonError(
        f"no daemon answers on {plain(find_address().socket)}, but {holder.process or 'one'} holds "
        f"the state folder {plain(str(folder))}: it listens on another socket (TREADLE_SOCKET), is "
        f"just starting, or hangs; {how}"
    )


def _silence(path: Path, within_s: float) -> str:
    """What is wrong with the process that listens there; empty if it answers, or none listens."""
    pid = 0
    with socket.socket(socket.AF_UNIX) as there:
        there.settimeout(within_s)
        try:
            there.connect(str(path))
            found = there.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid = _CREDENTIALS.unpack(found)[0]
            there.sendall(_QUESTION)
            there.recv(1)
        except TimeoutError:
            return _hangs(pid, within_s)
        except OSError:  # None listens, or it ends just now.
            return ""
    return ""


def _hangs(pid: int, within_s: float) -> str:
    who, how = f"the daemon (process {pid})", f"kill -9 {pid} ends it; {_RUNS_ON}"
    if not pid:  # It has not even taken the connection.
        who, how = "a daemon listens and", f"treadle doctor names its process; {_RUNS_ON}"
    return (
        f"{who} has not answered for {within_s:g} s: it is very busy, hangs, or was stopped by a "
        f"signal; {how}"
    )
