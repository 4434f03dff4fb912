"""Grants turns to the jobs of this machine that share devices, over a Unix socket.

A program of its own (`python -I -S turn_server.py LISTENER KEY [WAY]`), which imports the standard
library and turns.py. It outlives the engine: it ends when the engine is gone and no job is
connected. A job that loses it shares freely.

Lines, each at most LINE_BYTES:

    job -> server   hello {"job", "attempt", "resources", "proof"}
                    a RESOURCE ...   asks for a turn of each
                    d                gives back what it holds
                    s COUNT          steps done so far
    server -> job   w WAY RESOURCE ...   for which resources to ask from now on
                    g                    granted

The proof is an HMAC of job, attempt and resources under a key that only the engine and this process
know, so that no job can ask for a device that it was not given.
A second connection with the same proof ends the first. Who does not say hello soon is dropped.
"""

import hmac
import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from math import inf
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.engines.node.turn_choice import Choice
    from treadle.engines.node.turns import Turns, Way

LINE_BYTES = 4096
CLIENTS_MAX = 512
HELLO_S_MAX = 2.0  # after which a connection that has not said hello is closed


def proof(key: bytes, job: str, attempt: int, resources: Iterable[str]) -> str:
    """What a job shows to be given turns of these resources."""
    said = json.dumps([job, attempt, sorted(resources)]).encode()
    return hmac.new(key, said, "sha256").hexdigest()


