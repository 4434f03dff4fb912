"""What can be asked of the live controller without changing anything."""

import os
from collections.abc import Mapping

import msgspec

from treadle.control.api.reasons import why
from treadle.control.api.views import ended_view, job_detail, listed
from treadle.control.jobs.desk import Desk
from treadle.control.jobs.records import JobRecord, record_of
from treadle.core.lifecycle import Phase
from treadle.engines.local.engine import LocalEngine
from treadle.engines.node import output as logs
from treadle.store.rows import JobFilter
from treadle.version import __version__
from treadle.wire.jobs import JobDetail, JobPage, LogPiece, State, Why
from treadle.wire.machine import NodeView, PolicyView, Status
from treadle.wire.problems import InvalidRequestError, NotFoundError

PAGE_MAX = 10_000


class Reads:
    """Answers from the desk, and from the store for what has ended."""

    def __init__(self, desk: Desk, engine: LocalEngine, status: "StatusFacts") -> None:
        self._desk = desk
        self._engine = engine
        self.facts = status

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
            views = listed(self._desk, page)
            if start + limit < len(active):
                return JobPage(jobs=tuple(views), cursor=f"a{start + limit}", total=total)
        if not past:
            return JobPage(jobs=tuple(views), total=total)
        room = limit - len(views)
        rows = self._desk.store.jobs(wanted, before=before, limit=room + 1) if room else []
        # One that is in the store, but not off the desk yet, is listed already.
        known = self._desk.records
        views += [ended_view(record_of(row)) for row in rows[:room] if row.id not in known]
        more = ""
        if not room:
            more = "e"
        elif len(rows) > room:
            last = rows[room - 1]
            more = f"e{last.number},{-1 if last.member is None else last.member}"
        return JobPage(jobs=tuple(views), cursor=more, total=total)

    def job(self, identity: str) -> JobDetail:
        return job_detail(self._desk, self.record(identity))

    def why(self, identity: str) -> Why:
        return why(self._desk, self.record(identity))

    def log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
    ) -> LogPiece:
        record = self.record(identity)
        newest = max(record.attempts, 1)
        number = newest if attempt == 0 else attempt
        if not 0 < number <= newest:
            raise NotFoundError(
                f"job {identity} has had {record.attempts} attempts; there is no attempt {attempt}"
            )
        folder = self._engine.folders.path(record.id, number)
        found = logs.read(folder, rank, offset=offset, limit=limit)
        ended = self._attempt_ended(record, number)
        if ended and not found.data:  # Between the two looks its last words may have been written.
            found = logs.read(folder, rank, offset=offset, limit=limit)
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

    def nodes(self) -> tuple[NodeView, ...]:
        return (self._engine.view(),)

    def policy(self) -> PolicyView:
        decider = self._desk.decider
        return PolicyView(
            policy=decider.policy,
            placement=decider.placement,
            worn=decider.worn,
            since_at=decider.since_at,
            error=decider.failing,
        )

    def status(self) -> Status:
        desk, facts = self._desk, self.facts
        scheduler = desk.scheduler
        waiting = len(scheduler.ranking.queue) + len(scheduler.unfit)
        return Status(
            version=__version__,
            pid=os.getpid(),
            since_at=facts.since_at,
            store=desk.store.kind,
            socket=facts.socket,
            url=facts.url,
            policy=desk.decider.policy,
            devices=desk.cluster.device_count,
            free=desk.free,
            running=sum(1 for job in scheduler.jobs.values() if job.allocation is not None),
            waiting=waiting,
            held=len(scheduler.blocked),
            draining=desk.draining,
            problem=_problem(desk),
        )

    def snapshot(self) -> Mapping[str, object]:
        """The books as they stand: what a simulation would go on from."""
        scheduler = self._desk.scheduler
        jobs = [scheduler.kept(identity) for identity in scheduler.jobs]
        closed = {str(device): why for device, why in scheduler.closed.items()}
        made: dict[str, object] = msgspec.to_builtins(
            {
                "at": self._desk.clock.now(),
                "policy": self._desk.decider.worn,
                "placement": self._desk.decider.placement,
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
        found = self._desk.record(identity) if len(identity) <= 64 else None
        if found is not None:
            return found
        named = [record for record in self._desk.records.values() if record.name == identity]
        if len(named) == 1:
            return named[0]
        if len(named) > 1:
            ids = ", ".join(record.id for record in named[:5])
            raise InvalidRequestError(
                f"{len(named)} jobs are called {identity!r}; give an id ({ids} ...)"
            )
        rows = self._desk.store.jobs(JobFilter(name=identity), limit=1) if identity else []
        if rows:
            return record_of(rows[0])
        raise NotFoundError(f"there is no job {identity[:80]!r}", hint="treadle ps -a lists all")

    def members(self, identity: str) -> list[JobRecord]:
        """A job, or all members of an array that have not ended."""
        if identity in self._desk.arrays:
            return [self._desk.records[member] for member in self._desk.arrays[identity]]
        return [self.record(identity)]

    def _active(self, wanted: JobFilter) -> list[JobRecord]:
        """Jobs that have not ended, in the order in which they hold and will be given devices."""
        desk = self._desk
        places = desk.places()
        behind = len(places) + 1

        def order(record: JobRecord) -> tuple[int, int, int, int]:
            row = desk.row(record.id)
            waits = row is None or row.phase is Phase.WAITING
            place = places.get(record.id, behind)
            return (int(waits), place if waits else 0, record.number, record.member or 0)

        found = [
            record
            for record in desk.records.values()
            if _passes(record, desk.shown(record), wanted)
        ]
        return sorted(found, key=order)

    def _attempt_ended(self, record: JobRecord, number: int) -> bool:
        if self._desk.shown(record).ended:
            return True
        if number < record.attempts:
            return (record.id, number) not in self._desk.open
        return record.attempts > 0 and (record.id, number) not in self._desk.open


class StatusFacts(msgspec.Struct, frozen=True):
    """What the daemon knows of itself."""

    since_at: float
    socket: str = ""
    url: str = ""


def _problem(desk: Desk) -> str:
    if desk.store_error:
        return f"the store cannot be written: {desk.store_error}"
    if desk.decider.error:
        return f"the policy failed at its last decision: {desk.decider.error}"
    return ""


def replace_url(facts: StatusFacts, url: str) -> StatusFacts:
    return StatusFacts(facts.since_at, facts.socket, url)


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
