"""`treadle policy`: show the policy, or switch it while jobs run."""

import click

from treadle.cli.live.session import echo_json, json_option, session
from treadle.cli.show.table import pairs
from treadle.cli.show.wording import plain
from treadle.core.wording import ago
from treadle.wire.machine import PolicyView


@click.command()
@click.argument("name", required=False)
@click.option("--placement", metavar="PLACEMENT", help="Switch the placement as well.")
@json_option
def policy(name: str | None, placement: str | None, as_json: bool) -> None:
    """Show the policy, or switch to NAME (see `treadle policies`); switching stops no job."""
    here = session()
    if name is None and placement is None:
        found = here.client.policy()
    else:
        found = here.client.set_policy(name or here.client.policy().policy, placement)
    if as_json:
        echo_json(found)
        return
    click.echo(f"policy {plain(found.policy)}")
    click.echo(pairs(_lines(found, here.now()), width=here.width))


def _lines(found: PolicyView, now: float) -> list[tuple[str, str]]:
    return [
        ("placement", plain(found.placement)),
        ("since", ago(found.since_at, now)),
        ("error", plain(found.error)),
        ("warning", plain(found.warning)),
    ]
