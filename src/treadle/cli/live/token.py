"""`treadle token`: tokens for programs and for other machines."""

import click

from treadle.cli.live.session import echo_json, json_option, note, session
from treadle.cli.numbers import Number
from treadle.cli.show.table import Column, table
from treadle.cli.show.wording import plain
from treadle.core.wording import ago, short_span
from treadle.wire.machine import Role, TokenRequest, TokenView
from treadle.wire.notation import duration

DAY_S = 86_400.0
DAYS = 90.0  # until a token expires

_COLUMNS = (
    Column("ID"),
    Column("NAME", least=12),
    Column("USER"),
    Column("ROLE"),
    Column("MADE"),
    Column("USED"),
    Column("FROM"),
    Column("EXPIRES"),
)


@click.group()
def token() -> None:
    """List, make and revoke API tokens."""


@token.command("list")
@click.option("--user", default="", help="Only the tokens of this user; for admins.")
@json_option
def list_tokens(user: str, as_json: bool) -> None:
    """List your tokens, or all tokens if you are an admin; the secret part is never shown."""
    here = session()
    found = here.client.tokens(user=user)
    if as_json:
        echo_json(found)
    elif not found:
        click.echo("no tokens; treadle token make NAME makes one")
    else:
        rows = [_row(view, here.now()) for view in found]
        click.echo(table(_COLUMNS, rows, width=here.width, colour=here.colour))


@token.command("make")
@click.argument("name")
@click.option("--user", default="", help="The token's user; only admins may name another.")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.USER.value,
    show_default=True,
)
@click.option(
    "--days",
    type=Number(0.01, 3650.0),
    help="Days until it expires; 90 by default.",
)
@click.option("--expires", default="", metavar="TIME", help="Or the time until then, such as 12h.")
@json_option
def make(name: str, user: str, role: str, days: float | None, expires: str, as_json: bool) -> None:
    """Make a token called NAME; it is shown only once."""
    if days is not None and expires:
        raise click.UsageError("--days and --expires cannot be combined")
    if expires:
        days = duration(expires, "--expires") / DAY_S
    days = DAYS if days is None else days
    here = session()
    made = here.client.make_token(TokenRequest(name=name, user=user, role=Role(role), days=days))
    if as_json:
        echo_json(made)
        return
    click.echo(plain(made.token))
    view = made.view
    expires = "" if view.expires_at is None else f" for {short_span(view.expires_at - here.now())}"
    note(
        f"token with role {view.role.value} for {plain(view.user)}{expires}, shown only once; "
        f"use it as TREADLE_TOKEN, revoke it with treadle token revoke {plain(view.id)}"
    )


@token.command("revoke")
@click.argument("identities", metavar="[ID]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All of yours, or of --user.")
@click.option("--user", default="", help="With --all: the tokens of this user; for admins.")
@json_option
def revoke(identities: tuple[str, ...], every: bool, user: str, as_json: bool) -> None:
    """Revoke the tokens with these IDs, or all of a user, with immediate effect."""
    if every == bool(identities):
        raise click.UsageError("give the IDs of tokens, or --all")
    if user and not every:
        raise click.UsageError("--user goes with --all; an ID needs no user")
    client = session().client
    if every:
        gone = [view.id for view in client.revoke_tokens(user=user)]
    else:
        gone = []
        for identity in identities:
            client.revoke_token(identity)
            gone.append(identity)
    if as_json:
        echo_json({"revoked": gone})
        return
    for identity in gone:
        click.echo(f"token {plain(identity)} revoked")
    if not gone:
        click.echo("no tokens to revoke")


def _row(view: TokenView, now: float) -> list[str]:
    expires = "never"
    if view.expires_at is not None:
        left_s = view.expires_at - now
        expires = f"in {short_span(left_s)}" if left_s > 0 else "expired"
    return [
        plain(view.id),
        plain(view.name),
        plain(view.user),
        view.role.value,
        ago(view.created_at, now),
        ago(view.used_at, now) or "never",
        plain(view.used_from),
        expires,
    ]
