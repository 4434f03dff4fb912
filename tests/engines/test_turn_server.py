"""The turn server with real processes and the client of the train library."""

import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from treadle.engines.node.turn_link import TurnLink
from treadle.train.stages import WARM_UP_STEPS, Stages, TurnClient

STEPS = textwrap.dedent("""
    import os, sys, time
    from treadle.train.stages import Stages, TurnClient
    client = TurnClient.from_environment(os.environ)
    stages = Stages(client)
    while not client.wanted and sys.argv[1] != "free":
        client.take("device")
    print("ready", flush=True)
    with stages.stage("compute"):
        print("in", time.monotonic(), flush=True)
        sys.stdin.readline()
    print("out", time.monotonic(), flush=True)
    sys.stdin.readline()
""")


Clients = Callable[[str], TurnClient]


@pytest.fixture
def link() -> Iterator[TurnLink]:
    found = TurnLink("turns")
    yield found
    found.close()


@pytest.fixture
def client_of(link: TurnLink) -> Iterator[Callable[[str], TurnClient]]:
    made: list[TurnClient] = []

    def make(job: str) -> TurnClient:
        env = {"TREADLE_JOB_ID": job, "TREADLE_ATTEMPT": "1", **link.environment(job, 1, [0])}
        client = TurnClient.from_environment(env)
        assert client is not None
        made.append(client)
        return client

    yield make
    for client in made:
        client.leave()


def process_of(link: TurnLink, job: str) -> "subprocess.Popen[str]":
    env = {**os.environ, "TREADLE_JOB_ID": job, "TREADLE_ATTEMPT": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", STEPS, "turns"],
        env={**env, **link.environment(job, 1, [0])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def until_wanted(client: TurnClient) -> None:
    """Until the server has said that turns are to be taken; nothing is asked for before."""
    limit = time.monotonic() + 20
    while not client.wanted and time.monotonic() < limit:
        client._hear(0.1)
    assert client.wanted


def started(link: TurnLink) -> "subprocess.Popen[bytes]":
    """The server, which the first call starts."""
    limit = time.monotonic() + 20
    while link._process is None and time.monotonic() < limit:
        threading.Event().wait(0.01)
    assert link._process is not None
    return link._process


def test_a_job_that_is_alone_asks_for_nothing(client_of: Clients) -> None:
    client = client_of("a")
    stages = Stages(client)
    for _ in range(WARM_UP_STEPS + 3):
        with stages.stage("compute"):
            pass
        stages.step_done()
    assert client.wanted == frozenset()
    times = stages.times()
    assert times is not None
    assert times.steps == 3


def test_two_jobs_are_never_in_the_same_stage_and_a_dead_holder_frees_it(
    link: TurnLink, client_of: Clients
) -> None:
    """1. A process holds the turn. 2. It is killed. 3. The other has the turn within 100 ms."""
    client = client_of("b")
    other = process_of(link, "a")
    until_wanted(client)
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    assert other.stdout.readline().startswith("in")
    granted_at: list[float] = []

    def take() -> None:
        with Stages(client).stage("compute"):
            granted_at.append(time.monotonic())

    waiting = threading.Thread(target=take)
    waiting.start()
    waiting.join(0.2)
    assert not granted_at, "the other holds it"
    killed_at = time.monotonic()
    other.kill()
    waiting.join()
    assert granted_at[0] - killed_at < 1.0, "0.1 s on a quiet machine"
    assert client._link is not None, "it was granted, not given up"
    other.communicate()


def test_a_server_that_dies_leaves_jobs_that_share_freely(
    link: TurnLink, client_of: Clients
) -> None:
    first, second = client_of("a"), client_of("b")
    until_wanted(first)
    until_wanted(second)
    assert first.take("device")
    process = started(link)
    process.kill()
    process.wait()
    assert not second.take("device")
    assert not second.wanted
    third = client_of("c")  # a new server
    assert third._link is not None


def test_a_job_cannot_ask_for_a_device_that_it_was_not_given(link: TurnLink) -> None:
    env = {"TREADLE_JOB_ID": "a", "TREADLE_ATTEMPT": "1", **link.environment("a", 1, [0])}
    env["TREADLE_TURNS_RESOURCES"] += " device:1"
    client = TurnClient.from_environment(env)
    assert client is not None
    assert not client._hear(10.0)
    assert client._link is None, "the server hung up"


NONSENSE = [b"x\n", b"hello {}\n", b"hello 3\n", b"a gpu\n", b"z" * 9000, b"hello " + b"[" * 3000]


def test_nonsense_ends_the_connection_and_nothing_else(link: TurnLink, client_of: Clients) -> None:
    good = client_of("a")
    for sent in NONSENSE:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bad:
            bad.connect("\0" + link.environment("x", 1, [0])["TREADLE_TURNS"])
            bad.sendall(sent + b"\n")
            bad.settimeout(10)
            with suppress(ConnectionResetError):  # It did not read all of it.
                assert bad.recv(16) == b""
    good.take("device")
    assert good._link is not None


def test_a_second_connection_of_a_job_ends_its_first(link: TurnLink, client_of: Clients) -> None:
    client_of("b")
    first, second = client_of("a"), client_of("a")
    until_wanted(second)
    until_left = time.monotonic() + 20
    while first._link is not None and time.monotonic() < until_left:
        first._hear(0.1)
    assert first._link is None


def test_jobs_on_several_devices_that_die_together_leave_the_server_alive(link: TurnLink) -> None:
    """1. One shares a device with each of two others. 2. All die while the server is stopped."""
    clients = {}
    for job, devices in {"a": [0, 1], "b": [0], "c": [1], "d": [2], "e": [2]}.items():
        env = {"TREADLE_JOB_ID": job, "TREADLE_ATTEMPT": "1", **link.environment(job, 1, devices)}
        found = TurnClient.from_environment(env)
        assert found is not None
        clients[job] = found
    for client in clients.values():
        until_wanted(client)
    process = started(link)
    process.send_signal(signal.SIGSTOP)
    for job in "abc":
        clients[job].leave()
    process.send_signal(signal.SIGCONT)
    assert clients["d"].take("device")
    assert clients["d"]._link is not None
    assert process.poll() is None
    for client in clients.values():
        client.leave()


def test_a_line_that_was_closed_or_has_a_high_number_costs_the_job_nothing(
    client_of: Clients,
) -> None:
    first, second = client_of("a"), client_of("b")
    until_wanted(first)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        assert second._link is not None
        number = fcntl.fcntl(second._link.fileno(), fcntl.F_DUPFD_CLOEXEC, 2000)
        second._link.close()
        second._link = socket.socket(fileno=number)
        until_wanted(second)
        assert second.take("device")
        second.leave()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert first._link is not None
    first._link.close()  # as the thread does that gives turns back
    assert not first.take("device")
    assert first._link is None


def test_connections_that_say_nothing_keep_no_job_out(link: TurnLink) -> None:
    env = {"TREADLE_JOB_ID": "a", "TREADLE_ATTEMPT": "1", **link.environment("a", 1, [0])}
    silent = []
    try:
        for _ in range(600):
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            one.connect("\0" + env["TREADLE_TURNS"])
            silent.append(one)
        client = TurnClient.from_environment(env)
        assert client is not None
        client._hear(2.0)
        assert client._link is not None
        client.leave()
    finally:
        for one in silent:
            one.close()


def test_the_server_ends_with_the_engine_and_the_last_job(
    link: TurnLink, client_of: Clients
) -> None:
    client = client_of("a")
    process = started(link)
    link.close()
    assert process.poll() is None, "a job is still connected"
    client.leave()
    assert process.wait(10) == 0
