"""What people ask for: each wish becomes facts for the scheduler, kept before it is answered."""

import asyncio
import hashlib
import hmac
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from treadle.control.api.accounts import may_touch, person
from treadle.control.api.estimates import estimate
from treadle.control.api.queries import Reads
from treadle.control.api.views import job_view, listed
from treadle.control.jobs.desk import Desk
from treadle.control.jobs.gates import DEPENDENCY, USER
from treadle.control.jobs.records import JobRecord
from treadle.control.jobs.submission import SECONDS_MAX, Drawn, draw_up
from treadle.control.loop.clock import wall
from treadle.control.loop.commit import Keeper, Rider
from treadle.control.loop.live_policy import make
from treadle.core.errors import InvalidInputError, PolicyError
from treadle.core.events import Event, JobCancelled, JobHeld, JobReleased, JobSubmitted, JobUpdated
from treadle.core.lifecycle import Phase
from treadle.journal.codec import PolicySet
from treadle.store.errors import StoreError
from treadle.store.rows import Batch, KeyRow
from treadle.wire.jobs import DryRun, JobChange, JobRequest, JobView, Submitted
from treadle.wire.machine import PolicyChange, PolicyView, Role, Who
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    TooManyError,
    UnavailableError,
)

JOBS_MAX = 100_000  # that have not ended, of everybody together
JOBS_OF_ONE_MAX = 20_000  # of one user
PATIENCE_S = 20  # how long a request waits for the store


Answer = TypeVar("Answer")


class _UnderWay(NamedTuple):
    """A submission with an idempotency key that is not on disk yet."""

    digest: str
    task: "asyncio.Task[Submitted]"


