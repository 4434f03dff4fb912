"""Random kills of daemon, supervisors, ranks and fork server together, under load, by seed.

A user keeps jobs coming and sends a request again, with its key, when the daemon died over it. The
user also pauses what runs, and lets it go on.
Every job writes a line when a rank starts and another when it ends. Afterwards: every acknowledged
job has ended as what happened to it, every start is of an attempt on record, no process is left
and no device is held. Prints one JSON object, and exits with 1 if anything is wrong.

    python -m tests.control.kills 200 1
"""

import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.control.daemons import Daemon
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.engines.node import attempt_folders, processes
from treadle.engines.node.environment import TAG
from treadle.engines.node.pause_files import NEVER, read_reached, read_wanted
from treadle.engines.node.processes import ProcessId
from treadle.wire.job_orders import Verb
from treadle.wire.jobs import JobDetail, JobRequest, JobView, State
from treadle.wire.problems import RequestError

DEVICES = 6
AT_ONCE = 9  # jobs that have not ended
OPTIONS = ("--policy", "backfill")  # of the daemon
SETTLE_S = 240.0
ABLAZE = 0.7  # so often something runs when it is struck, however slow the machine is
KILLED = 128 + signal.SIGKILL
_PAUSED = (State.PAUSED, State.HELD)  # one that has not begun is held
# What is killed, and how often.
WEIGHTS = {"daemon": 2, "fork server": 3, "supervisor": 4, "rank": 4}
SLOTS = ("--devices", str(DEVICES))


class Target(NamedTuple):
    kind: str
    process: ProcessId
    job: str = ""
    attempt: int = 0


class Seen(NamedTuple):
    """An attempt whose supervisor wrote down who it is."""

    job: str
    attempt: int
    supervisor: ProcessId
    folder: str


