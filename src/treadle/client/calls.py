# mypy: disable-error-code="empty-body"
"""Every call of the API: the table that `Client` has as methods.

A row says method and path, and its function what is asked and what comes back; `call` makes it a
method that sends that. A dataclass that is given is the body. Other arguments are fields of the
body of a PUT or POST, parameters of any other call, or stand in the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack
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
    from treadle.wire.lab import ConfigView
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
MACHINE = "treadle.wire.machine"
NODES = "treadle.core.machine"
PLAIN = "builtins"
DIFF_JSON_MAX = 3 * 2**19  # as JSON, of the 2 MiB that a body may have

Method = TypeVar("Method", bound=Callable[..., Any])
Parameter = str | int | float | bool | Iterable[str] | None


class Which(TypedDict, total=False):
    """Which jobs are listed; what is left out matches all that have not ended."""

    states: Iterable[str]
    user: str
    tenant: str
    array: str
    name: str
    ended: bool  # also those that have ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    method: str
    path: str
    answer: str  # the type that comes back, as it is written
    home: str = PLAIN  # the module of that type: all hundred take 70 ms to load
    params: Mapping[str, str | list[str]] = field(default_factory=dict)
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False  # sending it twice does what sending it once does

    def answer_type(self) -> object:
        return eval(self.answer, vars(import_module(self.home)))  # It is written below.


def call(
    method: str,
    path: str,
    home: str = PLAIN,
    *,
    repeatable: bool = False,
    asks: bool = False,  # arguments are parameters, though the call is a POST
    **fixed: Parameter,
) -> Callable[[Method], Method]:
    """A method that sends what its arguments say, from a function that only declares them."""

    def made(declared: Method) -> Method:
        takes = signature(declared)

        @wraps(declared)
        def send(client: Calls, *args: object, **kwargs: object) -> object:
            bound = takes.bind(client, *args, **kwargs)
            bound.apply_defaults()
            given = dict(list(bound.arguments.items())[1:])
            given |= given.pop("which", {})
            place = path
            for name in [name for name in given if f"{{{name}}}" in path]:
                place = place.replace(f"{{{name}}}", quote(str(given.pop(name)), safe=":"))
            bodies = [given.pop(name) for name, each in [*given.items()] if is_dataclass(each)]
            body = sparse(bodies[0]) if bodies else None
            if body is None and method in {"POST", "PUT"} and given and not asks:
                body = {name: each for name, each in given.items() if each is not None}
                given = {}
            if "states" in given:
                given["state"] = [str(state) for state in given.pop("states")]
            return client.do(
                Call(
                    method=method,
                    path=PREFIX + place,
                    answer=str(takes.return_annotation),
                    home=home,
                    params=_texts(fixed | given),
                    body=body,
                    repeatable=repeatable or method in {"GET", "PUT"},
                )
            )

        return send  # type: ignore[return-value]

    return made


class Calls:
    """A method for each call."""

    def do(self, call: Call) -> object:
        """Carry out a call."""
        raise NotImplementedError

    def submit(self, request: JobRequest, *, key: str | None = None) -> Submitted:
        """Submit a job. A key of one's own makes repeats harmless across programs as well."""
        made = Call(
            method="POST",
            path=f"{PREFIX}/jobs",
            answer="Submitted",
            home=JOBS,
            body=sparse(fitting(request)),
            headers={"Idempotency-Key": key if key is not None else uuid4().hex},
            repeatable=True,
        )
        return self.do(made)  # type: ignore[return-value]

    def dry_run(self, request: JobRequest) -> DryRun:
        """Check a submission without submitting it."""
        return self._dry_run(replace(request, code=None))  # it does not matter what the code is

    @call("POST", "/jobs/dry-run", JOBS, repeatable=True)
    def _dry_run(self, request: JobRequest) -> DryRun: ...

    @call("GET", "/jobs", JOBS)
    def job_page(self, *, cursor: str = "", limit: int = 1000, **which: Unpack[Which]) -> JobPage:
        """One page of the list of jobs."""

    @call("GET", "/jobs/{identity}", JOBS)
    def job(self, identity: str) -> JobDetail:
        """Show a job's full record."""

    @call("GET", "/jobs/{identity}/why", JOBS)
    def why(self, identity: str, *, verbose: bool = False) -> Why:
        """Explain why a job waits, runs or ended; verbose: also what would start it now."""

    @call("GET", "/jobs/{identity}/history", "treadle.wire.history")
    def job_history(self, identity: str) -> JobHistory:
        """Show what a job used over time."""

    @call("POST", "/jobs/{identity}/cancel", JOBS)
    def cancel(self, identity: str) -> tuple[JobView, ...]:
        """Cancel a job or an array."""

    @call("POST", "/jobs/{identity}/hold", JOBS)
    def hold(self, identity: str) -> tuple[JobView, ...]:
        """Hold a job: one that waits does not start, one that runs is paused, or else stopped."""

    @call("POST", "/jobs/{identity}/release", JOBS)
    def release(self, identity: str) -> tuple[JobView, ...]:
        """Release a held job."""

    @call("POST", "/jobs/{identity}/pause", JOBS, asks=True)
    def pause(self, identity: str, *, how: str = "frozen") -> tuple[JobView, ...]:
        """Pause a running job, which goes on later where it was; one that waits is held.

        how: suspended also moves its GPU memory to the host's.
        """

    @call("POST", "/jobs/{identity}/resume", JOBS)
    def resume(self, identity: str) -> tuple[JobView, ...]:
        """Let a paused or held job go on, once its devices are free."""

    @call("PATCH", "/jobs/{identity}", JOBS)
    def change(self, identity: str, change: JobChange) -> JobView:
        """Change a job's priority, time limit or name; of a waiting one also devices and tenant."""

    @call("POST", "/jobs/orders", "treadle.wire.job_orders")
    def order_jobs(self, order: JobsOrder) -> JobsOrdered:
        """Cancel, hold, release, change or delete many jobs in one request of at most 1,000 ids."""

    @call("POST", "/prune", "treadle.wire.retention", repeatable=True)
    def prune(self, request: PruneRequest) -> Pruned:
        """Remove the output of ended jobs, and their records if asked; checkpoints stay."""

    @call("POST", "/jobs/{identity}/report")
    def report(self, identity: str, report: Report) -> None:
        """Report a running job's progress."""

    @call("GET", "/jobs/{identity}/log", JOBS)
    def log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
    ) -> LogPiece:
        """Read one rank's output; attempt 0 is the newest, an offset below 0 is from the end."""

    @call("GET", "/nodes", NODES)
    def nodes(self) -> tuple[NodeView, ...]:
        """List nodes, their devices and the jobs on them."""

    @call("PUT", "/nodes/{node}/order", NODES)
    def order_node(self, node: str, order: str) -> NodeView:
        """Set a node's order: "drain", "undrain" or "forget"."""

    @call("PUT", "/devices/{device}/order", NODES)
    def order_device(self, device: str, order: str) -> NodeView:
        """Set a device's order: "manage" or "avoid"."""

    @call("POST", "/devices/{device}/unquarantine", NODES)
    def unquarantine(self, device: str) -> NodeView:
        """Take a device out of quarantine."""

    @call("GET", "/policy", MACHINE)
    def policy(self) -> PolicyView:
        """Show the current policy."""

    @call("PUT", "/policy", MACHINE)
    def set_policy(self, policy: str, placement: str | None = None) -> PolicyView:
        """Change the policy; running jobs keep running."""

    @call("GET", "/config", "treadle.wire.lab")
    def config(self) -> ConfigView:
        """Show the configuration that is in force."""

    @call("PUT", "/config", "treadle.wire.lab")
    def configure(self, text: str, version: int | None = None) -> ConfigView:
        """Put another configuration in force; `version`: that it is a change of."""

    @call("GET", "/health")
    def health(self) -> dict[str, str]:
        """Whether the server answers; needs no token."""

    @call("GET", "/status", MACHINE)
    def status(self) -> Status:
        """Show daemon status."""

    @call("POST", "/shutdown", MACHINE)
    def shut_down(self, mode: str = "leave") -> Status:
        """Stop the daemon: "leave" jobs running, "drain", or "cancel" them."""

    @call("GET", "/events", MACHINE)
    def events(self, *, after: int = 0, job: str = "", limit: int = 100) -> EventPage:
        """List events after an id, oldest first."""

    @call("GET", "/events", MACHINE, last=True)
    def events_last(self, *, job: str = "", limit: int = 100) -> EventPage:
        """List the newest events, oldest first."""

    @call("GET", "/usage", MACHINE)
    def usage(
        self, *, since_at: float | None = None, until_at: float | None = None
    ) -> tuple[UsageRow, ...]:
        """Show device-hours for each user and tenant."""

    @call("GET", "/usage", format="csv")
    def usage_csv(self, *, since_at: float | None = None, until_at: float | None = None) -> str:
        """Show device-hours for each user and tenant, as CSV."""

    @call("GET", "/queue", "treadle.wire.queue")
    def queue(self) -> QueueView:
        """Show who waits for what, and where users and tenants stand."""

    @call("GET", "/snapshot")
    def snapshot(self) -> dict[str, object]:
        """Get the state as a policy sees it."""

    @call("GET", "/learned", "treadle.wire.learned")
    def learned(self, script: str = "", *, user: str = "") -> LearnedPage:
        """Show what was learned of scripts: of all in short, or of one everything."""

    @call("POST", "/learned/forget", "treadle.wire.learned")
    def forget_script(self, request: ForgetRequest) -> Forgotten:
        """Forget what was learned of a script."""

    @call("POST", "/what-if", "treadle.wire.what_if", repeatable=True)
    def what_if(self, request: WhatIfRequest) -> WhatIf:
        """Simulate the present queue under another policy, on other machines, or without jobs."""

    @call("GET", "/debug")
    def debug(self) -> dict[str, str]:
        """Get diagnostics, as texts by name."""

    @call("GET", "/metrics")
    def metrics(self) -> str:
        """Get metrics in Prometheus' text format."""

    @call("GET", "/tokens", MACHINE)
    def tokens(self, *, user: str = "") -> tuple[TokenView, ...]:
        """List your tokens, or all tokens for an admin; `user` is for admins."""

    @call("POST", "/tokens", MACHINE)
    def make_token(self, request: TokenRequest) -> TokenMade:
        """Create a token; only this answer shows its value."""

    @call("DELETE", "/tokens/{identity}")
    def revoke_token(self, identity: str) -> None:
        """Revoke a token."""

    @call("DELETE", "/tokens", MACHINE)
    def revoke_tokens(self, *, user: str = "") -> tuple[TokenView, ...]:
        """Revoke all your tokens, or for an admin all of a user; returns those."""

    @call("POST", "/session/link", "treadle.wire.sessions")
    def session_link(self) -> LinkMade:
        """Make a link that logs a browser in as you, once."""


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
