"""Commits every step of the controller before it is carried out, several in one transaction.

A step is its facts, the policy's decision and the orders. With them go the rows of all jobs that
they touch, the attempts that they begin or end, what was learned, and what a request wants written
with its facts. If the store cannot be written the controller waits: jobs run on, nothing new
starts, nothing is lost.

A step is applied to the state at once, and written with those before it when somebody waits for it:
an engine for orders, a person for an answer. What an engine said is written a moment later at the
latest; until then the engine would say it again to the next controller.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TypeVar

import msgspec

from treadle.control.jobs import (
    LOST_NODES,
    NODES,
    OVERTAKEN,
    EndCompletion,
    Fact,
    Gates,
    JobRecord,
    JobTable,
    LastWords,
    LostNodes,
    Reducer,
    Respec,
    job_of,
    jobs_of,
    parting,
    row_of,
    text_of,
)
from treadle.control.learning import PROFILES_MAX, STARTS, JobLearner
from treadle.control.loop.clock import Stamp, wall
from treadle.control.loop.condition import Condition
from treadle.control.loop.inbox import Inbox
from treadle.control.loop.off_loop import DaemonThreads
from treadle.core.actions import Action, Change, Stop
from treadle.core.cluster import Device
from treadle.core.events import (
    AttemptEnded,
    DeviceClosed,
    DeviceOpened,
    JobFailed,
    JobProgressed,
    JobsLearned,
    JobStarted,
    NodeJoined,
    NodeLost,
)
from treadle.core.job import JobId
from treadle.core.ports import Clock
from treadle.core.scheduler import Scheduler
from treadle.failures.failure_history import FailureHistory
from treadle.journal.codec import Noted, PolicySet, decided, encode
from treadle.policies.live.decide import remembered
from treadle.store.check import check
from treadle.store.errors import StoreError
from treadle.store.rows import Batch, JournalRow
from treadle.store.store import Store
from treadle.wire.problems import UnavailableError

logger = logging.getLogger("treadle")

RETRY_S = 1.0
LATER_S = 0.05  # facts for which no one waits are written so much later, with others
ENDS_LATER_S = 0.025  # the end of a job, which is shown once it is on disk
WRITE_WITHIN_S = 10.0  # after that people are told that the store does not answer
CLOSE_WITHIN_S = 2.0
TURNS_TO_ANSWER = 8  # of the event loop, for requests whose facts are on disk
KEYS_KEPT_S = 7 * 86_400.0  # requests are not repeated after that
TOKENS_KEPT_S = 30 * 86_400.0  # after they expired

# What an engine says again to the next controller, and what follows from that.
_SAID_AGAIN = (AttemptEnded, JobStarted, JobProgressed, JobsLearned)

Published = Callable[[Sequence[JournalRow]], None]
Done = TypeVar("Done")


@dataclass(slots=True)
class Rider:
    """What a request wants written together with its facts, and the future that waits for it."""

    batch: Batch = field(default_factory=Batch)
    done: "asyncio.Future[None] | None" = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The state that is committed: what each step changes."""

    scheduler: Scheduler
    jobs: JobTable
    gates: Gates
    learner: JobLearner
    failures: FailureHistory  # of the scheduler's retry rule
    lost: LostNodes


@dataclass(slots=True)
class Unwritten:
    """Steps that were applied and are not on disk."""

    batch: Batch = field(default_factory=Batch)  # what is written as it is
    now: float | None = None  # of the last step; None: there is none
    touched: dict[JobId, None] = field(default_factory=dict)
    over: list[JobRecord] = field(default_factory=list)  # jobs that have ended
    riders: list[Rider] = field(default_factory=list)
    ordered: int = -1  # the newest order
    urgent: bool = False  # somebody waits for it
    due_s: float = inf  # of the event loop: when it is to be written in any case
    wakes_s: float = inf  # when the controller is woken for that

    def __bool__(self) -> bool:
        return self.now is not None or bool(self.batch)


