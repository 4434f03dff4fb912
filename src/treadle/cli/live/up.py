"""`treadle up`: the daemon for this machine, in the background or, with --foreground, right here.

In the background the same command runs again with --foreground, apart from the terminal, with its
output in daemon.log; this one returns when it answers.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from treadle.cli.live.daemon_start import STORE_VARIABLE, answer, start_daemon, state_folder
from treadle.cli.live.saved_options import FILE, recall
from treadle.cli.live.session import echo_json as print_json
from treadle.cli.live.session import json_option, note, remote, session
from treadle.cli.live.status import status_lines
from treadle.cli.show.table import pairs
from treadle.cli.show.wording import plain
from treadle.client.address import SHARED_SOCKET, default_socket
from treadle.core.errors import InvalidInputError
from treadle.core.wording import short_span

_PLACES = ("socket", "state")


@click.command()
@click.option("--devices", type=click.IntRange(1, 4096), metavar="N", help="CPU slots, not GPUs.")
@click.option("--gpus", metavar="0,2", help="Use only these GPUs; numbers or UUIDs.")
@click.option("--avoid", metavar="3", help="Use all GPUs but these.")
@click.option(
    "--policy", metavar="POLICY", help="A name of `treadle policies`; else as it was last."
)
@click.option("--placement", metavar="PLACEMENT", help="How devices are picked.")
@click.option(
    "--store", metavar="URL", help="sqlite:///FILE or postgresql://...; or TREADLE_STORE."
)
@click.option("--state", type=Path, metavar="DIR", help="Where everything is kept.")
@click.option("--socket", type=Path, metavar="PATH", help="Where to listen for the command line.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Also on this loopback port, by token."
)
@click.option("--listen", metavar="HOST:PORT", help="Also on this address, by token.")
@click.option("--share", is_flag=True, help="Let everybody on this machine submit.")
@click.option("--share-group", metavar="GROUP", help="Let this group submit.")
@click.option("--admin", multiple=True, metavar="USER", help="May change everybody's jobs.")
@click.option("--foreground", is_flag=True, help="Stay here; Ctrl-C ends it, jobs run on.")
@json_option
def up(foreground: bool, as_json: bool, **options: Any) -> int:
    """Start Treadle for this machine: the scheduler, its engine and its API."""
    if remote() and not foreground:
        raise InvalidInputError(
            f"TREADLE_URL is {os.environ['TREADLE_URL']}, another server; unset it to start one "
            "here"
        )
    given = any(_is_given(value) for name, value in options.items() if name not in _PLACES)
    if not given and options["socket"] is None:
        options = _as_last(options)
    options["store"] = options["store"] or os.environ.get(STORE_VARIABLE) or None
    _check(options)
    if options["socket"] is not None:
        options["socket"] = options["socket"].expanduser().absolute()
    if options["socket"] is not None or _shared(options) or os.environ.get("TREADLE_SOCKET"):
        # This command looks for the daemon where it will listen.
        os.environ["TREADLE_SOCKET"] = str(_socket(options))
    if foreground:
        return _run_here(options)
    here = session()
    running = answer(here)
    if running is None:
        store = options.pop("store")
        found = start_daemon(
            here,
            _words(options),
            state=options["state"],
            store=store or "",
            keep=True,
        )
        head = f"treadle {plain(found.version)} is up, pid {found.pid}"
    else:
        found = running
        since = short_span(here.now() - found.since_at)
        head = f"treadle {plain(found.version)} runs already, since {since}, pid {found.pid}"
        if given:
            note("the options given were not used; treadle down stops it, treadle policy switches")
    if as_json:
        print_json(found)
        return 0
    click.echo(head)
    log = ("log", str(state_folder(options["state"]) / "daemon.log"))
    click.echo(pairs([*status_lines(found), log], width=here.width))
    if options["socket"] is not None:
        click.echo(f"  other commands find it with TREADLE_SOCKET={options['socket']}")
    return 0


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != ()


def _as_last(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the last time, for a `treadle up` that has none of its own."""
    folder = state_folder(options["state"])
    last = recall(folder)
    try:
        found = up.make_context("treadle up", list(last.words)).params if last.words else options
    except click.UsageError as error:
        raise InvalidInputError(
            f"the options of the last treadle up in {folder / FILE} are not understood "
            f"({error.format_message().rstrip('.')}); remove the file, or give the options again"
        ) from None
    if last.words:
        note(f"with the options of the last time: {plain(' '.join(last.words))}")
    kept = {name: found[name] for name in options} | {"state": options["state"]}
    if os.environ.get("TREADLE_SOCKET"):
        kept["socket"] = None
    return kept | {"store": os.environ.get(STORE_VARIABLE) or last.store or None}


def _shared(options: Mapping[str, Any]) -> bool:
    return bool(options["share"] or options["share_group"])


def _check(options: Mapping[str, Any]) -> None:
    """Refuse what contradicts itself, before anything is started."""
    if options["gpus"] and options["avoid"]:
        raise click.UsageError("--gpus and --avoid say two things; keep one")
    if options["devices"] and (options["gpus"] or options["avoid"]):
        raise click.UsageError("--devices is for CPU slots; leave out --gpus and --avoid")
    if options["listen"] is not None and options["port"] is not None:
        raise click.UsageError("--listen has a port of its own; leave out --port")
    if options["listen"] is not None:
        host_and_port(options["listen"])
    named = options["socket"] is not None or os.environ.get("TREADLE_SOCKET")
    if _shared(options) and not named and os.geteuid() != 0:
        raise click.UsageError(
            "--share needs --socket PATH in a folder that others may enter, such as "
            "/tmp/treadle.sock"
        )


def host_and_port(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"\[?([^\[\]\s]+?)\]?:([0-9]{1,5})", text)
    if not found or int(found[2]) > 65_535:
        raise InvalidInputError(f"--listen is {plain(text)}; expected HOST:PORT, as 0.0.0.0:8437")
    return found[1], int(found[2])


def _words(options: Mapping[str, Any]) -> list[str]:
    """The options again, for the process in the background; it starts in another folder."""
    words: list[str] = []
    for name, value in options.items():
        if not _is_given(value):
            continue
        if isinstance(value, tuple):
            words += [word for each in value for word in (f"--{name}", each)]
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value.expanduser().absolute() if isinstance(value, Path) else value))
    return words


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _run_here(options: Mapping[str, Any]) -> int:
    """Be the daemon."""
    # Most commands must not wait for the server's imports.
    import asyncio  # noqa: PLC0415
    import logging  # noqa: PLC0415

    from treadle.server.daemon import DaemonSettings, run_daemon  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Jobs are started from here, and a password in the environment would be theirs as well.
    os.environ.pop(STORE_VARIABLE, None)
    settings = DaemonSettings(
        state=state_folder(options["state"]),
        socket=_socket(options),
        devices=options["devices"],
        gpus=_listed(options["gpus"]),
        avoid=_listed(options["avoid"]),
        policy=options["policy"],
        placement=options["placement"],
        store=options["store"],
        listen=host_and_port(options["listen"]) if options["listen"] else None,
        port=options["port"],
        share=options["share"],
        share_group=options["share_group"],
        admins=tuple(options["admin"]),
    )
    asyncio.run(run_daemon(settings))
    return 0


def _socket(options: Mapping[str, Any]) -> Path:
    """Where to listen: where the command line of this user looks, or that of everybody."""
    given: Path | None = options["socket"]
    if given is not None:
        return given
    if os.environ.get("TREADLE_SOCKET"):
        return default_socket().absolute()
    return SHARED_SOCKET if _shared(options) and os.geteuid() == 0 else default_socket()
