"""200 open streams of the web page while 50 events a second happen: what they cost the daemon.

    python -m benchmarks.page_streams

A real daemon with the engine in memory and real connections over loopback. Events are made by
changing jobs in bulk. The CPU time of the daemon is read with no stream open and with
all of them, and the difference is what the streams cost. CPU time depends on the machine: the loop
of `calibration_s` takes 0.6 s on a good one.
"""

import argparse
import asyncio
import os
import pwd
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from treadle.client import Client
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.wire.job_orders import Verb
from treadle.wire.jobs import JobChange, JobRequest
from treadle.wire.machine import Role, TokenRequest

JOBS = 25
PER_USER = 60  # streams; the server takes 64 of one user


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "t.sock"
        words = ["up", "--foreground", "--engine", "memory", "--devices", "8", "--port", "0"]
        words += ["--state", f"{folder}/state", "--socket", str(socket)]
        daemon = subprocess.Popen(
            [sys.executable, "-m", "treadle", *words], stderr=subprocess.DEVNULL
        )
        try:
            until_there(socket)
            with Client(f"unix:{socket}") as client:
                asyncio.run(_measure(client, daemon.pid, asked.streams, asked.seconds))
        finally:
            daemon.terminate()
            daemon.wait(20)


async def _measure(client: Client, pid: int, streams: int, seconds: float) -> None:
    jobs = [client.submit(JobRequest(command=("true",), held=True)).id for _ in range(JOBS)]
    alone, events = await _with_events(client, jobs, pid, seconds)
    tokens = _tokens(client, streams)
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
    print(f"calibration                {calibration_s():8.2f} s (0.6 on a good machine)")
    for each in readers:
        each.cancel()
    await asyncio.gather(*readers, return_exceptions=True)


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
        await asyncio.sleep(max(0.0, began + turn * 0.5 - time.monotonic()))
    took = time.monotonic() - began
    events = client.events_last(limit=1).next - first
    return (_cpu_s(pid) - cpu) / took, events / took


def _tokens(client: Client, streams: int) -> list[str]:
    """One for each stream, of as many users as are needed."""
    names = [pwd.getpwuid(os.getuid()).pw_name] + [each.pw_name for each in pwd.getpwall()]
    users = list(dict.fromkeys(names))[: -(-streams // PER_USER)]
    made = [
        client.make_token(TokenRequest(name="bench", user=user, role=Role.VIEWER)).token
        for user in users
    ]
    return [made[number % len(made)] for number in range(streams)]


async def _read(host: str, port: int, token: str, heard: list[int], number: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
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


def until_there(socket: Path) -> None:
    end_at = time.monotonic() + 60
    with Client(f"unix:{socket}") as client:
        while True:
            try:
                client.status()
            except (UnreachableError, NoAnswerError):
                assert time.monotonic() < end_at, "the daemon did not start"
                time.sleep(0.05)
            else:
                return


def calibration_s() -> float:
    began, total = time.process_time(), 0
    for number in range(10**7):
        total += number
    return time.process_time() - began


if __name__ == "__main__":
    main()