@dataclass
class Run:
    """One daemon after another over the same folder, and what was done to them."""

    daemon: Daemon
    draw: random.Random
    devices: int = DEVICES
    at_once: int = AT_ONCE
    paused: float = 0.5  # so often the user does that to a job that runs when looking
    resumed: float = 0.6
    submitted: dict[str, str] = field(default_factory=dict)  # name -> id, as acknowledged
    kills: Counter[str] = field(default_factory=Counter)
    # What was killed of an attempt; it may have ended a moment before.
    touched: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    servers: set[ProcessId] = field(default_factory=set)  # all fork servers that were seen
    number: int = 0
    ends: Counter[str] = field(default_factory=Counter)  # attempts by how they ended
    pauses: Counter[Verb] = field(default_factory=Counter)  # orders that were acknowledged
    # What an attempt was doing when something was killed: once for each attempt and each strike.
    struck: Counter[str] = field(default_factory=Counter)

    @property
    def lines(self) -> Path:
        return self.daemon.socket.parent / "lines"

    # -- the user -------------------------------------------------------------------------------

    def keep_busy(self) -> None:
        """Submit until enough jobs are under way; a request that got no answer is sent again."""
        with suppress(UnreachableError, NoAnswerError):  # The daemon died over it.
            while len(self.daemon.client.job_page(limit=1000).jobs) < self.at_once:
                name = f"job-{self.number:04}"
                answer = self.daemon.client.submit(self.request(name), key=name)
                known = self.submitted.setdefault(name, answer.id)
                assert known == answer.id, f"{name} was {known} and is {answer.id}"
                self.number += 1

    def request(self, name: str) -> JobRequest:
        # By its number, not by the draw: a request that is sent again must be the same.
        size = 2 if self.number % 3 == 0 else 1
        words = f"{name} $TREADLE_ATTEMPT $RANK"
        body = (
            f'echo "start {words}" >> {self.lines}; sleep 0.{1 + self.number % 5}; '
            f'echo "end {words}" >> {self.lines}'
        )
        return JobRequest(
            name=name,
            command=("/bin/bash", "-c", body),
            devices=str(size),
            ranks="device",
            retries=int(self.number % 4 == 0),
            grace_s=1.0,
            workdir="/",
        )

    def meddle(self) -> None:
        """Pause some of what runs, and let some of what is paused go on."""
        for view in self._left():
            if self.may_pause(view) and self.draw.random() < self.paused:
                self._order(Verb.PAUSE, view.id)
            elif view.state in _PAUSED and self.draw.random() < self.resumed:
                self._order(Verb.RESUME, view.id)

    def _order(self, verb: Verb, job: str) -> None:
        with suppress(UnreachableError, NoAnswerError, RequestError):  # Or it ended, or starts.
            (self.pause if verb is Verb.PAUSE else self.daemon.client.resume)(job)
            self.pauses[verb] += 1

    def may_pause(self, view: JobView) -> bool:
        return view.state is State.RUNNING

    def pause(self, job: str) -> None:
        self.daemon.client.pause(job)

    def _left(self) -> tuple[JobView, ...]:
        with suppress(UnreachableError, NoAnswerError):
            return self.daemon.client.job_page(limit=1000).jobs
        return ()

    def wait(self) -> None:
        """Until the next strike: for a moment, and mostly until something runs."""
        time.sleep(self.draw.uniform(0.0, 0.3))
        if self.draw.random() < ABLAZE:
            _until(self._runs, "nothing runs")

    def _runs(self) -> bool:
        self.keep_busy()
        self.meddle()
        return bool(self._supervisors(live=True))

    # -- the killer -----------------------------------------------------------------------------

    def strike(self) -> None:
        """Kill one to three things in the same moment."""
        self.struck.update(self._doing())
        for target in self._aim(self.draw.choice((1, 1, 2, 3))):
            self.kills[target.kind] += 1
            if target.job:
                self.touched[target.job, target.attempt].add(target.kind)
            if target.kind == "daemon":
                self.daemon.kill()
            else:
                processes.send(target.process, signal.SIGKILL)
        if not self.alive():
            self.daemon.start()

    def alive(self) -> bool:
        return processes.start_of(self.daemon.pid) is not None

    def _doing(self) -> list[str]:
        """What each attempt does: it runs, is paused, or is on its way from one to the other."""
        found = []
        for one in self._supervisors(live=True):
            reached = read_reached(one.folder) or NEVER
            wanted = read_wanted(one.folder) or reached
            under_way = wanted["action"] > reached["action"]
            course = (reached, wanted) if under_way else (reached,)
            found.append(" to ".join(state["how"] or "running" for state in course))
        return found

    def _aim(self, count: int) -> list[Target]:
        there = self._targets()
        found: list[Target] = []
        for _ in range(count):
            kinds = [kind for kind in WEIGHTS if there[kind]]
            if not kinds:
                break
            # None is forgotten in a short run.
            weights = [WEIGHTS[kind] / (1 + self.kills[kind]) for kind in kinds]
            kind = self.draw.choices(kinds, weights)[0]
            target = self.draw.choice(there[kind])
            there[kind].remove(target)
            found.append(target)
        # The daemon last: the others die while it lives, or with it.
        return sorted(found, key=lambda target: target.kind == "daemon")

    def _targets(self) -> dict[str, list[Target]]:
        there: dict[str, list[Target]] = defaultdict(list)
        there["daemon"] = [Target("daemon", _identity(self.daemon.pid))]
        for child in children(self.daemon.pid):
            if b"fork_server.py" in _command(child.pid):
                self.servers.add(child)
                there["fork server"].append(Target("fork server", child))
        for job, attempt, supervisor, _ in self._supervisors(live=True):
            there["supervisor"].append(Target("supervisor", supervisor, job, attempt))
            for rank in children(supervisor.pid):
                there["rank"].append(Target("rank", rank, job, attempt))
        return there

    def _supervisors(self, *, live: bool) -> list[Seen]:
        places = attempt_folders.AttemptFolders(self.daemon.state)
        if live:
            there = places.live()
        else:
            jobs = sorted(path.name for path in (self.daemon.state / "jobs").iterdir())
            there = [attempt for job in jobs for attempt in places.attempts(job)]
        found = []
        for identity in there:
            job, attempt, _ = identity
            folder = places.path(*identity)
            seen = attempt_folders.read_supervisor(folder)
            if seen is not None and processes.start_of(seen.process.pid) == seen.process.start:
                found.append(Seen(job, attempt, seen.process, str(folder)))
        return found

    # -- the judge ------------------------------------------------------------------------------

    def settle(self) -> list[JobDetail]:
        """Wait until everything has ended, and supervisors have left."""
        client = self.daemon.client

        def all_ended() -> bool:
            left = client.job_page(limit=1000).jobs
            for view in left:
                if view.state in _PAUSED:
                    self._order(Verb.RESUME, view.id)
            return not left

        _until(all_ended, "jobs are left")
        _until(lambda: not self._supervisors(live=False), "supervisors are left")
        _until(lambda: client.status().free == self.devices, "devices are held")
        return [client.job(identity) for identity in self.submitted.values()]

    def judge(self, details: list[JobDetail]) -> list[str]:
        """What is wrong, in sentences; nothing should be."""
        starts: Counter[tuple[str, int, int]] = Counter()
        ends: set[tuple[str, int, int]] = set()
        for line in self.lines.read_text().splitlines():
            what, name, attempt, rank = line.split()
            key = (name, int(attempt), int(rank))
            if what == "start":
                starts[key] += 1
            else:
                ends.add(key)
        wrong = [f"{key} started {count} times" for key, count in starts.items() if count > 1]
        known = {view.id for view in self.daemon.client.jobs(ended=True)}
        wrong += [f"job {i} is not on record" for i in self.submitted.values() if i not in known]
        if len(known) != len(self.submitted):
            wrong.append(f"{len(self.submitted)} were acknowledged, {len(known)} are on record")
        for detail in details:
            wrong += self._judge_job(detail, starts, ends)
        return wrong + self._judge_machine()

    def _judge_job(
        self,
        detail: JobDetail,
        starts: Counter[tuple[str, int, int]],
        ends: set[tuple[str, int, int]],
    ) -> list[str]:
        job = detail.job
        recorded = {attempt.number: attempt for attempt in detail.attempts}
        ran = sorted({attempt for name, attempt, _ in starts if name == job.name})
        wrong = [f"{job.id}: attempt {n} is not on record" for n in ran if n not in recorded]
        for number, attempt in recorded.items():
            self.ends[attempt.told or f"exit code {attempt.code}"] += 1
            killed = self.touched.get((job.id, number), set())
            how = (attempt.told, attempt.code)
            if attempt.told == "lost" and not killed & {"supervisor", "rank"}:
                wrong.append(f"{job.id}: attempt {number} is lost, and nothing of it was killed")
            if attempt.told == "" and attempt.code not in (0, None) and "rank" not in killed:
                wrong.append(f"{job.id}: attempt {number} ended as {how}, and no rank was killed")
            if attempt.told not in ("", "lost", "machine-error"):
                wrong.append(f"{job.id}: attempt {number} ended as {how}")
        last = recorded[max(recorded)] if recorded else None
        if job.state is State.SUCCEEDED:
            size = job.sizes[0]
            done = sum(1 for name, n, _ in ends if name == job.name and n == ran[-1]) if ran else 0
            if done != size:
                wrong.append(f"{job.id}: SUCCEEDED, and {done} of {size} ranks came to their end")
        elif job.state is not State.FAILED or last is None or last.code != KILLED:
            wrong.append(f"{job.id}: {job.state} with {last}")
        return wrong

    def _judge_machine(self) -> list[str]:
        wrong = []
        status = self.daemon.client.status()
        if status.running or status.stopping:
            wrong.append(f"jobs are left: {status}")
        wrong += [
            f"{device.name} is {device.state}: {device.because}"
            for device in self.daemon.client.nodes()[0].devices
            if device.state != "free"
        ]
        instance = (self.daemon.state / "instance").read_text()
        wrong += [f"an orphan: {each}" for each in processes.tagged(TAG, f"{instance}*")]
        now = {child.pid for child in children(self.daemon.pid)}
        wrong += [
            f"a fork server is left: {server}"
            for server in self.servers
            if server.pid not in now and processes.start_of(server.pid) == server.start
        ]
        return wrong


