"""A daemon made of values, and the command line run against it at 80 columns."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from tests.blank import blank

from treadle.cli.live.session import Session
from treadle.cli.main import run
from treadle.client import Client
from treadle.core.machine import DeviceView, NodeView
from treadle.wire.history import JobHistory
from treadle.wire.job_orders import JobOutcome, JobsOrder, JobsOrdered, Verb
from treadle.wire.jobs import (
    AttemptView,
    DryRun,
    JobChange,
    JobDetail,
    JobPage,
    JobRequest,
    JobView,
    LogPiece,
    State,
    Submitted,
    Why,
)
from treadle.wire.learned import ForgetRequest, Forgotten, LearnedPage
from treadle.wire.machine import (
    EventPage,
    EventView,
    PolicyView,
    Role,
    Status,
    TokenMade,
    TokenRequest,
    TokenView,
    UsageRow,
)
from treadle.wire.problems import ConflictError, NotFoundError, RequestError
from treadle.wire.retention import Pruned, PrunedJob, PruneRequest
from treadle.wire.sessions import LinkMade
from treadle.wire.what_if import WhatIf, WhatIfRequest

NOW = 1_790_000_000.0  # 2026-09-21 14:13:20 UTC


def job(identity: str, state: State = State.PENDING, **more: object) -> JobView:
    """A job of anna's, submitted ten minutes ago."""
    own = {"user": "anna", "submitted_at": NOW - 600, "command": ("python", "train.py")}
    return blank(JobView, **{"id": identity, "state": state, **own, **more})


def running(identity: str, **more: object) -> JobView:
    began = {"started_at": NOW - 300, "running_s": 300.0, "attempts": 1, "devices": ("box:0",)}
    return job(identity, State.RUNNING, **{**began, **more})


def detail(view: JobView, **more: object) -> JobDetail:
    asked = {"workdir": "/home/anna/code", "grace_s": 30.0, "retries": 3, "retry_unknown": True}
    ran = AttemptView(number=1, devices=view.devices, started_at=NOW - 300)
    runs = (ran,) if view.attempts else ()
    return blank(JobDetail, **{"job": view, **asked, "attempts": runs, **more})


STATUS = Status(
    version="1.2.3",
    pid=4242,
    since_at=NOW - 7500,
    store="sqlite",
    socket="/run/user/1000/treadle/treadle.sock",
    url="",
    policy="afs",
    devices=8,
    free=3,
    running=5,
    waiting=12,
    held=1,
)


