"""What a verb works with: the daemon, the time, and the terminal.

A Desk is made when a verb asks for it. Whoever runs the command line from a program hands one over
as the context's object, with a client, a clock and a width of their own.
"""

import json
import os
import pwd
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import click

from treadle.cli.show.clock import now_at, pause, stopwatch_s

if TYPE_CHECKING:  # The client's library takes 60 ms to import; `treadle --help` must not pay that.
    from treadle.core.machine import NodeView
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
    PolicyView,
    Status,
    TokenMade,
    TokenRequest,
    TokenView,
    UsageRow,
)


class ClientPort(Protocol):
    """The methods of `treadle.Client` that verbs use."""

    def submit(self, request: "JobRequest", *, key: str | None = None) -> "Submitted": ...
    def dry_run(self, request: "JobRequest") -> "DryRun": ...
    def job_page(
        self,
        *,
        states: Iterable[str] = (),
        user: str = "",
        tenant: str = "",
        array: str = "",
        name: str = "",
        ended: bool = False,
        cursor: str = "",
        limit: int = 1000,
    ) -> "JobPage": ...
    def job(self, identity: str) -> "JobDetail": ...
    def why(self, identity: str) -> "Why": ...
    def cancel(self, identity: str) -> "tuple[JobView, ...]": ...
    def hold(self, identity: str) -> "tuple[JobView, ...]": ...
    def release(self, identity: str) -> "tuple[JobView, ...]": ...
    def change(self, identity: str, change: "JobChange") -> "JobView": ...
    def log(
        self, identity: str, *, attempt: int = 0, rank: int = 0, offset: int = 0, limit: int = 65536
    ) -> "LogPiece": ...
    def nodes(self) -> "tuple[NodeView, ...]": ...
    def order_device(self, device: str, order: str) -> "NodeView": ...
    def unquarantine(self, device: str) -> "NodeView": ...
    def policy(self) -> "PolicyView": ...
    def set_policy(self, policy: str, placement: str | None = None) -> "PolicyView": ...
    def status(self) -> "Status": ...
    def shut_down(self, mode: str = "leave") -> "Status": ...
    def events(self, *, after: int = 0, job: str = "", limit: int = 100) -> "EventPage": ...
    def events_last(self, *, job: str = "", limit: int = 100) -> "EventPage": ...
    def follow_events(
        self, *, after: int | None = None, job: str = ""
    ) -> "Iterator[EventView]": ...
    def usage(
        self, *, since_at: float | None = None, until_at: float | None = None
    ) -> "tuple[UsageRow, ...]": ...
    def snapshot(self) -> Mapping[str, object]: ...
    def journal(self) -> Iterator[bytes]: ...
    def debug(self) -> Mapping[str, str]: ...
    def make_token(self, request: "TokenRequest") -> "TokenMade": ...
    def tokens(self) -> "tuple[TokenView, ...]": ...
    def revoke_token(self, identity: str) -> None: ...
    def close(self) -> None: ...


def my_name() -> str:
    """The name of whoever runs this, as the daemon sees it through the socket."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid{os.getuid()}"


def connect() -> ClientPort:
    """The client for TREADLE_URL, or for this machine's socket."""
    from treadle.client.client import Client  # noqa: PLC0415

    return Client()


@dataclass
class Desk:
    connect: Callable[[], ClientPort] = connect
    now: Callable[[], float] = now_at
    stopwatch: Callable[[], float] = stopwatch_s
    pause: Callable[[float], None] = pause
    columns: int | None = None  # None: as wide as the terminal
    user: Callable[[], str] = my_name

    @cached_property
    def client(self) -> ClientPort:
        return self.connect()

    def close(self) -> None:
        """Let go of the connection, if there was one."""
        if "client" in self.__dict__:
            self.client.close()

    @property
    def me(self) -> str:
        """Whose jobs are "mine"; empty on a server that knows by a token who asks."""
        return "" if remote() else self.user()

    @property
    def width(self) -> int:
        """Columns to fill: no fewer than 80, and where nobody looks, 120."""
        if self.columns is not None:
            return self.columns
        return max(80, shutil.get_terminal_size((120, 24)).columns)

    @property
    def colour(self) -> bool:
        """Only on a terminal that has colours, and not for those who asked for none."""
        unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return self.columns is None and not unwanted and sys.stdout.isatty()

    @property
    def terminal(self) -> bool:
        """Whether what is printed is seen on a terminal."""
        return sys.stdout.isatty()

    @property
    def interactive(self) -> bool:
        return sys.stdin.isatty() and sys.stdout.isatty()


def desk() -> Desk:
    """The desk of the running command."""
    context = click.get_current_context()
    found = context.find_object(Desk)
    if found is None:
        found = Desk()
        context.find_root().obj = found
        context.find_root().call_on_close(found.close)
    return found


def remote() -> bool:
    """Whether the user named a server; then nothing is started here."""
    return bool(os.environ.get("TREADLE_URL"))


def echo_json(value: Any) -> None:
    """An answer as it came, as JSON."""
    import msgspec  # noqa: PLC0415

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())


def echo_json_line(value: Any) -> None:
    import msgspec  # noqa: PLC0415

    click.echo(json.dumps(msgspec.to_builtins(value)))


def note(sentence: str) -> None:
    """Something to know that is not the answer, on the other channel."""
    click.echo(f"treadle: {sentence}", err=True)


json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
