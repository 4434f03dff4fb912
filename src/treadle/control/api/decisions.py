"""What was decided lately: the differences, what led to each (decision_causes.py), CPU time.

Only decisions that changed something are kept, the newest of them, in memory; the others are
counted.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from treadle.control.api.context import Context
from treadle.control.api.decision_causes import ENDS, Happened, cause, happened, swaps_of
from treadle.control.api.history import sentence
from treadle.control.api.queue_order import free_devices, waiting_jobs
from treadle.control.api.sentences import Said
from treadle.control.jobs import job_of
from treadle.control.loop import wall
from treadle.core.actions import Action, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.events import Event, JobProgressed
from treadle.core.job import JobId
from treadle.core.plan import DATA_PARALLEL
from treadle.core.scheduler import Scheduler
from treadle.core.wording import several
from treadle.journal.codec import encode
from treadle.policies.live.decide import remembered
from treadle.wire.decisions import Decision, DecisionChange, DecisionPage

KEPT = 500
EVENTS_KEPT = 12  # of those that caused a decision; the others are counted
CHANGES_MAX = 200  # of one decision that are kept


class Decisions:
    """Listens to the loop; the newest decisions are at hand."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept: deque[Decision] = deque(maxlen=KEPT)
        self._held = dict(_held_by(context.scheduler))
        self._leaving: dict[JobId, Allocation] = {}  # of jobs that were told to stop
        self._let_go: dict[JobId, Allocation] = {}  # of jobs that ended since the last decision
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._happened = 0  # since the last decision
        self._reserved: frozenset[JobId] = frozenset()  # jobs, by the last decision
        self._just: tuple[float, Sequence[Action], str] | None = None
        self._last_id, self._others, self._since_at = 0, 0, wall()
        self._policy = context.charge.policy  # at the last decision

    def page(self, *, after: int = 0, limit: int = 100, job: str = "") -> DecisionPage:
        """job: only those that changed the jobs of this id, array or name."""
        found = [each for each in self._kept if each.id > after and _is_about(each, job)]
        found = found[-max(1, min(limit, KEPT)) :]
        return DecisionPage(
            decisions=tuple(found),
            next=self._newest_id(),
            others=self._others,
            since_at=self._since_at,
        )

    # -- what the loop tells ----------------------------------------------------------------------

    def decided(self, worked_s: float, actions: Sequence[Action]) -> None:
        """The policy has answered; `observe` follows in the same round of the loop."""
        self._just = worked_s, actions, ""

    def failed(self, error: str) -> None:
        self._just = 0.0, (), error

    def observe(
        self,
        now: float,  # noqa: ARG002
        events: Sequence[Event],
        actions: Sequence[Action],  # noqa: ARG002
        scheduler: Scheduler,
    ) -> None:
        news = [event for event in events if not isinstance(event, JobProgressed)]
        self._events.extend(news)
        for event in news:
            self._note_end(event)
        self._happened += len(news)
        just, self._just = self._just, None
        if just is None:
            return
        worked_s, ordered, error = just
        if ordered or error:
            self._kept.append(self._made(scheduler, worked_s, ordered, error))
        else:
            self._others += 1
        self._policy = self._context.charge.policy
        kept = remembered(scheduler.memory).patience.reserved
        self._reserved = frozenset(entry.job for entry in kept)
        self._events.clear()
        self._let_go.clear()
        self._happened = 0

    def _newest_id(self) -> int:
        return self._kept[-1].id if self._kept else 0

    # -- making one -------------------------------------------------------------------------------

    def _made(
        self, scheduler: Scheduler, worked_s: float, actions: Sequence[Action], error: str
    ) -> Decision:
        before = {action.job: self._held.get(action.job) for action in actions}
        facts = [self._happened_by(event) for event in self._events]
        changes: list[DecisionChange] = []
        for action in actions:
            new = None if isinstance(action, Stop) else action.allocation
            if new is None:
                if (left := self._held.pop(action.job, None)) is not None:
                    self._leaving[action.job] = left
            else:
                self._held[action.job] = new
            old = None if isinstance(action, Start) else before[action.job]
            if len(changes) < CHANGES_MAX:
                record = self._context.jobs.records.get(action.job)
                name = "" if record is None else record.name
                changes.append(_change(scheduler, action, name, old, new))
        if len(self._held) > 2 * len(scheduler.jobs) + KEPT:
            self._held = dict(_held_by(scheduler))  # Without those that have ended.
            self._leaving.clear()
        self._last_id += 1
        holders = {job for jobs in scheduler.tenancy.tenants.values() for job in jobs.values()}
        policy = self._context.charge.policy
        switched = f"the policy is now {policy}" if policy != self._policy else ""
        whom = {each.job: each.for_job for each in actions if not isinstance(each, Start)}
        return Decision(
            id=self._last_id,
            at=wall(),
            policy=policy,
            cpu_ms=round(1000.0 * worked_s, 3),
            events=(*([switched] if switched else []), *self._told(facts)),
            changes=tuple(self._caused(changes, facts, whom, policy if switched else "")),
            running=len(holders),
            waiting=waiting_jobs(scheduler),
            free=free_devices(scheduler),
            error=error,
        )

    def _caused(
        self,
        changes: Sequence[DecisionChange],
        facts: Sequence[Happened],
        whom: Mapping[JobId, JobId],
        policy: str,
    ) -> Iterable[DecisionChange]:
        """The changes with what led to them; policy: its name, if it is new."""
        swaps, said = swaps_of(changes), Said(self._context)
        for change in changes:
            turn = bool(change.after) and change.job in self._reserved
            who = whom.get(change.job, "")
            found = cause(change, facts, swaps, for_job=who, turn=turn, policy=policy)
            text = said.sentence(found)
            yield replace(change, because=text, code=found.code, numbers=dict(found.numbers))

    def _note_end(self, event: Event) -> None:
        """Keep what the job of an attempt that ended held, until the next decision."""
        if isinstance(event, ENDS) and getattr(event, "meaning", event) is not None:
            left = self._leaving.pop(event.job, None) or self._held.pop(event.job, None)
            if left is not None:
                self._let_go[event.job] = left

    def _happened_by(self, event: Event) -> Happened:
        job, body = job_of(event), msgspec.json.decode(encode(0.0, event))
        held = self._let_go.get(job) or self._held.get(job)
        return happened(event, sentence(type(event).__name__, job, body), job, _names(held))

    def _told(self, facts: Sequence[Happened]) -> Iterable[str]:
        yield from (fact.text for fact in facts)
        if more := self._happened - len(facts):
            yield several(more, "more event")


