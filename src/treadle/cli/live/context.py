"""`treadle context`: named servers, and which of them commands talk to."""

from typing import TextIO

import click

from treadle.cli.live.session import echo_json, json_option, note
from treadle.cli.show.table import Column, table
from treadle.cli.show.wording import plain
from treadle.client.address import read_address
from treadle.client.contexts import LOCAL, ServerContext, chosen, read_contexts, write_contexts
from treadle.core.errors import InvalidInputError

_COLUMNS = (Column(""), Column("NAME"), Column("URL"), Column("TOKEN"))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def context() -> None:
    """Manage named servers. `local` is this machine and needs no entry."""


@context.command("add")
@click.argument("name")
@click.argument("url")
@click.option(
    "--token-file",
    type=click.File("r"),
    metavar="FILE",
    help="File with the token for this server; - for standard input.",
)
@click.option("--use", "use_", is_flag=True, help="Use it from now on.")
def add(name: str, url: str, token_file: TextIO | None, use_: bool) -> None:
    """Add a server under NAME; treadle login gets a token for it."""
    if name == LOCAL:
        raise InvalidInputError("local is this machine; choose another name")
    address = read_address(url)
    token = "" if token_file is None else token_file.read(4096).strip()
    if not (token.isascii() and token.isprintable()):
        raise InvalidInputError("the token has characters that no token has; copy it again")
    before = read_contexts()
    old = before.known.get(name)
    # A token is for one server: it does not follow a new address.
    kept = old if old is not None and old.url == str(address) else ServerContext("")
    made = ServerContext(str(address), token or kept.token, kept.fingerprint)
    after = before.adding(name, made)
    write_contexts(after.using(name) if use_ else after)
    click.echo(f"context {plain(name)}: {plain(str(address))}{', in use' if use_ else ''}")


@context.command("use")
@click.argument("name")
def use(name: str) -> None:
    """Talk to the server NAME from now on; `local` for this machine."""
    write_contexts(read_contexts().using("" if name == LOCAL else name))
    click.echo(f"commands now talk to {plain(name)}")


@context.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the servers; an asterisk marks the one in use."""
    found, used = read_contexts(), chosen()
    current = used[0] if used is not None else LOCAL
    rows = [["*" if current == LOCAL else "", LOCAL, "this machine", ""]]
    for name, each in sorted(found.known.items()):
        mark = "*" if name == current else ""
        rows.append([mark, plain(name), plain(each.url), "yes" if each.token else "no"])
    if as_json:
        listed = [
            {"name": name, "url": url, "current": bool(mark), "token": token == "yes"}
            for mark, name, url, token in rows
        ]
        echo_json(listed)
        return
    click.echo(table(_COLUMNS, rows))


@context.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove a server and its token."""
    before = read_contexts()
    write_contexts(before.removing(name))
    click.echo(f"context {plain(name)} removed")
    if before.current == name:
        note("commands now talk to this machine")