class Wishes:
    """Submits, cancels, holds, releases and changes."""

    def __init__(self, desk: Desk, keeper: Keeper, reads: Reads) -> None:
        self._desk = desk
        self._keeper = keeper
        self._reads = reads
        self._digest_key = desk.seal.derive("digests of requests")
        self._under_way: dict[tuple[str, str], _UnderWay] = {}

    # -- jobs -----------------------------------------------------------------------------------

    async def submit(self, who: Who, request: JobRequest, key: str = "") -> Submitted:
        if not key:
            return await self._settled(self._submit(who, request, None))
        digest = self._digest(who, request)
        under_way = self._under_way.get((who.user, key))
        if under_way is not None:  # Whoever asked first may still be waiting for the store.
            if under_way.digest != digest:
                raise _other_request(key)
            return replace(await self._settled(under_way.task), repeated=True)
        known = self._known(who, key)
        if known is not None:
            if known.digest != digest:
                raise _other_request(key)
            return replace(msgspec.json.decode(known.body, type=Submitted), repeated=True)
        wanted = self._submit(who, request, KeyRow(who.user, key, digest, b"", wall()))
        task = asyncio.ensure_future(wanted)
        self._under_way[who.user, key] = _UnderWay(digest, task)
        task.add_done_callback(lambda _: self._under_way.pop((who.user, key), None))
        return await self._settled(task)

    def _known(self, who: Who, key: str) -> KeyRow | None:
        try:
            return self._desk.store.key(who.user, key)
        except StoreError as error:
            raise UnavailableError(f"nothing can be asked just now: {error}") from None

    async def _submit(self, who: Who, request: JobRequest, key: KeyRow | None) -> Submitted:
        self._check_open()
        drawn = self._draw(who, request)
        self._check_room(who, len(drawn.records))
        for name in (*request.after, *request.after_any):
            if self._desk.state_of(name) is None:
                raise InvalidRequestError(f"after names job {name}, and there is no such job")
        self._desk.next_number += 1  # This one's, whatever happens until it is told.
        if request.code is not None and request.code.diff:
            diff = await self._keep_diff(request.code.diff)
            for record in drawn.records:
                record.diff = diff
        answer = Submitted(id=drawn.id, jobs=tuple(r.id for r in drawn.records), notes=drawn.notes)
        batch = Batch()
        if key is not None:
            batch.keys.append(key._replace(body=msgspec.json.encode(answer)))
        if request.secrets:
            sealed = self._desk.seal.seal(request.secrets)
            batch.secrets = {record.id: sealed for record in drawn.records}
            self._desk.sealed |= batch.secrets
        for record in drawn.records:
            self._desk.add(record)
        holds = self._desk.gates.join(drawn.records, held=request.held)
        await self._told([*map(JobSubmitted, drawn.specs), *holds], batch)
        return replace(answer, position=self._desk.place(drawn.records[0].id))

    async def dry_run(self, who: Who, request: JobRequest) -> DryRun:
        drawn = self._draw(who, request)
        now = self._desk.clock.now()
        twin = self._desk.scheduler.fork()
        twin.take([JobSubmitted(spec) for spec in drawn.specs], now)
        first = drawn.specs[0]
        never = twin.unfit.get(first.id, "")
        starts = False
        if not never:
            try:
                twin.decide(now)
                row = twin.jobs[first.id]
                starts = row.phase is Phase.STARTING and not (request.after or request.after_any)
            except Exception as error:  # a third party's policy may raise anything
                raise ConflictError(f"the policy fails on it: {error}") from None
        waits = not (never or starts or request.held or request.after or request.after_any)
        spec: dict[str, object] = msgspec.to_builtins(first)
        return DryRun(
            jobs=len(drawn.specs),
            sizes=first.sizes,
            starts_now=starts and not request.held,
            never_fits=never,
            estimate=estimate(self._desk, first.id, twin) if waits else None,
            spec=spec,
            notes=(*drawn.notes, _basis(drawn)),
        )

    async def cancel(self, who: Who, identity: str) -> tuple[JobView, ...]:
        records = self._theirs(who, identity)
        for record in records:
            record.cancelled = True
        await self._settled(self._told([JobCancelled(record.id) for record in records], Batch()))
        return self._views(records)

    async def cancel_all(self, who: Who) -> None:
        """Everything that has not ended."""
        self._check_store()
        alive = [r for r in self._desk.records.values() if r.id in self._desk.scheduler.jobs]
        for record in alive:
            may_touch(who, record)
            record.cancelled = True
        await self._settled(self._told([JobCancelled(record.id) for record in alive], Batch()))

    async def hold(self, who: Who, identity: str) -> tuple[JobView, ...]:
        records = self._theirs(who, identity)
        for record in records:
            row = self._desk.row(record.id)
            if row is not None and row.allocation is not None and not row.spec.resumable:
                raise ConflictError(
                    f"job {record.id} runs and cannot resume, so holding it would lose its work",
                    hint=f"treadle cancel {record.id} ends it",
                )
        await self._settled(self._told([JobHeld(record.id, USER) for record in records], Batch()))
        return self._views(records)

    async def release(self, who: Who, identity: str) -> tuple[JobView, ...]:
        records = self._theirs(who, identity)
        events: list[Event] = [JobReleased(record.id, USER) for record in records]
        for record in records:
            if record.broken:
                self._desk.gates.forget(record)
                events.append(JobReleased(record.id, DEPENDENCY))
        await self._settled(self._told(events, Batch()))
        return self._views(records)

    async def change(self, who: Who, identity: str, change: JobChange) -> JobView:
        self._check_store()
        record = self._reads.record(identity)
        may_touch(who, record)
        row = self._desk.row(record.id)
        if row is None:
            raise ConflictError(f"job {record.id} has ended and cannot be changed")
        if change.priority is not None and change.priority > row.spec.priority:
            self._check_priority(who, change.priority)
        if change.name is not None and not (
            0 < len(change.name) <= 128 and change.name.isprintable()
        ):
            raise InvalidRequestError("name must be 1 to 128 printable characters")
        if change.time_limit_s is not None and not 0 < change.time_limit_s <= SECONDS_MAX:
            raise InvalidRequestError(f"time_limit_s must be above 0 and at most {SECONDS_MAX:g}")
        spec = self._desk.spec(row)
        if change.priority is not None:
            spec = replace(spec, priority=change.priority)
            record.priority = change.priority
        record.name = change.name or record.name
        record.time_limit_s = change.time_limit_s or record.time_limit_s
        await self._settled(self._told([JobUpdated(spec)], Batch()))
        return job_view(self._desk, record)

    # -- the machine ----------------------------------------------------------------------------

    async def set_policy(self, who: Who, change: PolicyChange) -> PolicyView:  # noqa: ARG002
        desk = self._desk
        self._check_open()
        place = change.placement or desk.decider.placement
        try:
            made, decider = make(change.policy, place, desk.belief)
        except (InvalidInputError, PolicyError) as error:
            raise InvalidRequestError(str(error)) from None
        desk.scheduler.set_policy(made, desk.clock.now())
        desk.decider = decider
        settings = {"policy": change.policy, "placement": place}
        await self._keeper.note(Batch(settings=settings), PolicySet(change.policy, place))
        desk.inbox.put_nowait(None)
        return self._reads.policy()

    # -- leaves ---------------------------------------------------------------------------------

    def _draw(self, who: Who, request: JobRequest) -> Drawn:
        if who.job:
            raise NotAllowedError("a job's token reports on that job and submits nothing")
        if request.priority > 0:
            self._check_priority(who, request.priority)
        return draw_up(
            request,
            self._desk.next_number,
            person=person(who),
            cluster=self._desk.cluster,
            profiles=self._desk.profiles,
            now=self._desk.clock.now(),
            wall_at=wall(),
        )

    def _check_priority(self, who: Who, priority: int) -> None:
        if priority > 0 and who.role is not Role.ADMIN:
            raise NotAllowedError(
                f"priority {priority} is for admins to give; yours go up to 0 (lower is fine)"
            )

    def _check_store(self) -> None:
        if self._desk.store_error:
            raise UnavailableError(
                f"nothing can be kept just now: {self._desk.store_error}", hint="try again"
            )

    def _check_open(self) -> None:
        self._check_store()
        if self._desk.draining:
            raise ConflictError("the controller is about to leave and takes no jobs")

    def _check_room(self, who: Who, more: int) -> None:
        if len(self._desk.records) + more > JOBS_MAX:
            raise TooManyError(
                f"{JOBS_MAX} jobs have not ended; expected fewer before there are more"
            )
        own = sum(1 for record in self._desk.records.values() if record.owner == who.user)
        if own + more > JOBS_OF_ONE_MAX:
            raise TooManyError(
                f"{who.user} has {own} jobs that have not ended; with {more} more that is above "
                f"{JOBS_OF_ONE_MAX}"
            )

    def _theirs(self, who: Who, identity: str) -> list[JobRecord]:
        """The job, or an array's members, if they may be touched and have not ended."""
        self._check_store()
        records = self._reads.members(identity)
        for record in records:
            may_touch(who, record)
        alive = [record for record in records if record.id in self._desk.scheduler.jobs]
        if not alive:
            state = str(records[0].state).lower() if records else "ended"
            raise ConflictError(f"job {identity} has ended already ({state})")
        return alive

    def _told(self, events: Sequence[Event], batch: Batch) -> "asyncio.Future[None]":
        """Tell the scheduler now, before anybody else does anything; done once it is on disk."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if events:
            self._keeper.ride(Rider(batch, done))
            self._desk.tell(*events)
        else:
            done.set_result(None)
        return done

    async def _settled(
        self, wanted: Coroutine[Any, Any, Answer] | asyncio.Future[Answer]
    ) -> Answer:
        """Wait until it is on disk; but not for as long as a store may be out of order.

        Whoever asks again with the same idempotency key is told what became of it.
        """
        task = asyncio.ensure_future(wanted)
        for _ in range(PATIENCE_S):
            await asyncio.wait({task}, timeout=1.0)
            if task.done() or self._desk.store_error:
                break
        if task.done():
            return task.result()
        task.add_done_callback(_look_at)
        why = self._desk.store_error or "the store takes long"
        raise UnavailableError(
            f"it is not on disk yet, and may still be carried out: {why}",
            hint="ask again with the same idempotency key",
        )

    async def _keep_diff(self, text: str) -> str:
        try:
            return await asyncio.to_thread(self._desk.diffs.keep, text)
        except OSError as error:
            raise UnavailableError(
                f"the state of the code cannot be kept: {error.strerror}", hint="try again"
            ) from None

    def _digest(self, who: Who, request: JobRequest) -> str:
        """What tells requests apart; with a key, so that secrets cannot be guessed from it."""
        text = msgspec.json.encode((who.user, request))
        return hmac.new(self._digest_key, text, hashlib.sha256).hexdigest()

    def _views(self, records: Sequence[JobRecord]) -> tuple[JobView, ...]:
        return tuple(listed(self._desk, records))


def _look_at(task: "asyncio.Future[Answer]") -> None:
    """Nobody waits for it any more; its error, if there is one, has been told as far as it can."""
    if not task.cancelled():
        task.exception()


def _other_request(key: str) -> ConflictError:
    return ConflictError(f"the idempotency key {key!r} was used for another request; use a new one")


def _basis(drawn: Drawn) -> str:
    known = drawn.expectation
    if known.source == "nothing":
        return "nothing is known of jobs like it; it is taken to last an hour"
    return f"it is taken to last about {known.length_s:.0f} s, by {known.source}"
