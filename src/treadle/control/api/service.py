"""The service behind the API: everything a client can ask for, and the part that answers it.

`LiveService` puts the parts together: engine, scheduler, loop, store. Its calls are methods of
those parts; the routes of `server/` say who may use each, and the types of `wire/` what is sent.
Everything runs on one event loop, so that reads need no lock. Calls that change something are
awaited until it is on disk; they raise the errors of `wire/problems.py`. Who may do what is decided
by the route's role first and then here, by who owns the job.
"""

from collections.abc import AsyncIterator

from treadle.control.api.accounts import Accounts
from treadle.control.api.administration import Administration
from treadle.control.api.assembly import LiveSettings, assemble
from treadle.control.api.commands import Commands
from treadle.control.api.decisions import Decisions
from treadle.control.api.fragmented import Fragmented
from treadle.control.api.history import History
from treadle.control.api.lessons import Lessons
from treadle.control.api.metrics import Figure, metrics
from treadle.control.api.notifier import Notifier
from treadle.control.api.queries import Queries, StatusFacts
from treadle.control.api.queue_view import queue_view
from treadle.control.api.reporting import Reporting
from treadle.control.api.retention import Retention, keeping_of
from treadle.control.api.service_lifecycle import Life
from treadle.control.api.spells import spells
from treadle.control.api.usage_days import usage_days, with_running
from treadle.control.api.what_if import WhatIfs
from treadle.control.loop import wall
from treadle.store.store import Store
from treadle.wire.job_orders import Verb
from treadle.wire.machine import UsageRow
from treadle.wire.queue import QueueView
from treadle.wire.spells import SpellPage
from treadle.wire.usage_days import UsageDays


class LiveService:
    """A scheduler, an engine and a store that work together until they are closed."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._history = history = History(store)
        parts = assemble(store, settings, history.published)
        self.context = parts.context
        history.reads = parts.context.reads
        facts = StatusFacts(
            wall(), settings.socket, settings.url, str(settings.root), settings.engine_name
        )
        self._queries = queries = Queries(self.context, facts)
        keeping = keeping_of(
            store.settings(), logs=settings.keep_logs, records=settings.keep_records
        )
        self._retention = retention = Retention(self.context, keeping, history.thinned_upto)
        commands = Commands(self.context, queries, retention.delete)
        self._accounts = accounts = Accounts(
            self.context.jobs,
            self.context.commit,
            store.tokens(),
            token_key=parts.token_key,
            admins=settings.admins,
        )
        decisions, lessons = Decisions(self.context), Lessons(self.context, queries.thinking)
        self._fragmented = Fragmented(self.context)
        self._reporting = reporting = Reporting(self.context, parts.progress, accounts.who_of_token)
        parts.link.hear = reporting.hear
        self._life = Life(
            parts,
            accounts,
            retention,
            decisions,
            self._fragmented,
            Notifier(self.context, history, queries),
        )
        self.stopped = self._life.stopped  # set when the service is to leave
        machine = Administration(self.context, commands, queries, history, self.stopped)

        self.begin = self._life.begin  # takes over what runs
        self.listening = queries.listening  # the API is reachable over TCP as well

        self.submit, self.dry_run = commands.submit, commands.dry_run
        self.jobs, self.job, self.job_history = queries.jobs, queries.job, queries.history
        self.active_views = queries.active_views
        self.why = queries.why
        order = commands.one_order
        self.cancel, self.hold, self.release = map(order, (Verb.CANCEL, Verb.HOLD, Verb.RELEASE))
        self.pause, self.resume = map(order, (Verb.PAUSE, Verb.RESUME))
        self.change, self.order = commands.change, commands.order
        self.report, self.log, self.prune = reporting.report, queries.log, retention.prune

        self.nodes, self.policy, self.status = queries.nodes, queries.policy, queries.status
        self.manage, self.unquarantine = machine.manage, machine.unquarantine
        self.order_node, self.set_policy = machine.order_node, commands.set_policy
        self.config, self.configure = queries.config, commands.configure
        self.shut_down, self.debug = machine.shut_down, machine.debug
        self.decisions, self.what_if = decisions.page, WhatIfs(self.context, queries).ask

        self.learned, self.forget_script = lessons.learned, lessons.forget

        self.events, self.events_last = history.events, history.events_last
        self.follow, self.snapshot = history.follow, queries.snapshot

        self.who_of_uid, self.who_of_token = accounts.who_of_uid, accounts.who_of_token
        self.looking_up = accounts.looking_up
        self.tokens, self.make_token = accounts.tokens, accounts.make_token
        self.revoke_token, self.revoke_tokens = accounts.revoke_token, accounts.revoke_tokens

    async def close(self) -> None:
        """Leave; jobs run on and are taken over by the next service."""
        self._queries.thinking.close()
        await self._life.close()

    def active_ids(self) -> tuple[str, ...]:
        """Jobs that have not ended."""
        return tuple(self.context.jobs.records)

    async def queue(self) -> QueueView:
        return await self._queries.thinking.about("queue", queue_view)

    async def usage(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> tuple[UsageRow, ...]:
        """Device-hours for each user and tenant; what runs counts up to now."""
        now_at, rows = await self._history.usage(since_at=since_at, until_at=until_at)
        until = now_at if until_at is None else min(until_at, now_at)
        return with_running(self.context, rows, since_at, until)

    async def usage_days(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> UsageDays:
        return await usage_days(self.context, self._fragmented.hours(), since_at, until_at)

    async def spells(self, *, since_at: float = 0.0, until_at: float | None = None) -> SpellPage:
        return await spells(self.context, since_at, until_at)

    def journal(self) -> AsyncIterator[bytes]:
        """A file that `treadle analyze` and `treadle simulate` read, in pieces."""
        return self._history.journal(self.context.charge, self.context.cluster)

    def figures(self) -> tuple[Figure, ...]:
        """For /metrics; docs/operations.md has their names."""
        return metrics(self.context)
