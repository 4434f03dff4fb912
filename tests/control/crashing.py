"""A controller that is killed again and again at its store's writes, and the jobs it looks after.

Run as a program it forks one controller after another over the same store. Each kills itself with
SIGKILL at one point of one of its writes; the last one may finish. What it was told and what it
answered goes into a file that no crash undoes, and every job leaves a line for each of its starts.

    python -m tests.control.crashing FOLDER URL CRASHES SEED
"""

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from treadle.control.api import LiveService, LiveSettings, Wanted, retention
from treadle.control.jobs import Rebuilt, first_cluster, record_of
from treadle.control.learning import PROFILES_MAX
from treadle.control.loop import PolicyInCharge
from treadle.core.scheduler import Scheduler
from treadle.engines.clusters.here import here
from treadle.engines.node.devices import CpuSlots
from treadle.failures.failure_history import Patience
from treadle.failures.retry import Classified, live_verdicts
from treadle.failures.rules import shipped
from treadle.journal.journal import read, replay
from treadle.policies.live.naming import PLACEMENT
from treadle.store.rows import JobFilter
from treadle.store.store import Store
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import Role, Who
from treadle.wire.problems import ConflictError, NotFoundError
from treadle.wire.retention import Keep, Keeping

POLICY = "afs"
PATIENCE = Patience(wait_s=0.05, wait_max_s=0.1)
ME = Who(user="me", role=Role.ADMIN, uid=os.geteuid())
AT_ONCE = 7
POINTS = (
    "begin",
    "journal",
    "jobs",
    "attempts",
    "keys",
    "settings",
    "prune",
    "commit",
    "committed",
)
KINDS = 10
MEMBERS = 3  # of an array


def script(folder: Path, name: str, body: str) -> tuple[str, ...]:
    """A job that says that it starts, and then does something."""
    starts = f"{folder / 'starts' / name}$TREADLE_ARRAY_INDEX"
    return ("/bin/bash", "-c", f'echo "$TREADLE_ATTEMPT $RANK $$" >> {starts}; {body}')


def request(folder: Path, number: int, known: Mapping[str, str]) -> JobRequest:  # noqa: PLR0911
    """The jobs of the scenario, one after another; `number` also names them."""
    name = f"job-{number:03}"
    match number % KINDS:
        case 0:
            return JobRequest(name=name, command=script(folder, name, "exit 0"))
        case 1:
            return JobRequest(name=name, command=script(folder, name, "exec sleep 0.3"))
        case 2:
            return JobRequest(name=name, command=script(folder, name, "exit 3"), retries=0)
        case 3:
            body = "trap 'exit 143' TERM; for i in 1 2 3 4; do sleep 0.1 & wait $!; done"
            command = script(folder, name, body)
            return JobRequest(name=name, command=command, devices="1..3", resumable=True)
        case 4:
            return JobRequest(name=name, devices="2", command=script(folder, name, "sleep 0.1"))
        case 5:
            command = script(folder, name, "exec sleep 600")
            return JobRequest(name=name, command=command, grace_s=0.2)
        case 6:
            return JobRequest(name=name, command=script(folder, name, "exit 0"), held=True)
        case 8:
            command = script(folder, name, "exit 0")
            return JobRequest(name=name, command=command, after=(known[f"job-{number - 7:03}"],))
        case 9:
            command = script(folder, name + "-", "sleep 0.05")
            return JobRequest(name=name, command=command, array=f"0-{MEMBERS - 1}%1")
        case _:
            text = "torch.distributed.DistBackendError: NCCL error: unhandled system error"
            body = f'test "$TREADLE_ATTEMPT" -ge 2 || {{ echo "{text}"; exit 1; }}'
            return JobRequest(name=name, command=script(folder, name, body), retries=3)


class Fate:
    """When to die: at a point of a write, counted from this controller's first."""

    def __init__(self, write: int, point: str) -> None:
        self._write, self._point = write, point
        self._writes = 0

    def __call__(self, point: str) -> None:
        self._writes += point == "begin"
        if self._writes >= self._write and point == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