def children(pid: int) -> list[ProcessId]:
    """Of all its threads: a child belongs to the thread that made it."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [_identity(int(word)) for word in path.read_text().split()]
    return found


def _identity(pid: int) -> ProcessId:
    return ProcessId(pid, processes.start_of(pid) or 0)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _until(true: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def struck(run: Run, kills: int) -> list[str]:
    """Kill so often, then let everything end; what is wrong."""
    folder = run.daemon.state.parent
    run.lines.touch()
    wrong = ["it did not come to its end"]
    try:
        run.daemon.start()
        while run.kills.total() < kills:
            run.keep_busy()
            run.wait()
            run.meddle()
            run.strike()
            sys.stderr.write(f"{run.kills.total()} of {kills} kills, {dict(run.struck)}\n")
        wrong = run.judge(run.settle())
    except AssertionError as error:
        wrong = [str(error)]
    finally:
        run.daemon.stop()
        if wrong:
            sys.stderr.write(f"kept for a look: {folder}\n")
        else:
            shutil.rmtree(folder)
    return wrong


def begun(seed: int, kind: type[Run] = Run, *words: str) -> Run:
    """words: of `treadle up`."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-"))
    return kind(Daemon(folder, *words, *OPTIONS), random.Random(seed))


def report(run: Run, kills: int) -> int:
    """Print what was done and what is wrong; the exit code."""
    begun_s = time.monotonic()
    wrong = struck(run, kills)
    found: dict[str, Any] = {
        "kills": dict(run.kills),
        "struck": dict(run.struck),
        "pauses": dict(run.pauses),
        "jobs": len(run.submitted),
        "attempts": dict(run.ends),
        "seconds": round(time.monotonic() - begun_s, 1),
        "faults": wrong,
    }
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(report(begun(int(sys.argv[2]), Run, *SLOTS), int(sys.argv[1])))
