"""200 open streams of the web page while 50 events a second happen: what they cost the daemon.

    python -m benchmarks.page_streams
    python -m benchmarks.page_streams --jobs 5000 --devices 512

A real daemon with the engine in memory and real connections over loopback. Events are made by
changing jobs in bulk. The CPU time of the daemon is read with no stream open and with
all of them, and the difference is what the streams cost. CPU time depends on the machine: the loop
of speed.py takes 0.6 s on a good one.

What becomes of readers that take nothing is measured by benchmarks.page_slow.
"""

import argparse
import asyncio
import os
import pwd
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.speed import calibrate

from treadle.client import Client
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.wire.job_orders import Verb
from treadle.wire.jobs import JobChange, JobRequest
from treadle.wire.machine import Role, TokenRequest

CHANGED = 25  # jobs that are changed each second, with two events each
FRAME_MAX = 2**26  # bytes; of many jobs the first frame is long
PER_USER = 60  # streams; the server takes 64 of one user


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=CHANGED)
    parser.add_argument("--devices", type=int, default=8)
    asked = parser.parse_args()
    with daemon_in_memory(asked.devices) as (client, pid):
        changed = _submit(client, asked.jobs)
        asyncio.run(_measure(client, changed, pid, asked.streams, asked.seconds))


@contextmanager
def daemon_in_memory(devices: int) -> Iterator[tuple[Client, int]]:
    """A client of a daemon with the engine in memory and a port, and its process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.sock"
        words = ["up", "--foreground", "--engine", "memory", "--port", "0"]
        words += ["--devices", str(devices)]
        words += ["--state", f"{folder}/state", "--socket", str(path)]
        daemon = subprocess.Popen(
            [sys.executable, "-m", "treadle", *words], stderr=subprocess.DEVNULL
        )
        try:
            until_there(path)
            with Client(f"unix:{path}") as client:
                yield client, daemon.pid
        finally:
            daemon.terminate()
            daemon.wait(20)


def _submit(client: Client, jobs: int) -> list[str]:
    """The jobs that will be changed, which are held; the others run, or wait for devices."""
    if jobs > CHANGED:
        members = f"0-{jobs - CHANGED - 1}"
        client.submit(JobRequest(command=("forever",), array=members))
    held = JobRequest(command=("true",), held=True)
    return [client.submit(held).id for _ in range(CHANGED)]


async def _measure(client: Client, jobs: list[str], pid: int, streams: int, seconds: float) -> None:
    status = client.status()
    print(f"running, waiting, devices  {status.running:8} {status.waiting} {status.devices}")
    alone, events = await _with_events(client, jobs, pid, seconds)
    tokens = tokens_of(client, streams)
    url = urlsplit(client.status().url)
    heard = [0] * streams
    readers = [
        asyncio.create_task(_read(url.hostname or "", url.port or 0, token, heard, number))
        for number, token in enumerate(tokens)
    ]
    await asyncio.sleep(5)
    before = sum(heard)
    beside, _ = await _with_events(client, jobs, pid, seconds)
    print(f"events a second            {events:8.1f}")
    print(f"daemon without streams     {alone:8.1%} of a core")
    print(f"with {streams} streams          {beside:8.1%} of a core")
    print(f"the streams                {beside - alone:8.1%} of a core")
    print(f"frames a second and stream {(sum(heard) - before) / seconds / streams:8.2f}")
    print(f"streams that are open      {sum(not each.done() for each in readers):8}")
    print(f"calibration                {calibrate():8.2f} s (0.6 on a good machine)")
    for each in readers:
        each.cancel()
    await asyncio.gather(*readers, return_exceptions=True)


def open_streams(client: Client) -> int:
    figures = client.metrics()
    found = re.search(r"^treadle_http_streams (\S+)", figures, re.MULTILINE)
    return int(float(found[1])) if found else 0


def resident_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


async def _with_events(
    client: Client, jobs: list[str], pid: int, seconds: float
) -> tuple[float, float]:
    """Share of a core that the daemon took while events happened, and how many a second."""
    first = client.events_last(limit=1).next
    began, cpu = time.monotonic(), _cpu_s(pid)
    turn = 0
    while time.monotonic() - began < seconds:
        turn += 1
        change = JobChange(priority=turn % 5)
        await asyncio.to_thread(client.order, Verb.CHANGE, jobs, change=change)
        await asyncio.sleep(max(0.0, began + turn - time.monotonic()))
    took = time.monotonic() - began
    events = client.events_last(limit=1).next - first
    return (_cpu_s(pid) - cpu) / took, events / took


def tokens_of(client: Client, streams: int) -> list[str]:
    """One for each stream, of as many users as are needed."""
    names = [pwd.getpwuid(os.getuid()).pw_name] + [each.pw_name for each in pwd.getpwall()]
    users = list(dict.fromkeys(names))[: -(-streams // PER_USER)]
    made = [
        client.make_token(TokenRequest(name="bench", user=user, role=Role.VIEWER)).token
        for user in users
    ]
    return [made[number % len(made)] for number in range(streams)]


async def _read(host: str, port: int, token: str, heard: list[int], number: int) -> None:
    reader, writer = await asyncio.open_connection(host, port, limit=FRAME_MAX)
    try:
        head = f"GET /api/v1/stream HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer "
        writer.write(f"{head}{token}\r\n\r\n".encode())
        while line := await reader.readline():
            heard[number] += line.startswith(b"event: tick")
    finally:
        writer.close()


def _cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def until_there(path: Path) -> None:
    end_at = time.monotonic() + 60
    with Client(f"unix:{path}") as client:
        while True:
            try:
                client.status()
            except (UnreachableError, NoAnswerError):
                assert time.monotonic() < end_at, "the daemon did not start"
                time.sleep(0.05)
            else:
                return


if __name__ == "__main__":
    main()
