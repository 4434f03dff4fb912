"""Questions about jobs, machines and the policy; nothing here changes anything."""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from treadle.control.api.context import Context
from treadle.control.api.job_history import job_history
from treadle.control.api.job_lookup import array_called, found
from treadle.control.api.job_output import JobOutput
from treadle.control.api.machine_trouble import machine_trouble, nodes_trouble, unused_nodes
from treadle.control.api.node_views import node_views
from treadle.control.api.queue_order import (
    STOPPING,
    InOrder,
    all_devices,
    held_back,
    idle_devices,
    waiting_jobs,
)
from treadle.control.api.queue_view import quotas_too_large
from treadle.control.api.snapshots import snapshot_of
from treadle.control.api.thinking import Thinking
from treadle.control.api.views import Kept, ended_view, job_detail, listed, with_arguments
from treadle.control.api.why import why
from treadle.control.api.why_array import members, why_array
from treadle.control.jobs import JobRecord, record_of, stored_state
from treadle.core.job import JobId
from treadle.core.lifecycle import Phase
from treadle.core.machine import NodeView
from treadle.policies.registry import names as policy_names
from treadle.store.rows import JobFilter, JobRow
from treadle.store.store import Store
from treadle.version import __version__
from treadle.wire.history import JobHistory
from treadle.wire.jobs import JobDetail, JobPage, JobView, LogPiece, State, Why
from treadle.wire.lab import ConfigView
from treadle.wire.machine import PolicyView, Status
from treadle.wire.problems import InvalidRequestError, NotFoundError, RequestError

PAGE_MAX = 10_000
SLICE = 200  # jobs that are listed before others get their turn: about 4 ms


