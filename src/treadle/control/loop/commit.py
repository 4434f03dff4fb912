"""Writes every step of the controller to the store, in one transaction, before it is carried out.

A step is its facts, the policy's decision and the orders; with them go the rows of all jobs that
they touch, the attempts that they begin or end, and what a request wants written with it. If the
store cannot be written the controller waits: jobs run on, nothing new is begun, nothing is lost.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from treadle.control.jobs.desk import Desk, state_of_row
from treadle.control.jobs.records import JobRecord, attempt_body, row_of
from treadle.control.loop.clock import Stamp, wall
from treadle.core.actions import Action, Stop
from treadle.core.events import (
    DeviceClosed,
    DeviceOpened,
    Event,
    JobFailed,
    JobFinished,
    JobStarted,
    JobSubmitted,
    JobUpdated,
)
from treadle.core.job import JobId
from treadle.core.lifecycle import Phase
from treadle.journal.codec import Noted, PolicySet, decided, encode
from treadle.store.errors import StoreError
from treadle.store.rows import AttemptRow, Batch, JournalRow
from treadle.wire.jobs import AttemptView, FailureView, State
from treadle.wire.problems import UnavailableError

logger = logging.getLogger("treadle")

RETRY_S = 1.0
KEYS_KEPT_S = 7 * 86_400.0  # nobody repeats a request after that
TOKENS_KEPT_S = 30 * 86_400.0  # after they have run out
LAUNCHED_MAX = 8  # orders of a job whose attempt is remembered


@dataclass(slots=True)
class Rider:
    """What a request wants written together with its facts, and who waits for that."""

    batch: Batch = field(default_factory=Batch)
    done: "asyncio.Future[None] | None" = None


Published = Callable[[Sequence[JournalRow]], None]


class Keeper:
    """The only writer."""

    def __init__(self, desk: Desk, published: Published) -> None:
        self._desk = desk
        self._published = published
        self._riders: list[Rider] = []
        self._decisions = desk.scheduler.decisions
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        # A batch whose fate is unknown must be tried again before any other is.
        self._writing = asyncio.Lock()

    def ride(self, rider: Rider) -> None:
        """Write this with the next facts; call it in the moment in which these are told."""
        self._riders.append(rider)

    async def keep(self, now: float, events: Sequence[Event], actions: Sequence[Action]) -> None:
        """Write a step down; returns once it is on disk."""
        riders, self._riders = (self._riders, []) if events else ([], self._riders)
        batch = Batch()
        for rider in riders:
            _join(batch, rider.batch)
        at = wall()
        over = self._apply(events, actions, at)
        batch.journal += self._lines(now, at, events, actions)
        touched = dict.fromkeys([*map(_job_of, events), *(action.job for action in actions)])
        self._add_jobs(batch, touched)
        if events or actions:
            batch.settings["clock"] = " ".join(map(str, Stamp.take(now)))
            batch.settings["counters"] = " ".join(map(str, self._desk.scheduler.counters))
        if any(isinstance(event, JobFailed) for event in events):
            batch.settings["failures"] = json.dumps(self._desk.failures.saved())
        if any(isinstance(event, DeviceClosed | DeviceOpened) for event in events):
            batch.settings["closed"] = _closed(self._desk)
            batch.settings["devices"] = self._desk.device_orders()
        try:
            if batch:
                await self.write(batch)
        except StoreError as error:
            _answer(riders, UnavailableError(f"it could not be kept: {error}"))
            raise
        _answer(riders, None)
        for record in over.values():
            self._desk.drop(record)

    async def write(self, batch: Batch) -> None:
        """One transaction; waits for a store that cannot be written, for as long as it takes."""
        loop = asyncio.get_running_loop()
        async with self._writing:
            while True:
                try:
                    ids = await loop.run_in_executor(self._thread, self._desk.store.write, batch)
                    break
                except StoreError as error:
                    if not error.retryable:
                        raise
                    self._failed_to_write(error)
                    await asyncio.sleep(RETRY_S)
        if self._desk.store_error:
            logger.warning("the store can be written again")
            self._desk.store_error = ""
        rows = [row._replace(id=number) for row, number in zip(batch.journal, ids, strict=True)]
        if rows:
            self._desk.last_event = rows[-1].id
            self._published(rows)

    async def tidy(self) -> None:
        """Let go of idempotency keys and tokens that are of no use any more."""
        loop, at = asyncio.get_running_loop(), wall()
        prune = partial(
            self._desk.store.prune,
            keys_before_at=at - KEYS_KEPT_S,
            tokens_before_at=at - TOKENS_KEPT_S,
        )
        async with self._writing:
            with suppress(StoreError):  # The next time will do.
                await loop.run_in_executor(self._thread, prune)

    def _failed_to_write(self, error: StoreError) -> None:
        if not self._desk.store_error:
            logger.error("%s; jobs run on, and it is tried again", error)
        self._desk.store_error = str(error)

    async def note(self, batch: Batch, line: PolicySet | Noted | None = None) -> None:
        """Write something that is no fact of the scheduler's."""
        if line is not None:
            now = self._desk.clock.now()
            body = encode(now, line)
            batch.journal.append(JournalRow(now, wall(), type(line).__name__, "", body))
            # The next controller must not begin before it, or the journal would run backwards.
            batch.settings["clock"] = " ".join(map(str, Stamp.take(now)))
        await self.write(batch)

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    # -- what a step changes --------------------------------------------------------------------

    def _apply(
        self, events: Sequence[Event], actions: Sequence[Action], at: float
    ) -> dict[JobId, JobRecord]:
        """Bring records up to date; those that ended."""
        desk = self._desk
        ends: dict[JobId, list[Event]] = {}
        for event in events:
            record = desk.records.get(_job_of(event))
            if record is None:
                desk.told.pop(_job_of(event), None)
                continue
            self._happened(record, event, at)
            if record.id not in desk.scheduler.jobs:
                ends.setdefault(record.id, []).append(event)
        over = {identity: desk.records[identity] for identity in ends}
        for identity, record in over.items():
            self._over(record, ends[identity], at)
        for action in actions:
            self._ordered(action)
        for identity in {action.job for action in actions} | {_job_of(e) for e in events}:
            self._stands(identity, at)
        # Whoever waited for these is told once all of them are written up.
        for record in over.values():
            desk.tell(*desk.gates.left(record, desk.records))
        return over

    def _happened(self, record: JobRecord, event: Event, at: float) -> None:
        record.dirty = True
        match event:
            case JobUpdated() if self._desk.told.get(record.id) is event.spec:
                del self._desk.told[record.id]
            case JobStarted():
                self._started(record, event, at)
            case JobFailed():
                self._failed(record)

    def _stands(self, identity: JobId, at: float) -> None:
        """The state that people see follows the phase."""
        desk = self._desk
        record, row = desk.records.get(identity), desk.row(identity)
        if record is None:
            return
        if row is None or row.phase is Phase.WAITING:
            self._never_launched(record, at)
        if row is not None:
            record.state = state_of_row(row, record, held=identity in desk.scheduler.blocked)

    def _started(self, record: JobRecord, event: JobStarted, at: float) -> None:
        number = record.launched.get(event.action, 0)
        attempt = self._desk.open.get((record.id, number))
        if attempt is not None and attempt.started_at is None:
            # A clock that was set back must not make anybody start before they came.
            record.started_at = record.started_at or max(at, record.submitted_at)
            record.began_s = self._desk.clock.now()
            record.resizing = False
            view = AttemptView(number=number, devices=attempt.devices, started_at=at)
            self._desk.attempt(attempt._replace(started_at=at, body=attempt_body(view)))

    def _failed(self, record: JobRecord) -> None:
        desk = self._desk
        record.failures += 1
        view = desk.verdicts.pop(record.id, None)
        if view is None:
            return
        retried = record.id in desk.scheduler.jobs
        record.failure = FailureView(
            kind=view.kind,
            rule=view.rule,
            sentence=view.sentence,
            advice=view.advice,
            evidence=view.evidence,
            retried=retried,
        )

    def _over(self, record: JobRecord, events: Sequence[Event], at: float) -> None:
        """The job has ended, by one of these facts."""
        record.ended_at = max(at, record.submitted_at, record.started_at or 0.0)
        self._desk.told.pop(record.id, None)
        if any(isinstance(event, JobFinished) for event in events):
            record.state = State.SUCCEEDED
            record.exit = 0
            if record.progress is not None and record.progress.total:
                record.progress = replace(record.progress, step=record.progress.total)
        elif any(isinstance(event, JobFailed) for event in events) and not record.cancelled:
            record.state = State.TIMEOUT if record.told == "time-limit" else State.FAILED
        else:
            record.state, record.told = State.CANCELLED, "cancelled"

    def _ordered(self, action: Action) -> None:
        """An order that launches processes begins an attempt."""
        desk = self._desk
        record = desk.records.get(action.job)
        if record is None or isinstance(action, Stop):
            return
        devices = tuple(map(str, action.allocation.devices))
        record.attempts += 1
        record.launched[action.id] = record.attempts
        while len(record.launched) > LAUNCHED_MAX:
            del record.launched[next(iter(record.launched))]
        record.resizing = bool(record.size) and record.size != len(devices)
        record.resizes += record.resizing
        record.size = len(devices)
        view = AttemptView(number=record.attempts, devices=devices, started_at=0.0)
        desk.attempt(
            AttemptRow(
                record.id,
                record.attempts,
                action.id,
                record.owner,
                record.tenant,
                devices,
                None,
                None,
                None,
                failed=False,
                body=attempt_body(view),
            )
        )

    def _never_launched(self, record: JobRecord, at: float) -> None:
        """Attempts that were ordered, and called off before anything ran."""
        for number in record.launched.values():
            attempt = self._desk.open.get((record.id, number))
            if attempt is not None and attempt.started_at is None:
                self._called_off(attempt, at)

    def _called_off(self, attempt: AttemptRow, at: float) -> None:
        view = AttemptView(
            number=attempt.number,
            devices=attempt.devices,
            started_at=at,
            ended_at=at,
            told="called off",
        )
        self._desk.attempt(attempt._replace(ended_at=at, body=attempt_body(view)))

    # -- rows -----------------------------------------------------------------------------------

    def _lines(
        self, now: float, at: float, events: Iterable[Event], actions: Iterable[Action]
    ) -> list[JournalRow]:
        rows = [JournalRow(now, at, type(e).__name__, _job_of(e), encode(now, e)) for e in events]
        scheduler = self._desk.scheduler
        if scheduler.decisions != self._decisions:
            self._decisions = scheduler.decisions
            rows.append(JournalRow(now, at, "Decided", "", encode(now, decided(scheduler.wake_at))))
        rows += [JournalRow(now, at, type(a).__name__, a.job, encode(now, a)) for a in actions]
        return rows

    def _add_jobs(self, batch: Batch, touched: Iterable[JobId]) -> None:
        desk = self._desk
        for identity in touched:
            record = desk.records.get(identity)
            if record is None:
                continue
            known = identity in desk.scheduler.jobs
            batch.jobs.append(row_of(record, desk.scheduler.kept(identity) if known else None))
            record.dirty = False
            if not known and record.secrets:
                batch.forgotten.append(identity)
        batch.attempts += desk.changed.values()
        desk.changed = {}
        batch.profiles += desk.profiles.changes(wall())


def _answer(riders: Iterable[Rider], error: Exception | None) -> None:
    """Tell whoever waits."""
    for rider in riders:
        if rider.done is None or rider.done.done():
            continue
        if error is None:
            rider.done.set_result(None)
        else:
            rider.done.set_exception(error)


def _join(batch: Batch, other: Batch) -> None:
    for name in ("journal", "jobs", "attempts", "profiles", "tokens", "keys", "forgotten"):
        getattr(batch, name).extend(getattr(other, name))
    batch.settings |= other.settings
    batch.secrets |= other.secrets


def _job_of(event: Event) -> JobId:
    """The job that a fact is about; empty if it is about none."""
    if isinstance(event, JobSubmitted | JobUpdated):
        return event.spec.id
    return getattr(event, "job", "")


def _closed(desk: Desk) -> str:
    """Devices that take no work, and why, as text."""
    rows = [[device.node, device.number, why] for device, why in desk.scheduler.closed.items()]
    return json.dumps(rows)
