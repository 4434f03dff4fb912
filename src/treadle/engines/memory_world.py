"""The machines and jobs of the memory engine: nodes without hardware, attempts without processes.

A world outlives its engine: a second engine over the same world adopts what runs there.
"""

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf, isfinite

from treadle.core.actions import Change, Start
from treadle.core.allocation import Allocation, Pause
from treadle.core.attempt import How
from treadle.core.cluster import Device, Node
from treadle.core.errors import InvalidInputError
from treadle.core.events import AttemptEnded, DeviceClosed, JobPaused, JobStarted
from treadle.core.job import JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.live_plans import may_change
from treadle.core.machine import DeviceView, NodeView, Output
from treadle.core.ports import Clock
from treadle.core.sighting import Load

STOPPED_CODE = 143  # as shells write the end by SIGTERM
SYNTAX_ERROR_CODE = 2  # likewise
ATTEMPTS_MAX = 10_000  # that are remembered with their output

Pauses = tuple[float, float]  # seconds that a pause takes, and to go on after one
Held = dict[tuple[Device, int], set[JobId]]  # jobs by device and turn


def places_of(allocation: Allocation) -> list[tuple[Device, int]]:
    """Its devices, each with its turn: one job at a time can be there. A paused job has none."""
    return [] if allocation.paused else [(device, allocation.turn) for device in allocation.devices]


@dataclass(eq=False)
class MemoryAttempt:
    """One attempt; it counts as running until it has an end."""

    launch: Launch
    action: int  # the newest order that it answers
    allocation: Allocation
    begun_at: float | None = None  # by the run's clock; None until its start was first reported
    announced: tuple[str, ...] = ()  # what it can change while it runs, once it has said so
    started: bool = False  # its start was reported
    paused_at: float | None = None  # by the run's clock
    took_s: float | None = None  # for the newest order, to pause it or to let it go on
    stop: int | None = None  # a stop that was ordered and has no answer yet
    ended: AttemptEnded | None = None
    task: "asyncio.Task[None] | None" = None
    wrote: asyncio.Event = field(default_factory=asyncio.Event)  # also set by its end

    def __post_init__(self) -> None:
        self.output = [bytearray() for _ in range(self.launch.ranks)]
        self.dropped = [0] * self.launch.ranks  # bytes of each rank that are not kept any more
        self._steps = _steps(self.launch.command)
        self._next_step = 0
        self._wake_at: float | None = None  # end of the sleep that it is in

    @property
    def places(self) -> list[tuple[Device, int]]:
        return places_of(self.allocation)

    @property
    def announces(self) -> tuple[str, ...]:
        return tuple(word for first, *rest in self._steps if first == "announce" for word in rest)

    def can_become(self, order: Start | Change) -> bool:
        """Whether the order can be carried out without a restart."""
        running = isinstance(order, Change) and self.stop is None
        return running and may_change(
            self.allocation, order.allocation, self.announced, tuple(Pause)
        )

    def change(
        self, order: int, allocation: Allocation, now: float, takes_s: Pauses = (0.0, 0.0)
    ) -> None:
        """Have other things; no time passes for its program while it is paused."""
        self.action, self.allocation, self.started = order, allocation, False
        self.took_s = takes_s[0] if allocation.paused else None
        if allocation.paused and self.paused_at is None:
            self.paused_at = now
            if self.task is not None:
                self.task.cancel()
        elif self.paused_at is not None and not allocation.paused:
            away_s, self.paused_at, self.took_s = now - self.paused_at, None, takes_s[1]
            self.begun_at = None if self.begun_at is None else self.begun_at + away_s
            self._wake_at = None if self._wake_at is None else self._wake_at + away_s

    def report(self, now: float, pauses: tuple[Pause, ...], refused: str) -> JobStarted | JobPaused:
        """That it runs, or is paused; refused: why it is not paused."""
        self.started, launch, order = True, self.launch, self.action
        if (how := self.allocation.paused) is not None:
            return JobPaused(launch.job, order, how, launch.attempt, took_s=self.took_s)
        self.announced = self.announces
        if self.begun_at is None:
            self.begun_at = now
        done, speed = launch.iterations_done, launch.iterations_per_s
        fact = JobStarted(launch.job, order, done, speed, self.announced, launch.attempt)
        return replace(fact, refused=refused, pauses=pauses, took_s=self.took_s)

    def ran_s(self, now: float) -> float | None:
        until = now if self.paused_at is None else self.paused_at
        return None if self.begun_at is None else until - self.begun_at

    async def run(self, clock: Clock) -> tuple[How, int]:
        """Do what the command says, from where it was; how it ends, and its exit code."""
        limit_s = self.launch.time_limit_s
        begun_at = clock.now() if self.begun_at is None else self.begun_at
        limit_at = inf if limit_s is None else begun_at + limit_s
        while self._next_step < len(self._steps):
            word, *rest = self._steps[self._next_step]
            if word == "echo":
                for rank in range(len(self.output)):
                    line = " ".join(rest).replace("$RANK", str(rank))
                    self.write(rank, line.encode() + b"\n")
            elif word in ("sleep", "forever"):
                if self._wake_at is None:
                    self._wake_at = clock.now() + (_number(rest[0]) if rest else inf)
                await clock.sleep_until(min(self._wake_at, limit_at))
                if self._wake_at > limit_at:
                    return How.TIME_LIMIT, STOPPED_CODE
                self._wake_at = None
            elif word in ("false", "exit"):
                return How.EXITED, int(_number(rest[0])) % 256 if rest else 1
            self._next_step += 1
        return How.EXITED, 0

    def write(self, rank: int, data: bytes) -> None:
        """Write as a rank; the newest bytes are kept."""
        self.output[rank] += data
        excess = max(0, len(self.output[rank]) - self.launch.log_bytes_max)
        del self.output[rank][:excess]
        self.dropped[rank] += excess
        self.wrote.set()

    def read(self, rank: int, offset: int, limit: int) -> Output:
        if not 0 <= rank < len(self.output):
            raise InvalidInputError(f"there is no output of rank {rank}")
        kept, first = self.output[rank], self.dropped[rank]
        size = first + len(kept)
        asked = max(0, size + offset) if offset < 0 else min(offset, size)
        begin = max(asked, first)
        data = bytes(kept[begin - first :][:limit])
        return Output(begin, data, size, begin - asked, len(self.output))


