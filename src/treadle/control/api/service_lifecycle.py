"""The life of a service: begin, look after jobs every few seconds, close."""

import asyncio
import json
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from treadle.control.api.accounts import Accounts
from treadle.control.api.assembly import Parts
from treadle.control.api.decisions import Decisions
from treadle.control.api.fragmented import Fragmented
from treadle.control.api.notifier import Notifier
from treadle.control.api.retention import Retention
from treadle.control.jobs import (
    COMPANY,
    COMPANY_RECORD,
    FIRST_NODES,
    NODES,
    CompanyJudge,
    Fact,
    id_of,
    nodes_in,
    nodes_of,
    text_of,
)
from treadle.control.learning import History, company_of, so_far_in, unpacked
from treadle.control.loop import Controller, Rider, following_nodes, wall
from treadle.core.actions import Action
from treadle.core.events import JobHeld, NodeJoined, NodeLost
from treadle.core.lifecycle import Phase
from treadle.core.machine import NOT_USED, UNUSED
from treadle.core.wording import named_jobs, several
from treadle.journal.codec import Noted, PolicySet
from treadle.journal.facts import ControllerBegan
from treadle.store.errors import StoreError
from treadle.store.rows import Batch, HistoryRow
from treadle.store.store import Store
from treadle.version import __version__

logger = logging.getLogger("treadle")

LOOK_EVERY_S, LOOK_SHARE = 1.0, 0.05  # or as often as takes such a share of the time
TIDY_EVERY_S = 3600.0
KEEP_EVERY_S = 300.0  # histories of running jobs are written so often
LEAVE_WITHIN_S = 2.0  # to write a last line


