"""A small real supervisor for tests: it forks members that train, and does what a scenario says.

It runs in a process of its own, made by a fork server that has torch loaded, and forks the members
itself. So a member starts in hundredths of a second, and its end is seen at once.
"""

import json
import os
import runpy
import selectors
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.forked import context
from tests.train.meetings import Meeting
from treadle.core.member_facts import Limits, Phase, Target
from treadle.engines.node.first_members import environment
from treadle.engines.node.members import Fact, Members

TRAIN = Path(__file__).parent
SILENT_S_MAX = 60.0  # a scenario that goes on for longer without a step or a change hangs
LIMIT_S = 600.0  # of a scenario, also on a machine that has other work


@dataclass
class Event:
    """When the group has applied this many steps: change the members, or kill one of them.

    settled: not before the group is what was ordered last.
    """

    at_step: int
    places: tuple[str, ...] = ()
    plan: str = ""
    kill: int | None = None  # the rank, among those that are left
    number: int = signal.SIGKILL
    stop: bool = False
    hang_up: bool = False  # the coordinator is gone
    settled: bool = True


@dataclass
class Scenario:
    script: str  # the name of a function in tests/train/scripts.py
    start: tuple[str, ...]
    events: list[Event] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    folder: str = ""
    plan: str = ""


@dataclass
class Result:
    """What happened; rows are what the members wrote."""

    facts: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    codes: dict[str, int]
    errors: str
    took_s: float
    hung: bool = False

    @property
    def ended(self) -> dict[str, Any]:
        return next(fact for fact in self.facts if fact["kind"] == "Ended")

    @property
    def changes(self) -> list[dict[str, Any]]:
        return [fact for fact in self.facts if fact["kind"] == "Changed"]


def run(scenario: Scenario) -> Result:
    """Carry a scenario out to its end."""
    with tempfile.TemporaryDirectory() as folder:
        scenario.folder = scenario.folder or folder
        outcome = Path(folder) / "result.json"
        process = context.Process(target=_coordinate, args=(scenario, outcome))
        process.start()
        process.join(LIMIT_S)
        assert not process.is_alive(), "the coordinator hangs"
        return Result(**json.loads(outcome.read_text()))


