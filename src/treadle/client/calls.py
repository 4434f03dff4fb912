"""Every call of the API, described once; `Client` carries it out.

A function here says what is sent and what comes back; it sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar, Unpack
from urllib.parse import quote
from uuid import uuid4

import msgspec

if TYPE_CHECKING:
    from treadle.core.job_report import Report
    from treadle.core.machine import NodeView
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
    from treadle.wire.learned import ForgetRequest, Forgotten, LearnedPage
    from treadle.wire.machine import (
        EventPage,
        PolicyView,
        Status,
        TokenMade,
        TokenRequest,
        TokenView,
        UsageRow,
    )
    from treadle.wire.queue import QueueView
    from treadle.wire.retention import Pruned, PruneRequest
    from treadle.wire.sessions import LinkMade
    from treadle.wire.what_if import WhatIf, WhatIfRequest

PREFIX = "/api/v1"
JOBS = "treadle.wire.jobs"
LEARNED = "treadle.wire.learned"
MACHINE = "treadle.wire.machine"
NODES = "treadle.core.machine"
QUEUE = "treadle.wire.queue"
RETENTION = "treadle.wire.retention"
WHAT_IF = "treadle.wire.what_if"
DIFF_JSON_MAX = 3 * 2**19  # as JSON, of the 2 MiB that a body may have

Answer = TypeVar("Answer")
Parameter = str | int | float | bool | Iterable[str] | None


@dataclass(frozen=True, slots=True)
class Named:
    """A type by its name, imported when an answer is read: all hundred take 70 ms to load."""

    module: str
    name: str
    many: bool = False  # a tuple of them comes back

    def resolve(self) -> object:
        found: type = getattr(import_module(self.module), self.name)
        return tuple[found, ...] if self.many else found  # type: ignore[valid-type]


def one(module: str, name: str) -> Named:
    return Named(module, name)


def many(module: str, name: str) -> Named:
    return Named(module, name, many=True)


class Which(TypedDict, total=False):
    """Which jobs are listed; what is left out matches all that have not ended."""

    states: Iterable[str]
    user: str
    tenant: str
    array: str
    name: str
    ended: bool  # also those that have ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[Answer]):
    method: str
    path: str
    answer: object  # the type that comes back: what `Answer` says, or its name
    params: Mapping[str, str | list[str]] = field(default_factory=dict)
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False  # sending it twice does what sending it once does

    def answer_type(self) -> object:
        return self.answer.resolve() if isinstance(self.answer, Named) else self.answer


def submit(request: JobRequest, *, key: str | None = None) -> Call[Submitted]:
    """Submit a job. A key of one's own makes repeats harmless across programs as well."""
    headers = {"Idempotency-Key": key if key is not None else uuid4().hex}
    body = sparse(fitting(request))
    return _post("/jobs", one(JOBS, "Submitted"), body=body, headers=headers, repeatable=True)


def dry_run(request: JobRequest) -> Call[DryRun]:
    """Check a submission without submitting it."""
    body = sparse(replace(request, code=None))  # it does not matter what the code is
    return _post("/jobs/dry-run", one(JOBS, "DryRun"), body=body, repeatable=True)


def job_page(*, cursor: str = "", limit: int = 1000, **which: Unpack[Which]) -> Call[JobPage]:
    """One page of the list of jobs."""
    states = [str(state) for state in which.pop("states", ())]
    return _get("/jobs", one(JOBS, "JobPage"), state=states, cursor=cursor, limit=limit, **which)


def job(identity: str) -> Call[JobDetail]:
    """Show a job's full record."""
    return _get(_job(identity), one(JOBS, "JobDetail"))


def why(identity: str, *, verbose: bool = False) -> Call[Why]:
    """Explain why a job waits, runs or ended; verbose: also what would start it now."""
    return _get(_job(identity, "why"), one(JOBS, "Why"), verbose=verbose)


def job_history(identity: str) -> Call[JobHistory]:
    """Show what a job used over time."""
    return _get(_job(identity, "history"), one("treadle.wire.history", "JobHistory"))


def cancel(identity: str) -> Call[tuple[JobView, ...]]:
    """Cancel a job or an array."""
    return _post(_job(identity, "cancel"), many(JOBS, "JobView"))


def hold(identity: str) -> Call[tuple[JobView, ...]]:
    """Hold a job: one that waits does not start, one that runs is paused, or else stopped."""
    return _post(_job(identity, "hold"), many(JOBS, "JobView"))


def release(identity: str) -> Call[tuple[JobView, ...]]:
    """Release a held job."""
    return _post(_job(identity, "release"), many(JOBS, "JobView"))


