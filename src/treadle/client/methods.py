"""The calls of the API as methods, once for both clients.

`calls.py` describes a call as a function; a row here makes it a method. `Client` returns the
answer, `AsyncClient` a coroutine, and the type checker knows which.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from treadle.client import calls
from treadle.client.address import Address, find_address, find_token
from treadle.client.calls import Call

if TYPE_CHECKING:
    from treadle.client.asynchronous import AsyncClient
    from treadle.client.client import Client

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Method(Generic[Arguments, Answer]):
    """A method that carries out the call which a function describes."""

    def __init__(self, describe: Callable[Arguments, Call[Answer]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__
        self.__wrapped__ = describe

    @overload
    def __get__(self, client: None, owner: type) -> Method[Arguments, Answer]: ...

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[Arguments, Answer]: ...

    @overload
    def __get__(
        self, client: AsyncClient, owner: type
    ) -> Callable[Arguments, Coroutine[Any, Any, Answer]]: ...

    def __get__(self, client: Client | AsyncClient | None, owner: type) -> object:
        if client is None:
            return self

        def carry_out(*args: Arguments.args, **kwargs: Arguments.kwargs) -> object:
            return client.do(self._describe(*args, **kwargs))

        carry_out.__doc__ = self.__doc__
        return carry_out


class Methods:
    """What both clients have in common: an address, a token, and a method for each call."""

    submit = Method(calls.submit)
    dry_run = Method(calls.dry_run)
    job_page = Method(calls.job_page)
    job = Method(calls.job)
    why = Method(calls.why)
    job_history = Method(calls.job_history)
    cancel = Method(calls.cancel)
    hold = Method(calls.hold)
    release = Method(calls.release)
    pause = Method(calls.pause)
    resume = Method(calls.resume)
    change = Method(calls.change)
    order_jobs = Method(calls.order_jobs)
    prune = Method(calls.prune)
    report = Method(calls.report)
    log = Method(calls.log)
    nodes = Method(calls.nodes)
    order_node = Method(calls.order_node)
    order_device = Method(calls.order_device)
    unquarantine = Method(calls.unquarantine)
    policy = Method(calls.policy)
    set_policy = Method(calls.set_policy)
    health = Method(calls.health)
    status = Method(calls.status)
    shut_down = Method(calls.shut_down)
    events = Method(calls.events)
    events_last = Method(calls.events_last)
    usage = Method(calls.usage)
    usage_csv = Method(calls.usage_csv)
    snapshot = Method(calls.snapshot)
    what_if = Method(calls.what_if)
    learned = Method(calls.learned)
    forget_script = Method(calls.forget_script)
    debug = Method(calls.debug)
    metrics = Method(calls.metrics)
    session_link = Method(calls.session_link)
    tokens = Method(calls.tokens)
    make_token = Method(calls.make_token)
    revoke_token = Method(calls.revoke_token)
    revoke_tokens = Method(calls.revoke_tokens)

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
