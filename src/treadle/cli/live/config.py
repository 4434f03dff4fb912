"""`treadle config`: the rules for all users of a machine, in one file."""

from pathlib import Path
from tempfile import NamedTemporaryFile

import click

from treadle.cli.live.session import echo_json, json_option, session
from treadle.cli.show.wording import plain
from treadle.control.loop import PolicyInCharge, belief_on
from treadle.core.cluster import Cluster, Node
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.wording import ago, several
from treadle.policies.live.naming import DEFAULT, PLACEMENT
from treadle.wire.lab import ConfigView, Lab

_START = """\
# What counts for all users of this machine. `treadle config check FILE` says what is wrong.
# policy: weave-l
# fair: 1d                  # in which time use counts half; off
# limits:                   # of each user
#   running: 8              # jobs that have devices
#   queued: 200             # jobs that wait
#   devices: 4              # at once
#   time_limit: 2d          # the longest that a job may ask for
# users:
#   ann: {weight: 2, limits: {devices: 6}}
# tenants:
#   vision: {members: [ann, bob], quota: 4, limits: {devices: 6}}
# notify:                   # start, end, fail, preempt
#   to: ["mailto://smtp.lab.org?from=treadle@lab.org&to={user}@lab.org"]
#   on: [fail]
# keep_logs: 30d,20GiB
# keep_records: 365d
"""


@click.group()
def config() -> None:
    """Show or change the rules for all users: tenants, quotas, weights, limits, retention."""


@config.command()
@json_option
def show(as_json: bool) -> None:
    """Print the configuration that is in force."""
    here = session()
    found = here.client.config()
    if as_json:
        echo_json(found)
        return
    if not found.version:
        click.echo("no configuration was set: treadle config edit", err=True)
        return
    for line in found.text.splitlines():
        click.echo(plain(line))
    click.echo(_whose(found, here.now()), err=True)


@config.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check(file: Path) -> None:
    """Say whether FILE is right; nothing is changed, and no daemon is needed."""
    lab = Lab.of(_text_of(file), str(file))
    anywhere = belief_on(Cluster((Node("any", 1),)))
    PolicyInCharge().prepare(lab.policy or DEFAULT, PLACEMENT, anywhere, lab.settings())
    users, tenants = several(len(lab.users), "user"), several(len(lab.tenants), "tenant")
    click.echo(f"{file} is right; it names {users} and {tenants}")


@config.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def apply(file: Path, as_json: bool) -> None:
    """Put FILE in force, whole or not at all."""
    here = session()
    found = here.client.configure(_text_of(file))
    if as_json:
        echo_json(found)
    else:
        click.echo(_whose(found, here.now()))


@config.command()
def edit() -> None:
    """Open the configuration in your editor ($EDITOR), and put it in force once it is right."""
    here = session()
    before = here.client.config()
    text = before.text or _START
    while True:
        edited = click.edit(text, extension=".yaml")
        if edited is None or edited == before.text:
            click.echo("nothing was changed")
            return
        text = edited
        try:
            click.echo(_whose(here.client.configure(text, before.version), here.now()))
        except TreadleError as error:
            click.echo(f"treadle: {error}", err=True)
            if not click.confirm("edit it again?", default=True):
                _keep(text)
                raise
        else:
            return


def _keep(text: str) -> None:
    """What was edited in vain."""
    with NamedTemporaryFile("w", prefix="treadle-", suffix=".yaml", delete=False) as file:
        file.write(text)
    click.echo(f"your text is kept in {file.name}", err=True)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{file} is no text in UTF-8") from None


def _whose(found: ConfigView, now: float) -> str:
    by = f", set by {plain(found.set_by)} {ago(found.set_at, now)}" if found.set_at else ""
    return f"version {found.version}{by}"
