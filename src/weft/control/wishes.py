"""What people ask for: each wish becomes facts for the scheduler, kept before it is answered."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from weft.control.clock import wall
from weft.control.deciding import make
from weft.control.desk import Desk
from weft.control.estimates import estimate
from weft.control.gates import DEPENDENCY, USER
from weft.control.keeper import Keeper, Rider
from weft.control.people import may_touch, person
from weft.control.reads import Reads
from weft.control.records import JobRecord
from weft.control.submission import SECONDS_MAX, Drawn, draw_up
from weft.control.views import job_view
from weft.core.errors import InvalidInputError, PolicyError
from weft.core.events import Event, JobCancelled, JobHeld, JobReleased, JobSubmitted, JobUpdated
from weft.core.job import JobId
from weft.core.lifecycle import Phase
from weft.journal.codec import PolicySet
from weft.store.rows import Batch, KeyRow
from weft.wire.jobs import DryRun, JobChange, JobRequest, JobView, Submitted
from weft.wire.machine import PolicyChange, PolicyView, Role, Who
from weft.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    TooManyError,
    UnavailableError,
)

JOBS_MAX = 100_000  # that have not ended, of everybody together
JOBS_OF_ONE_MAX = 20_000  # of one user


class Wishes:
    """Submits, cancels, holds, releases and changes."""

    def __init__(self, desk: Desk, keeper: Keeper, reads: Reads) -> None:
        self._desk = desk
        self._keeper = keeper
        self._reads = reads

    # -- jobs -----------------------------------------------------------------------------------

    async def submit(self, who: Who, request: JobRequest, key: str = "") -> Submitted:
        digest = hashlib.sha256(msgspec.json.encode((who.user, request))).hexdigest()
        known = self._desk.store.key(who.user, key) if key else None
        if known is not None:
            return _repeated(known, digest, key)
        self._check_open()
        drawn = self._draw(who, request)
        self._check_room(who, len(drawn.records))
        for name in (*request.after, *request.after_any):
            if self._desk.state_of(name) is None:
                raise InvalidRequestError(f"after names job {name}, and there is no such job")
        answer = Submitted(id=drawn.id, jobs=tuple(r.id for r in drawn.records), notes=drawn.notes)
        batch = Batch()
        if key:
            body = msgspec.json.encode(answer)
            batch.keys.append(KeyRow(who.user, key, digest, body, wall()))
        if request.secrets:
            sealed = self._desk.seal.seal(request.secrets)
            batch.secrets = {record.id: sealed for record in drawn.records}
        self._desk.next_number += 1
        for record in drawn.records:
            self._desk.add(record)
        holds = self._desk.gates.join(drawn.records, held=request.held)
        await self._told([*map(JobSubmitted, drawn.specs), *holds], batch)
        return replace(answer, position=self._position(drawn.records[0].id))

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
                starts = row.phase is Phase.STARTING and not request.after
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
        await self._told([JobCancelled(record.id) for record in records], Batch())
        return self._views(records)

    async def cancel_all(self, who: Who) -> None:
        """Everything that has not ended."""
        alive = [r for r in self._desk.records.values() if r.id in self._desk.scheduler.jobs]
        for record in alive:
            may_touch(who, record)
            record.cancelled = True
        await self._told([JobCancelled(record.id) for record in alive], Batch())

    async def hold(self, who: Who, identity: str) -> tuple[JobView, ...]:
        records = self._theirs(who, identity)
        for record in records:
            row = self._desk.row(record.id)
            if row is not None and row.allocation is not None and not row.spec.resumable:
                raise ConflictError(
                    f"job {record.id} runs and cannot resume, so holding it would lose its work",
                    hint=f"weft cancel {record.id} ends it",
                )
        await self._told([JobHeld(record.id, USER) for record in records], Batch())
        return self._views(records)

    async def release(self, who: Who, identity: str) -> tuple[JobView, ...]:
        records = self._theirs(who, identity)
        events: list[Event] = [JobReleased(record.id, USER) for record in records]
        for record in records:
            if record.broken:
                self._desk.gates.forget(record)
                events.append(JobReleased(record.id, DEPENDENCY))
        await self._told(events, Batch())
        return self._views(records)

    async def change(self, who: Who, identity: str, change: JobChange) -> JobView:
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
        spec = row.spec
        if change.priority is not None:
            spec = replace(spec, priority=change.priority)
            record.priority = change.priority
        record.name = change.name or record.name
        record.time_limit_s = change.time_limit_s or record.time_limit_s
        await self._told([JobUpdated(spec)], Batch())
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

    def _check_open(self) -> None:
        if self._desk.store_error:
            raise UnavailableError(
                f"nothing can be kept just now: {self._desk.store_error}", hint="try again"
            )
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
        records = self._reads.members(identity)
        for record in records:
            may_touch(who, record)
        alive = [record for record in records if record.id in self._desk.scheduler.jobs]
        if not alive:
            state = str(records[0].state).lower() if records else "ended"
            raise ConflictError(f"job {identity} has ended already ({state})")
        return alive

    async def _told(self, events: Sequence[Event], batch: Batch) -> None:
        """Tell the scheduler, and wait until that is on disk."""
        if not events:
            return
        done = asyncio.get_running_loop().create_future()
        self._keeper.ride(Rider(batch, done))
        self._desk.tell(*events)
        await done

    def _views(self, records: Sequence[JobRecord]) -> tuple[JobView, ...]:
        return tuple(job_view(self._desk, record) for record in records)

    def _position(self, identity: JobId) -> int | None:
        queue = self._desk.scheduler.ranking.queue
        if len(queue) > 0 and queue[-1][2] == identity:
            return len(queue)
        for place, (_, _, job) in enumerate(queue, 1):
            if job == identity:
                return place
        return None


def _repeated(known: KeyRow, digest: str, key: str) -> Submitted:
    if known.digest != digest:
        raise ConflictError(
            f"the idempotency key {key!r} was used for another request; use a new one"
        )
    return replace(msgspec.json.decode(known.body, type=Submitted), repeated=True)


def _basis(drawn: Drawn) -> str:
    known = drawn.expectation
    if known.source == "nothing":
        return "nothing is known of jobs like it; it is taken to last an hour"
    return f"it is taken to last about {known.length_s:.0f} s, by {known.source}"
