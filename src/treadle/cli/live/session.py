"""What a command needs: the client of the daemon, the clock and the terminal.

A Session is made when a command asks for it. A program that runs the command line passes its own as
the context object, with its own client, clock and width.
"""

import json
import os
import pwd
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from treadle.cli.show.clock import now_at, pause, stopwatch_s
from treadle.client.address import find_address

if TYPE_CHECKING:  # The client's library takes 60 ms to import; `treadle --help` must not pay that.
    from treadle.client import Client


def my_name() -> str:
    """The user's name, as the daemon sees it through the socket."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid{os.getuid()}"


def connect() -> "Client":
    """The client for TREADLE_URL, or for this machine's socket."""
    from treadle.client import Client  # noqa: PLC0415

    return Client()


@dataclass
class Session:
    connect: "Callable[[], Client]" = connect
    now: Callable[[], float] = now_at
    stopwatch: Callable[[], float] = stopwatch_s
    pause: Callable[[float], None] = pause
    columns: int | None = None  # None: the width of the terminal
    user: Callable[[], str] = my_name

    @cached_property
    def client(self) -> "Client":
        return self.connect()

    def close(self) -> None:
        """Close the connection, if there is one."""
        if "client" in self.__dict__:
            self.client.close()

    @property
    def me(self) -> str:
        """The user whose jobs are listed by default; empty on a server, where a token decides."""
        return "" if remote() else self.user()

    @property
    def width(self) -> int:
        """Columns to fill: at least 80, and 120 if there is no terminal."""
        if self.columns is not None:
            return self.columns
        return max(80, shutil.get_terminal_size((120, 24)).columns)

    @property
    def colour(self) -> bool:
        """Whether to use colours: only on a terminal that has them, and never with NO_COLOR."""
        unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return self.columns is None and not unwanted and sys.stdout.isatty()

    @property
    def terminal(self) -> bool:
        """Whether the output goes to a terminal."""
        return sys.stdout.isatty()

    @property
    def interactive(self) -> bool:
        return sys.stdin.isatty() and sys.stdout.isatty()


def session() -> Session:
    """The session of the present command."""
    context = click.get_current_context()
    found = context.find_object(Session)
    if found is None:
        found = Session()
        context.find_root().obj = found
        context.find_root().call_on_close(found.close)
    return found


def remote() -> bool:
    """Whether commands go to a server elsewhere; then no daemon is started here."""
    return bool(find_address().url)


def echo_json(value: Any) -> None:
    """Print an answer as JSON."""
    import msgspec  # noqa: PLC0415

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())


def echo_json_line(value: Any) -> None:
    import msgspec  # noqa: PLC0415

    click.echo(json.dumps(msgspec.to_builtins(value)))


def note(sentence: str) -> None:
    """Print a remark on standard error, apart from the output."""
    click.echo(f"treadle: {sentence}", err=True)


json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
