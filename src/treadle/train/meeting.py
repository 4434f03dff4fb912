"""Where the members of an attempt meet: torch's TCPStore, in a process of its own.

    python -m treadle.train.meeting HOST PORT

The supervisor starts that process in the job's interpreter, and gives it the socket that listens
there as its channel. A group that stands does not need the store.
"""

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, TCPStore

from treadle.train.forming import call

_NEVER_CUT: Callable[[], bool] = lambda: False  # noqa: E731


def store_at(
    where: str, timeout: timedelta, is_cut: Callable[[], bool] = _NEVER_CUT
) -> PrefixStore:
    """The part of a store that is one group's; where: "HOST:PORT/NAME".

    Each group has a connection of its own: one that waits in vain is busy until its timeout.
    """
    address, _, name = where.partition("/")
    host, _, port = address.rpartition(":")
    found: list[TCPStore] = []
    call(lambda: found.append(TCPStore(host, int(port), is_master=False, timeout=timeout)), is_cut)
    return PrefixStore(name, found[0])


def main(host: str, port: int) -> None:
    """Serve until the supervisor ends this process."""
    listener = int(os.environ["TREADLE_CHANNEL"])
    served = TCPStore(  # noqa: F841  # It serves as long as there is a name for it.
        host, port, is_master=True, wait_for_workers=False, master_listen_fd=listener
    )
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
