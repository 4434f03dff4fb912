"""Stages of a step: timed, and in turns where jobs share a device and turns were seen to be better.

    stages.enter("load"); ...; stages.enter("compute"); ...; stages.step_done(); stages.enter(None)
    with stages.stage("prepare"): ...          # within another one

Each moment belongs to one stage. On a GPU, work goes on after the program has ordered it: the time
of `compute` is read from the device's own events, and a thread gives a turn back when the device is
done, while the program goes on. Without company a stage costs two looks at a clock.

Only rank 0 of a job asks for turns, for all devices of the job at once: the others wait for it in
their collectives anyway, and two jobs can never wait for each other.
"""

import json
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

CONNECT_S_MAX = 1.0
WAIT_S_MAX = 5.0  # for a turn; a server that grants nothing for so long is left
REPORT_EVERY_S = 0.25
LINE_BYTES = 4096
RESOURCE = {"load": "storage", "prepare": "cpu", "compute": "device", "sync": "network"}
WARM_UP_STEPS = 3  # not counted: libraries choose their kernels in them
EVENTS_MAX = 64  # of the device, that were not read yet


class StageTimes(NamedTuple):
    """Mean seconds of a step, in each stage, and waiting for turns."""

    steps: int
    step_s: float
    seconds: dict[str, float]
    waited_s: float


class Stages:
    """The stages of one process.

    device: the GPU whose time `compute` takes; None: the program's own time counts.
    """

    def __init__(self, turns: "TurnClient | None" = None, device: Any = None) -> None:  # noqa: ANN401
        self._turns = turns
        self._gpu = None if device is None or device.type != "cuda" else _DeviceTime()
        self._now: str | None = None
        self._since = 0.0
        self._held = False  # the turn of the present stage
        self._steps = 0
        self.forget()

    def forget(self) -> None:
        """Count from here: the group is another, or only begins."""
        self._warm_up = WARM_UP_STEPS
        self._clear()

    def leave_turns(self) -> None:
        """The devices are others: what this job was given turns of is no more."""
        if self._turns is not None:
            self._turns.leave()
            self._turns = None

    def enter(self, name: str | None) -> None:
        """End the present stage and begin this one; None: no stage."""
        self._end()
        self._now = name
        if name is not None:
            turns = self._turns
            if turns is not None:
                asked_at = time.perf_counter()
                self._held = turns.take(RESOURCE.get(name, name))
                self._waited_s += time.perf_counter() - asked_at
            if name == "compute" and self._gpu is not None:
                self._gpu.begin()
            self._since = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage within another, which goes on after it."""
        outer = self._now
        self.enter(name)
        try:
            yield
        finally:
            self.enter(outer)

    def step_done(self) -> None:
        self._steps += 1
        if self._warm_up > 0:
            self._warm_up -= 1
            if not self._warm_up:
                self._clear()
        else:
            self._counted += 1
        if self._turns is not None:
            self._turns.report(self._steps)

    def times(self) -> StageTimes | None:
        """Of the steps that were counted; None: there were none."""
        if self._warm_up or not self._counted:
            return None
        if self._gpu is not None:
            self._add("compute", self._gpu.read())
        many = self._counted
        seconds = {name: spent / many for name, spent in self._seconds.items()}
        step_s = (time.perf_counter() - self._began) / many
        return StageTimes(many, step_s, seconds, self._waited_s / many)

    def _end(self) -> None:
        name, gpu = self._now, self._gpu
        if name is None:
            return
        until = None
        if name == "compute" and gpu is not None:
            until = gpu.end()
            self._add("compute", gpu.read())
        else:
            self._add(name, time.perf_counter() - self._since)
        if self._held and self._turns is not None:
            self._turns.give_back(until)
        self._held = False

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def _clear(self) -> None:
        self._seconds: dict[str, float] = {}
        self._waited_s = 0.0
        self._counted = 0
        self._began = time.perf_counter()
        if self._gpu is not None:
            self._gpu.read()


class _DeviceTime:
    """How long a GPU took for what was ordered between two moments, read when it is done."""

    def __init__(self) -> None:
        import torch  # noqa: PLC0415  (the rest works without)

        self._new: Any = partial(torch.cuda.Event, enable_timing=True)
        self._begun: Any = None
        self._pairs: deque[tuple[Any, Any]] = deque()

    def begin(self) -> None:
        self._begun = self._event()

    def end(self) -> Callable[[], None]:
        """What waits until the device is there."""
        done = self._event()
        if len(self._pairs) < EVENTS_MAX:
            self._pairs.append((self._begun, done))
        wait: Callable[[], None] = done.synchronize
        return wait

    def read(self) -> float:
        """Seconds of what was done since the last call."""
        seconds = 0.0
        while self._pairs and self._pairs[0][1].query():
            begun, done = self._pairs.popleft()
            seconds += begun.elapsed_time(done) / 1e3
        return seconds

    def _event(self) -> Any:  # noqa: ANN401
        event = self._new()
        event.record()
        return event


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
        """None without a server, on ranks other than 0, and for those that join later."""
        names = ("TREADLE_TURNS", "TREADLE_TURNS_PROOF", "TREADLE_TURNS_RESOURCES")
        if not all(env.get(name) for name in names) or env.get("RANK", "0") != "0":
            return None
        if env.get("TREADLE_JOINS") == "1":
            return None
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.settimeout(CONNECT_S_MAX)
            _connect(link, "\0" + env["TREADLE_TURNS"])
            link.setblocking(False)
        except OSError:
            link.close()
            return None
        client = cls(link)
        hello = {
            "job": env.get("TREADLE_JOB_ID", ""),
            "attempt": int(env.get("TREADLE_ATTEMPT", "0")),
            "resources": env["TREADLE_TURNS_RESOURCES"].split(),
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
            try:
                if not _is_readable(link, left_s):
                    return granted
                data = link.recv(LINE_BYTES)
            except (OSError, ValueError):  # The thread that gives turns back may have closed it.
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


def _is_readable(link: socket.socket, within_s: float) -> bool:
    """Not by `select`: it takes no descriptor above 1023, and training scripts open many files."""
    poll = select.poll()
    poll.register(link, select.POLLIN)
    return bool(poll.poll(1000.0 * max(0.0, within_s)))


def _connect(link: socket.socket, address: str) -> None:
    """Connect; where many wait to be let in, try again for a moment."""
    until = time.monotonic() + CONNECT_S_MAX
    while True:
        try:
            return link.connect(address)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
