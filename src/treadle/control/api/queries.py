"""Questions about jobs, machines and the policy; nothing here changes anything."""

import os
from collections.abc import Mapping

import msgspec

from treadle.control.api.context import Context
from treadle.control.api.machine_trouble import machine_trouble
from treadle.control.api.queue_order import free_devices, positions
from treadle.control.api.views import ended_view, job_detail, listed
from treadle.control.api.why_waiting import why
from treadle.control.jobs import MACHINE, JobRecord, record_of
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import NodeView, Output
from treadle.store.rows import JobFilter
from treadle.version import __version__
from treadle.wire.jobs import JobDetail, JobPage, LogPiece, State, Why
from treadle.wire.machine import PolicyView, Status
from treadle.wire.problems import InvalidRequestError, NotFoundError, UnavailableError

PAGE_MAX = 10_000
RUNNING = frozenset({Phase.STARTING, Phase.RUNNING})
STOPPING = frozenset({Phase.STOPPING, Phase.CANCELLING})


class Queries:
    """Answers from memory, and from the store for what has ended."""

    def __init__(self, context: Context, status: "StatusFacts") -> None:
        self._context = context
        self.facts = status

    def listening(self, url: str) -> None:
        """The API is reachable there too."""
        self.facts = msgspec.structs.replace(self.facts, url=url)

    def jobs(
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
        unknown = [state for state in states if state not in State.__members__]
        if unknown:
            raise InvalidRequestError(
                f"there is no state {unknown[0]!r}; expected {', '.join(State)}"
            )
        limit = max(1, min(limit, PAGE_MAX))
        wanted = JobFilter(
            states=states, owner=user, tenant=tenant, array=array, name=name, ended=True
        )
        stage, start, before = _cursor(cursor)
        past = any(State(state).ended for state in states) if states else ended
        views = []
        total = None
        if stage == "active":
            active = self._active(wanted)
            total = len(active)
            page = active[start : start + limit]
            views = listed(self._context, page)
            if start + limit < len(active):
                return JobPage(jobs=tuple(views), cursor=f"a{start + limit}", total=total)
        if not past:
            return JobPage(jobs=tuple(views), total=total)
        room = limit - len(views)
        rows = self._context.store.jobs(wanted, before=before, limit=room + 1) if room else []
        # A job that is in the store, and not yet out of the table, is listed already.
        known = self._context.jobs.records
        views += [ended_view(record_of(row)) for row in rows[:room] if row.id not in known]
        more = ""
        if not room:
            more = "e"
        elif len(rows) > room:
            last = rows[room - 1]
            more = f"e{last.number},{-1 if last.member is None else last.member}"
        return JobPage(jobs=tuple(views), cursor=more, total=total)

    def job(self, identity: str) -> JobDetail:
        return job_detail(self._context, self.record(identity))

    def why(self, identity: str) -> Why:
        return why(self._context, self.record(identity))

    async def log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
    ) -> LogPiece:
        record = self.record(identity)
        newest = max(record.attempts, 1)
        number = newest if attempt == 0 else attempt
        if not 0 < number <= newest:
            raise NotFoundError(
                f"job {identity} has had {record.attempts} attempts; there is no attempt {attempt}"
            )
        attempt_id = AttemptId(record.id, number)
        # Asked first: what is read afterwards is then all there will be.
        ended = self._attempt_ended(record, number)
        found = await self._output(attempt_id, rank, offset=offset, limit=limit)
        text, used = _whole_text(found.data, ended and found.offset + len(found.data) >= found.size)
        return LogPiece(
            attempt=number,
            rank=rank,
            offset=found.offset,
            next=found.offset + used,
            text=text,
            ended=ended and found.offset + used >= found.size,
            size=found.size,
            lost=found.lost,
        )

    async def _output(self, attempt: AttemptId, rank: int, *, offset: int, limit: int) -> Output:
        try:
            return await self._context.engine.output(attempt, rank, offset=offset, limit=limit)
        except InvalidInputError as error:
            raise NotFoundError(str(error)) from None
        except EngineError as error:
            raise UnavailableError(f"the output cannot be read now: {error}") from None

    def nodes(self) -> tuple[NodeView, ...]:
        return self._context.engine.view()

    def policy(self) -> PolicyView:
        charge = self._context.charge
        return PolicyView(
            policy=charge.policy,
            placement=charge.placement,
            worn=charge.wrapped,
            since_at=charge.since_at,
            error=charge.failing,
        )

    def status(self) -> Status:
        context, facts = self._context, self.facts
        scheduler = context.scheduler
        refused = sum(1 for reasons in scheduler.blocked.values() if reasons == (MACHINE,))
        waiting = len(scheduler.ranking.queue) + len(scheduler.unfit) + refused
        stopping = {job.id: job for job in scheduler.jobs.values() if job.phase in STOPPING}
        return Status(
            version=__version__,
            pid=os.getpid(),
            since_at=facts.since_at,
            store=context.store.kind,
            socket=facts.socket,
            url=facts.url,
            policy=context.charge.policy,
            devices=context.cluster.device_count,
            free=free_devices(scheduler),
            running=sum(1 for job in scheduler.jobs.values() if job.phase in RUNNING),
            waiting=waiting,
            held=sum(1 for job in scheduler.blocked if job not in stopping) - refused,
            stopping=len(stopping),
            grace_left_s=max((self._grace_left_s(job) for job in stopping), default=0.0),
            draining=context.condition.draining,
            problem=_problem(context),
            state_folder=facts.state_folder,
            engine=facts.engine,
        )

    def snapshot(self) -> Mapping[str, object]:
        """The scheduler's state: what a simulation would continue from."""
        context = self._context
        scheduler = context.scheduler
        jobs = [scheduler.kept(identity) for identity in scheduler.jobs]
        closed = {str(device): why for device, why in scheduler.closed.items()}
        made: dict[str, object] = msgspec.to_builtins(
            {
                "at": context.clock.now(),
                "policy": context.charge.wrapped,
                "placement": context.charge.placement,
                "cluster": scheduler.cluster.nodes,
                "closed": closed,
                "jobs": [
                    {"job": dict(zip(k.job._fields, k.job, strict=True)), "held": k.blocked}
                    for k in jobs
                ],
            }
        )
        for job in made["jobs"]:  # type: ignore[attr-defined]
            job["job"]["spec"]["command"] = []  # What it runs is its owner's business.
        return made

    def record(self, identity: str) -> JobRecord:
        """Of a job by its id, or by its name if only one is called that."""
        found = self._context.jobs.record(identity) if len(identity) <= 64 else None
        if found is not None:
            return found
        named = [
            record for record in self._context.jobs.records.values() if record.name == identity
        ]
        if len(named) == 1:
            return named[0]
        if len(named) > 1:
            ids = ", ".join(record.id for record in named[:5])
            raise InvalidRequestError(
                f"{len(named)} jobs are called {identity!r}; give an id ({ids} ...)"
            )
        rows = self._context.store.jobs(JobFilter(name=identity), limit=1) if identity else []
        if rows:
            return record_of(rows[0])
        raise NotFoundError(f"there is no job {identity[:80]!r}", hint="treadle ps -a lists all")

    def members(self, identity: str) -> list[JobRecord]:
        """A job, or all members of an array that have not ended."""
        jobs = self._context.jobs
        if identity in jobs.arrays:
            return [jobs.records[member] for member in jobs.arrays[identity]]
        return [self.record(identity)]

    def _grace_left_s(self, identity: JobId) -> float:
        record, row = self._context.jobs.records.get(identity), self._context.row(identity)
        if record is None or row is None:
            return 0.0
        return max(0.0, record.grace_s - (self._context.clock.now() - row.since_at))

    def _active(self, wanted: JobFilter) -> list[JobRecord]:
        """Jobs that have not ended, in the order in which they hold and will be given devices."""
        context = self._context
        places = positions(context.scheduler)
        behind = len(places) + 1

        def order(record: JobRecord) -> tuple[int, int, int, int]:
            row = context.row(record.id)
            waits = row is None or row.phase is Phase.WAITING
            place = places.get(record.id, behind)
            return (int(waits), place if waits else 0, record.number, record.member or 0)

        found = [
            record
            for record in context.jobs.records.values()
            if _passes(record, context.jobs.shown_state(record), wanted)
        ]
        return sorted(found, key=order)

    def _attempt_ended(self, record: JobRecord, number: int) -> bool:
        jobs = self._context.jobs
        if jobs.shown_state(record).ended:
            return True
        return record.attempts > 0 and AttemptId(record.id, number) not in jobs.open