class Life:
    """Runs the loop and everything that happens beside it."""

    def __init__(
        self,
        parts: Parts,
        accounts: Accounts,
        retention: Retention,
        decisions: Decisions,
        fragmented: Fragmented,
        notifier: Notifier,
    ) -> None:
        self._parts = parts
        self._context = parts.context
        self._accounts = accounts
        self._retention, self._notifier = retention, notifier
        self._decisions, self._fragmented = decisions, fragmented
        self.stopped = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._noted_trouble = ""
        self._tidy_at = self._keep_at = 0.0
        context = parts.context
        self._company = CompanyJudge(context.belief, context.jobs, context.learner)
        self._controller = Controller(
            self._context.scheduler,
            self._context.engine,
            self._context.clock,
            self._context.inbox,
            steps=self._context.commit,
            on_error=self._policy_failed,
            on_decided=self._decided,
            observers=(
                self._decisions.observe,
                self._fragmented.observe,
                following_nodes(context.belief),
            ),
        )

    async def begin(self) -> None:
        """Write that it begins, take over what runs, and go."""
        context = self._context
        settings = self._nodes_now(await context.reads.ask(lambda store: store.setting(NODES)))
        before = await context.reads.ask(lambda store: store.setting("policy"))
        settings |= {"policy": context.charge.policy, "placement": context.charge.placement}
        settings |= {**self._retention.settings, **self._parts.engine}
        jobs = context.scheduler.jobs.values()
        holding = sum(1 for job in jobs if job.allocation is not None)
        known = several(len(context.jobs.records), "job")
        text = f"version {__version__}, {known}, {holding} with devices"
        await context.commit.note(Batch(settings=settings), Noted("controller started", text))
        if before != context.charge.policy:
            # The journal says which policy was in charge from when on.
            change = PolicySet(context.charge.policy, context.charge.placement)
            await context.commit.note(Batch(), change)
        # Before any order of ours: the attempts that it begins get their nonces from it.
        began: list[Fact] = [ControllerBegan(secrets.token_hex(8)), *self._parts.restored.facts]
        began += context.cancels.facts(context.jobs.records)
        taken = asyncio.get_running_loop().create_future()
        context.commit.tell(began, Rider(done=taken))
        await self._restore_histories()
        unseen = {id_of(row): nodes_in(row.devices) for row in context.jobs.open.values()}
        closed = self._parts.restored.closed
        await context.engine.adopt(list(jobs), list(unseen), closed, unseen)
        with suppress(Exception):  # It is looked at again every few seconds.
            # Before people can ask: what the controller before last wrote may be seconds old.
            await asyncio.wait_for(self._parts.progress.look(), LEAVE_WITHIN_S)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._controller.run(), name="controller"),
            loop.create_task(self._look_after(), name="looking after jobs"),
            loop.create_task(self._retention.run(), name="retention"),
            loop.create_task(self._notifier.run(), name="notices"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._task_ended)
        with suppress(Exception):  # Before people can ask: nodes may be gone since the last time.
            await asyncio.wait_for(taken, LEAVE_WITHIN_S)
            context.cancels.clear()

    async def close(self) -> None:
        """Leave; jobs run on and are taken over by the next service."""
        with suppress(Exception):  # The next controller goes on with what was written before.
            await asyncio.wait_for(self._write_progress(), LEAVE_WITHIN_S)
        self._fragmented.close()
        with suppress(Exception):  # What takes longer is told again by the next controller.
            await asyncio.wait_for(self._notifier.rest(), LEAVE_WITHIN_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        context = self._context
        with suppress(Exception):  # The next controller goes on with what was written before.
            await asyncio.wait_for(self._keep_histories(), LEAVE_WITHIN_S)
            await asyncio.wait_for(self._keep_settings(last=True), LEAVE_WITHIN_S)
        await context.engine.close()
        with suppress(Exception):  # It leaves in any case; this line only says so.
            left = context.commit.note(Batch(), Noted("controller left", "jobs run on"))
            await asyncio.wait_for(left, LEAVE_WITHIN_S)
        context.reads.close()
        await context.commit.close()

    async def _write_progress(self) -> None:
        """Put the newest words of running jobs on record, so that no figure goes back."""
        facts = self._parts.progress.untold()
        if facts and not self._context.condition.store_error:
            written = asyncio.get_running_loop().create_future()
            self._context.commit.tell(facts, Rider(done=written))
            await written

    def _nodes_now(self, before: str | None) -> dict[str, str]:
        """The nodes as the store keeps them; changes since the last time become facts."""
        context = self._context
        nodes = context.engine.nodes()
        if before is None:
            now = text_of(nodes)
            return {NODES: now, FIRST_NODES: now}
        old, names = nodes_of(before), {node.name for node in nodes}
        # Nodes that were lost before the restart are in the scheduler too if a job still holds
        # devices there (`nodes_at_start`).
        known = dict.fromkeys(node.name for node in (*old, *context.scheduler.cluster.nodes))
        # The store follows when these are committed, so that the journal never misses one.
        gone = [name for name in known if name not in names]
        why = "it was not there when the daemon began"
        unused = {
            view.name: f"it {NOT_USED}{view.because}"
            for view in context.engine.view()
            if view.health == UNUSED
        }
        context.inbox.tell(*(NodeLost(name, unused.get(name, why)) for name in gone))
        context.inbox.tell(*(NodeJoined(node) for node in nodes if node not in old))
        return {}

    async def _look_after(self) -> None:
        self._tidy_at = self._context.clock.now()
        self._keep_at = self._tidy_at + KEEP_EVERY_S
        took_s = 0.0
        while True:
            await asyncio.sleep(max(LOOK_EVERY_S, took_s / LOOK_SHARE))
            began = self._context.clock.now()
            try:
                await self._look()
            except StoreError as error:  # Whether to leave is for those who write jobs to say.
                logger.warning("looking after jobs waits for the store: %s", error)
            took_s = self._context.clock.now() - began

    async def _look(self) -> None:
        context = self._context
        if context.clock.now() >= self._tidy_at:
            self._tidy_at += TIDY_EVERY_S
            await context.commit.tidy()
            await self._accounts.write_used()
        try:
            await self._parts.progress.look()
        except Exception:  # whatever jobs print or leave behind, the next look may be better
            logger.exception("progress cannot be read")
        context.learner.seen.see(
            context.engine.measurements(),
            company_of(context.scheduler.jobs.values()),
            context.learner.steps(),
            now=context.clock.now(),
            wall_at=wall(),
        )
        await self._judge_company()
        hung = context.learner.seen.hung(context.clock.now())
        context.inbox.tell(*(JobHeld(job, COMPANY) for job in hung))
        if context.clock.now() >= self._keep_at:
            self._keep_at = context.clock.now() + KEEP_EVERY_S
            await self._keep_histories()
        self._parts.progress.sight()
        self._fragmented.look()
        await self._keep_settings()
        self._respec()
        context.inbox.tell(*context.gates.refusals.over(context.clock.now()))
        await self._note_trouble()
        if context.condition.draining and not self._busy():
            self.stopped.set()

    async def _judge_company(self) -> None:
        """Part jobs that share badly, and remember what became of each group."""
        context, now = self._context, self._context.clock.now()
        rows = context.scheduler.jobs.values()
        parted, newcomer = self._company.look(rows, context.engine.measurements(), now)
        for found in parted:
            logger.warning("%s share no more: %s", named_jobs(sorted(found.jobs), 4), found.why)
        if parted or newcomer:  # The next may be tried.
            context.scheduler.wake_at = now
            context.inbox.wake()
        if context.condition.store_error:
            return  # What has changed is written once the store takes it.
        remembered = self._company.changed()
        if remembered is not None:
            settings = {COMPANY_RECORD: json.dumps(remembered)}
            why = "; ".join(found.why for found in parted)
            await context.commit.note(
                Batch(settings=settings), Noted("company parted", why) if parted else None
            )

    def _respec(self) -> None:
        """Tell the scheduler what was learned of jobs, and which run longer than expected."""
        context, now = self._context, self._context.clock.now()
        running = [job for job in context.scheduler.jobs.values() if job.phase is Phase.RUNNING]
        context.inbox.tell(*context.commit.respec.in_a_look(running, now))

    async def _keep_settings(self, *, last: bool = False) -> None:
        """Write what outlives the daemon and is in no record."""
        context = self._context
        if context.condition.store_error:
            return
        now = context.clock.now()
        settings = self._fragmented.unwritten(now, last=last)
        if settings:
            await context.commit.write(Batch(settings=settings))

    async def _keep_histories(self) -> None:
        rows = self._context.learner.histories(running=True)
        if rows and not self._context.condition.store_error:
            await self._context.commit.write(Batch(histories=rows))

    async def _restore_histories(self) -> None:
        """Go on with what the controller before wrote of attempts that still run."""
        context = self._context
        for row in list(context.jobs.open.values()):
            stored = await context.reads.ask(partial(_histories, job=row.job))
            for kept in stored:
                if kept.attempt == row.number:
                    history = History.of(unpacked(kept.body), kept.started_at)
                    so_far = so_far_in(kept.body)
                    context.learner.seen.restore(id_of(row), history, so_far)

    def _busy(self) -> bool:
        """Whether a job runs, or is being stopped; what its user paused does not end by itself."""
        scheduler = self._context.scheduler
        apart = scheduler.paused.keys() & scheduler.blocked.keys()
        jobs = scheduler.jobs.values()
        return any(job.phase is not Phase.WAITING and job.id not in apart for job in jobs)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        """A controller that cannot continue leaves, so that the next one takes over."""
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s ended: %s", task.get_name(), error, exc_info=error)
            self.stopped.set()

    def _decided(self, spent_s: float, worked_s: float, actions: Sequence[Action]) -> None:
        self._context.charge.decided(spent_s, worked_s)
        self._decisions.decided(worked_s, actions)

    def _policy_failed(self, now: float, error: Exception) -> None:
        """The last good schedule stays; the error is an event."""
        sentence = f"{error}" or repr(error)
        charge = self._context.charge
        if sentence == charge.error:
            return  # It was noted already, and nothing has changed since.
        logger.error("the policy failed at %.3f s: %s", now, sentence, exc_info=error)
        charge.error = sentence
        self._decisions.failed(sentence)
        note = self._context.commit.note(Batch(), Noted("policy failed", sentence))
        task = asyncio.get_running_loop().create_task(note)
        self._tasks = [*(t for t in self._tasks if not t.done()), task]

    async def _note_trouble(self) -> None:
        """Note once that a policy failed outside its decisions."""
        trouble = self._context.charge.trouble
        if trouble and trouble != self._noted_trouble:
            self._noted_trouble = trouble
            await self._context.commit.note(Batch(), Noted("policy failed", trouble))


def _histories(store: Store, *, job: str) -> list[HistoryRow]:
    return store.histories(job)