def pause(identity: str, *, how: str = "frozen") -> Call[tuple[JobView, ...]]:
    """Pause a running job, which goes on later where it was; one that waits is held.

    how: suspended also moves its GPU memory to the host's.
    """
    params = {"how": str(how)}
    return _call("POST", _job(identity, "pause"), many(JOBS, "JobView"), params=params)


def resume(identity: str) -> Call[tuple[JobView, ...]]:
    """Let a paused or held job go on, once its devices are free."""
    return _post(_job(identity, "resume"), many(JOBS, "JobView"))


def change(identity: str, change: JobChange) -> Call[JobView]:
    """Change a job's priority, time limit or name; of a waiting one also devices and tenant."""
    return _call("PATCH", _job(identity), one(JOBS, "JobView"), body=sparse(change))


def order_jobs(order: JobsOrder) -> Call[JobsOrdered]:
    """Cancel, hold, release, change or delete many jobs in one request of at most 1,000 ids."""
    return _post("/jobs/orders", one("treadle.wire.job_orders", "JobsOrdered"), body=sparse(order))


def prune(request: PruneRequest) -> Call[Pruned]:
    """Remove the output of ended jobs, and their records if asked; checkpoints stay."""
    return _post("/prune", one(RETENTION, "Pruned"), body=sparse(request), repeatable=True)


def report(identity: str, report: Report) -> Call[None]:
    """Report a running job's progress."""
    return _post(_job(identity, "report"), None, body=sparse(report))


def log(
    identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
) -> Call[LogPiece]:
    """Read one rank's output; attempt 0 is the newest, an offset below 0 is from the end."""
    return _get(
        _job(identity, "log"),
        one(JOBS, "LogPiece"),
        attempt=attempt,
        rank=rank,
        offset=offset,
        limit=limit,
    )


def nodes() -> Call[tuple[NodeView, ...]]:
    """List nodes, their devices and the jobs on them."""
    return _get("/nodes", many(NODES, "NodeView"))


def order_node(node: str, order: str) -> Call[NodeView]:
    """Set a node's order: "drain", "undrain" or "forget"."""
    return _put(f"/nodes/{_name(node)}/order", one(NODES, "NodeView"), body={"order": order})


def order_device(device: str, order: str) -> Call[NodeView]:
    """Set a device's order: "manage" or "avoid"."""
    return _put(f"/devices/{_name(device)}/order", one(NODES, "NodeView"), body={"order": order})


def unquarantine(device: str) -> Call[NodeView]:
    """Take a device out of quarantine."""
    return _post(f"/devices/{_name(device)}/unquarantine", one(NODES, "NodeView"))


def policy() -> Call[PolicyView]:
    """Show the current policy."""
    return _get("/policy", one(MACHINE, "PolicyView"))


def set_policy(policy: str, placement: str | None = None) -> Call[PolicyView]:
    """Change the policy; running jobs keep running."""
    change = {"policy": policy} | ({} if placement is None else {"placement": placement})
    return _put("/policy", one(MACHINE, "PolicyView"), body=change)


def health() -> Call[dict[str, str]]:
    """Whether the server answers; needs no token."""
    return _get("/health", dict[str, str])


def status() -> Call[Status]:
    """Show daemon status."""
    return _get("/status", one(MACHINE, "Status"))


def shut_down(mode: str = "leave") -> Call[Status]:
    """Stop the daemon: "leave" jobs running, "drain", or "cancel" them."""
    return _post("/shutdown", one(MACHINE, "Status"), body={"mode": mode})


def events(*, after: int = 0, job: str = "", limit: int = 100) -> Call[EventPage]:
    """List events after an id, oldest first."""
    return _get("/events", one(MACHINE, "EventPage"), after=after, job=job, limit=limit)


def events_last(*, job: str = "", limit: int = 100) -> Call[EventPage]:
    """List the newest events, oldest first."""
    return _get("/events", one(MACHINE, "EventPage"), last=True, job=job, limit=limit)


def usage(
    *, since_at: float | None = None, until_at: float | None = None
) -> Call[tuple[UsageRow, ...]]:
    """Show device-hours for each user and tenant."""
    return _get("/usage", many(MACHINE, "UsageRow"), since_at=since_at, until_at=until_at)


def usage_csv(*, since_at: float | None = None, until_at: float | None = None) -> Call[str]:
    """Show device-hours for each user and tenant, as CSV."""
    return _get("/usage", str, format="csv", since_at=since_at, until_at=until_at)


def queue() -> Call[QueueView]:
    """Show who waits for what, and where users and tenants stand."""
    return _get("/queue", one(QUEUE, "QueueView"))


