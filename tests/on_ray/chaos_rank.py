"""A rank that writes down what it does, for a judge who believes nobody else.

    python chaos_rank.py DOCUMENT

Each process appends to a file of its own: a line when it begins, with node and device, a line for
each step, and one when it ends. Moments are by the clock that counts from the start of the machine.
The node is the network namespace that the process is in, whatever Treadle calls it.

Ranks of several processes meet at each step over the network. One that has lost its peers waits
for them, for ever or as long as its patience lasts. On several nodes they find each other through
the store that Treadle serves there. Standard library alone.
"""

import json
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

STEP_S = 0.1
FAILS_AT = 5  # the step
LOST_PEERS = 9  # exit code
AGAIN_S = 0.1


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Peers:
    """All ranks of the attempt: the first one hears the others and answers when all have spoken."""

    def __init__(self, patience_s: float | None) -> None:
        self._rank, self._world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._patience_s = patience_s
        self._links: list[socket.socket] = []
        if self._world > 1:
            try:
                self._join((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
            except OSError:
                self._give_up()

    def _join(self, master: tuple[str, int]) -> None:
        # Where there is a store, the port of the master is its own.
        served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        if self._rank == 0:
            with socket.create_server((master[0], 0) if served else master) as server:
                if served:
                    with self._connected(master) as store:
                        tell_port(store, server.getsockname()[1])
                server.settimeout(self._patience_s)
                self._links = [server.accept()[0] for _ in range(self._world - 1)]
        else:
            if served:
                with self._connected(master) as store:
                    master = (master[0], asked_port(store))
            self._links = [self._connected(master)]
        for link in self._links:
            link.settimeout(self._patience_s)

    def _connected(self, master: tuple[str, int]) -> socket.socket:
        begun = now()
        while True:
            try:
                link = socket.create_connection(master, timeout=self._patience_s or 2.0)
            except OSError:
                if self._patience_s is not None and now() - begun > self._patience_s:
                    raise
                time.sleep(AGAIN_S)
            else:
                link.settimeout(self._patience_s)
                return link

    def meet(self) -> None:
        """Return when all ranks have come here."""
        try:
            if self._rank:
                self._links[0].sendall(b"x")
            for link in self._links:
                if not link.recv(1):
                    self._give_up()
            if not self._rank:
                for link in self._links:
                    link.sendall(b"x")
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        if self._patience_s is not None:
            os._exit(LOST_PEERS)
        while True:
            signal.pause()


# -- commands of a TCPStore: a byte for the command, then its values -------------------------------


def _sized(value: bytes) -> bytes:
    return struct.pack("=Q", len(value)) + value


KEY = _sized(b"port")
HELLO = struct.pack("=BI", 0, 0x3C85F7CE)
SET, GET, WAIT = b"\x01" + KEY, b"\x03" + KEY, b"\x06" + struct.pack("=Q", 1) + KEY


def tell_port(store: socket.socket, port: int) -> None:
    store.sendall(HELLO + SET + _sized(str(port).encode()) + WAIT)
    _received(store, 1)  # It is there.


def asked_port(store: socket.socket) -> int:
    store.sendall(HELLO + WAIT)
    _received(store, 1)
    store.sendall(GET)
    (size,) = struct.unpack("=Q", _received(store, 8))
    return int(_received(store, size))


def _received(link: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = link.recv(count - len(found))
        if not more:
            raise OSError("the store is gone")
        found += more
    return found


# -- what a rank does -----------------------------------------------------------------------------


class Record:
    """The file of one process."""

    def __init__(self, folder: Path, **head: Any) -> None:
        name = f"{os.environ['TREADLE_JOB_ID']}.{head['attempt']}.{head['rank']}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._file = os.open(folder / name, flags, 0o600)
        self.say(begin=now(), **head)

    def say(self, **words: Any) -> None:
        os.write(self._file, json.dumps(words).encode() + b"\n")


def _claim_failure(folder: Path, name: str, fails: int) -> bool:
    """Whether this attempt is one of those that fail; it is counted then."""
    for number in range(fails):
        try:
            (folder / f"{name}.{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return True
    return False


def main() -> None:
    work = json.loads(sys.argv[1])
    if work["stubborn"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rank, devices = int(os.environ["RANK"]), os.environ["TREADLE_DEVICES"].split(",")
    kept = Path(os.environ["TREADLE_CHECKPOINT_DIR"]) / "step"
    step = int(kept.read_text()) if work["resumable"] and kept.exists() else 0
    record = Record(
        Path(work["records"]),
        name=work["name"],
        job=os.environ["TREADLE_JOB_ID"],
        attempt=int(os.environ["TREADLE_ATTEMPT"]),
        tag=os.environ["TREADLE_ATTEMPT_TAG"],
        rank=rank,
        world=int(os.environ["WORLD_SIZE"]),
        net=Path("/proc/self/ns/net").stat().st_ino,
        device=int(devices[int(os.environ["LOCAL_RANK"])]),
        step=step,
    )
    peers, own = Peers(work["patience_s"]), 0
    while step < work["steps"]:
        peers.meet()
        time.sleep(STEP_S)
        step, own = step + 1, own + 1
        if work["resumable"] and rank == 0:
            through = kept.with_suffix(".new")
            through.write_text(str(step))
            through.replace(kept)
        record.say(at=now(), step=step)
        fails = work["fails"] if own == FAILS_AT and rank == 0 else 0
        if _claim_failure(Path(work["failures"]), work["name"], fails):
            record.say(at=now(), code=work["code"])
            os._exit(work["code"])
    record.say(at=now(), code=0)


if __name__ == "__main__":
    main()
