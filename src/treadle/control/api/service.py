"""The service behind the API: everything a client can ask for, as explicit methods.

`LiveService` puts the parts together: engine, scheduler, loop, store. What a method does is in
commands.py, queries.py, history.py, accounts.py and administration.py.
"""

from collections.abc import AsyncIterator, Callable, Mapping

from treadle.control.api.accounts import Accounts
from treadle.control.api.administration import Administration
from treadle.control.api.assembly import LiveSettings, assemble
from treadle.control.api.commands import Commands
from treadle.control.api.history import History
from treadle.control.api.looks import Looks
from treadle.control.api.metrics import Figure, metrics
from treadle.control.api.progress_on_disk import ProgressOnDisk
from treadle.control.api.queries import Queries, StatusFacts
from treadle.control.api.reporting import Reporting
from treadle.control.api.retention import Retention, keeping_of
from treadle.control.api.service_lifecycle import Life
from treadle.control.api.usage_running import with_running
from treadle.control.loop import wall
from treadle.core.job_report import Report
from treadle.core.machine import NodeView
from treadle.store.store import Store
from treadle.wire.decisions import DecisionPage, WhyNot
from treadle.wire.history import JobHistory
from treadle.wire.job_orders import JobsOrder, JobsOrdered
from treadle.wire.jobs import (
    DryRun,
    JobChange,
    JobDetail,
    JobPage,
    JobRequest,
    JobView,
    LogPiece,
    Submitted,
    Why,
)
from treadle.wire.machine import (
    EventPage,
    EventView,
    PolicyChange,
    PolicyView,
    Status,
    TokenMade,
    TokenRequest,
    TokenView,
    UsageRow,
    Who,
)
from treadle.wire.queue import QueueView
from treadle.wire.retention import Pruned, PruneRequest
from treadle.wire.spells import SpellPage
from treadle.wire.usage_days import UsageDays
from treadle.wire.what_if import WhatIf, WhatIfRequest