class Commit:
    """The only writer of the store."""

    def __init__(
        self,
        state: Committed,
        store: Store,
        clock: Clock,
        inbox: Inbox,
        *,
        ends: EndCompletion,
        condition: Condition,
        published: Published,
    ) -> None:
        self._state = state
        self._store = store
        self._clock = clock
        self._inbox = inbox
        self._ends = ends
        self.condition = condition
        self._published = published
        self._reducer = Reducer(state.jobs, state.learner, state.scheduler)
        self.respec = Respec(state.jobs, state.learner, state.scheduler, inbox.newest_spec)
        self._riders: dict[int, Rider] = {}  # by the identity of the last of their facts
        self._unwritten = Unwritten()
        self._decisions = state.scheduler.decisions
        self._overtaken = remembered(state.scheduler.memory).patience.overtaken
        self._thread = DaemonThreads(1, "store writes")
        # If it is not known whether a batch was written, it is tried again before any other.
        self._writing = asyncio.Lock()
        self._lost: StoreError | None = None  # why steps are not on disk and never will be
        self.steps = 0  # changes of the state so far; the same number means the same state
        self.ending = 0  # jobs that have ended, which is not on disk yet
        self.closed: dict[Device, DeviceClosed] = {}  # devices that take no new work
        self.last_line = store.last_line()  # id of the newest line of the journal
        self.ordered = state.scheduler.counters.order - 1  # id of the newest order on disk

    @property
    def writing(self) -> bool:
        """Whether something is not on disk yet."""
        return bool(self._unwritten) or self._writing.locked()

    def tell(self, facts: Sequence[Fact], rider: Rider) -> None:
        """Send facts to the controller, with a rider that is written in the same transaction."""
        assert facts, "a rider needs facts to ride with"
        self._riders[id(facts[-1])] = rider
        self._inbox.tell(*facts)

    async def read(self, ended: AttemptEnded) -> LastWords:
        return await self._ends.read(ended)

    def complete(
        self, ended: AttemptEnded, words: LastWords, earlier: Sequence[Fact]
    ) -> list[Fact]:
        """The end of an attempt with everything that the controller knows of it.

        A job that a machine could not launch, or whose attempts are lost as they begin, is blocked
        for a while. That is taken in the same step as the end: it must not be started in between.
        """
        bounded = self._state.gates.refusals.bounded(ended)
        whole = self._ends.complete(bounded, words, earlier)
        row = self._state.scheduler.jobs.get(ended.job)
        refused = self._state.gates.refusals.judge(whole, row, self._clock.now())
        blocked = self._state.scheduler.blocked.get(ended.job, ())
        return [whole, *refused, *parting(whole, row, earlier, blocked)]

    def apply(self, now: float, facts: Sequence[Fact], actions: Sequence[Action]) -> None:
        """Change the records by a step, which is to be written."""
        self.steps += 1
        new, at = self._unwritten, wall()
        riders = [self._riders.pop(id(fact)) for fact in facts if id(fact) in self._riders]
        for rider in riders:
            _join(new.batch, rider.batch)
        over = self._reducer.apply(facts, actions, now=now, at=at)
        for fact in facts:
            self._inbox.taken(fact)
        # Jobs that waited for these are released once all records are up to date.
        for record in over:
            self._inbox.tell(*self._state.gates.left(record, self._state.jobs.records))
        self._inbox.tell(*self.respec.at_once(now))
        self._state.gates.refusals.started(facts)
        new.batch.journal += self._lines(now, at, facts, actions)
        touched = [*(job for fact in facts for job in jobs_of(fact)), *(a.job for a in actions)]
        new.touched |= dict.fromkeys(touched)
        self._add_settings(new.batch, facts)
        self._add_nodes(new.batch, facts, at)
        later_s = ENDS_LATER_S if over else LATER_S
        new.due_s = min(new.due_s, asyncio.get_running_loop().time() + later_s)
        new.now = now
        self.ending += len(over)
        new.over += over
        new.riders += riders
        new.ordered = max([new.ordered, *(action.id for action in actions)])
        waited_for = bool(actions or riders)
        new.urgent |= waited_for or not all(isinstance(fact, _SAID_AGAIN) for fact in facts)

    async def settle(self) -> None:
        """Write the steps so far if somebody waits for them, or if it is time; else a bit later."""
        loop, new = asyncio.get_running_loop(), self._unwritten
        if new.urgent or loop.time() >= new.due_s or self._writing.locked():
            await self._flush()
            if new.riders:
                await self._let_answer()
        elif new.due_s < new.wakes_s:
            new.wakes_s = new.due_s
            loop.call_at(new.due_s, self._inbox.wake)

    def abandon(self, error: Exception) -> None:
        """The controller failed, perhaps within a step: the next one goes on with what is on disk.

        Records may be ahead of the journal now, and a row made of them would never be right again.
        """
        self._lost = self._lost or StoreError(f"the controller failed: {error}", retryable=False)

    async def _let_answer(self) -> None:
        """Requests are answered before the policy thinks, which may take a while."""
        for _ in range(TURNS_TO_ANSWER):
            if not self.condition.orders.number:
                return
            await asyncio.sleep(0)

    async def write(self, batch: Batch) -> None:
        """Write this, and all steps so far, in one transaction.

        Waits for a store that cannot be written, for as long as it takes.
        """
        check(batch)  # What cannot be stored is refused by itself.
        _join(self._unwritten.batch, batch)
        await self._flush()

    async def _flush(self) -> None:
        """Everything so far is on disk then. A caller that is cancelled loses no step of others."""
        await asyncio.shield(asyncio.ensure_future(self._write_all()))

    async def _write_all(self) -> None:
        async with self._writing:
            if self._lost is not None:
                raise self._lost
            done, self._unwritten = self._unwritten, Unwritten()
            if done.now is not None:
                self._add_state(done.batch, done.touched, done.now)
            try:
                if done.batch:
                    await self._land(done.batch)
            except StoreError as error:
                self._lost = error  # Nothing that builds on it may be carried out.
                _answer(done.riders, UnavailableError(f"it could not be written: {error}"))
                raise
            _answer(done.riders, None)
            for record in done.over:
                self._state.jobs.drop(record)
            self.ending -= len(done.over)
            self.ordered = max(self.ordered, done.ordered)
            if done.over:
                self.steps += 1

    async def _land(self, batch: Batch) -> None:
        while True:
            try:
                ids = await self._answered(partial(self._store.write, batch))
                break
            except StoreError as error:
                if not error.retryable:
                    raise
                self._failed_to_write(error)
                await asyncio.sleep(RETRY_S)
        if self.condition.store_error:
            logger.warning("the store can be written again")
            self.condition.store_error = ""
        rows = [row._replace(id=number) for row, number in zip(batch.journal, ids, strict=True)]
        if rows:
            self.last_line = rows[-1].id
            self._published(rows)

    async def _answered(self, work: Callable[[], Done]) -> Done:
        """Work in the thread that writes. A store that does not answer is waited for, and shown."""
        working = asyncio.get_running_loop().run_in_executor(self._thread, work)
        await asyncio.wait({working}, timeout=WRITE_WITHIN_S)
        if not working.done():
            silence = StoreError(
                f"the store {self._store.name} has not answered for {WRITE_WITHIN_S:g} s",
                retryable=True,
            )
            self._failed_to_write(silence)
            working.add_done_callback(partial(self._answers_again, str(silence)))
            await asyncio.wait({working})
        return working.result()

    def _answers_again(self, silence: str, working: "asyncio.Future[Done]") -> None:
        """It has come back, perhaps with an error, which is the caller's."""
        if not working.cancelled():
            working.exception()
        if self.condition.store_error == silence:
            logger.warning("the store answers again")
            self.condition.store_error = ""

    async def tidy(self) -> None:
        """Delete idempotency keys and tokens that are of no use any more."""
        at = wall()
        prune = partial(
            self._store.prune,
            keys_before_at=at - KEYS_KEPT_S,
            profiles=PROFILES_MAX,
            tokens_before_at=at - TOKENS_KEPT_S,
        )
        with suppress(StoreError):  # The next time will do.
            while await self.aside(prune):
                pass

    async def aside(self, work: Callable[[], Done]) -> Done:
        """Other work on the store, behind the steps so far; it should be short."""
        await self._flush()
        async with self._writing:
            return await self._answered(work)

    def _failed_to_write(self, error: StoreError) -> None:
        if not self.condition.store_error:
            logger.error("%s; jobs run on, and it will be tried again", error)
        self.condition.store_error = str(error)

    async def note(self, batch: Batch, line: PolicySet | Noted | None = None) -> None:
        """Write something that is not a fact."""
        if line is not None:
            now = self._clock.now()
            body = encode(now, line)
            batch.journal.append(JournalRow(now, wall(), type(line).__name__, "", body))
            # The next controller must not begin before it, or the journal would run backwards.
            self._unwritten.now = now
        await self.write(batch)

    async def close(self) -> None:
        """Close the store behind the last write. A store that does not answer is left as it is."""
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._store.close)
        self._thread.shutdown()
        await asyncio.wait({closing}, timeout=CLOSE_WITHIN_S)

    # -- rows -----------------------------------------------------------------------------------

    def _lines(
        self, now: float, at: float, facts: Iterable[Fact], actions: Iterable[Action]
    ) -> list[JournalRow]:
        rows = [JournalRow(now, at, type(f).__name__, job_of(f), encode(now, f)) for f in facts]
        scheduler = self._state.scheduler
        if scheduler.decisions != self._decisions:
            self._decisions = scheduler.decisions
            rows.append(JournalRow(now, at, "Decided", "", encode(now, decided(scheduler.wake_at))))
        said = [self._as_told(action) for action in actions]
        rows += [JournalRow(now, at, type(a).__name__, a.job, encode(now, a)) for a in said]
        return rows

    def _as_told(self, action: Action) -> Action:
        """The order with the other jobs that now hold its devices, and whether it ends a pause."""
        if isinstance(action, Stop):
            return action
        tenants = self._state.scheduler.tenancy.tenants
        held = [job for d in action.allocation.devices for job in tenants.get(d, {}).values()]
        others = tuple(dict.fromkeys(job for job in held if job != action.job))
        record = self._state.jobs.records.get(action.job)
        if isinstance(action, Change) and record is not None and record.pause is not None:
            action = replace(action, resumes=action.allocation.paused is None)
        return replace(action, beside=others) if others else action

    def _add_state(self, batch: Batch, touched: Iterable[JobId], now: float) -> None:
        """What the steps have changed, as it is now."""
        jobs, scheduler, at = self._state.jobs, self._state.scheduler, wall()
        for identity in touched:
            record = jobs.records.get(identity)
            if record is None:
                continue
            known = identity in scheduler.jobs
            batch.jobs.append(row_of(record, scheduler.kept(identity) if known else None))
            if not known and record.secrets:
                batch.forgotten.append(identity)
        batch.attempts += jobs.take_changed_attempts()
        batch.profiles += self._state.learner.changes(at)
        batch.histories += self._state.learner.histories()
        batch.settings["clock"] = " ".join(map(str, Stamp.take(now)))
        batch.settings["counters"] = " ".join(map(str, scheduler.counters))
        if (overtaken := remembered(scheduler.memory).patience.overtaken) != self._overtaken:
            self._overtaken = overtaken
            batch.settings[OVERTAKEN] = msgspec.json.encode(overtaken).decode()
        if (starts := self._state.learner.starts.take_change()) is not None:
            batch.settings[STARTS] = starts

    def _add_settings(self, batch: Batch, facts: Sequence[Fact]) -> None:
        if any(_is_failure(fact) for fact in facts):
            batch.settings["failures"] = json.dumps(self._state.failures.saved())
        for fact in facts:
            if isinstance(fact, DeviceClosed):
                self.closed |= dict.fromkeys(fact.devices, fact)
            elif isinstance(fact, DeviceOpened):
                for device in fact.devices:
                    self.closed.pop(device, None)
            else:
                continue
            batch.settings["closed"] = json.dumps(
                [[d.node, d.number, f.reason, f.cause] for d, f in self.closed.items()]
            )

    def _add_nodes(self, batch: Batch, facts: Sequence[Fact], at: float) -> None:
        """Nodes that came and went."""
        for fact in facts:
            if isinstance(fact, NodeJoined):
                self._state.lost.joined(fact.node)
            elif isinstance(fact, NodeLost):
                self._state.lost.lost(fact.node, fact.why, at)
            else:
                continue
            batch.settings[NODES] = text_of(self._state.scheduler.cluster.nodes)
            batch.settings[LOST_NODES] = self._state.lost.text()


def _is_failure(fact: Fact) -> bool:
    meaning = fact.meaning if isinstance(fact, AttemptEnded) else fact
    return isinstance(meaning, JobFailed)


def _answer(riders: Iterable[Rider], error: Exception | None) -> None:
    """Let the requests go on."""
    for rider in riders:
        if rider.done is None or rider.done.done():
            continue
        if error is None:
            rider.done.set_result(None)
        else:
            rider.done.set_exception(error)


_JOINED = ("journal", "jobs", "attempts", "profiles", "histories", "tokens", "keys", "forgotten")


def _join(batch: Batch, other: Batch) -> None:
    for name in _JOINED:
        getattr(batch, name).extend(getattr(other, name))
    batch.settings |= other.settings
    batch.secrets |= other.secrets