class Queries:
    """Answers from memory, and from the store for what has ended."""

    def __init__(self, context: Context, status: "StatusFacts") -> None:
        self._context = context
        self.facts = status
        self.thinking = Thinking(context)
        self._order = InOrder(context)
        self._outputs = JobOutput(context)

    def listening(self, url: str, fingerprint: str = "") -> None:
        """The API is reachable there too."""
        self.facts = msgspec.structs.replace(self.facts, url=url, fingerprint=fingerprint)

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
        sweep = bool(array or name)
        past = any(State(state).ended for state in states) if states else ended
        views: list[JobView] = []
        total = None
        if stage == "active":
            active = self._active(wanted)
            total = len(active)
            views = await self.listed(active[start : start + limit], sweep=sweep)
            if start + limit < len(active):
                return JobPage(jobs=tuple(views), cursor=f"a{start + limit}", total=total)
        if not past:
            return JobPage(jobs=tuple(views), total=total)
        room = limit - len(views)
        rows, found = await self._ended(wanted, before, room) if room else ([], [])
        # A job that is in the store, and not yet out of the table, is listed already. So is one
        # that ended while the store was asked.
        known, listed_now = self._context.jobs.records, {view.id for view in views}
        views += [v for v in found if v.id not in known and v.id not in listed_now]
        more = ""
        if not room:
            more = "e"
        elif len(rows) > room:
            last = rows[room - 1]
            more = f"e{last.number},{-1 if last.member is None else last.member}"
        return JobPage(jobs=tuple(views), cursor=more, total=total)

    async def _ended(
        self, wanted: JobFilter, before: tuple[int, int] | None, room: int
    ) -> tuple[list[JobRow], list[JobView]]:
        """One row more than there is room for, and the views of those with room."""
        sweep = bool(wanted.array or wanted.name)

        def read(store: Store) -> tuple[list[JobRow], list[JobView]]:
            rows = store.jobs(wanted, before=before, limit=room + 1)
            records = [record_of(row) for row in rows[:room]]
            views = [ended_view(record) for record in records]
            return rows, with_arguments(views, records) if sweep else views

        return await self._context.reads.ask(read)

    async def listed(self, records: Sequence[JobRecord], *, sweep: bool = False) -> list[JobView]:
        """Views of these jobs; others get their turn in between. sweep: with their arguments."""
        views: list[JobView] = []
        for first in range(0, len(records), SLICE):
            if first:
                await asyncio.sleep(0)
            some = records[first : first + SLICE]
            found = listed(self._context, some)
            views += with_arguments(found, some) if sweep else found
        return views

    async def active_views(self, ids: Sequence[str]) -> tuple[JobView, ...]:
        """Views of those among these that have not ended."""
        jobs, views = self._context.jobs, list[JobView]()
        for first in range(0, len(ids), SLICE):
            if first:
                await asyncio.sleep(0)
            part = [
                jobs.records[each] for each in ids[first : first + SLICE] if each in jobs.records
            ]
            views += listed(self._context, part)
        return tuple(views)

    async def job(self, identity: str) -> JobDetail:
        record = await self.record(identity)
        return job_detail(self._context, record, await self._kept(record))

    async def _kept(self, record: JobRecord) -> Kept:
        """What memory does not have of a job: attempts that have ended, its diff, pruned logs."""
        open_ones = self._context.jobs.open_of(record.id)
        ended = self._context.jobs.shown_state(record).ended
        if record.attempts == len(open_ones) and not record.diff and not ended:
            return Kept()
        diffs = self._context.diffs

        def read(store: Store) -> Kept:
            left = store.output(record.id) if ended else None
            pruned_at = None if left is None else left.pruned_at
            return Kept(store.attempts(record.id), diffs.read(record.diff), pruned_at)

        return await self._context.reads.ask(read)

    async def history(self, identity: str) -> JobHistory:
        return await job_history(self._context, await self.record(identity))

    async def why(self, identity: str, *, verbose: bool = False) -> Why:
        """Of a job, or of an array as a whole, each by its id or its name."""
        array = await array_called(self._context, identity)
        if array:
            return await self._why_array(array)
        record = await self.record(identity)
        return await self.thinking.about(
            ("why", record.id, verbose),
            lambda context: why(context, record, verbose=verbose),
            names=(*record.after, *record.after_any),
        )

    async def _why_array(self, array: str) -> Why:
        jobs = self._context.jobs
        if array not in jobs.arrays:
            return await self._why_ended(array)
        members = [jobs.records[name] for name in jobs.arrays[array]]
        state = jobs.state_of(array) or State.PENDING
        names = [name for one in members for name in (*one.after, *one.after_any)]
        return await self.thinking.about(
            ("why array", array),
            lambda context: why_array(context, array, members, state),
            names=dict.fromkeys(names),
        )

    async def _why_ended(self, array: str) -> Why:
        """Of an array whose members have all ended."""
        rows, worst = await self._context.reads.ask(
            lambda store: (
                store.jobs(JobFilter(array=array), limit=PAGE_MAX),
                stored_state(store, array),
            )
        )
        if not rows or worst is None:
            raise NotFoundError(f"there is no array {array!r}", hint="treadle ps -a lists all")
        ends = members(self._context, (State(row.state) for row in rows))
        return Why(id=array, state=worst, members=len(rows), **ends)

    async def log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
    ) -> LogPiece:
        record = await self.record(identity)
        return await self._outputs.piece(
            record, attempt=attempt, rank=rank, offset=offset, limit=limit
        )

    def nodes(self) -> tuple[NodeView, ...]:
        """Those that are there, and those that were lost and have not come back."""
        context = self._context
        there = node_views(context)
        names = {node.name for node in there}
        return (*there, *(each.view() for each in context.lost if each.node.name not in names))

    def policy(self) -> PolicyView:
        charge = self._context.charge
        return PolicyView(
            policy=charge.policy,
            placement=charge.placement,
            since_at=charge.since_at,
            error=charge.failing,
            warning=quotas_too_large(self._context),
            offered=_offered(),
        )

    def config(self) -> ConfigView:
        return self._context.rules.view

    def status(self) -> Status:
        context, facts = self._context, self.facts
        scheduler = context.scheduler
        late = len(held_back(scheduler)) - len(scheduler.unfit)
        active = [job for job in scheduler.jobs.values() if job.phase is not Phase.WAITING]
        stopping = {job.id for job in active if job.phase in STOPPING}
        phases = Counter(job.phase for job in active)
        apart = stopping | scheduler.paused.keys()
        return Status(
            version=__version__,
            pid=os.getpid(),
            since_at=facts.since_at,
            store=context.store.kind,
            socket=facts.socket,
            url=facts.url,
            policy=context.charge.policy,
            devices=all_devices(scheduler),
            free=idle_devices(scheduler),
            drained_devices=all_devices(scheduler) - context.cluster.device_count,
            nodes=len(context.cluster.nodes) + len(scheduler.drained),
            drained_nodes=len(scheduler.drained),
            lost_nodes=sum(1 for each in context.lost if not each.is_unused),
            unused_nodes=len(unused_nodes(context)),
            running=phases[Phase.RUNNING],
            waiting=waiting_jobs(scheduler),
            held=sum(1 for job in scheduler.blocked if job not in apart) - late,
            paused=len(scheduler.paused),
            starting=phases[Phase.STARTING],
            stopping=len(stopping) + context.commit.ending,
            grace_left_s=max((self._grace_left_s(job) for job in stopping), default=0.0),
            draining=context.condition.draining,
            problem=_problem(context),
            state_folder=facts.state_folder,
            engine=facts.engine,
            fingerprint=facts.fingerprint,
            cluster=context.engine.address,
        )

    async def snapshot(self) -> Mapping[str, object]:
        """The scheduler's state: what a simulation would continue from."""
        return await self.thinking.about("snapshot", snapshot_of)

    async def record(self, identity: str) -> JobRecord:
        """Of a job by its id, or by its name if only one is called that."""
        answer = (await found(self._context, [identity]))[identity]
        if isinstance(answer, RequestError):
            raise answer
        return answer

    async def members(self, identity: str) -> list[JobRecord]:
        """A job, or all members of an array that have not ended."""
        jobs = self._context.jobs
        if identity in jobs.arrays:
            return [jobs.records[member] for member in jobs.arrays[identity]]
        return [await self.record(identity)]

    async def members_of_all(
        self, names: Sequence[str]
    ) -> dict[str, Sequence[JobRecord] | RequestError]:
        """The same of many, looked up together; or why there is none."""
        jobs = self._context.jobs
        answers: dict[str, Sequence[JobRecord] | RequestError] = {
            name: [jobs.records[member] for member in jobs.arrays[name]]
            for name in names
            if name in jobs.arrays
        }
        others = await found(self._context, [name for name in names if name not in answers])
        for name, answer in others.items():
            answers[name] = answer if isinstance(answer, RequestError) else [answer]
        return answers

    def _grace_left_s(self, identity: JobId) -> float:
        record, row = self._context.jobs.records.get(identity), self._context.row(identity)
        if record is None or row is None:
            return 0.0
        return max(0.0, record.grace_s - (self._context.clock.now() - row.since_at))

    def _active(self, wanted: JobFilter) -> Sequence[JobRecord]:
        """Jobs that have not ended, in the order in which they hold and will be given devices."""
        records, _ = self._order.now()
        if wanted == JobFilter(ended=True):
            return records
        found = [record for record in records if _passes(record, wanted)]
        if not wanted.states:
            return found
        shown = self._context.jobs.shown_state
        return [record for record in found if shown(record) in wanted.states]


class StatusFacts(msgspec.Struct, frozen=True):
    """What the daemon knows of itself."""

    since_at: float
    socket: str = ""
    url: str = ""
    state_folder: str = ""
    engine: str = "local"
    fingerprint: str = ""


@cache  # Those of third parties are looked up on the disk.
def _offered() -> tuple[str, ...]:
    return tuple(policy_names())


def _problem(context: Context) -> str:
    if context.condition.store_error:
        return f"the store cannot be written: {context.condition.store_error}"
    if context.condition.store_silent:
        return context.condition.store_silent
    if trouble := machine_trouble(context):
        return trouble
    if context.engine.address and not (context.cluster.nodes or context.scheduler.drained):
        return (
            f"no node of the cluster at {context.engine.address} is there: nothing answers at that "
            "address, or all its nodes have left; jobs wait until nodes join"
        )
    if context.charge.error:
        return f"the policy failed at its last decision: {context.charge.error}"
    return nodes_trouble(context)


def _passes(record: JobRecord, wanted: JobFilter) -> bool:
    return (
        (not wanted.owner or record.owner == wanted.owner)
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
