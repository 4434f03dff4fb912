"""A whole service in memory: what the server is tested against, with real behaviour and no engine.

It is a LiveService to the type checker, which compares every method with the real one.

Jobs stand in a dict, events in a list, logs in files. Jobs run when a test says so.
"""

import asyncio
import codecs
import hashlib
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.blank import blank
from tests.server.memory_views import ViewsInMemory
from treadle.core.allocation import Pause
from treadle.core.job_report import Report
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
    Progress,
    State,
    Submitted,
    Why,
)
from treadle.wire.lab import ConfigChange, ConfigView
from treadle.wire.machine import (
    EventPage,
    EventView,
    PolicyChange,
    PolicyView,
    Role,
    Status,
    TokenMade,
    TokenRequest,
    TokenView,
    UsageRow,
    Who,
)
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    NotFoundError,
    RequestError,
)
from treadle.wire.retention import Pruned, PruneRequest


class MemoryService(ViewsInMemory):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.people: dict[int, Who] = {os.getuid(): Who(user="ada", role=Role.ADMIN)}
        self.asked: list[tuple[str, Who]] = []  # what reached the service, and from whom
        self.shut = ""
        self._details: dict[str, JobDetail] = {}
        self._keys: dict[tuple[str, str], tuple[JobRequest, Submitted]] = {}
        self._events: list[EventView] = []
        self._tokens: dict[str, tuple[str, TokenView]] = {}
        self._job_tokens: dict[str, Who] = {}
        self._more = asyncio.Event()
        self._order = "manage"
        self._config = ConfigView(version=0, text="")
        self._policy = "fifo"
        self._next = 1

    # -- what tests do to it

    def token(self, user: str, role: Role) -> str:
        identity = secrets.token_hex(4)
        token = f"treadle_{identity}_{secrets.token_hex(16)}"
        view = TokenView(id=identity, name="test", user=user, role=role, created_at=1.0)
        self._tokens[identity] = (hashlib.sha256(token.encode()).hexdigest(), view)
        return token

    def forget(self, token: str) -> None:
        """It is revoked."""
        del self._tokens[token.split("_")[1]]

    def job_token(self, job: str) -> str:
        token = f"treadle_job{job}_{secrets.token_hex(16)}"
        owner = self._details[job].job.user
        self._job_tokens[token] = Who(user=owner, role=Role.USER, job=job)
        return token

    def run(self, job: str, *, attempt: int = 1) -> Path:
        """Start an attempt; the file its first rank writes to."""
        detail = self._details[job]
        attempts = (
            *detail.attempts,
            AttemptView(number=attempt, devices=("here:0",), started_at=2.0),
        )
        self._set(replace(detail, attempts=attempts), State.RUNNING, "JobStarted")
        path = self._log_path(job, attempt, 0)
        path.touch()
        return path

    def end_attempt(self, job: str) -> None:
        detail = self._details[job]
        *before, last = detail.attempts
        self._details[job] = replace(
            detail, attempts=(*before, replace(last, ended_at=3.0, code=0))
        )

    def end(self, job: str, state: State = State.SUCCEEDED) -> None:
        if self._details[job].attempts:
            self.end_attempt(job)
        self._set(self._details[job], state, "AttemptEnded")

    # -- jobs

    async def submit(
        self,
        who: Who,
        request: JobRequest,
        key: str = "",
        *,
        pack: bool = True,
    ) -> Submitted:
        self.asked.append(("submit", who))
        if not request.command:
            raise InvalidRequestError("the command is empty")
        if key and (who.user, key) in self._keys:
            before, made = self._keys[who.user, key]
            if before != request:
                raise ConflictError(f"the key {key!r} was used for another request")
            return replace(made, repeated=True)
        identity = str(self._next)
        self._next += 1
        view = JobView(
            id=identity,
            name=request.name,
            user=who.user,
            tenant=request.tenant,
            state=State.PENDING,
            priority=request.priority,
            command=request.command,
            submitted_at=1.0,
        )
        detail = blank(JobDetail, job=view, env=request.env, code=request.code)
        self._set(detail, State.HELD if request.held else State.PENDING, "JobSubmitted")
        made = Submitted(id=identity, jobs=(identity,), position=1)
        if key:
            self._keys[who.user, key] = (request, made)
        return made

    async def dry_run(self, who: Who, request: JobRequest) -> DryRun:
        return DryRun(jobs=1, sizes=(1,), starts_now=True, spec={"command": request.command})

    async def jobs(
        self,
        *,
        states: tuple[str, ...] = (),
        user: str = "",
        tenant: str = "",
        array: str = "",
        name: str = "",
        ended: bool = False,
        cursor: str = "",
        limit: int = 100,
    ) -> JobPage:
        if cursor and not cursor.isdecimal():
            raise InvalidRequestError(f"the cursor {cursor!r} is not one that was given out")
        found = [
            detail.job
            for detail in self._details.values()
            if (not states or detail.job.state in states)
            and user in {"", detail.job.user}
            and tenant in {"", detail.job.tenant}
            and array in {"", detail.job.array}
            and name in {"", detail.job.name}
            and (ended or states or not detail.job.state.ended)
            and int(detail.job.id) > int(cursor or 0)
        ]
        page = tuple(found[:limit])
        return JobPage(jobs=page, cursor=page[-1].id if len(found) > limit else "")

    async def job(self, identity: str) -> JobDetail:
        return self._detail(identity)

    def _detail(self, identity: str) -> JobDetail:
        if identity not in self._details:
            raise NotFoundError(f"there is no job {identity!r}", hint="`treadle ps -a` lists them")
        return self._details[identity]

    def active_ids(self) -> tuple[str, ...]:
        return tuple(name for name, each in self._details.items() if not each.job.state.ended)

    async def active_views(self, ids: Sequence[str]) -> tuple[JobView, ...]:
        return tuple(self._details[name].job for name in ids if name in self.active_ids())

    async def why(self, identity: str, *, verbose: bool = False) -> Why:
        job = self._detail(identity).job
        return Why(id=job.id, state=job.state, code="devices", sentence="all 8 GPUs are busy")

    async def job_history(self, identity: str) -> JobHistory:
        return JobHistory(id=self._detail(identity).job.id, attempts=())

    async def cancel(self, who: Who, identity: str) -> tuple[JobView, ...]:
        return self._steer(who, identity, State.CANCELLED, "JobCancelled")

    async def hold(self, who: Who, identity: str) -> tuple[JobView, ...]:
        return self._steer(who, identity, State.HELD, "JobHeld")

    async def release(self, who: Who, identity: str) -> tuple[JobView, ...]:
        return self._steer(who, identity, State.PENDING, "JobReleased")

    async def pause(
        self, who: Who, identity: str, how: Pause = Pause.FROZEN
    ) -> tuple[JobView, ...]:
        return self._steer(who, identity, State.PAUSED, "JobHeld")

    async def resume(self, who: Who, identity: str) -> tuple[JobView, ...]:
        return self._steer(who, identity, State.RUNNING, "JobReleased")

    async def change(self, who: Who, identity: str, change: JobChange) -> JobView:
        detail = self._own(who, identity)
        job = replace(
            detail.job,
            priority=detail.job.priority if change.priority is None else change.priority,
            name=detail.job.name if change.name is None else change.name,
        )
        self._set(replace(detail, job=job), job.state, "JobChanged")
        return job

    async def order(self, who: Who, order: JobsOrder) -> JobsOrdered:
        change = order.change or JobChange()
        outcomes = []
        for identity in order.ids:
            try:
                match order.verb:
                    case Verb.CANCEL:
                        jobs = await self.cancel(who, identity)
                    case Verb.HOLD:
                        jobs = await self.hold(who, identity)
                    case Verb.RELEASE:
                        jobs = await self.release(who, identity)
                    case Verb.PAUSE:
                        jobs = await self.pause(who, identity)
                    case Verb.RESUME:
                        jobs = await self.resume(who, identity)
                    case Verb.DELETE:
                        jobs = (self._own(who, identity).job,)
                    case Verb.CHANGE:
                        jobs = (await self.change(who, identity, change),)
                outcomes.append(JobOutcome(id=identity, jobs=jobs))
            except RequestError as error:
                outcomes.append(JobOutcome(id=identity, error=str(error), code=error.code))
        done = sum(len(outcome.jobs) for outcome in outcomes)
        refused = sum(bool(outcome.error) for outcome in outcomes)
        return JobsOrdered(outcomes=tuple(outcomes), done=done, refused=refused)

    async def report(self, who: Who, identity: str, report: Report) -> None:
        self.asked.append(("report", who))
        detail = self._own(who, identity)
        progress = Progress(step=report.step, total=report.total, loss=report.loss, source="report")
        self._details[identity] = replace(detail, job=replace(detail.job, progress=progress))

    async def log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
    ) -> LogPiece:
        attempts = self._detail(identity).attempts
        attempt = attempt or (attempts[-1].number if attempts else 0)
        path = self._log_path(identity, attempt, rank)
        if not path.exists():
            raise NotFoundError(f"job {identity} has no log of attempt {attempt}, rank {rank}")
        ended = attempts[attempt - 1].ended_at is not None
        size = path.stat().st_size
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(limit)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data, final=ended and start + len(data) == size)
        waiting = len(decoder.getstate()[0])  # of a character whose rest is to come
        return LogPiece(
            attempt=attempt,
            rank=rank,
            offset=start,
            next=start + len(data) - waiting,
            text=text,
            ended=ended,
            size=size,
        )

    async def prune(self, who: Who, request: PruneRequest) -> Pruned:
        self.asked.append(("prune", who))
        return blank(Pruned, dry_run=request.dry_run)

    # -- the machine

    def nodes(self) -> tuple[NodeView, ...]:
        device = DeviceView(
            name="here:0", number=0, state="free" if self._order == "manage" else "avoided"
        )
        node = NodeView(name="here", device_type="cpu", cores=2, memory_gib=4.0, devices=(device,))
        return (node,)

    async def manage(self, who: Who, device: str, order: str) -> NodeView:
        self._device(device)
        self._order = order
        return self.nodes()[0]

    async def order_node(self, who: Who, node: str, order: str) -> NodeView:
        (found,) = self.nodes()
        if node != found.name:
            raise NotFoundError(f"there is no node {node!r}")
        return replace(found, drained=order == "drain")

    async def unquarantine(self, who: Who, device: str) -> NodeView:
        self._device(device)
        raise ConflictError(f"device {device} is not quarantined")

    def policy(self) -> PolicyView:
        return PolicyView(policy=self._policy, placement="packed", since_at=1.0)

    async def set_policy(self, who: Who, change: PolicyChange) -> PolicyView:
        if change.policy not in {"fifo", "afs"}:
            raise InvalidRequestError(f"there is no policy {change.policy!r}")
        self._policy = change.policy
        return self.policy()

    def config(self) -> ConfigView:
        return self._config

    async def configure(self, who: Who, change: ConfigChange) -> ConfigView:
        self._config = ConfigView(version=self._config.version + 1, text=change.text)
        return self._config

    def status(self) -> Status:
        waiting = len(self._details)
        own = {"policy": self._policy, "devices": 1, "free": 1, "waiting": waiting}
        return blank(Status, version="0", pid=os.getpid(), store="memory", **own)

    async def shut_down(self, who: Who, mode: str) -> Status:
        self.shut = mode
        return self.status()

    # -- history

    async def events(self, *, after: int = 0, job: str = "", limit: int = 100) -> EventPage:
        found = [e for e in self._events if e.id > after and job in {"", e.job}][:limit]
        return EventPage(events=tuple(found), next=found[-1].id if found else after)

    async def events_last(self, *, job: str = "", limit: int = 100) -> EventPage:
        found = [e for e in self._events if job in {"", e.job}][-limit:]
        newest = self._events[-1].id if self._events else 0
        return EventPage(events=tuple(found), next=newest)

    async def follow(self, *, after: int, job: str = "") -> AsyncIterator[EventView]:
        while True:
            for event in (await self.events(after=after, job=job, limit=1000)).events:
                after = event.id
                yield event
            if not self._events or self._events[-1].id <= after or job:
                more = self._more
                await more.wait()

    async def usage(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> tuple[UsageRow, ...]:
        row = UsageRow(
            user="=ada", tenant="a,b", jobs=1, allocated_h=1.5, used_h=None, failed_h=0.0
        )
        return (row,)

    async def snapshot(self) -> Mapping[str, object]:
        return {"jobs": list(self._details)}

    async def journal(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield f'{{"id": {event.id}}}\n'.encode()

    async def debug(self) -> Mapping[str, str]:
        return {"versions": "treadle 0"}

    def figures(self) -> tuple[tuple[str, Mapping[str, str], float], ...]:
        return (
            ("treadle_jobs", {"state": "PENDING"}, float(len(self._details))),
            ("treadle_decisions_total", {}, 3.0),
        )

    # -- people

    def who_of_uid(self, uid: int) -> Who:
        return self.people.get(uid, Who(user=f"uid{uid}", role=Role.USER, uid=uid))

    def who_of_token(self, token: str, address: str = "") -> Who | None:
        if token in self._job_tokens:
            return self._job_tokens[token]
        return self.looking_up(token, address)()

    def looking_up(self, token: str, address: str = "") -> Callable[[], Who | None]:
        wanted = hashlib.sha256(token.encode()).hexdigest()

        def look() -> Who | None:
            views = (view for kept, view in self._tokens.values() if kept == wanted)
            return next((Who(user=view.user, role=view.role) for view in views), None)

        return look

    async def make_token(self, who: Who, request: TokenRequest) -> TokenMade:
        user = request.user or who.user
        if request.role.level > who.role.level or (user != who.user and who.role != Role.ADMIN):
            raise NotAllowedError(f"user {who.user} cannot grant that")
        token = self.token(user, request.role)
        return TokenMade(token=token, view=self._tokens[token.split("_")[1]][1])

    def tokens(self, who: Who, *, user: str = "") -> tuple[TokenView, ...]:
        return tuple(
            view
            for _, view in self._tokens.values()
            if (who.role == Role.ADMIN or view.user == who.user) and user in {"", view.user}
        )

    async def revoke_tokens(self, who: Who, *, user: str = "") -> tuple[TokenView, ...]:
        if user not in {"", who.user} and who.role != Role.ADMIN:
            raise NotAllowedError(f"user {who.user} cannot revoke that")
        gone = self.tokens(who, user=user or who.user)
        for view in gone:
            del self._tokens[view.id]
        return gone

    async def revoke_token(self, who: Who, identity: str) -> None:
        if identity not in {view.id for view in self.tokens(who)}:
            raise NotFoundError(f"there is no token {identity!r}")
        del self._tokens[identity]

    # -- within

    def _set(self, detail: JobDetail, state: State, kind: str) -> None:
        job = replace(detail.job, state=state, attempts=len(detail.attempts))
        self._details[job.id] = replace(detail, job=job)
        event = EventView(
            id=len(self._events) + 1, at=1.0, kind=kind, job=job.id, text=f"job {job.id}: {kind}"
        )
        self._events.append(event)
        self._more.set()
        self._more = asyncio.Event()

    def _own(self, who: Who, identity: str) -> JobDetail:
        detail = self._detail(identity)
        if detail.job.user != who.user and who.role != Role.ADMIN:
            raise NotAllowedError(f"job {identity} belongs to {detail.job.user}")
        return detail

    def _steer(self, who: Who, identity: str, state: State, kind: str) -> tuple[JobView, ...]:
        self.asked.append((kind, who))
        self._set(self._own(who, identity), state, kind)
        return (self._details[identity].job,)

    def _device(self, name: str) -> None:
        if name != "here:0":
            raise NotFoundError(f"there is no device {name!r}")

    def _log_path(self, job: str, attempt: int, rank: int) -> Path:
        return self.folder / f"{job}-{attempt}-{rank}.log"