class Connection:
    """One job."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.name = ""  # empty until it said hello
        self.since = time.monotonic()
        self.is_open = True
        self.steps = 0.0
        self.told = ""  # the last line about the way
        self.heard = b""

    def lines(self) -> list[str] | None:
        """Whole lines that came; None at the end, or if it sent something too long."""
        try:
            data = self.link.recv(LINE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        *lines, self.heard = (self.heard + data).split(b"\n")
        if not data or len(self.heard) > LINE_BYTES:
            return None
        return [line.decode(errors="replace") for line in lines]

    def say(self, line: str) -> bool:
        """False if it does not read what it is told."""
        with suppress(OSError):
            return self.link.send(line.encode() + b"\n") == len(line) + 1
        return False


class TurnServer:
    """All jobs of one machine."""

    def __init__(self, listener: socket.socket, engine: int, key: bytes, way: "Way | None") -> None:
        rules = import_module("treadle.engines.node.turns")
        choices = import_module("treadle.engines.node.turn_choice")
        self._way_of, self._new_choice = rules.Way, choices.Choice
        self.turns: Turns = rules.Turns()
        self._key = key
        self._forced = way  # instead of trying which is better
        self._choice: Choice | None = None
        self._jobs: dict[str, Connection] = {}
        self._listener, self._engine = listener, engine
        self._engine_is_there = True
        self._made = 0
        self._silent: list[Connection] = []  # those that have not said hello
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(engine, selectors.EVENT_READ)
        listener.setblocking(False)

    def run(self) -> None:
        while self._engine_is_there or self._jobs:
            now = time.monotonic()
            due = self.turns.expires_at(now)
            due = min(due, inf if self._choice is None else self._choice.next_at())
            due = min([due, *(job.since + HELLO_S_MAX for job in self._silent)])
            for key, _ in self._selector.select(None if due == inf else max(0.0, due - now)):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj == self._engine:
                    self._look_at_engine()
                else:
                    self._hear(key.data)
            self._tick()

    # -- jobs -----------------------------------------------------------------------------------

    def _accept(self) -> None:
        with suppress(OSError):
            link, _ = self._listener.accept()
            link.setblocking(False)
            if len(self._selector.get_map()) >= CLIENTS_MAX:
                if not self._silent:
                    link.close()
                    return
                self._drop(self._silent[0])
            job = Connection(link)
            self._silent.append(job)
            self._selector.register(link, selectors.EVENT_READ, job)

    def _look_at_engine(self) -> None:
        if not os.read(self._engine, 4096):
            self._selector.unregister(self._engine)
            self._engine_is_there = False

    def _hear(self, job: Connection) -> None:
        if not job.is_open:  # It was dropped by what another said a moment ago.
            return
        lines = job.lines()
        if lines is None:
            self._drop(job)
            return
        for line in lines:
            try:
                self._take(job, line)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                self._drop(job)
                return
            if not job.is_open:
                return

    def _take(self, job: Connection, line: str) -> None:
        now = time.monotonic()
        kind, _, rest = line.partition(" ")
        if kind == "hello":
            self._meet(job, json.loads(rest))
        elif kind == "a" and job.name:
            self._grant(self.turns.ask(job.name, rest.split(), now))
        elif kind == "d" and job.name:
            self._grant(self.turns.done(job.name, now))
        elif kind == "s" and job.name:
            job.steps = float(rest)
        else:
            raise ValueError(line)

    def _meet(self, job: Connection, hello: dict[str, object]) -> None:
        name, attempt, resources = hello["job"], hello["attempt"], hello["resources"]
        if not isinstance(name, str) or not isinstance(attempt, int) or job.name:
            raise TypeError
        if not isinstance(resources, list) or not all(isinstance(r, str) for r in resources):
            raise TypeError
        expected = proof(self._key, name, attempt, resources)
        if not hmac.compare_digest(expected, str(hello["proof"])):
            raise ValueError
        for other in [o for n, o in self._jobs.items() if n.startswith(f"{name}@{attempt}#")]:
            self._drop(other)
        self._silent.remove(job)
        self._made += 1
        job.name = f"{name}@{attempt}#{self._made}"
        self._jobs[job.name] = job
        self.turns.join(job.name, resources)
        self._begin_again()

    def _drop(self, job: Connection) -> None:
        if not job.is_open:
            return
        job.is_open = False
        if job in self._silent:
            self._silent.remove(job)
        self._selector.unregister(job.link)
        job.link.close()
        if self._jobs.pop(job.name, None) is not None:
            self._grant(self.turns.leave(job.name, time.monotonic()))
            self._begin_again()

    # -- ways -----------------------------------------------------------------------------------

    def _begin_again(self) -> None:
        """Who shares has changed: what was better before says nothing."""
        shared = any(self.turns.shares(name) for name in self._jobs)
        now = time.monotonic()
        self._choice = self._new_choice(now) if shared and self._forced is None else None
        way = self._forced if shared and self._forced is not None else self._way_of.FREE
        self._set(way, now)

    def _tick(self) -> None:
        now = time.monotonic()
        if self._choice is not None and now >= self._choice.next_at():
            steps = {name: job.steps for name, job in self._jobs.items()}
            self._set(self._choice.look(steps, now), now)
        self._grant(self.turns.expire(now))
        for job in [job for job in self._silent if now >= job.since + HELLO_S_MAX]:
            self._drop(job)

    def _set(self, way: "Way", now: float) -> None:
        if way is not self.turns.way:
            self._grant(self.turns.change(way, now))
        for name, job in list(self._jobs.items()):
            resources = self._contended(name) if way is not self._way_of.FREE else []
            line = " ".join(["w", way, *resources])
            if line != job.told:
                job.told = line
                if not job.say(line):
                    return self._drop(job)  # That has set the way anew, for all that are left.
        return None

    def _contended(self, name: str) -> list[str]:
        """What others may ask for too; a turn of anything else need not be asked for."""
        mine = self.turns.clients[name].resources
        others = [c.resources for c in self.turns.clients.values() if c.name != name]
        return sorted(mine & frozenset().union(*others)) if others else []

    def _grant(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._jobs and not self._jobs[name].say("g"):
                self._drop(self._jobs[name])


def main(listener: int, engine: int, way: str) -> None:
    treadle = ModuleType("treadle")  # bare: nothing else of Treadle is loaded
    treadle.__path__ = [str(Path(__file__).parents[2])]
    sys.modules["treadle"] = treadle
    ways = import_module("treadle.engines.node.turns").Way
    key = os.read(engine, 64)
    listening = socket.socket(fileno=listener)
    TurnServer(listening, engine, key, ways(way) if way else None).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
