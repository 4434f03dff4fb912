"""What the server asks of the controller; `control/api/service.py` is the one that answers.

Everything runs on one event loop, so that reads need no lock. Methods that change something are
awaited until it is on disk. They raise the errors of `wire/problems.py`. Who may do what is
decided by the route's role first (`server/access.py`) and then here, by who owns the job.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Protocol, TypeAlias, TypeVar

from treadle.core.job_report import Report
from treadle.core.machine import NodeView
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

Value = TypeVar("Value")
Maybe: TypeAlias = Value | Awaitable[Value]  # a read may answer at once or be awaited


async def settled(value: Maybe[Value]) -> Value:
    """The value itself, awaited if it has to be."""
    return await value if isawaitable(value) else value


async def close_source(source: AsyncIterator[object]) -> None:
    """End a generator now, and not when the garbage collector finds it."""
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


class Service(Protocol):
    # -- jobs
    async def submit(self, who: Who, request: JobRequest, key: str = "") -> Submitted: ...
    async def dry_run(self, who: Who, request: JobRequest) -> DryRun: ...
    def jobs(
        self,
        *,
        states: tuple[str, ...] = (),
        user: str = "",
        tenant: str = "",
        array: str = "",
        name: str = "",
        ended: bool = False,  # also those that ended
        cursor: str = "",
        limit: int = 100,
    ) -> Maybe[JobPage]: ...
    def job(self, identity: str) -> Maybe[JobDetail]: ...
    # Ids of the jobs that have not ended, and views of those among these that have not: cheap
    # enough to ask every second.
    def active_ids(self) -> Maybe[tuple[str, ...]]: ...
    def active_views(self, ids: tuple[str, ...]) -> Maybe[tuple[JobView, ...]]: ...
    def why(self, identity: str, *, verbose: bool = False) -> Maybe[Why]: ...
    def job_history(self, identity: str) -> Maybe[JobHistory]: ...
    def why_not(self, identity: str, device: str) -> Maybe[WhyNot]: ...
    async def cancel(self, who: Who, identity: str) -> tuple[JobView, ...]: ...
    async def hold(self, who: Who, identity: str) -> tuple[JobView, ...]: ...
    async def release(self, who: Who, identity: str) -> tuple[JobView, ...]: ...
    async def change(self, who: Who, identity: str, change: JobChange) -> JobView: ...
    async def order(self, who: Who, order: JobsOrder) -> JobsOrdered: ...
    async def report(self, who: Who, identity: str, report: Report) -> None: ...
    # `attempt` 0 is the newest; `offset` below 0 counts from the end.
    def log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
    ) -> Maybe[LogPiece]: ...

    async def prune(self, who: Who, request: PruneRequest) -> Pruned: ...

    # -- the machine
    def nodes(self) -> Maybe[tuple[NodeView, ...]]: ...
    # order: "manage" or "avoid"
    async def manage(self, who: Who, device: str, order: str) -> NodeView: ...
    async def unquarantine(self, who: Who, device: str) -> NodeView: ...
    # order: "drain" or "undrain"
    async def order_node(self, who: Who, node: str, order: str) -> NodeView: ...
    def policy(self) -> Maybe[PolicyView]: ...
    async def set_policy(self, who: Who, change: PolicyChange) -> PolicyView: ...
    def status(self) -> Maybe[Status]: ...
    # mode: "leave" (jobs run on), "drain" (start nothing, end when all have ended), "cancel"
    async def shut_down(self, who: Who, mode: str) -> Status: ...

    # The newest `limit` of the decisions after an id, ascending; about a job, by its id or name.
    def decisions(
        self, *, after: int = 0, limit: int = 100, job: str = ""
    ) -> Maybe[DecisionPage]: ...
    def queue(self) -> Maybe[QueueView]: ...
    async def what_if(self, asked: WhatIfRequest) -> WhatIf: ...

    # -- history
    def events(self, *, after: int = 0, job: str = "", limit: int = 100) -> Maybe[EventPage]: ...
    # The newest events, from before the end: at most `limit`, ascending.
    def events_last(self, *, job: str = "", limit: int = 100) -> Maybe[EventPage]: ...
    # Everything after that id, then everything as it happens, until cancelled.
    def follow(self, *, after: int, job: str = "") -> AsyncIterator[EventView]: ...
    def usage(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> Maybe[tuple[UsageRow, ...]]: ...
    def usage_days(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> Maybe[UsageDays]: ...
    def spells(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> Maybe[SpellPage]: ...
    def snapshot(self) -> Maybe[Mapping[str, object]]: ...
    # The journal as a file that `treadle analyze` and `treadle simulate` read, in pieces of bytes.
    def journal(self) -> AsyncIterator[bytes]: ...
    # name -> text: what helps to find a fault, without secrets
    def debug(self) -> Maybe[Mapping[str, str]]: ...
    # Figures for /metrics: (name, labels, value); names are documented in docs/operations.md.
    def figures(self) -> tuple[tuple[str, Mapping[str, str], float], ...]: ...

    # -- people
    def who_of_uid(self, uid: int) -> Who: ...
    # Job tokens too; `address` is where it came from.
    def who_of_token(self, token: str, address: str = "") -> Who | None: ...
    # Asks the same again, later; of the token it keeps only the digest. Not for job tokens.
    def looking_up(self, token: str, address: str = "") -> Callable[[], Who | None]: ...
    async def make_token(self, who: Who, request: TokenRequest) -> TokenMade: ...
    # `user`: only theirs, for admins.
    def tokens(self, who: Who, *, user: str = "") -> Maybe[tuple[TokenView, ...]]: ...
    async def revoke_token(self, who: Who, identity: str) -> None: ...
    # All tokens of the caller, or of `user`; returns those.
    async def revoke_tokens(self, who: Who, *, user: str = "") -> tuple[TokenView, ...]: ...