def _is_about(decision: Decision, job: str) -> bool:
    called = (job,) if job else ()
    return not job or any(
        change.job in called or change.name in called or change.job.partition("_")[0] in called
        for change in decision.changes
    )


def _held_by(scheduler: Scheduler) -> Iterable[tuple[JobId, Allocation]]:
    for job in scheduler.jobs.values():
        if job.allocation is not None:
            yield job.id, job.allocation


def _change(
    scheduler: Scheduler, action: Action, name: str, old: Allocation | None, new: Allocation | None
) -> DecisionChange:
    beside = () if new is None else tuple(sorted(scheduler.tenancy.ring(action.job, new)))
    plan = "" if new is None or new.plan is DATA_PARALLEL else new.plan.text
    return DecisionChange(
        job=action.job,
        name=name,
        kind=_kind(old, new, shares=bool(beside)),
        before=_names(old),
        after=_names(new),
        plan=plan,
        beside=beside,
        order=action.id,
    )


def _kind(old: Allocation | None, new: Allocation | None, *, shares: bool) -> str:
    if new is None:
        return "stop"
    if old is None:
        return "join" if shares else "start"
    if new.size != old.size:
        return "grow" if new.size > old.size else "shrink"
    if set(new.devices) != set(old.devices):
        return "join" if shares else "move"
    if new.plan != old.plan:
        return "replan"
    return "join" if shares else "leave" if new.turn != old.turn else "change"


def _names(allocation: Allocation | None) -> tuple[str, ...]:
    return () if allocation is None else tuple(map(str, allocation.devices))
