"""Where the members of an attempt meet: torch's TCPStore, in a process of the job's interpreter.

The supervisor binds the port and starts that process (treadle/train/meeting.py) when members are
about to meet. A group that stands does not need it. If it has died, another one serves the same
port before the next group is formed, and answers those who are connected already.

Part of the supervisor: it imports the standard library alone.
"""

import os
import socket

from treadle.engines.node.rank_start import RankStart
from treadle.engines.node.ranks import Rank

LOOPBACK = "127.0.0.1"
BACKLOG = 4096
NAME = "meeting"  # of the log of its process


def bound(address: str, port: int = 0) -> socket.socket:
    """A port that others find closed until somebody listens on it; 0: any. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # An agent keeps the port that it has given until somebody listens there.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    return listener


class Meeting:
    """One port, and the process that serves it."""

    def __init__(self, address: str = LOOPBACK) -> None:
        self._listener = bound(address)
        self._host, self._port = address, int(self._listener.getsockname()[1])
        self.where = f"{address}:{self._port}"
        # Others can reach the port, and cannot guess the names of what is kept there.
        self.room = f"{self.where}/{os.urandom(8).hex()}"
        self.servers: list[Rank] = []  # the last one serves

    def serve(self, starts: RankStart, python: str) -> tuple[Rank, int] | None:
        """Start a process if none serves: that one, and where it says that it begins.

        python: the interpreter; empty: no members are about to meet.
        """
        if not python or (self.servers and self.servers[-1].code is None):
            return None
        self._listener.listen(BACKLOG)
        command = [python, "-m", "treadle.train.meeting", self._host, str(self._port)]
        channel = self._listener.fileno()
        extra = {"env": {"TREADLE_CHANNEL": str(channel)}}
        server, heard = starts.start(-1, extra, channel, name=NAME, command=command)
        self.servers.append(server)
        return server, heard

    def close(self) -> None:
        self._listener.close()