@dataclass
class MemoryWorld:
    """Nodes, and all attempts that ever ran there."""

    nodes: dict[str, Node]
    attempts: dict[AttemptId, MemoryAttempt] = field(default_factory=dict)
    closed: dict[Device, DeviceClosed] = field(default_factory=dict)  # by what is seen there
    drained: set[str] = field(default_factory=set)
    hanging: set[JobId] = field(default_factory=set)  # their starts and stops do not complete
    pauses: tuple[Pause, ...] = tuple(Pause)  # how attempts say that they can be paused
    pause_takes_s: Pauses = (0.0, 0.0)
    refusing: dict[JobId, str] = field(default_factory=dict)  # to be paused, and why
    busy: dict[JobId, float] = field(default_factory=dict)  # what `measurements` gives
    loads: dict[JobId, Load] = field(default_factory=dict)  # the same

    @classmethod
    def of(cls, *nodes: Node) -> "MemoryWorld":
        return cls({node.name: node for node in nodes})

    def __post_init__(self) -> None:
        self._newest: dict[JobId, MemoryAttempt] = {}  # attempt of each job
        self._running: dict[AttemptId, MemoryAttempt] = {}

    def begin(self, attempt: MemoryAttempt) -> None:
        self.attempts[attempt.launch.id] = self._running[attempt.launch.id] = attempt
        self._newest[attempt.launch.job] = attempt
        if len(self.attempts) > ATTEMPTS_MAX:
            self._forget_oldest()

    def end(self, attempt: MemoryAttempt, ended: AttemptEnded) -> None:
        attempt.ended = ended
        attempt.wrote.set()
        del self._running[attempt.launch.id]
        if attempt.task is not None:
            attempt.task.cancel()

    def _forget_oldest(self) -> None:
        oldest = next((each for each in self.attempts.values() if each.ended is not None), None)
        if oldest is not None:
            del self.attempts[oldest.launch.id]
            if self._newest[oldest.launch.job] is oldest:
                del self._newest[oldest.launch.job]

    def newest(self, job: JobId) -> MemoryAttempt | None:
        return self._newest.get(job)

    def live(self, job: JobId) -> MemoryAttempt | None:
        newest = self._newest.get(job)
        return None if newest is None or newest.ended is not None else newest

    def running(self) -> list[MemoryAttempt]:
        return list(self._running.values())

    def attempt(self, identity: AttemptId) -> MemoryAttempt:
        if identity not in self.attempts:
            raise InvalidInputError(f"job {identity.job} has no attempt {identity.number}")
        return self.attempts[identity]

    def has(self, device: Device) -> bool:
        node = self.nodes.get(device.node)
        return node is not None and 0 <= device.number < node.device_count

    def held(self) -> Held:
        """The jobs that have an attempt at each place."""
        held: Held = {}
        for attempt in self._running.values():
            for place in attempt.places:
                held.setdefault(place, set()).add(attempt.launch.job)
        return held

    def view(self, closed: Mapping[Device, DeviceClosed]) -> tuple[NodeView, ...]:
        jobs: dict[Device, list[JobId]] = {}
        for attempt in self._running.values():
            for device, _ in attempt.places:
                jobs.setdefault(device, []).append(attempt.launch.job)

        def shown(device: Device) -> DeviceView:
            there = tuple(jobs.get(device, ()))
            return DeviceView.of(device, there, closed.get(device), model="memory")

        return tuple(
            replace(
                NodeView.of(node, shown),
                drained=node.name in self.drained,
            )
            for node in self.nodes.values()
        )


def _steps(command: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """A command as a sequence of steps, split at `;`."""
    words = list(command)
    if words[:2] in (["sh", "-c"], ["bash", "-c"]) and len(words) > 2:
        try:
            words = shlex.split(words[2].replace(";", " ; "))
        except ValueError:
            words = ["exit", str(SYNTAX_ERROR_CODE)]
    return tuple(tuple(step) for ends, step in groupby(words, ";".__eq__) if not ends)


def _number(word: str) -> float:
    """A finite number of a command; 0 if it is none."""
    try:
        number = float(word)
    except ValueError:
        return 0.0
    return number if isfinite(number) else 0.0
