"""Readers of the web page's stream that take nothing: are they dropped, and what do they miss?

    python -m benchmarks.page_slow
    python -m benchmarks.page_slow --readers 100

A real daemon with the engine in memory and real connections over loopback. One reader takes every
frame, and so says what there was. The others ask for the stream with a small receive buffer and
then read nothing. Long frames (hundreds of jobs change at once) fill the kernel's buffers within
seconds, since a connection over loopback takes megabytes before anybody has to wait. From then on
25 jobs change every second, as in `benchmarks.page_streams`, until the daemon has dropped them all.
Then each reads what had reached it, asks for the stream after the last id that it has in full, and
reads on to the newest frame: what it has got is compared with what there was, byte by byte.

What the daemon holds for them is its memory and, outside of it, the send buffers of the kernel,
which /proc/net/tcp shows. Exits with 1 if a frame was missed or a reader is still there.
"""

import argparse
import hashlib
import itertools
import re
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.page_streams import daemon_in_memory, open_streams, resident_mib, tokens_of

from treadle.client import Client
from treadle.wire.job_orders import Verb
from treadle.wire.jobs import JobChange, JobRequest

JOBS = 240  # two events for each change: two orders between two looks fit into one frame
FEW = 25
LONG_FRAMES_MIB = 6.0  # of each reader; a connection over loopback takes 2 to 4
RECEIVE_BYTES = 4096
WARM_S = 8.0
PATIENCE_S = 30.0


class Frame(NamedTuple):
    kind: str
    id: int
    digest: str


@dataclass(slots=True)
class Heard:
    """What one connection brought, frame by frame."""

    frames: list[Frame] = field(default_factory=list)
    size: int = 0
    _rest: bytes = b""

    def take(self, piece: bytes) -> None:
        self.size += len(piece)
        *whole, self._rest = (self._rest + piece).split(b"\n\n")
        for text in whole:
            kind = re.search(rb"^event: (\w+)$", text, re.MULTILINE)
            number = re.search(rb"^id: (\d+)$", text, re.MULTILINE)
            if kind and number:
                digest = hashlib.sha256(text).hexdigest()
                self.frames.append(Frame(kind[1].decode(), int(number[1]), digest))


class Server(NamedTuple):
    host: str
    port: int

    def ask(self, token: str, *, after: int | None = None, room: int = 0) -> socket.socket:
        """A connection that has asked for the stream; HTTP/1.0 has no chunks in its answers."""
        made = socket.socket()
        if room:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        made.connect((self.host, self.port))
        query = "" if after is None else f"?after={after}"
        head = f"GET /api/v1/stream{query} HTTP/1.0\r\nHost: {self.host}:{self.port}\r\n"
        made.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        made.settimeout(PATIENCE_S)
        return made

    def unsent_mib(self) -> float:
        """What the kernel holds of answers that nobody took."""
        here = f":{self.port:04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        sent = (int(row[4].partition(":")[0], 16) for row in rows if row[1].endswith(here))
        return sum(sent) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=150.0, help="The longest wait.")
    asked = parser.parse_args()
    with daemon_in_memory(8) as (client, pid):
        held = JobRequest(command=("true",), held=True)
        jobs = [client.submit(held).id for _ in range(JOBS)]
        sys.exit(_measured(client, pid, jobs, asked.readers, asked.seconds))


def _measured(client: Client, pid: int, jobs: list[str], readers: int, most_s: float) -> int:
    url = urlsplit(client.status().url)
    server = Server(url.hostname or "", url.port or 0)
    quick_token, *tokens = tokens_of(client, readers + 1)
    there = Heard()
    quick = server.ask(quick_token)
    threading.Thread(target=_follow, args=(quick, there), daemon=True).start()
    began = time.monotonic()
    while time.monotonic() - began < WARM_S:
        _change(client, jobs)
    before_mib = resident_mib(pid)
    slow = [server.ask(token, room=RECEIVE_BYTES) for token in tokens]
    while open_streams(client) < readers + 1:
        time.sleep(0.05)
    began, size_before = time.monotonic(), there.size
    most_mib, unsent_mib, first_s = before_mib, 0.0, None
    while (left := open_streams(client) - 1) and time.monotonic() - began < most_s:
        filled = there.size - size_before > LONG_FRAMES_MIB * 2**20
        _change(client, jobs[:FEW] if filled else jobs)
        most_mib = max(most_mib, resident_mib(pid))
        unsent_mib = max(unsent_mib, server.unsent_mib())
        if left < readers and first_s is None:
            first_s = time.monotonic() - began
    all_s = time.monotonic() - began
    sent_mib = (there.size - size_before) / 2**20
    _change(client, jobs[:FEW])  # Time for the last frame.
    quick.shutdown(socket.SHUT_RDWR)
    missed, anew, early = 0, 0, 0
    for connection, token in zip(slow, tokens, strict=True):
        had, more = _resumed(server, connection, token, there.frames[-1].id)
        first = had.frames[0].id
        wanted = [each for each in there.frames if each.id > first]
        got = [*had.frames[1:], *more.frames]
        missed += len(set(wanted) - set(got)) + _out_of_order(got)
        anew += any(each.kind == "reset" for each in more.frames)
        early += len(had.frames) - 1
    print(f"readers that take nothing      {readers:8}")
    print(f"the first is dropped after     {first_s or all_s:8.0f} s")
    print(f"all but {left:3} after              {all_s:8.0f} s")
    print(f"frames, each, while they were  {sent_mib:8.1f} MiB")
    print(f"for all of them                {sent_mib * readers:8.1f} MiB")
    print(f"the daemon's memory before     {before_mib:8.1f} MiB")
    print(f"the most with them             {most_mib:8.1f} MiB")
    print(f"the most in the kernel         {unsent_mib:8.1f} MiB")
    print(f"ticks that reached one in full {early / readers:8.1f}")
    print(f"ticks from then to the newest  {len(wanted) - early / readers:8.1f}")
    print(f"readers that had to begin anew {anew:8}")
    print(f"frames missed or out of order  {missed:8}")
    return 1 if missed or left else 0


def _follow(connection: socket.socket, heard: Heard) -> None:
    while piece := connection.recv(2**20):
        heard.take(piece)


def _change(client: Client, jobs: list[str]) -> None:
    """All of them at once, and then nothing for the rest of a second."""
    began = time.monotonic()
    change = JobChange(priority=int(began) % 50)
    client.order(Verb.CHANGE, jobs, change=change)
    time.sleep(max(0.0, began + 1.0 - time.monotonic()))


def _resumed(
    server: Server, dropped: socket.socket, token: str, newest: int
) -> tuple[Heard, Heard]:
    """What had reached a reader that was dropped, and what it gets when it comes back."""
    had, more = Heard(), Heard()
    with dropped:
        try:
            while piece := dropped.recv(2**16):
                had.take(piece)
        except ConnectionResetError:
            pass
    with server.ask(token, after=had.frames[-1].id) as back:
        while not more.frames or more.frames[-1].id < newest:
            piece = back.recv(2**20)
            assert piece, "the daemon ended the stream of a reader that reads"
            more.take(piece)
    return had, more


def _out_of_order(frames: list[Frame]) -> int:
    return sum(b.id <= a.id for a, b in itertools.pairwise(frames))


if __name__ == "__main__":
    main()
