"""Orders about jobs: cancel, hold, release, change. For one job or for many, in one commit.

Each id is planned by itself: it gives facts, or an error that says why not. The facts of all ids
are then told together, so that they are written in one transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from treadle.control.api.accounts import may_touch
from treadle.control.api.context import Context
from treadle.control.api.job_changes import facts_of
from treadle.control.api.queries import Queries
from treadle.control.jobs import DEPENDENCY, USER, Fact, JobRecord, record_of
from treadle.control.loop import Rider, check_store, on_disk
from treadle.core.actions import Stop
from treadle.core.allocation import Pause
from treadle.core.events import JobCancelled, JobHeld, JobReleased
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.wording import several
from treadle.journal.facts import DependenciesDropped
from treadle.store.rows import Batch, JobFilter
from treadle.wire.job_orders import IDS_MAX, JobOutcome, JobSelection, JobsOrder, JobsOrdered, Verb
from treadle.wire.jobs import JobChange, JobView
from treadle.wire.machine import Role, Who
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    RequestError,
    UnsettledError,
)

ARRAY_MAX = 100_000  # jobs
_FROZEN = "treadle pause {0} freezes it, and its memory stays where it is"
_INSTEAD = "treadle hold {0} stops it if it keeps checkpoints"
_FIRST = "treadle resume {0}, then treadle pause --suspend {0}"
_STOPPABLE = frozenset({Phase.STARTING, Phase.RUNNING, Phase.CANCELLING})
_ON_DISK = "the store cannot be written now; the cancellation also holds if the daemon restarts"
_IN_MEMORY = (
    "the store cannot be written now; if the daemon ends before it can be, cancel the job again"
)


@dataclass(slots=True)
class _Planned:
    """What an order means for one id."""

    id: str
    records: Sequence[JobRecord] = ()
    facts: Sequence[Fact] = ()
    error: RequestError | None = None


DeleteEnded = Callable[[Who, Sequence[JobRecord]], Awaitable[Mapping[str, RequestError]]]


class Orders:
    """Gives orders about jobs."""

    def __init__(self, context: Context, queries: Queries, delete_ended: DeleteEnded) -> None:
        self._context = context
        self._queries = queries
        self._delete_ended = delete_ended

    async def one(
        self,
        who: Who,
        verb: Verb,
        identity: str,
        change: JobChange | None = None,
        *,
        how: Pause = Pause.FROZEN,
    ) -> tuple[JobView, ...]:
        """An order for one job or array; raises the refusal."""
        records = await self._queries.members(identity)
        order = JobsOrder(verb=verb, ids=(identity,), change=change, how=how)
        planned = self._plan(who, order, identity, records)
        settled = await self._give(verb, [planned])
        return tuple(await self._views(planned.records, settled=settled))

    async def many(self, who: Who, order: JobsOrder) -> JobsOrdered:
        """An order for many; a refusal for one id does not stop the others."""
        _check(order)
        if order.select is None:
            ids = list(dict.fromkeys(order.ids))
        else:
            ids = [record.id for record in self._selected(who, order.select)]
        if order.verb is Verb.DELETE:
            return await self._delete(who, order, ids)
        planned: list[_Planned] = []
        settled = True
        for start in range(0, len(ids), IDS_MAX):
            slice_ = await self._planned(who, order, ids[start : start + IDS_MAX])
            if not order.dry_run:
                settled &= await self._give(order.verb, slice_)
            planned += slice_
        return await self._answer(planned, settled=settled)

    async def _delete(self, who: Who, order: JobsOrder, ids: Sequence[str]) -> JobsOrdered:
        arrays = {identity: await self._ended_members(identity) for identity in ids}
        known = await self._queries.members_of_all([each for each in ids if not arrays[each]])
        planned = []
        for identity in ids:
            members = arrays[identity] or known[identity]
            if isinstance(members, RequestError):
                planned.append(_Planned(identity, error=members))
            else:
                planned.append(_Planned(identity, members))
        records = {record.id: record for each in planned for record in each.records}
        if not order.dry_run:
            check_store(self._context.condition)
            refused = await self._delete_ended(who, list(records.values()))
            for each in planned:
                each.error = each.error or next(
                    (refused[r.id] for r in each.records if r.id in refused), None
                )
                each.records = [r for r in each.records if r.id not in refused]
        return await self._answer(planned, settled=True)

    async def _ended_members(self, identity: str) -> list[JobRecord]:
        """The jobs of an array with no active job."""
        if identity in self._context.jobs.arrays:
            return []
        wanted = JobFilter(array=identity)
        rows = await self._context.reads.ask(
            lambda store: store.jobs(wanted, limit=ARRAY_MAX) if identity else []
        )
        return [record_of(row) for row in rows]

    async def cancel(self, records: Sequence[JobRecord], by: str) -> None:
        """Also while the store cannot be written: it is kept once it can be."""
        await self._give(Verb.CANCEL, [_Planned("", records, _cancelled(records, by))])

    # -- planning -------------------------------------------------------------------------------

    async def _planned(self, who: Who, order: JobsOrder, ids: Sequence[str]) -> list[_Planned]:
        known = await self._queries.members_of_all(ids)
        planned = []
        seen: set[str] = set()
        for identity in ids:
            named = known[identity]
            try:
                if isinstance(named, RequestError):
                    raise named
                members = [r for r in named if r.id not in seen]
                if not members:  # It was named before, by another of the ids.
                    continue
                found = self._plan(who, order, identity, members)
                seen.update(record.id for record in found.records)
            except RequestError as error:
                found = _Planned(identity, error=error)
            planned.append(found)
        return planned

    def _plan(
        self, who: Who, order: JobsOrder, identity: str, records: Sequence[JobRecord]
    ) -> _Planned:
        verb, change = order.verb, order.change
        if verb is not Verb.CANCEL:
            check_store(self._context.condition)
        for record in records:
            may_touch(who, record)
        alive = [record for record in records if record.id in self._context.scheduler.jobs]
        if not alive:
            state = str(records[0].state).lower() if records else "ended"
            raise ConflictError(f"job {identity} has ended already ({state})")
        match verb:
            case Verb.CANCEL:
                return _Planned(identity, alive, _cancelled(alive, who.user))
            case Verb.HOLD:
                return self._hold(identity, alive, who.user)
            case Verb.PAUSE:
                return self._pause(identity, alive, who.user, order.how)
            case Verb.RELEASE | Verb.RESUME:
                return self._release(identity, alive, who.user)
            case Verb.CHANGE:
                assert change is not None, "a change needs to say what"
                facts = [fact for record in alive for fact in self._change(who, record, change)]
                return _Planned(identity, alive, facts)
            case Verb.DELETE:
                raise AssertionError("jobs are deleted by `many`")

    def _hold(self, identity: str, alive: Sequence[JobRecord], by: str) -> _Planned:
        """Those members of an array that lose no work by it: paused where they can be."""
        records = [record for record in alive if self._can_hold(record)]
        if not records:
            first = alive[0].id
            raise ConflictError(
                f"job {first} runs and can neither be paused nor resume; holding it would lose "
                "its work",
                hint=f"treadle cancel {first} ends it",
            )
        facts = [JobHeld(each.id, USER, self._pauses(each, Pause.FROZEN), by) for each in records]
        return _Planned(identity, records, facts)

    def _pause(self, identity: str, alive: Sequence[JobRecord], by: str, how: Pause) -> _Planned:
        """Those members of an array that can be; none is stopped for it."""
        wrong = {record.id: self._not_paused(record, how) for record in alive}
        records = [record for record in alive if not wrong[record.id]]
        if not records:
            because, instead = wrong[alive[0].id]
            raise ConflictError(because, hint=instead.format(alive[0].id))
        facts = [JobHeld(each.id, USER, self._pauses(each, how), by) for each in records]
        return _Planned(identity, records, facts)

    def _pauses(self, record: JobRecord, how: Pause) -> Pause | None:
        """How a job is paused that runs, or once it does; None if it waits, or cannot be."""
        row = self._context.row(record.id)
        if row is None or row.allocation is None or len(row.allocation.nodes()) > 1:
            return None
        can = row.phase is Phase.STARTING or (row.phase is Phase.RUNNING and how in row.pauses)
        return how if can and not row.allocation.paused else None

    def _not_paused(self, record: JobRecord, how: Pause) -> tuple[str, ...]:
        """Why it cannot be paused so, and what to do instead; empty if it can be, or waits."""
        row = self._context.row(record.id)
        if row is None or row.allocation is None or self._pauses(record, how):
            return ()
        held, nodes = row.allocation.paused, row.allocation.nodes()
        if held in {how, Pause.SUSPENDED}:
            return ()
        name, because = f"job {row.id}", record.not_paused
        if len(nodes) > 1:
            return f"{name} cannot be paused: it is on {several(len(nodes), 'node')}", _INSTEAD
        if not held and row.phase is not Phase.RUNNING:
            return f"{name} is {row.phase} and cannot be paused at this moment", ""
        if not row.pauses:
            because = because or "its attempt did not say that it can be"
            return f"{name} cannot be paused: {because}", _INSTEAD
        if how in row.pauses:
            return f"{name} is paused already, and its memory stays where it is", _FIRST
        because = because or "its driver or its way to use the GPU does not let it"
        if self._is_on_slots(row):
            because = "it is on CPU slots, and has no GPU memory"
        return (
            f"the memory of {name} cannot be moved to the host: {because}",
            "" if held else _FROZEN,
        )

    def _release(self, identity: str, alive: Sequence[JobRecord], by: str) -> _Planned:
        """The held members of an array."""
        records = alive if len(alive) == 1 else [r for r in alive if self._can_release(r)]
        facts: list[Fact] = [JobReleased(record.id, USER, by) for record in records]
        for record in records:
            if record.broken:
                facts.append(DependenciesDropped(record.id))
                facts.append(JobReleased(record.id, DEPENDENCY))
        return _Planned(identity, records, facts)

    def _change(self, who: Who, record: JobRecord, change: JobChange) -> list[Fact]:
        row = self._context.row(record.id)
        assert row is not None, "only jobs that have not ended are changed"
        if change.priority is not None and change.priority > row.spec.priority:
            check_priority(who, change.priority)
        self._context.rules.check_change(who, record, change)
        return facts_of(self._context, record, row, change)

    def _is_on_slots(self, row: Job) -> bool:
        nodes = () if row.allocation is None else row.allocation.nodes()
        return all(node.has_slots for node in self._context.cluster.nodes if node.name in nodes)

    def _can_hold(self, record: JobRecord) -> bool:
        row = self._context.row(record.id)
        if row is None or row.allocation is None or row.id in self._context.scheduler.paused:
            return True
        return row.spec.resumable or self._pauses(record, Pause.FROZEN) is not None

    def _can_release(self, record: JobRecord) -> bool:
        blocked = self._context.scheduler.blocked.get(record.id, ())
        return bool(record.broken) or USER in blocked

    def _selected(self, who: Who, wanted: JobSelection) -> list[JobRecord]:
        """Matching jobs that the caller may touch."""
        jobs = self._context.jobs
        return [
            record
            for record in jobs.records.values()
            if (
                who.is_owner(record.owner, record.uid)
                or (who.role is Role.ADMIN and not wanted.mine)
            )
            and wanted.user in {"", record.owner}
            and wanted.tenant in {"", record.tenant}
            and wanted.array in {"", record.array}
            and wanted.name in {"", record.name}
            and (not wanted.states or jobs.shown_state(record) in wanted.states)
            and record.id in self._context.scheduler.jobs
        ]

    # -- giving ---------------------------------------------------------------------------------

    async def _give(self, verb: Verb, planned: Sequence[_Planned]) -> bool:
        """Tell the facts of all in one transaction; whether they are on disk.

        Only a cancellation is carried out although it cannot be written yet.
        """
        facts = [fact for each in planned for fact in each.facts]
        if not facts:
            return True
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._context.commit.tell(facts, Rider(Batch(), done))
        try:
            with self._context.condition.orders.one():
                await on_disk(done, self._context.condition)
        except UnsettledError:
            if verb is not Verb.CANCEL:
                raise
            await self._stop_at_once(planned, done)
            return False
        return True

    async def _stop_at_once(
        self, planned: Sequence[_Planned], done: "asyncio.Future[None]"
    ) -> None:
        """Stop what runs of these jobs before it is on disk that they are cancelled.

        The job may be what fills the disk. One whose order to start still waits for the store is
        not stopped, because that order would be carried out after the stop. The stop has the id of
        the newest order about the job, so that its end is an answer to that order.
        """
        records = [record for each in planned for record in each.records]
        for record in records:
            row = self._context.row(record.id)
            ended = self._context.inbox.pending_end(record.id) is not None
            if row is None or row.phase not in _STOPPABLE or ended:
                continue
            if row.attempt <= self._context.commit.ordered:
                await self._context.engine.carry_out([Stop(row.action, row.id)])
        cancels = self._context.cancels
        by = {fact.by for each in planned for fact in each.facts if isinstance(fact, JobCancelled)}
        await asyncio.to_thread(cancels.add, records, next(iter(by), ""))

        def written(end: "asyncio.Future[None]") -> None:
            if not end.cancelled() and end.exception() is None:
                asyncio.get_running_loop().run_in_executor(None, cancels.drop, records)

        done.add_done_callback(written)

    async def _views(self, records: Sequence[JobRecord], *, settled: bool) -> list[JobView]:
        views = await self._queries.listed(records)
        if settled:
            return list(views)
        kept = {record.id for record in records if self._context.cancels.has(record)}
        return [
            replace(view, cause="unsettled", because=_ON_DISK if view.id in kept else _IN_MEMORY)
            for view in views
        ]

    async def _answer(self, planned: Sequence[_Planned], *, settled: bool) -> JobsOrdered:
        records = [record for each in planned for record in each.records]
        views = {view.id: view for view in await self._views(records, settled=settled)}
        outcomes = tuple(
            JobOutcome(
                id=each.id,
                jobs=tuple(views[record.id] for record in each.records),
                error="" if each.error is None else str(each.error),
                code="" if each.error is None else each.error.code,
                hint="" if each.error is None else each.error.hint,
            )
            for each in planned
        )
        refused = sum(1 for each in planned if each.error is not None)
        return JobsOrdered(outcomes=outcomes, done=len(records), refused=refused)


def check_priority(who: Who, priority: int) -> None:
    if priority > 0 and who.role is not Role.ADMIN:
        raise NotAllowedError(f"priority {priority} is for admins only; yours may be 0 or lower")


def _cancelled(records: Sequence[JobRecord], by: str) -> list[Fact]:
    return [JobCancelled(record.id, by) for record in records]


def _check(order: JobsOrder) -> None:
    if len(order.ids) > IDS_MAX:
        raise InvalidRequestError(
            f"ids has {len(order.ids)} entries; the limit of one request is {IDS_MAX}, send the "
            "rest in another"
        )
    if bool(order.ids) == (order.select is not None):
        raise InvalidRequestError("expected either ids or select, to say which jobs are meant")
    if (order.verb is Verb.CHANGE) != (order.change is not None):
        raise InvalidRequestError("change says what the verb 'change' changes, and only that verb")
