"""An elastic job on a real cluster: it grows over nodes, shrinks, loses a node, and ends.

The other devices are held by small jobs, one on each, which are cancelled to make room. So it is
known where the elastic job can be, whatever the policy prefers.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.control.daemons import Daemon
from tests.on_ray import elastic_rows
from tests.on_ray.cluster import HEAD, NODES, RayCluster
from tests.on_ray.elastic_rows import STEPS, Lineage, Row
from treadle.engines.agent.found import look
from treadle.engines.node import processes
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.environment import TAG
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import EventView

SCRIPT = Path(__file__).with_name("elastic_job.py")
# A policy that resizes soon, and a placement that takes free devices wherever they are.
OPTIONS = (
    "--no-port",
    "--failover",
    "15s",
    "--policy",
    "afs+live?restart_s=0.05",
    "--placement",
    "count",
)
MORE = 40  # steps after the last change
LOSSES_APART = 2e-5  # sums in another order (tests/train/checks.py)
WITHIN_S = 180.0


@dataclass(frozen=True)
class Phase:
    """A part of the way from the death of a node to the next step."""

    name: str
    until: float  # seconds since 1970


def alone(steps: int, folder: Path) -> list[float]:
    """The losses of the same script without Treadle, step by step."""
    folder.mkdir()
    (folder / "last").write_text(str(steps))
    command = [sys.executable, str(SCRIPT), str(folder)]
    root = Path(__file__).parents[2]
    subprocess.run(command, check=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    return elastic_rows.lineage(elastic_rows.read(folder)).losses


@dataclass(frozen=True)
class Outcome:
    """What is to be checked, and to be told."""

    state: State
    last: int  # the step after which it ended
    lineage: Lineage
    phases: list[Phase]
    died_at: float
    ends: list[int]  # the attempts whose ends were reported

    def check(self, expected: Sequence[float]) -> None:
        """expected: the losses of the undisturbed run."""
        assert self.state is State.SUCCEEDED
        elastic_rows.check_samples(self.lineage, self.last, self.died_at)
        apart = [abs(a - b) for a, b in zip(self.lineage.losses, expected, strict=True)]
        assert max(apart) < LOSSES_APART, f"the losses differ by up to {max(apart)}"
        assert (self.lineage.redone, self.ends) == ({}, [1])
        moments = [self.died_at, *(phase.until for phase in self.phases)]
        assert moments == sorted(moments), self.phases

    def lines(self) -> list[str]:
        """The phases for people."""
        lines, before = [], self.died_at
        for phase in self.phases:
            lines.append(f"{phase.until - before:7.2f} s  {phase.name}")
            before = phase.until
        return [*lines, f"{before - self.died_at:7.2f} s  from the death of a node to training"]


def whole(cluster: RayCluster, live: Daemon, folder: Path) -> Outcome:
    """1. It has one device. 2. It grows to three nodes. 3. It shrinks. 4. A node dies, and it goes
    on in the same attempt. 5. It ends.
    """
    story = Story(cluster, live, folder)
    story.hold_all_devices()
    story.begin("1..3")
    story.make_room(HEAD)
    story.has_size(1)
    story.make_room("n1")
    story.make_room("n2")
    story.has_size(3)
    assert len(story.nodes()) == 3
    other = story.want_back()
    story.has_size(2)
    # A node that dies while members change ends the attempt.
    story.until(lambda: live.view(other).state is State.RUNNING)
    died_at = story.node_dies()
    story.has_size(1)
    phases = story.phases(died_at)
    state, last = story.finish()
    lineage = elastic_rows.lineage(story.rows())
    return Outcome(state, last, lineage, phases, died_at, story.ends())


class Story:
    """A daemon on a cluster, the elastic job, and those that hold the other devices."""

    def __init__(self, cluster: RayCluster, live: Daemon, folder: Path) -> None:
        self.cluster, self.live, self.folder = cluster, live, folder
        self.job = ""
        self._holders: dict[str, list[str]] = {}  # by node

    def until(self, true: object) -> None:
        assert callable(true)
        give_up_at = time.monotonic() + WITHIN_S
        while not true():
            assert time.monotonic() < give_up_at, (self.said(), self.sizes())
            time.sleep(0.05)

    # -- acts -----------------------------------------------------------------------------------

    def hold_all_devices(self) -> None:
        names = [self._submit("1", "sleep", "86400") for _ in range(sum(NODES.values()))]
        self.until(lambda: all(self.live.view(job).state is State.RUNNING for job in names))
        for job in names:
            self._holders.setdefault(self._nodes_of(job)[0], []).append(job)

    def begin(self, devices: str) -> None:
        self.job = self._submit(devices, sys.executable, str(SCRIPT), str(self.folder))

    def make_room(self, node: str) -> None:
        """One more device of that node is free."""
        self.live.client.cancel(self._holders[node].pop())

    def want_back(self) -> str:
        """Another job wants a device: the elastic one has to shrink."""
        return self._submit("1", "sleep", "86400")

    def has_size(self, size: int) -> None:
        """Until it trains with so many ranks."""
        self.until(lambda: elastic_rows.newest_size(self.folder) == size)

    def node_dies(self) -> float:
        """Kill all of a node that the job is on: agent, supervisors, ranks, raylet; and when."""
        node = next(name for name in self.nodes() if name != HEAD)
        root = self.live.state / "nodes" / node
        folders = AttemptFolders(root)
        found = [look(folders, mark).supervisor for mark in folders.live()]
        pids = [_holder_of(root / "agent.lock")]
        pids += [
            each.process.pid for each in found if each is not None and each.process is not None
        ]
        died_at = time.time()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        processes.kill_tagged(TAG, f"{folders.instance}*")
        self.cluster.lose(node)
        start = f"node {node} was lost"
        self.until(lambda: any(text.startswith(start) for text in self.said()))
        for job in self._holders.pop(node, []):  # It would be run again elsewhere.
            self.live.client.cancel(job)
        return died_at

    def finish(self) -> tuple[State, int]:
        """Let it run to its end as fast as it can; how it ended, and after how many steps."""
        newest = max(row["step"] for row in elastic_rows.steps(self.rows()))
        last = newest + MORE - newest % STEPS
        path = self.folder / "last.new"
        path.write_text(str(last))
        path.rename(self.folder / "last")
        self.until(lambda: self.live.view(self.job).state.ended)
        return self.live.view(self.job).state, last

    # -- looks ----------------------------------------------------------------------------------

    def nodes(self) -> tuple[str, ...]:
        return self._nodes_of(self.job)

    def rows(self) -> list[Row]:
        return elastic_rows.read(self.folder)

    def sizes(self) -> list[int]:
        return [row["size"] for row in elastic_rows.steps(self.rows())][-5:]

    def ends(self) -> list[int]:
        """The attempts of the job whose ends were reported, in order."""
        ended = [e for e in self._events() if (e.kind, e.job) == ("AttemptEnded", self.job)]
        return [int(str(event.body["attempt"])) for event in ended]

    def said(self) -> list[str]:
        return [event.text for event in self._events()]

    def phases(self, died_at: float) -> list[Phase]:
        """From the death of a node to the next step."""
        events = [event for event in self._events() if event.at >= died_at]
        later = [row["at"] for row in elastic_rows.steps(self.rows()) if row["size"] == 1]

        def told(kind: str) -> float:
            return next(e.at for e in events if e.kind == kind and e.job in ("", self.job))

        return [
            Phase("given up by the cluster", told("NodeLost")),
            Phase("ordered", told("Change")),
            Phase("first step", min(at for at in later if at > died_at)),
        ]

    # -- leaves ---------------------------------------------------------------------------------

    def _submit(self, devices: str, *command: str) -> str:
        request = JobRequest(
            command=command,
            devices=devices,
            ranks="device",
            resumable=True,
            workdir=str(Path(__file__).parents[2]),
            env={"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        return self.live.client.submit(request).jobs[0]

    def _nodes_of(self, job: str) -> tuple[str, ...]:
        found = (device.partition(":")[0] for device in self.live.view(job).devices)
        return tuple(dict.fromkeys(found))

    def _events(self) -> list[EventView]:
        return list(self.live.client.events_last(limit=1000).events)


def _holder_of(path: Path) -> int:
    """The process that has this file open."""
    for fd in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if fd.readlink() == path:
                return int(fd.parts[2])
        except OSError:
            continue
    raise AssertionError(f"nobody has {path}")