class LiveService:
    """A scheduler, an engine and a store that work together until they are closed."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._history = History(store)
        parts = assemble(store, settings, self._history.published)
        self.context = parts.context
        self._history.reads = parts.context.reads
        facts = StatusFacts(
            wall(), settings.socket, settings.url, str(settings.root), settings.engine_name
        )
        self._queries = Queries(self.context, facts)
        keeping = keeping_of(
            store.settings(), logs=settings.keep_logs, records=settings.keep_records
        )
        self._retention = Retention(self.context, keeping, self._history.thinned_upto)
        self._commands = Commands(self.context, self._queries, self._retention.delete)
        self._accounts = Accounts(
            self.context.jobs,
            self.context.commit,
            store.tokens(),
            token_key=parts.token_key,
            admins=settings.admins,
        )
        self._looks = Looks(self.context, self._queries)
        disk = ProgressOnDisk(self.context)
        self._reporting = Reporting(self.context, parts.progress, disk, self._accounts.who_of_token)
        parts.link.hear = self._reporting.hear
        self._life = Life(parts, self._accounts, self._retention, disk, self._looks)
        self._administration = Administration(
            self.context, self._commands, self._queries, self._life.stopped
        )
        self.stopped = self._life.stopped  # set when the service is to leave

    # -- life -----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Take over what runs, and go."""
        await self._life.begin()

    async def close(self) -> None:
        """Leave; jobs run on and are taken over by the next service."""
        self._queries.thinking.close()
        await self._life.close()

    def listening(self, url: str, fingerprint: str = "") -> None:
        """The API is reachable over TCP as well."""
        self._queries.listening(url, fingerprint)

    # -- jobs -----------------------------------------------------------------------------------

    async def submit(self, who: Who, request: JobRequest, key: str = "") -> Submitted:
        return await self._commands.submit(who, request, key)

    async def dry_run(self, who: Who, request: JobRequest) -> DryRun:
        return await self._commands.dry_run(who, request)

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
        return await self._queries.jobs(
            states=states,
            user=user,
            tenant=tenant,
            array=array,
            name=name,
            ended=ended,
            cursor=cursor,
            limit=limit,
        )

    async def job(self, identity: str) -> JobDetail:
        return await self._queries.job(identity)

    def active_ids(self) -> tuple[str, ...]:
        return tuple(self.context.jobs.records)

    async def active_views(self, ids: tuple[str, ...]) -> tuple[JobView, ...]:
        return await self._queries.active_views(ids)

    async def job_history(self, identity: str) -> JobHistory:
        return await self._queries.history(identity)

    async def why(self, identity: str, *, verbose: bool = False) -> Why:
        return await self._queries.why(identity, verbose=verbose)

    async def why_not(self, identity: str, device: str) -> WhyNot:
        return await self._looks.why_not(identity, device)

    async def cancel(self, who: Who, identity: str) -> tuple[JobView, ...]:
        return await self._commands.cancel(who, identity)

    async def hold(self, who: Who, identity: str) -> tuple[JobView, ...]:
        return await self._commands.hold(who, identity)

    async def release(self, who: Who, identity: str) -> tuple[JobView, ...]:
        return await self._commands.release(who, identity)

    async def change(self, who: Who, identity: str, change: JobChange) -> JobView:
        return await self._commands.change(who, identity, change)

    async def order(self, who: Who, order: JobsOrder) -> JobsOrdered:
        return await self._commands.order(who, order)

    async def report(self, who: Who, identity: str, report: Report) -> None:
        await self._reporting.report(who, identity, report)

    async def log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
    ) -> LogPiece:
        return await self._queries.log(
            identity, attempt=attempt, rank=rank, offset=offset, limit=limit
        )

    async def prune(self, who: Who, request: PruneRequest) -> Pruned:
        return await self._retention.prune(who, request)

    # -- the machine ----------------------------------------------------------------------------

    def nodes(self) -> tuple[NodeView, ...]:
        return self._queries.nodes()

    async def manage(self, who: Who, device: str, order: str) -> NodeView:
        return await self._administration.manage(who, device, order)

    async def unquarantine(self, who: Who, device: str) -> NodeView:
        return await self._administration.manage(who, device, "manage")

    async def order_node(self, who: Who, node: str, order: str) -> NodeView:
        return await self._administration.order_node(who, node, order)

    def policy(self) -> PolicyView:
        return self._queries.policy()

    async def set_policy(self, who: Who, change: PolicyChange) -> PolicyView:
        return await self._commands.set_policy(who, change)

    def status(self) -> Status:
        return self._queries.status()

    def decisions(self, *, after: int = 0, limit: int = 100, job: str = "") -> DecisionPage:
        return self._looks.decisions(after=after, limit=limit, job=job)

    async def queue(self) -> QueueView:
        return await self._looks.queue()

    async def what_if(self, asked: WhatIfRequest) -> WhatIf:
        return await self._looks.what_if(asked)

    async def shut_down(self, who: Who, mode: str) -> Status:
        return await self._administration.shut_down(who, mode)

    # -- history --------------------------------------------------------------------------------

    async def events(self, *, after: int = 0, job: str = "", limit: int = 100) -> EventPage:
        return await self._history.events(after=after, job=job, limit=limit)

    async def events_last(self, *, job: str = "", limit: int = 100) -> EventPage:
        return await self._history.events_last(job=job, limit=limit)

    def follow(self, *, after: int, job: str = "") -> AsyncIterator[EventView]:
        return self._history.follow(after=after, job=job)

    async def usage(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> tuple[UsageRow, ...]:
        now_at, rows = await self._history.usage(since_at=since_at, until_at=until_at)
        until = now_at if until_at is None else min(until_at, now_at)
        return with_running(self.context, rows, since_at, until)

    async def usage_days(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> UsageDays:
        return await self._looks.usage_days(since_at=since_at, until_at=until_at)

    async def spells(self, *, since_at: float = 0.0, until_at: float | None = None) -> SpellPage:
        return await self._looks.spells(since_at=since_at, until_at=until_at)

    async def snapshot(self) -> Mapping[str, object]:
        return await self._queries.snapshot()

    def journal(self) -> AsyncIterator[bytes]:
        return self._history.journal(self.context.charge, self.context.cluster)

    async def debug(self) -> Mapping[str, str]:
        return await self._administration.debug(self._history)

    def figures(self) -> tuple[Figure, ...]:
        return metrics(self.context)

    # -- people ---------------------------------------------------------------------------------

    def who_of_uid(self, uid: int) -> Who:
        return self._accounts.who_of_uid(uid)

    def who_of_token(self, token: str, address: str = "") -> Who | None:
        return self._accounts.who_of_token(token, address)

    def looking_up(self, token: str, address: str = "") -> Callable[[], Who | None]:
        return self._accounts.looking_up(token, address)

    async def make_token(self, who: Who, request: TokenRequest) -> TokenMade:
        return await self._accounts.make_token(who, request)

    def tokens(self, who: Who, *, user: str = "") -> tuple[TokenView, ...]:
        return self._accounts.tokens(who, user)

    async def revoke_token(self, who: Who, identity: str) -> None:
        await self._accounts.revoke_token(who, identity)

    async def revoke_tokens(self, who: Who, *, user: str = "") -> tuple[TokenView, ...]:
        return await self._accounts.revoke_tokens(who, user)
