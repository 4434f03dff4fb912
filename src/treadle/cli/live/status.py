"""`treadle status`: whether the daemon runs, its devices and its jobs."""

import click

from treadle.cli.live.session import echo_json, json_option, note, session
from treadle.cli.show.table import pairs
from treadle.cli.show.wording import plain
from treadle.core.wording import short_span
from treadle.version import __version__
from treadle.wire.machine import Status


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show whether the daemon runs, its devices, jobs and addresses."""
    here = session()
    found = here.client.status()
    if as_json:
        echo_json(found)
        return
    up = short_span(here.now() - found.since_at)
    click.echo(f"treadle {plain(found.version)} is running, up {up}, pid {found.pid}")
    click.echo(pairs(status_lines(found), width=here.width))
    if found.version != __version__:
        note(
            f"this command has version {__version__}; restart the daemon with treadle down and "
            "treadle up"
        )


def status_lines(found: Status, *, begins: bool = False) -> list[tuple[str, str]]:
    """begins: it was started just now, and has not heard yet which jobs ended before that."""
    draining = "; draining: no more jobs start" if found.draining else ""
    unheard = found.running + found.starting + found.stopping if begins else 0
    free = "" if unheard else f", {found.free:,} free"
    jobs = _taken_over(found, unheard) if unheard else jobs_line(found)
    return [
        ("devices", f"{found.devices:,}{free}{drained_text(found)}"),
        ("nodes", _nodes(found)),
        ("jobs", jobs + draining),
        ("policy", plain(found.policy)),
        ("engine", "" if found.engine == "local" else _engine(found)),
        ("store", plain(found.store)),
        ("state", plain(found.state_folder)),
        ("socket", plain(found.socket)),
        ("url", plain(found.url)),
        ("fingerprint", plain(found.fingerprint)),
        ("problem", plain(found.problem)),
    ]


def drained_text(found: Status) -> str:
    """How many devices are in drained nodes, behind a count of free ones."""
    count = found.drained_devices
    return f", {count:,} in drained nodes" if count else ""


def _taken_over(found: Status, count: int) -> str:
    others = ((found.held, "held"), (found.paused, "paused"))
    rest = "".join(f", {each:,} {state}" for each, state in others if each)
    return f"{count:,} taken over or starting, {found.waiting:,} waiting{rest}"


def _nodes(found: Status) -> str:
    if found.engine == "local":
        return ""  # This machine.
    parts = [
        (found.drained_nodes, "drained"),
        (found.lost_nodes, "lost"),
        (found.unused_nodes, "not used"),
    ]
    others = [f"{count:,} {word}" for count, word in parts if count]
    return f"{found.nodes:,}" + (f"; {', '.join(others)}" if others else "")


def _engine(found: Status) -> str:
    return plain(found.engine) + (f" at {plain(found.cluster)}" if found.cluster else "")


def jobs_line(found: Status) -> str:
    counts = [
        (found.running, "running"),
        (found.starting, "starting"),
        (found.stopping, "stopping"),
        (found.waiting, "waiting"),
        (found.held, "held"),
        (found.paused, "paused"),
    ]
    always = ("running", "waiting")
    return ", ".join(f"{count:,} {word}" for count, word in counts if count or word in always)
