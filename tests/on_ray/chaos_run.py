"""One run: a controller, its jobs and its faults on a cluster that goes on to the next run."""

import json
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.control.daemons import Daemon
from tests.on_ray.chaos_cluster import ChaosCluster, children
from tests.on_ray.chaos_judge import judged
from tests.on_ray.chaos_plan import HEAD, NODES, SLOTS, Fault, Plan, Work
from tests.on_ray.chaos_records import agent_records, rank_records, standstill_s
from treadle.client.client import Client
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.engines.clusters.ray.agent_process import AGENT, MEMBER
from treadle.engines.node import processes
from treadle.engines.node.environment import TAG
from treadle.wire.jobs import JobDetail, JobRequest
from treadle.wire.problems import ConflictError, UnavailableError

PROGRAM = Path(__file__).with_name("chaos_rank.py")
LOOK_S = 0.1
SETTLE_S = 120.0  # how long nothing may go on
SLOW = 5
GONE_S = 60.0  # for what was ended a moment ago
_DEVICES = re.compile(r" INFO up: Status\(.* devices=([0-9]+),")
_LOST = re.compile(r"node (\S+) is lost: ")
_RESTARTED = "and is started again; jobs go on"  # what the keeper of an agent says


@dataclass
class Outcome:
    plan: Plan
    wrong: list[str] = field(default_factory=list)
    struck: list[Fault] = field(default_factory=list)  # what was done to the cluster
    missed: list[Fault] = field(default_factory=list)  # its victim was dead already
    notes: list[str] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)  # attempts by how they ended
    spent_s: dict[str, float] = field(default_factory=dict)  # by what it was spent on
    standstill_s: float = 0.0  # the longest that a job stood still between two attempts
    restart_s: float = 0.0  # the longest from the start of a controller until it answered

    @property
    def took_s(self) -> float:
        return sum(self.spent_s.values())

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {how}" for how, count in sorted(self.ends.items()))
        said = "ok" if not self.wrong else f"{len(self.wrong)} FAULTS"
        spent = ", ".join(f"{what} {seconds:.0f}" for what, seconds in self.spent_s.items())
        done = [*map(str, self.struck), *(f"({each}: was dead)" for each in self.missed)]
        return (
            f"seed {self.plan.seed:3} {said:4} {self.took_s:5.1f} s ({spent}; a job stood still "
            f"{self.standstill_s:.0f}): {len(self.plan.works)} jobs, attempts: {ends}; "
            f"{'; '.join([*sorted(done), *self.notes])}"
        )

    def document(self) -> dict[str, object]:
        return {
            "seed": self.plan.seed,
            "wrong": self.wrong,
            "took_s": round(self.took_s, 1),
            "spent_s": {what: round(seconds, 1) for what, seconds in self.spent_s.items()},
            "standstill_s": round(self.standstill_s, 1),
            "restart_s": round(self.restart_s, 1),
            "struck": [each._asdict() for each in sorted(self.struck)],
            "missed": [each._asdict() for each in sorted(self.missed)],
            "notes": self.notes,
            "jobs": len(self.plan.works),
            "ends": dict(self.ends),
        }