class Told:
    """What was asked for and answered, on disk."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "told.jsonl"

    def write(self, what: str, name: str, identity: str = "") -> None:
        with self._path.open("a") as file:
            file.write(json.dumps([what, name, identity]) + "\n")

    def read(self) -> list[tuple[str, str, str]]:
        if not self._path.exists():
            return []
        return [tuple(json.loads(line)) for line in self._path.read_text().splitlines()]


async def live_once(folder: Path, url: str, jobs: int, hook: Callable[[str], None] | None) -> None:
    """One controller, from taking over what is there until it dies or everything has ended."""
    store = Store.open(url, hook=hook)
    settings = LiveSettings(
        root=folder / "state",
        engine=partial(here, devices=CpuSlots(4), node_name="here"),
        wanted=Wanted(policy=POLICY),
        patience=PATIENCE,
    )
    live = LiveService(store, settings)
    # Old lines are closed and thinned all the time, and the journal must not say less by that.
    retention.SEGMENT_LINES, retention.LIVE_LINES, retention.LOOK_EVERY_S = 20, 10, 0.02
    retention.SWEEP_AFTER_S = retention.SWEEP_EVERY_S = 0.05
    live._retention.options = Keeping(logs=Keep(0.5))
    await journal_gives_the_same_books(live, folder)
    journal_gives_the_same_records(live)
    await live.begin()
    try:
        await asyncio.wait_for(user(live, folder, jobs), 120.0)
    finally:
        await live.close()


async def journal_gives_the_same_books(live: LiveService, folder: Path) -> None:
    """What the journal replays to is what the rows of the store say."""
    path = folder / "exported.journal"
    path.write_bytes(b"".join([piece async for piece in live.journal()]))
    scheduler = live.context.scheduler
    retry = Classified(live_verdicts(shipped()), PATIENCE)
    again: Scheduler = replay(read(path), scheduler.policy, retry=retry)
    for name in {*again.jobs, *scheduler.jobs}:
        one, other = again.jobs.get(name), scheduler.jobs.get(name)
        assert one == other, f"the journal says {one}, the row {other}"
    assert again.blocked == scheduler.blocked, "blocked"
    assert again.tenancy.tenants == scheduler.tenancy.tenants, "tenants"
    assert again.counters == scheduler.counters, "counters"


def journal_gives_the_same_records(live: LiveService) -> None:
    """The journal alone gives every record, attempt, verdict and profile that the store holds."""
    context, store = live.context, live.context.store
    policy = PolicyInCharge().make(POLICY, PLACEMENT, context.belief)
    retry = Classified(live_verdicts(shipped()), PATIENCE)
    empty = Scheduler(policy, first_cluster(store, context.cluster), retry=retry)
    again = Rebuilt(empty).apply(store.lines(0, limit=10_000_000))
    stored = {row.id: record_of(row) for row in store.jobs(JobFilter(), limit=10_000)}
    rebuilt = {**again.ended, **again.jobs.records}
    assert rebuilt.keys() == stored.keys()
    for name, record in stored.items():
        assert rebuilt[name] == record, f"the journal says {rebuilt[name]}, the store {record}"
    for name in stored:
        for row in store.attempts(name):
            found = again.attempts[row.job, row.number]
            assert found == row, f"the journal says {found}, the store {row}"
    learned = {row.key: row.body for row in again.learner.changes(0.0)}
    kept = {row.key: row.body for row in store.profiles(PROFILES_MAX)}
    for key in kept.keys() | learned.keys():
        one, other = learned.get(key), kept.get(key)
        assert one == other, f"of {key} the journal says {one!r}, the store {other!r}"


async def user(live: LiveService, folder: Path, jobs: int) -> None:
    """Submit jobs and see them through; goes on where the one before was interrupted."""
    told = Told(folder)
    past = told.read()
    known = {name: identity for what, name, identity in past if what == "submitted"}
    number = 0
    while True:
        active = {view.name: view for view in (await live.jobs(limit=1000)).jobs}
        while number < jobs and len(active) < AT_ONCE:
            name = f"job-{number:03}"
            answer = await live.submit(ME, request(folder, number, known), f"key-{name}")
            if name in known:
                assert known[name] == answer.id, f"{name} was {known[name]} and is {answer.id}"
            else:
                told.write("submitted", name, answer.id)
                known[name] = answer.id
            active = {view.name: view for view in (await live.jobs(limit=1000)).jobs}
            number += 1
        for name, view in active.items():
            kind = int(name[-3:]) % KINDS
            with suppress(ConflictError, NotFoundError):
                if kind == 5 and view.state == "RUNNING":
                    await live.cancel(ME, view.id)
                if kind == 6 and view.state == "HELD":
                    await live.release(ME, view.id)
        if number == jobs and not active:
            return
        await asyncio.sleep(0.02)


def fates(crashes: int, seed: int) -> list[Fate]:
    """Every point of the first few writes, in an order by seed, so that some always get further."""
    draw = random.Random(seed)
    found = [Fate(1 + n % 7, POINTS[n % len(POINTS)]) for n in range(crashes)]
    draw.shuffle(found)
    return found


def main() -> int:
    folder, url = Path(sys.argv[1]), sys.argv[2]
    crashes, seed = int(sys.argv[3]), int(sys.argv[4])
    jobs = int(sys.argv[5])
    (folder / "starts").mkdir(exist_ok=True)
    # What opening a store imports, every child would otherwise import again.
    Store.open(f"sqlite:///{folder / 'unused.db'}").close()
    died = 0
    for fate in [*fates(crashes, seed), None]:
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(live_once(folder, url, jobs, fate))
            except BaseException as error:
                (folder / "error.txt").write_text(repr(error))
                raise
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            died += 1
        elif status != 0:
            return 1
        elif fate is not None:
            break  # Everything ended before its time came.
    (folder / "died").write_text(str(died))
    return 0


if __name__ == "__main__":
    sys.exit(main())
