"""The calls of the API as methods of the client.

`calls.py` describes a call as a function; a row here makes it a method that returns the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from treadle.client import calls
from treadle.client.address import Address, find_address, find_token
from treadle.client.calls import Call

if TYPE_CHECKING:
    from treadle.client.client import Client

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _method(
    describe: Callable[Arguments, Call[Answer]],
) -> Callable[Concatenate[Client, Arguments], Answer]:
    """A method that carries out the call which a function describes."""

    def carry_out(client: Client, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        return client.do(describe(*args, **kwargs))

    carry_out.__doc__ = describe.__doc__
    return carry_out


class Methods:
    """An address, a token, and a method for each call."""

    submit = _method(calls.submit)
    dry_run = _method(calls.dry_run)
    job_page = _method(calls.job_page)
    job = _method(calls.job)
    why = _method(calls.why)
    job_history = _method(calls.job_history)
    cancel = _method(calls.cancel)
    hold = _method(calls.hold)
    release = _method(calls.release)
    pause = _method(calls.pause)
    resume = _method(calls.resume)
    change = _method(calls.change)
    order_jobs = _method(calls.order_jobs)
    prune = _method(calls.prune)
    report = _method(calls.report)
    log = _method(calls.log)
    nodes = _method(calls.nodes)
    order_node = _method(calls.order_node)
    order_device = _method(calls.order_device)
    unquarantine = _method(calls.unquarantine)
    policy = _method(calls.policy)
    set_policy = _method(calls.set_policy)
    health = _method(calls.health)
    status = _method(calls.status)
    shut_down = _method(calls.shut_down)
    events = _method(calls.events)
    events_last = _method(calls.events_last)
    usage = _method(calls.usage)
    usage_csv = _method(calls.usage_csv)
    queue = _method(calls.queue)
    snapshot = _method(calls.snapshot)
    what_if = _method(calls.what_if)
    learned = _method(calls.learned)
    forget_script = _method(calls.forget_script)
    debug = _method(calls.debug)
    metrics = _method(calls.metrics)
    session_link = _method(calls.session_link)
    tokens = _method(calls.tokens)
    make_token = _method(calls.make_token)
    revoke_token = _method(calls.revoke_token)
    revoke_tokens = _method(calls.revoke_tokens)

    def __init__(
        self,
        address: str | Address | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        self.address = address if isinstance(address, Address) else find_address(address)
        self._token = find_token(token, self.address)
        self._timeout_s = timeout_s