class Run:
    """Its folder has the state of the controller and what the ranks wrote."""

    def __init__(self, cluster: ChaosCluster, plan: Plan, folder: Path) -> None:
        self._cluster, self._plan, self._folder = cluster, plan, folder
        self._records, self._failures = folder / "records", folder / "failures"
        for each in (folder, self._records, self._failures):
            each.mkdir(mode=0o700)
        words = ("--engine", "ray", "--address", cluster.address, "--no-port", "--no-warm")
        self._daemon = Daemon(
            folder,
            *words,
            "--failover",
            "15s",
            "--policy",
            "backfill?share=off",
            through=cluster.through(HEAD),
        )
        self._outcome = Outcome(plan)
        self._begun = 0.0
        self._ids: dict[str, str] = {}  # by name, as they were acknowledged
        self._cancelled: set[str] = set()

    def play(self) -> Outcome:
        """Do it all, and judge. It raises nothing that is about the run."""
        outcome = self._outcome
        (self._folder / "plan.json").write_text(json.dumps(asdict(self._plan), indent=1))
        try:
            with self._spent("start"):
                self._start()
                self._until(self._is_whole, "not all nodes are used")
                self._until(self._some_run, "no job runs")
            self._begun = time.monotonic()
            with self._spent("jobs"):
                self._live()
            with self._spent("whole"):
                self._until(self._is_whole, "devices are held or missing")
                self._until(lambda: not self._cluster.wrong(), "Ray is not whole", fails=False)
            with self._spent("judge"):
                self._judge()
        except Exception as error:  # Whatever it is, the run has failed by it.
            outcome.wrong.append(f"{type(error).__name__}: {error}")
        with self._spent("leave"):
            self._leave()
        return outcome

    @contextmanager
    def _spent(self, what: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._outcome.spent_s[what] = time.monotonic() - begun

    def _start(self) -> None:
        begun = time.monotonic()
        self._daemon.start()
        self._outcome.restart_s = max(self._outcome.restart_s, time.monotonic() - begun)

    # -- what happens ---------------------------------------------------------------------------

    def _live(self) -> None:
        with ThreadPoolExecutor(len(self._plan.faults)) as pool:
            faults = [pool.submit(self._strike, fault) for fault in self._plan.faults]
            self._until(self._all_ended, "jobs have not ended")
            _results(faults)

    def _strike(self, fault: Fault) -> None:
        self._sleep_until(fault.at)
        cluster, node = self._cluster, fault.node
        if fault.kind == "cut":
            cluster.cut(node)
            time.sleep(fault.lasts_s)
            cluster.heal(node)
            hit = True
        elif fault.kind == "raylet":
            hit = cluster.kill_raylet(node, fault.lasts_s)
        elif fault.kind in ("agent", "hang"):
            how = signal.SIGKILL if fault.kind == "agent" else signal.SIGSTOP
            hit = cluster.hit_agent(node, how)
        elif fault.kind == "driver":
            hit = self._kill_driver()
        else:
            self._daemon.kill()
            time.sleep(fault.lasts_s)
            self._start_again()
            hit = True
        (self._outcome.struck if hit else self._outcome.missed).append(fault)

    def _start_again(self) -> None:
        """As a service manager would. A start fails if its driver is killed before it is ready."""
        for _ in range(1 + sum(fault.kind == "driver" for fault in self._plan.faults)):
            try:
                self._start()
            except AssertionError:
                if self._daemon.is_running:
                    raise
            else:
                return
        raise AssertionError("the controller does not start again")

    def _kill_driver(self) -> bool:
        found = [
            each
            for each in children(self._daemon.pid)
            if "treadle.engines.clusters.ray.driver" in processes.command_of(each.pid)
        ]
        return bool([each for each in found if processes.send(each, signal.SIGKILL)])

    def _some_run(self) -> bool:
        """Whether some jobs have begun: faults come while they run, however slow the machine is."""
        self._look_after(0.0)
        return any(self._records.iterdir())

    def _all_ended(self) -> bool:
        return self._look_after(time.monotonic() - self._begun)

    def _look_after(self, passed_s: float) -> bool:
        """Do as a patient user would; whether nothing is left to be done."""
        with suppress(UnreachableError, NoAnswerError, UnavailableError), self._client() as client:
            for work in self._plan.works:
                if work.name not in self._ids and work.submit_at <= passed_s:
                    answer = client.submit(self._request(work), key=work.name)
                    self._ids[work.name] = answer.id
                due = work.cancel_at is not None and work.cancel_at <= passed_s
                if due and work.name in self._ids and work.name not in self._cancelled:
                    with suppress(ConflictError):
                        client.cancel(self._ids[work.name])
                    self._cancelled.add(work.name)
            return len(self._ids) == len(self._plan.works) and not client.job_page(limit=1).jobs
        return False

    def _request(self, work: Work) -> JobRequest:
        document = document_of(work, self._records, self._failures)
        return JobRequest(
            name=work.name,
            command=(sys.executable, "-IS", str(PROGRAM), json.dumps(document)),
            devices=str(work.devices),
            ranks="device",
            resumable=work.resumable,
            retries=work.retries,
            grace_s=work.grace_s,
            workdir="/",
        )

    # -- the judge ------------------------------------------------------------------------------

    def _judge(self) -> None:
        outcome = self._outcome
        with self._client() as client:
            details = {identity: client.job(identity) for identity in self._ids.values()}
            nodes = client.nodes()
        for detail in details.values():
            outcome.ends.update(_how(detail))
        outcome.wrong += [
            f"{device.name} is {device.state}: {device.because}"
            for node in nodes
            for device in node.devices
            if node.health != "lost" and device.state != "free"
        ]
        ranks = rank_records(self._records, self._cluster.network.inodes, self._daemon.state)
        outcome.standstill_s = standstill_s(ranks)
        # An agent that came a moment ago may be about to look at what it has.
        _until(lambda: not agent_records(self._daemon.state).wrong, "", GONE_S, fails=False)
        agents = agent_records(self._daemon.state)
        outcome.wrong += agents.wrong
        lost = self._lost()
        # An agent that is killed, or hangs, may be away for longer than its lease lasts.
        killed = {fault.node for fault in outcome.struck if fault.kind in ("agent", "hang")}
        late = ((killed | self._restarted()) & agents.fenced) - lost - self._plan.lost()
        outcome.notes += [f"(the agent of {node} came too late)" for node in sorted(late)]
        # On a machine that is too busy Ray may miss a node to which nothing was done.
        outcome.notes += [f"({node} was missed)" for node in lost - self._plan.lost()]
        # One that was lost while there was no controller is in no log.
        lost |= self._plan.lost() | late
        if fewer := self._began_with():
            # The agents of the others came later than a controller waits: it gives up their jobs.
            outcome.notes.append(f"(the controller began with {min(fewer)} devices)")
            lost |= set(NODES)
        outcome.wrong += judged(self._plan, details, ranks, agents.spans, lost)

    def _lost(self) -> set[str]:
        return set(_LOST.findall((self._daemon.state / "daemon.log").read_text()))

    def _restarted(self) -> set[str]:
        """Nodes whose agents did not answer: on a machine that is too busy, others too."""
        logs = self._daemon.state.glob("nodes/*/agent.log")
        return {log.parent.name for log in logs if _RESTARTED in log.read_text()}

    def _began_with(self) -> list[int]:
        """The devices that controllers began with, where nodes were missing that nothing hurt."""
        unhurt = SLOTS * (len(NODES) - len(self._plan.lost()))
        found = map(int, _DEVICES.findall((self._daemon.state / "daemon.log").read_text()))
        return [count for count in found if count < unhurt]

    def _leave(self) -> None:
        """The controller goes, and nothing of it may be left."""
        outcome = self._outcome
        try:
            if self._daemon.is_running:
                code = self._daemon.leave()
                outcome.wrong += [f"the controller ended with {code}"] if code else []
        except Exception as error:
            outcome.wrong.append(f"the controller does not leave: {error}")
        instances = [path.read_text() for path in self._daemon.state.glob("nodes/*/instance")]

        def left() -> list[str]:
            orphans = [e for name in instances for e in processes.tagged(TAG, f"{name}*")]
            found = [f"of a job: {processes.command_of(each.pid)}" for each in orphans]
            return found + self._cluster.strays() + self._cluster.wrong()

        _until(lambda: not left(), "", GONE_S, fails=False)
        outcome.wrong += left()
        outcome.wrong += [
            f"a socket is left: {path}"
            for path in self._folder.rglob("*")
            if path.is_socket() and path.name not in (AGENT, MEMBER)
        ]
        for name in instances:
            while processes.kill_tagged(TAG, f"{name}*"):
                time.sleep(0.01)

    # -- leaves ---------------------------------------------------------------------------------

    def _client(self) -> Client:
        return Client(f"unix:{self._daemon.socket}")

    def _is_whole(self) -> bool:
        with suppress(UnreachableError, NoAnswerError, UnavailableError), self._client() as client:
            status = client.status()
            return status.free == status.devices == len(NODES) * SLOTS
        return False

    def _progress(self) -> int:
        """It grows while ranks write."""
        return sum(path.stat().st_size for path in self._records.iterdir())

    def _sleep_until(self, moment: float) -> None:
        time.sleep(max(0.0, self._begun + moment - time.monotonic()))

    def _until(self, true: Callable[[], bool], otherwise: str, *, fails: bool = True) -> None:
        """While anything goes on it is waited for: a machine may be slow."""
        _until(true, otherwise, SETTLE_S, self._progress, fails=fails)


def document_of(work: Work, records: Path, failures: Path) -> dict[str, object]:
    """What a rank of the job is told (chaos_rank.py)."""
    return {
        "name": work.name,
        "steps": work.steps,
        "fails": work.fails,
        "code": work.code,
        "resumable": work.resumable,
        "stubborn": work.stubborn,
        "patience_s": work.patience_s,
        "records": str(records),
        "failures": str(failures),
    }


def _until(
    true: Callable[[], bool],
    otherwise: str,
    within_s: float,
    progress: Callable[[], object] = int,
    *,
    fails: bool = True,
) -> None:
    """within_s: without progress; several times as long in all."""
    begun = since = time.monotonic()
    seen = progress()
    while not true():
        now, before, seen = time.monotonic(), seen, progress()
        since = since if seen == before else now
        if now - since > within_s or now - begun > SLOW * within_s:
            assert not fails, otherwise
            return
        time.sleep(LOOK_S)


def _results(futures: Sequence["Future[None]"]) -> None:
    for each in futures:
        each.result()


def _how(detail: JobDetail) -> list[str]:
    return [each.told or f"exited {each.code}" for each in detail.attempts]
