"""Stages of a step, and turns for those that keep a shared resource busy.

    with stages.stage("compute"): ...

A stage is timed. If the machine's turn server asks for it (jobs share a device, and turns were
seen to be better), entering a stage waits for the turn of its resource. Everywhere else a stage
costs two looks at a clock. Work on a GPU goes on after the program has ordered it: a thread gives
the turn back when the device has done it, and the program goes on meanwhile.

Only rank 0 of a job asks, for all devices of the job at once: the others wait for it in their
collectives anyway, and two jobs can never wait for each other.
"""

import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import NamedTuple

CONNECT_S_MAX = 1.0
WAIT_S_MAX = 5.0  # for a turn; a server that grants nothing for so long is left
REPORT_EVERY_S = 0.25
LINE_BYTES = 4096
RESOURCE = {"load": "storage", "prepare": "cpu", "compute": "device", "sync": "network"}


class StageTimes(NamedTuple):
    """Mean seconds of a step in each stage, and waiting for turns."""

    steps: int
    seconds: dict[str, float]
    waited_s: float


class Stages:
    """The stages of one process."""

    def __init__(self, turns: "TurnClient | None" = None) -> None:
        self._turns = turns
        self._seconds: dict[str, float] = {}
        self._waited_s = 0.0
        self._steps = 0

    @contextmanager
    def stage(self, name: str, *, until: Callable[[], None] | None = None) -> Iterator[None]:
        """Time a stage and take its turn.

        until: waits until the device has done what was ordered in it; called in another thread.
        """
        turns = self._turns
        held = turns is not None and self._take(turns, name)
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - begun
            if held and turns is not None:
                turns.give_back(until)

    def step_done(self) -> None:
        self._steps += 1
        if self._turns is not None:
            self._turns.report(self._steps)

    def times(self) -> StageTimes:
        steps = max(1, self._steps)
        seconds = {name: spent / steps for name, spent in self._seconds.items()}
        return StageTimes(self._steps, seconds, self._waited_s / steps)

    def _take(self, turns: "TurnClient", name: str) -> bool:
        begun = time.perf_counter()
        held = turns.take(RESOURCE.get(name, name))
        self._waited_s += time.perf_counter() - begun
        return held


class TurnClient:
    """A connection to the turn server. Whatever goes wrong with it, the job goes on without."""

    def __init__(self, link: socket.socket) -> None:
        self.wanted: frozenset[str] = frozenset()  # resources to ask for; empty: share freely
        self._link: socket.socket | None = link
        self._heard = b""
        self._lock = threading.Lock()
        self._waits: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._given_back = threading.Event()  # by the thread that waits for the device
        self._given_back.set()
        self._reported_at = 0.0
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> "TurnClient | None":
        """None without a server, and on ranks other than 0."""
        names = ("TREADLE_TURNS", "TREADLE_TURNS_PROOF", "TREADLE_TURNS_RESOURCES")
        if not all(env.get(name) for name in names) or env.get("RANK", "0") != "0":
            return None
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.settimeout(CONNECT_S_MAX)
            link.connect("\0" + env["TREADLE_TURNS"])
            link.setblocking(False)
        except OSError:
            link.close()
            return None
        client = cls(link)
        hello = {
            "job": env.get("TREADLE_JOB_ID", ""),
            "attempt": int(env.get("TREADLE_ATTEMPT", "0")),
            "resources": env["TREADLE_TURNS_RESOURCES"].split(),
            "weight": float(env.get("TREADLE_TURNS_WEIGHT", "1")),
            "proof": env["TREADLE_TURNS_PROOF"],
        }
        client._say("hello " + json.dumps(hello))
        return client

    def take(self, kind: str) -> bool:
        """Wait for the turn of that kind of resource; False if none is needed or can be had."""
        if self._pid != os.getpid():  # a forked child: the connection is its parent's
            return False
        self._hear(0.0)
        resources = [each for each in self.wanted if each.partition(":")[0] == kind]
        if not resources:
            return False
        if self._given_back.wait(WAIT_S_MAX):
            self._say("a " + " ".join(resources))
            if self._hear(WAIT_S_MAX):
                return True
        self.leave()
        return False

    def give_back(self, until: Callable[[], None] | None) -> None:
        if until is None:
            self._say("d")
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="treadle-turns", daemon=True)
            self._thread.start()
        self._given_back.clear()
        self._waits.put(until)

    def report(self, steps: int) -> None:
        now = time.monotonic()
        if now - self._reported_at >= REPORT_EVERY_S and self._pid == os.getpid():
            self._reported_at = now
            self._say(f"s {steps}")

    def leave(self) -> None:
        """Share freely from now on."""
        link, self._link = self._link, None
        self.wanted = frozenset()
        self._given_back.set()
        if link is not None:
            link.close()

    # -- inside ---------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            until = self._waits.get()
            with suppress(Exception):  # An error of the device is the program's to see.
                until()
            self._say("d")
            self._given_back.set()

    def _say(self, line: str) -> None:
        with self._lock:
            if self._link is not None:
                try:
                    self._link.sendall(line.encode() + b"\n")
                except OSError:  # gone, or it does not read
                    self.leave()

    def _hear(self, within_s: float) -> bool:
        """Read what the server says; whether it granted a turn, if that is waited for."""
        until = time.monotonic() + within_s
        granted = False
        while (link := self._link) is not None:
            left_s = until - time.monotonic() if within_s and not granted else 0.0
            ready, _, _ = select.select([link], [], [], max(0.0, left_s))
            if not ready:
                return granted
            try:
                data = link.recv(LINE_BYTES)
            except OSError:
                data = b""
            if not data:
                self.leave()
                return False
            *lines, self._heard = (self._heard + data).split(b"\n")
            for line in lines:
                granted |= self._take(line.decode(errors="replace").split())
            if granted:
                return True
        return False

    def _take(self, words: list[str]) -> bool:
        if words[:1] == ["w"]:
            self.wanted = frozenset(words[2:])
        return words == ["g"]