def printed(script: Path, *words: str, workdir: Path = TRAIN) -> str:
    """What a script prints that runs alone, without Treadle."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        process = context.Process(target=_run_alone, args=(script, words, workdir, output))
        process.start()
        process.join(LIMIT_S)
        assert process.exitcode == 0, output.read_text()
        return output.read_text()


def _run_alone(script: Path, words: tuple[str, ...], workdir: Path, output: Path) -> None:
    os.chdir(workdir)
    with output.open("w") as file:
        sys.argv = [str(script), *words]
        sys.path.insert(0, str(script.parent))
        sys.stdout = sys.stderr = file
        runpy.run_path(str(script), run_name="__main__")


class Supervisor:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.folder = Path(scenario.folder)
        self.memory = self.folder / "memory"
        self.memory.mkdir(exist_ok=True)
        self.meeting = Meeting()
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self.dismissed: set[str] = set()
        self.killed: set[str] = set()  # perhaps not ended yet
        self.facts: list[dict[str, Any]] = []
        self.applied = 0
        self.order = 1
        self.events = list(scenario.events)
        self.pipe, self.said = os.pipe()
        self.buffer = b""
        self.rows: list[dict[str, Any]] = []
        self.began = self.heard_at = time.monotonic()
        self.hung = False
        self.members = Members(
            f"{self.meeting.where}/group",
            launch=self.launch,
            dismiss=self.dismiss,
            report=self.report,
            limits=Limits(**scenario.limits),  # type: ignore[arg-type]
        )

    def launch(self, member: str, place: tuple[str, ...], descriptor: int, joins: bool) -> None:
        pid = os.fork()
        if pid:
            self.pids[member] = pid
            return
        code = 70
        self.members.close()  # The lines of its siblings are not its own.
        try:
            os.environ.update(
                environment(
                    member,
                    self.meeting.where,
                    descriptor,
                    joins=joins,
                    asked=len(self.scenario.start),
                )
            )
            os.environ["TREADLE_CHECKPOINT_DIR"] = str(self.folder / "checkpoints")
            os.environ["TREADLE_MEMORY_DIR"] = str(self.memory)  # as good as /dev/shm for a test
            os.environ["TREADLE_PLAN"] = self.members.machine._plan
            os.set_inheritable(descriptor, True)
            errors = os.open(self.folder / f"{member}.err", os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(errors, 1)
            os.dup2(errors, 2)
            from tests.train import scripts

            script: Callable[..., None] = getattr(scripts, self.scenario.script)
            script(self.said, place, **self.scenario.options)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            from treadle.train.stop import exit_now

            exit_now(code)

    def dismiss(self, member: str, at_once: bool) -> None:
        if member not in self.codes:
            hangs = at_once or member in self.dismissed
            os.kill(self.pids[member], signal.SIGKILL if hangs else signal.SIGTERM)
            self.dismissed.add(member)

    def report(self, fact: Fact) -> None:
        row = {"kind": type(fact).__name__, "at_s": time.monotonic() - self.began, **asdict(fact)}
        self.facts.append(row)
        self.heard_at = time.monotonic()

    def run(self) -> None:
        places = tuple((place,) for place in self.scenario.start)
        self.members.order(Target(1, places, self.scenario.plan), time.monotonic())
        while self.pids.keys() - self.codes.keys():
            self.hung = self.hung or time.monotonic() - self.heard_at > SILENT_S_MAX
            if self.hung:
                for member in self.pids.keys() - self.codes.keys():
                    os.kill(self.pids[member], signal.SIGKILL)
            self.wait()
            self.reap()
            self.act()
            if self.members.due is not None and time.monotonic() >= self.members.due:
                self.members.tick(time.monotonic())
        self.hear()

    def wait(self) -> None:
        with selectors.DefaultSelector() as selector:
            for descriptor in self.members.descriptors():
                selector.register(descriptor, selectors.EVENT_READ)
            selector.register(self.pipe, selectors.EVENT_READ)
            for key, _ in selector.select(0.02):
                if key.fd == self.pipe:
                    self.hear()
                else:
                    self.members.readable(key.fd, time.monotonic())

    def hear(self) -> None:
        os.set_blocking(self.pipe, False)
        with suppress(BlockingIOError):
            while data := os.read(self.pipe, 1 << 16):
                *lines, self.buffer = (self.buffer + data).split(b"\n")
                for line in lines:
                    row = json.loads(line)
                    self.rows.append(row)
                    self.heard_at = time.monotonic()
                    self.applied = max(self.applied, row.get("step", 0))

    def reap(self) -> None:
        for member, pid in list(self.pids.items()):  # a restart launches others
            if member in self.codes:
                continue
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self.codes[member] = os.waitstatus_to_exitcode(status)
                self.members.ended(member, time.monotonic())

    def act(self) -> None:
        while self.events and self.applied >= self.events[0].at_step:
            event = self.events[0]
            if event.settled and self.members.machine.phase is not Phase.RUNNING:
                return
            self.events.pop(0)
            if event.hang_up:
                self.members.close()
            elif event.stop:
                self.members.stop(time.monotonic())
            elif event.kill is not None:
                ended = self.codes.keys() | self.killed
                group = [m for m in self.members.machine.group if m not in ended]
                if len(group) > 1:
                    chosen = group[event.kill % len(group)]
                    self.killed |= {chosen} if event.number == signal.SIGKILL else set()
                    os.kill(self.pids[chosen], event.number)
            else:
                self.order += 1
                places = tuple((place,) for place in event.places)
                self.members.order(Target(self.order, places, event.plan), time.monotonic())


def _coordinate(scenario: Scenario, outcome: Path) -> None:
    supervisor = Supervisor(scenario)
    supervisor.run()
    errors = "".join(path.read_text() for path in sorted(supervisor.folder.glob("*.err")))
    took_s = time.monotonic() - supervisor.began
    result = Result(
        supervisor.facts, supervisor.rows, supervisor.codes, errors, took_s, supervisor.hung
    )
    outcome.write_text(json.dumps(asdict(result)))