@dataclass
class ValueClient(Client):
    """Answers with what it was given, and keeps what it was asked."""

    views: list[JobView] = field(default_factory=list)
    details: dict[str, JobDetail] = field(default_factory=dict)
    whys: dict[str, Why] = field(default_factory=dict)
    histories: dict[str, JobHistory] = field(default_factory=dict)
    logs: dict[tuple[int, int], str] = field(default_factory=dict)  # (attempt, rank) -> text
    machines: tuple[NodeView, ...] = ()
    found: Status = STATUS
    happened: tuple[EventView, ...] = ()
    used: tuple[UsageRow, ...] = ()
    known: LearnedPage = field(default_factory=LearnedPage)
    made: Submitted | None = None
    would: DryRun | None = None
    asked: list[tuple[object, ...]] = field(default_factory=list)
    requests: list[JobsOrder] = field(default_factory=list)
    pages: int = 0  # of lists of jobs that were asked for

    def submit(self, request: JobRequest, *, key: str | None = None) -> Submitted:
        self.asked.append(("submit", request))
        return self.made or Submitted(id="12", jobs=("12",), position=None)

    def dry_run(self, request: JobRequest) -> DryRun:
        self.asked.append(("dry_run", request))
        return self.would or DryRun(jobs=1, sizes=(1,), starts_now=True)

    def job_page(self, **which: object) -> JobPage:
        self.pages += 1

        def passes(view: JobView) -> bool:
            return (
                (not which.get("states") or view.state in which["states"])  # type: ignore[operator]
                and (not which.get("user") or view.user == which["user"])
                and (not which.get("array") or view.array == which["array"])
                and (not which.get("name") or view.name == which["name"])
                and (not which.get("tenant") or view.tenant == which["tenant"])
                and (bool(which.get("ended")) or not view.state.ended)
            )

        kept = [view for view in self.views if passes(view)]
        begin = int(str(which.get("cursor") or 0))
        limit = int(str(which.get("limit") or 1000))
        more = str(begin + limit) if len(kept) > begin + limit else ""
        active = sum(not view.state.ended for view in kept)
        return JobPage(jobs=tuple(kept[begin : begin + limit]), cursor=more, total=active)

    def job(self, identity: str) -> JobDetail:
        if identity in self.details:
            return self.details[identity]
        for view in self.views:
            if view.id == identity:
                return detail(view)
        raise NotFoundError(f"there is no job {identity}")

    def why(self, identity: str, *, verbose: bool = False) -> Why:
        self.asked += [("why verbosely", identity)] if verbose else []
        if identity not in self.whys:
            raise NotFoundError(f"there is no job {identity}")
        return self.whys[identity]

    def job_history(self, identity: str) -> JobHistory:
        return self.histories.get(identity, JobHistory(id=identity, attempts=()))

    def _order(self, verb: str, identity: str, state: State) -> tuple[JobView, ...]:
        self.asked.append((verb, identity))
        meant = [view for view in self.views if identity in (view.id, view.array)]
        if not meant:
            raise NotFoundError(f"there is no job {identity}")
        return tuple(replace(view, state=state) for view in meant)

    def cancel(self, identity: str) -> tuple[JobView, ...]:
        return self._order("cancel", identity, State.CANCELLED)

    def hold(self, identity: str) -> tuple[JobView, ...]:
        return self._order("hold", identity, State.HELD)

    def release(self, identity: str) -> tuple[JobView, ...]:
        return self._order("release", identity, State.PENDING)

    def change(self, identity: str, change: JobChange) -> JobView:
        changed = self._order("change", identity, State.PENDING)[0]
        return replace(changed, priority=change.priority or 0)

    def order_jobs(self, order: JobsOrder) -> JobsOrdered:
        self.requests.append(order)
        ids = order.ids
        if order.select is not None:
            ids = tuple(view.id for view in self.views if not view.state.ended)
        outcomes = tuple(self._outcome(order, identity) for identity in ids)
        done = sum(len(outcome.jobs) for outcome in outcomes)
        return JobsOrdered(outcomes=outcomes, done=done, refused=len(ids) - done)

    def _outcome(self, order: JobsOrder, identity: str) -> JobOutcome:
        if order.dry_run:
            meant = tuple(view for view in self.views if view.id == identity)
            return JobOutcome(id=identity, jobs=meant)
        try:
            match order.verb:
                case Verb.CANCEL:
                    jobs = self.cancel(identity)
                case Verb.HOLD:
                    jobs = self.hold(identity)
                case Verb.RELEASE:
                    jobs = self.release(identity)
                case Verb.PAUSE:
                    jobs = self._order("pause", identity, State.PAUSED)
                case Verb.RESUME:
                    jobs = self._order("resume", identity, State.RUNNING)
                case Verb.DELETE:
                    jobs = self._order("delete", identity, State.SUCCEEDED)
                case Verb.CHANGE:
                    assert order.change is not None
                    jobs = (self.change(identity, order.change),)
        except RequestError as error:
            return JobOutcome(id=identity, error=str(error), code=error.code, hint=error.hint)
        return JobOutcome(id=identity, jobs=jobs)

    def prune(self, request: PruneRequest) -> Pruned:
        self.asked.append(("prune", request))
        size = 3 * 2**19
        one = PrunedJob(id="7", user="anna", ended_at=NOW - 9e6, bytes=size)
        counts = {"logs": 1, "checkpoint_folders": 2, "journal_lines": 12, "kept_bytes": 3072}
        return blank(Pruned, dry_run=request.dry_run, jobs=(one,), bytes=size, **counts)

    def log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
    ) -> LogPiece:
        attempt = attempt or max((number for number, _ in self.logs), default=0)
        if (attempt, rank) not in self.logs:
            raise NotFoundError(f"attempt {attempt} of job {identity} has no rank {rank}")
        content = self.logs[attempt, rank].encode()
        begin = max(0, len(content) + offset) if offset < 0 else min(offset, len(content))
        piece = content[begin : begin + limit]
        return LogPiece(
            attempt=attempt,
            rank=rank,
            offset=begin,
            next=begin + len(piece),
            text=piece.decode(),
            ended=True,
            size=len(content),
            ranks=1 + max(other for number, other in self.logs if number == attempt),
        )

    def nodes(self) -> tuple[NodeView, ...]:
        return self.machines

    def order_node(self, node: str, order: str) -> NodeView:
        self.asked.append((order, node))
        device = DeviceView(name=f"{node}:0", number=0, state="held", jobs=("7",))
        drained = order == "drain"
        return NodeView(
            name=node, device_type="gpu", cores=8, memory_gib=64, devices=(device,), drained=drained
        )

    def order_device(self, device: str, order: str) -> NodeView:
        self.asked.append((order, device))
        state = {"manage": "free", "avoid": "avoided"}[order]
        changed = DeviceView(name=device, number=3, state=state)
        return NodeView(name="box", device_type="gpu", cores=8, memory_gib=64, devices=(changed,))

    def unquarantine(self, device: str) -> NodeView:
        return self.order_device(device, "manage")

    def policy(self) -> PolicyView:
        return PolicyView(policy="afs", placement="pack", since_at=NOW - 60)

    def set_policy(self, policy: str, placement: str | None = None) -> PolicyView:
        self.asked.append(("set_policy", policy, placement))
        chosen = placement or "pack"
        return PolicyView(policy=policy, placement=chosen, since_at=NOW)

    def status(self) -> Status:
        return self.found

    def shut_down(self, mode: str = "leave") -> Status:
        self.asked.append(("shut_down", mode))
        before, self.found = self.found, replace(self.found, pid=1)
        return before

    def events(self, *, after: int = 0, job: str = "", limit: int = 100) -> EventPage:
        kept = [event for event in self.happened if event.id > after]
        return EventPage(events=tuple(kept[:limit]), next=after + len(kept[:limit]))

    def events_last(self, *, job: str = "", limit: int = 100) -> EventPage:
        kept = [event for event in self.happened if not job or event.job == job]
        return EventPage(events=tuple(kept[-limit:]), next=len(self.happened))

    def follow_events(self, *, after: int | None = None, job: str = "") -> Iterator[EventView]:
        yield EventView(id=99, at=NOW, kind="finished", job="12", text="exit code 0")

    def usage(
        self, *, since_at: float | None = None, until_at: float | None = None
    ) -> tuple[UsageRow, ...]:
        self.asked.append(("usage", since_at))
        return self.used

    def learned(self, script: str = "", *, user: str = "") -> LearnedPage:
        self.asked.append(("learned", (script, user)))
        return self.known

    def forget_script(self, request: ForgetRequest) -> Forgotten:
        self.asked.append(("forget", request))
        return Forgotten(scripts=(request.script,))

    def snapshot(self) -> dict[str, object]:
        return {"now": 12.5}

    def what_if(self, request: WhatIfRequest) -> WhatIf:
        # A real daemon simulates in test_cli_what_if.py.
        raise ConflictError("another what-if is being simulated")

    def journal(self) -> Iterator[bytes]:
        yield b'{"a":1}\n'
        yield b'{"b":2}\n'

    def debug(self) -> dict[str, str]:
        return {"status.json": "{}", "daemon.log": "all is well\n"}

    def session_link(self) -> LinkMade:
        return LinkMade(url="http://127.0.0.1:1/#/login/code", expires_at=60.0)

    def make_token(self, request: TokenRequest) -> TokenMade:
        view = TokenView(
            id="t1",
            name=request.name,
            user=request.user or "anna",
            role=request.role,
            created_at=NOW,
            expires_at=None if request.days is None else NOW + 86_400 * request.days,
        )
        return TokenMade(token="treadle_user_t1_secret", view=view)

    def tokens(self, *, user: str = "") -> tuple[TokenView, ...]:
        ci = TokenView(id="t1", name="ci", user="anna", role=Role.USER, created_at=NOW - 86_400)
        old = replace(ci, id="t2", name="old", used_at=NOW - 60, expires_at=NOW - 1)
        return (ci, old)

    def close(self) -> None:
        self.asked.append(("close",))

    def revoke_token(self, identity: str) -> None:
        self.asked.append(("revoke", identity))

    def revoke_tokens(self, *, user: str = "") -> tuple[TokenView, ...]:
        self.asked.append(("revoke all", user))
        return self.tokens(user=user)


@dataclass
class Moment:
    """Time that passes only during pauses."""

    s: float = 0.0

    def stopwatch(self) -> float:
        return self.s

    def pause(self, seconds: float) -> None:
        self.s += seconds


def treadle(client: ValueClient, *words: str, columns: int = 80, user: str = "anna") -> int:
    """Run one command against those values; its exit code."""
    moment = Moment()
    session = Session(
        connect=lambda: client,
        now=lambda: NOW,
        stopwatch=moment.stopwatch,
        pause=moment.pause,
        columns=columns,
        user=lambda: user,
    )
    return run(list(words), session)


def printed(
    capsys: pytest.CaptureFixture[str], client: ValueClient, *words: str, columns: int = 80
) -> str:
    assert treadle(client, *words, columns=columns) == 0
    return capsys.readouterr().out
