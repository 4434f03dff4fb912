"""Agents of many nodes that run nothing, in one process: a part of fleet_scale.py.

    python -m benchmarks.fleet_agents SOCKET --agents 200 --devices 8

Listens at SOCKET and speaks to a controller as the driver of a Ray cluster does (clusters/ray/
frames.py), with the messages of agents. A job lasts for as long as its command says on
average, exponentially distributed, and prints a step every second. Each line on the standard input
is answered by a line of JSON: what was seen since a line said `new`. At a line that says `fail`
everything that runs fails.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from treadle.core.actions import Start
from treadle.core.attempt import How
from treadle.core.cluster import Device, Node
from treadle.core.events import AttemptEnded, JobStarted
from treadle.core.job import JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.machine import DeviceView, Leftovers, Measurement, NodeView, Output
from treadle.core.sighting import Load
from treadle.engines.agent import messages, wire
from treadle.engines.agent.outbox import Outbox
from treadle.engines.clusters.ray import frames
from treadle.engines.node import fence

START_S = 0.05  # from the order until the ranks run
LINES = 40  # of output that a job has printed


@dataclass
class Seen:
    """What agents saw of their controller, since it was made anew."""

    calls: Counter[str] = field(default_factory=Counter)
    quiet_s: list[float] = field(default_factory=list)  # from an answer to the next call for facts
    taken_s: list[float] = field(default_factory=list)  # from a fact until the controller had it
    refill_s: list[float] = field(default_factory=list)  # from the end of a job to the next order
    orders_at: list[float] = field(default_factory=list)
    ordered_at: dict[int, float] = field(default_factory=dict)  # by the wall clock, by order
    starts: int = 0
    ends: int = 0

    def report(self) -> dict[str, Any]:
        return {
            "calls": dict(self.calls),
            "quiet": spread(self.quiet_s),
            "taken": spread(self.taken_s),
            "refill": spread(self.refill_s),
            "orders": len(self.orders_at),
            "ordered at": self.ordered_at,
            "first order at": min(self.orders_at, default=0),
            "last order at": max(self.orders_at, default=0),
            "starts": self.starts,
            "ends": self.ends,
            "cpu s": time.process_time(),
        }


def spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {"p50": 0.0, "p99": 0.0, "max": 0.0}
    middle, late = (ordered[int(share * len(ordered))] for share in (0.5, 0.99))
    return {"p50": middle, "p99": late, "max": ordered[-1]}


@dataclass
class Running:
    """An attempt on one node."""

    launch: Launch
    action: int
    devices: tuple[Device, ...]
    since: float
    timer: asyncio.TimerHandle

    @property
    def length_s(self) -> float:
        """The same on all nodes of the job."""
        mean_s = float(self.launch.command[-1])
        return random.Random(f"length of {self.launch.job}").expovariate(1 / mean_s)


class SimulatedAgent:
    """One node, without processes."""

    def __init__(self, node: Node, seen: Seen, output_s: float) -> None:
        """output_s: how long it takes to read output."""
        self.node, self.seen, self._output_s = node, seen, output_s
        self.incarnation = uuid4().hex
        self._session, self._done = "", 0
        self._outbox = Outbox()
        self._put_at: dict[int, float] = {}  # facts that were not taken yet
        self._runs: dict[JobId, Running] = {}
        self._free_since: dict[Device, float] = {}
        self._answered_at = 0.0
        self._verbs: dict[str, Callable[[Any], Any]] = {
            "survey": lambda _: messages.Surveyed(found=()),
            "take-charge": self._take_charge,
            "orders": self._orders,
            "prepare": lambda _: messages.Prepared(free=True, port=29500),
            "gone": lambda asked: messages.Gone(jobs=asked.jobs),
            "output": self._output,
            "where": lambda _: messages.Whereabouts(there=False),
            "order-device": lambda _: self._answer(),
            "order-node": lambda _: self._answer(),
            "tidy": lambda asked: _left(asked, Leftovers(4096, 1, 0)),
            "discard": lambda asked: _left(asked, Leftovers()),
        }

    async def call(self, verb: str, document: bytes) -> bytes:
        self.seen.calls[verb] += 1
        asked = wire.decode(document, messages.VERBS[verb][0])
        if verb == "facts":
            return wire.answer(await self._facts(asked))
        if verb == "output":
            await asyncio.sleep(self._output_s)
        return wire.answer(self._verbs[verb](asked))

    def _take_charge(self, _: messages.TakeCharge) -> messages.Charged:
        self._session, self._done, self._outbox = uuid4().hex, 0, Outbox()
        self._put_at.clear()
        return messages.Charged(session=self._session, upto=self._outbox.upto, shared=True)

    def _answer(self) -> messages.Answered:
        return messages.Answered(session=self._session, upto=self._outbox.upto)

    # -- orders ---------------------------------------------------------------------------------

    def _orders(self, asked: messages.Orders) -> messages.Answered:
        if asked.number == self._done + 1:
            self._done = asked.number
            for wanted in asked.wanted:
                self.seen.orders_at.append(time.monotonic())
                self.seen.ordered_at[wanted.action] = time.time()
                if wanted.allocation is None:
                    self._end(wanted.attempt.job, How.STOPPED, wanted.action)
                elif wanted.launch is not None and wanted.launch.id == wanted.attempt:
                    start = Start(wanted.action, wanted.attempt.job, wanted.allocation)
                    self._start(start, wanted.launch)
        return self._answer()

    def _start(self, action: Start, launch: Launch) -> None:
        now = time.monotonic()
        for device in action.allocation.devices:
            if (since := self._free_since.pop(device, None)) is not None:
                self.seen.refill_s.append(now - since)
        timer = asyncio.get_running_loop().call_later(START_S, self._started, action.job)
        devices = action.allocation.devices
        self._runs[action.job] = Running(launch, action.id, devices, now, timer)

    def _started(self, job: JobId) -> None:
        run = self._runs[job]
        self.seen.starts += 1
        launch = run.launch
        self._put(
            JobStarted(
                job,
                run.action,
                launch.iterations_done,
                launch.iterations_per_s,
                attempt=launch.attempt,
                started_at=time.time(),
            )
        )
        run.timer = asyncio.get_running_loop().call_later(
            run.length_s, self._end, job, How.EXITED, run.action
        )

    def fail(self) -> None:
        for job, run in list(self._runs.items()):
            self._end(job, How.EXITED, run.action, code=1)

    def _end(self, job: JobId, how: How, action: int, *, code: int | None = None) -> None:
        run = self._runs.pop(job, None)
        if run is None:
            self._put(AttemptEnded(job, action, 0, How.STOPPED))
            return
        run.timer.cancel()
        self.seen.ends += 1
        now = time.monotonic()
        self._free_since.update(dict.fromkeys(run.devices, now))
        code = code if code is not None else 0 if how is How.EXITED else 143
        self._put(
            AttemptEnded(
                job,
                action,
                run.launch.attempt,
                how,
                code,
                codes=(code,) * run.launch.ranks,
                started_at=time.time() - (now - run.since),
                ended_at=time.time(),
                ran_s=now - run.since,
                memory_peak_gib=4.0,
            )
        )

    # -- facts ----------------------------------------------------------------------------------

    def _put(self, fact: JobStarted | AttemptEnded) -> None:
        self._outbox.put(fact)
        self._put_at[self._outbox.upto] = time.monotonic()

    async def _facts(self, asked: messages.FactsAsked) -> messages.FactsGiven:
        now = time.monotonic()
        if self._answered_at:
            self.seen.quiet_s.append(now - self._answered_at)
        for number in [number for number in self._put_at if number <= asked.after]:
            self.seen.taken_s.append(now - self._put_at.pop(number))
        await self._outbox.wait(asked.after, asked.wait_s)
        self._answered_at = time.monotonic()
        return messages.FactsGiven(
            facts=tuple(self._outbox.after(asked.after)),
            upto=self._outbox.upto,
            view=NodeView.of(self.node, self._device),
            measurements=tuple(map(_measurement, self._runs.values())),
            now=fence.now(),
        )

    def _device(self, device: Device) -> DeviceView:
        return DeviceView(
            name=str(device),
            number=device.number,
            uuid=f"GPU-{self.node.name}-{device.number}",
            model=self.node.device_type,
            memory_gib=80.0,
            memory_used_gib=20.0,
            busy=0.9,
        )

    def _output(self, asked: messages.OutputAsked) -> messages.OutputGiven:
        run = self._runs.get(asked.attempt.job)
        step = 0 if run is None else int(time.monotonic() - run.since)
        total = 0 if run is None else int(run.length_s) + 1
        first = max(0, step - LINES)
        lines = [f"step {n}/{total} loss: {9 / (n + 1):.4f}\n" for n in range(first, step)]
        data = "".join(lines).encode()
        output = Output(0, data, len(data), ranks=1)
        return messages.OutputGiven(output=output, over=run is None)


def _measurement(run: Running) -> Measurement:
    launch = run.launch
    load = Load(busy=0.9, memory_busy=0.4, device_memory_gib=20.0, power_w=350.0, cores=3.5)
    mark = AttemptId(launch.job, launch.attempt, launch.nonce)
    return Measurement(mark, busy=0.9, load=load, at=fence.now(), energy_j=1e6)


class Driver:
    """Serves one controller."""

    def __init__(self, agents: Sequence[SimulatedAgent]) -> None:
        self._agents = {agent.node.name: agent for agent in agents}
        self._epoch = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._epoch += 1
        await frames.read(reader, frames.SETTINGS)
        for number, agent in enumerate(self._agents.values()):
            address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            found = frames.NodeIs(agent.node, address, agent.incarnation, agent.node.name)
            writer.write(frames.packed(found))
        writer.write(frames.packed(frames.Ready(self._epoch)))
        with contextlib.suppress(frames.ClosedError):
            while True:
                task = asyncio.create_task(
                    self._pass_on(await frames.read(reader, frames.ASK), writer)
                )
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        writer.close()

    async def _pass_on(self, ask: frames.Ask, writer: asyncio.StreamWriter) -> None:
        answer = await self._agents[ask.node].call(ask.verb, ask.document)
        with contextlib.suppress(OSError):
            writer.write(frames.packed(frames.Answer(ask.number, answer)))
            await writer.drain()


def _left(asked: messages.JobsAsked, each: Leftovers) -> messages.JobsLeft:
    return messages.JobsLeft(left=(each,) * len(asked.jobs))


async def _main(path: str, agents: int, devices: int, output_s: float) -> None:
    seen = Seen()
    nodes = [
        Node(f"n{number}", devices, "H200", 96, 1024.0, f"r{number // 8}", 80.0)
        for number in range(agents)
    ]
    made = [SimulatedAgent(node, seen, output_s) for node in nodes]
    server = await asyncio.start_unix_server(Driver(made).serve, path)
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ready", flush=True)
    while line := await lines.readline():
        for agent in made if line == b"fail\n" else ():
            agent.fail()
        print(json.dumps(seen.report()), flush=True)
        if line == b"new\n":
            for name, value in vars(Seen()).items():
                setattr(seen, name, value)
    server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("socket")
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--output-s", type=float, default=0.0)
    given = parser.parse_args()
    asyncio.run(_main(given.socket, given.agents, given.devices, given.output_s))