def snapshot() -> Call[dict[str, object]]:
    """Get the state as a policy sees it."""
    return _get("/snapshot", dict[str, object])


def learned(script: str = "", *, user: str = "") -> Call[LearnedPage]:
    """Show what was learned of scripts: of all in short, or of one everything."""
    return _get("/learned", one(LEARNED, "LearnedPage"), script=script, user=user)


def forget_script(request: ForgetRequest) -> Call[Forgotten]:
    """Forget what was learned of a script."""
    return _post("/learned/forget", one(LEARNED, "Forgotten"), body=sparse(request))


def what_if(request: WhatIfRequest) -> Call[WhatIf]:
    """Simulate the present queue under another policy, on other machines, or without jobs."""
    return _post("/what-if", one(WHAT_IF, "WhatIf"), body=sparse(request), repeatable=True)


def journal() -> Call[bytes]:
    return _get("/journal", bytes)


def debug() -> Call[dict[str, str]]:
    """Get diagnostics, as texts by name."""
    return _get("/debug", dict[str, str])


def metrics() -> Call[str]:
    """Get metrics in Prometheus' text format."""
    return _get("/metrics", str)


def tokens(*, user: str = "") -> Call[tuple[TokenView, ...]]:
    """List your tokens, or all tokens for an admin; `user` is for admins."""
    return _get("/tokens", many(MACHINE, "TokenView"), user=user)


def make_token(request: TokenRequest) -> Call[TokenMade]:
    """Create a token; only this answer shows its value."""
    return _post("/tokens", one(MACHINE, "TokenMade"), body=sparse(request))


def session_link() -> Call[LinkMade]:
    """Make a link that logs a browser in as you, once."""
    return _post("/session/link", one("treadle.wire.sessions", "LinkMade"))


def revoke_token(identity: str) -> Call[None]:
    """Revoke a token."""
    return _call("DELETE", f"/tokens/{_name(identity)}", None)


def revoke_tokens(*, user: str = "") -> Call[tuple[TokenView, ...]]:
    """Revoke all your tokens, or for an admin all of a user; returns those."""
    return _call("DELETE", "/tokens", many(MACHINE, "TokenView"), params={"user": user})


def fitting(request: JobRequest) -> JobRequest:
    """The request with no more of its diff than the server takes in one body."""
    code = request.code
    while code is not None and (size := len(msgspec.json.encode(code.diff))) > DIFF_JSON_MAX:
        kept = int(len(code.diff) * 0.9 * DIFF_JSON_MAX / size)
        code = replace(code, diff=code.diff[:kept], cut=True)
    return replace(request, code=code)


def sparse(value: object) -> dict[str, object]:
    """A request's fields without those that have their defaults.

    A server that does not know a field refuses it. Leaving out what was not asked for lets a newer
    client talk to an older server as long as nothing new is wanted.
    """
    blank = type(value)
    found: dict[str, object] = {}
    for each in fields(blank):  # type: ignore[arg-type]  # every request is a dataclass
        given = getattr(value, each.name)
        default = each.default_factory() if callable(each.default_factory) else each.default
        if given != default:
            found[each.name] = given
    return found


def _get(path: str, answer: object, **params: Parameter) -> Call[Answer]:
    return Call(
        method="GET", path=PREFIX + path, answer=answer, params=_texts(params), repeatable=True
    )


def _put(path: str, answer: object, *, body: object) -> Call[Answer]:
    return _call("PUT", path, answer, body=body, repeatable=True)


def _post(
    path: str,
    answer: object,
    *,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    repeatable: bool = False,
) -> Call[Answer]:
    return _call("POST", path, answer, body=body, headers=headers, repeatable=repeatable)


def _call(
    method: str,
    path: str,
    answer: object,
    *,
    body: object = None,
    params: Mapping[str, Parameter] | None = None,
    headers: Mapping[str, str] | None = None,
    repeatable: bool = False,
) -> Call[Answer]:
    return Call(
        method=method,
        path=PREFIX + path,
        answer=answer,
        params=_texts(params or {}),
        body=body,
        headers=headers or {},
        repeatable=repeatable,
    )


def _texts(params: Mapping[str, Parameter]) -> dict[str, str | list[str]]:
    """Query parameters as texts; what is empty is left out."""
    found: dict[str, str | list[str]] = {}
    for name, value in params.items():
        if value is None or value in ("", []):
            continue
        if isinstance(value, bool):
            found[name] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            found[name] = str(value)
        else:
            found[name] = list(value)
    return found


def _job(identity: str, verb: str = "") -> str:
    return f"/jobs/{_name(identity)}" + (f"/{verb}" if verb else "")


def _name(name: str) -> str:
    return quote(name, safe=":")
