"""`treadle usage`: device-hours by user and tenant, allocated and used."""

import click

from treadle.cli.live.session import Session, echo_json, json_option, session
from treadle.cli.show.table import Column, table
from treadle.cli.show.wording import plain
from treadle.wire.machine import UsageRow
from treadle.wire.notation import duration
from treadle.wire.queue import UserShare

_COLUMNS = (
    Column("USER", always=True),
    Column("TENANT"),
    Column("JOBS", right=True, always=True),
    Column("ALLOCATED", right=True, always=True),
    Column("USED", right=True),
    Column("FAILED", right=True, always=True),
)
_SHARES = (
    Column("USER", always=True),
    Column("WEIGHT", right=True),
    Column("LATELY", right=True, always=True),
    Column("ENTITLED", right=True, always=True),
    Column("HOLDS", right=True, always=True),
    Column("WAITING", right=True),
)


@click.command()
@click.option(
    "--since", default="7d", show_default=True, metavar="7d", help="How far back, or all."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--shares", is_flag=True, help="Who is entitled to how many devices now, and why.")
@json_option
def usage(since: str, as_csv: bool, shares: bool, as_json: bool) -> None:
    """Show device-hours: allocated, used (devices busy), and spent in failed attempts.

    JOBS counts those whose processes ran in that time, and not those that could not be launched.
    """
    here = session()
    if shares:
        _show_shares(here, as_json=as_json)
        return
    begun_at = 0.0 if since == "all" else max(0.0, here.now() - duration(since, "--since"))
    if as_csv:
        click.echo(here.client.usage_csv(since_at=begun_at), nl=False)
        return
    rows = here.client.usage(since_at=begun_at)
    if as_json:
        echo_json(rows)
    elif not rows:
        click.echo("no device was allocated in that time")
    else:
        cells = [_row(row) for row in rows]
        click.echo(table(_COLUMNS, cells, width=here.width, colour=here.colour))
        used = any(row.used_h is not None for row in rows)
        note = "; USED counts the time that devices were busy" if used else ""
        click.echo(f"in device-hours{note}")


def _show_shares(here: Session, *, as_json: bool) -> None:
    users = here.client.queue().users
    if as_json:
        echo_json(users)
    elif not users:
        click.echo("no user has a job now, or shares are off (treadle policy)")
    else:
        cells = [_stands(row) for row in users]
        click.echo(table(_SHARES, cells, width=here.width, colour=here.colour))
        click.echo(
            "LATELY: device-hours, counted less the longer ago; ENTITLED: devices before others"
        )


def _stands(row: UserShare) -> list[str]:
    lately = [f"{row.weight:g}", f"{row.used_h:,.2f}", f"{row.entitled:.1f}"]
    return [plain(row.user), *lately, f"{row.holds:,}", f"{row.waiting:,}"]


def _row(row: UsageRow) -> list[str]:
    used = "" if row.used_h is None else f"{row.used_h:,.2f}"
    hours = [f"{row.allocated_h:,.2f}", used, f"{row.failed_h:,.2f}"]
    return [plain(row.user), plain(row.tenant), f"{row.jobs:,}", *hours]