class StatusFacts(msgspec.Struct, frozen=True):
    """What the daemon knows of itself."""

    since_at: float
    socket: str = ""
    url: str = ""
    state_folder: str = ""
    engine: str = "local"


def _problem(context: Context) -> str:
    if context.condition.store_error:
        return f"the store cannot be written: {context.condition.store_error}"
    if trouble := machine_trouble(context):
        return trouble
    if context.charge.error:
        return f"the policy failed at its last decision: {context.charge.error}"
    return ""


def _passes(record: JobRecord, state: State, wanted: JobFilter) -> bool:
    return (
        (not wanted.states or state in wanted.states)
        and (not wanted.owner or record.owner == wanted.owner)
        and (not wanted.tenant or record.tenant == wanted.tenant)
        and (not wanted.array or record.array == wanted.array)
        and (not wanted.name or record.name == wanted.name)
    )


def _cursor(text: str) -> tuple[str, int, tuple[int, int] | None]:
    """Where a page begins: among active jobs at an offset, or among ended ones behind one."""
    try:
        if not text:
            return "active", 0, None
        if text[0] == "a":
            return "active", int(text[1:]), None
        if text == "e":
            return "ended", 0, None
        if text[0] == "e":
            number, member = text[1:].split(",")
            return "ended", 0, (int(number), int(member))
    except ValueError:
        pass
    raise InvalidRequestError(f"cursor is {text[:40]!r}; expected one that an earlier page gave")


def _whole_text(data: bytes, last: bool) -> tuple[str, int]:
    """As much as is whole characters; the beginning of one waits for its rest."""
    cut = len(data)
    if not last:
        for back in range(1, min(4, len(data)) + 1):
            byte = data[-back]
            if byte >= 0xC0:
                needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
                cut = len(data) - back if needs > back else cut
                break
            if byte < 0x80:
                break
    return data[:cut].decode("utf-8", errors="replace"), cut
