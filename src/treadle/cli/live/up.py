"""`treadle up`: start the daemon in the background, or run it here with --foreground.

For the background the same command is started again with --foreground, detached from the terminal,
with its output in daemon.log; this one returns when the daemon answers.
"""

import logging
import os
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from treadle.cli.live.daemon_start import STORE_VARIABLE, running, start_daemon, state_folder
from treadle.cli.live.saved_options import FILE, Remembered, recall
from treadle.cli.live.session import echo_json as print_json
from treadle.cli.live.session import json_option, note, remote, session
from treadle.cli.live.status import status_lines
from treadle.cli.show.table import pairs
from treadle.cli.show.wording import plain
from treadle.client.address import SHARED_SOCKET, default_socket, find_address
from treadle.core.errors import InvalidInputError
from treadle.core.wording import short_span, span
from treadle.engines.context import FAILOVER_MIN_S, FAILOVER_S
from treadle.engines.registry import EngineOptions, check_engine
from treadle.wire.notation import duration
from treadle.wire.retention import check_keeping

_PLACES = ("socket", "state")


@click.command()
@click.option(
    "--engine",
    metavar="ENGINE",
    help="What runs the jobs: local (processes on this machine, the default), ray (the nodes of a "
    "Ray cluster), kubernetes (those of a Kubernetes cluster) or memory (nothing runs; for trying "
    "Treadle out).",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="With --engine ray: the head of a running cluster; or RAY_ADDRESS. By default one is "
    "started on this machine. With --engine kubernetes: a context of the kubeconfig; by default "
    "the current one.",
)
@click.option(
    "--lost-cluster",
    metavar="HOST:PORT",
    help="With --address of another cluster: this one is gone for good, and the jobs that ran "
    "there run again.",
)
@click.option(
    "--failover",
    metavar="10m",
    help="With an engine of a cluster: how long jobs of a node without contact go on before they "
    "are ended there and may start elsewhere: a time from 15s, or never. Default: 10m.",
)
@click.option(
    "--devices",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Number of CPU slots, instead of GPUs. With --engine ray: of each node without the label "
    "treadle.io/slots, and no more than Ray has CPUs there.",
)
@click.option(
    "--gpus",
    metavar="0,2",
    help="Use only these GPUs; numbers or UUIDs. With --engine ray: of each node that offers GPUs.",
)
@click.option(
    "--avoid", metavar="3", help="Use all GPUs except these. With --engine ray: the same."
)
@click.option(
    "--no-warm",
    is_flag=True,
    help="Start no Python job from an interpreter that has its modules imported.",
)
@click.option(
    "--policy", metavar="POLICY", help="Policy name (treadle policies); default: the last one."
)
@click.option(
    "--try",
    type=click.Choice(["on", "off"]),
    help="Whether a job that nothing is known about is tried beside a running one; default: as "
    "last time, at first on.",
)
@click.option("--placement", metavar="PLACEMENT", help="How devices are chosen.")
@click.option(
    "--store", metavar="URL", help="sqlite:///FILE or postgresql://...; or TREADLE_STORE."
)
@click.option("--state", type=Path, metavar="DIR", help="Folder for the store, logs and job files.")
@click.option("--socket", type=Path, metavar="PATH", help="Unix socket to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Loopback port for the web page and for tokens; by default the one of last time, or any "
    "that is free.",
)
@click.option("--no-port", is_flag=True, help="Listen on the Unix socket only: no web page.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Also listen on this address, with tokens; with TLS unless it is loopback.",
)
@click.option(
    "--host", multiple=True, metavar="NAME", help="Another name by which clients reach this server."
)
@click.option(
    "--tls-cert",
    type=Path,
    metavar="FILE",
    help="Certificate for TLS, with its chain (PEM); by default Treadle makes one.",
)
@click.option("--tls-key", type=Path, metavar="FILE", help="Its key (PEM), readable by you alone.")
@click.option("--share", is_flag=True, help="Let all users of this machine submit.")
@click.option("--share-group", metavar="GROUP", help="Let this group submit.")
@click.option(
    "--keep-logs",
    metavar="AGE,SIZE",
    help="Prune logs of ended jobs beyond this age or sum, the oldest first; or forever. "
    "Default: 30d,20GiB.",
)
@click.option(
    "--keep-records",
    metavar="AGE",
    help="Prune records of ended jobs beyond this age. Default: forever.",
)
@click.option("--admin", multiple=True, metavar="USER", help="User who may change all jobs.")
@click.option(
    "--foreground", is_flag=True, help="Run in this terminal; Ctrl-C stops the daemon, not jobs."
)
@json_option
def up(foreground: bool, as_json: bool, **options: Any) -> int:
    """Start the Treadle daemon on this machine: scheduler, engine and API."""
    if remote() and not foreground:
        raise InvalidInputError(
            f"commands talk to another server, {find_address()}; to start a daemon here, use "
            "treadle logout"
        )
    given = any(_is_given(value) for name, value in options.items() if name not in _PLACES)
    options = _completed(options, given=given)
    _check(options)
    if options["socket"] is not None:
        options["socket"] = options["socket"].expanduser().absolute()
    if options["socket"] is not None or _shared(options) or os.environ.get("TREADLE_SOCKET"):
        # This command must look for the daemon on the same socket.
        os.environ["TREADLE_SOCKET"] = str(_socket(options))
    if foreground:
        return _run_here(options)
    here = session()
    before = running(here)
    if before is None:
        _note_dropped(options)
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
        found = before
        since = short_span(here.now() - found.since_at)
        head = f"treadle {plain(found.version)} is already running, up {since}, pid {found.pid}"
        if given or _is_elsewhere(options["state"], found.state_folder):
            note(
                "the given options were ignored, since it runs already; to use them: treadle down "
                "(jobs keep running), then treadle up with them; treadle policy switches the policy"
            )
    if as_json:
        print_json(found)
        return 0
    click.echo(head)
    # A daemon that runs already may use another folder than the one given.
    folder = Path(found.state_folder) if found.state_folder else state_folder(options["state"])
    log = ("log", plain(str(folder / "daemon.log")))
    click.echo(pairs([*status_lines(found, begins=before is None), log], width=here.width))
    if options["socket"] is not None:
        click.echo(f"  for other commands, set TREADLE_SOCKET={options['socket']}")
    return 0


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != ()


def _is_elsewhere(folder: Path | None, used: str) -> bool:
    """Whether a state folder was given, and the daemon has another."""
    if folder is None or not used:
        return False
    return folder.expanduser().resolve() != Path(used).resolve()


def _completed(options: dict[str, Any], *, given: bool) -> dict[str, Any]:
    """The options with what was chosen before, or elsewhere."""
    if not given and options["socket"] is None:
        options = _as_last(options)
    elif options["engine"] is None:
        options = options | _last_engine(state_folder(options["state"]), options)
    options["store"] = options["store"] or os.environ.get(STORE_VARIABLE) or None
    options["address"] = _address(options)
    return options


def _as_last(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the last `treadle up`, if this one has none."""
    last, found = _recalled(state_folder(options["state"]))
    if last.words:
        note(f"using the options of the last treadle up: {plain(' '.join(last.words))}")
    kept = {name: found.get(name, value) for name, value in options.items()}
    kept["state"] = options["state"]
    if os.environ.get("TREADLE_SOCKET"):
        kept["socket"] = None
    return kept | {"store": os.environ.get(STORE_VARIABLE) or last.store or None}


def _last_engine(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The engine of the last `treadle up` there and its address: its jobs may run on."""
    try:
        _, last = _recalled(folder)
    except InvalidInputError:
        return {}
    if last.get("engine") in (None, "local"):
        return {}
    found = {"engine": last["engine"], "address": options["address"] or last["address"]}
    note(
        f"using the engine of the last treadle up: {plain(' '.join(_words(found)))} "
        "(--engine chooses another)"
    )
    return found


def _note_dropped(options: Mapping[str, Any]) -> None:
    """Say which options of the last `treadle up` there this one goes without."""
    try:
        _, last = _recalled(state_folder(options["state"]))
    except InvalidInputError:
        return
    dropped = {
        name: value
        for name, value in last.items()
        if name in options.keys() - {*_PLACES} and _is_given(value) and not _is_given(options[name])
    }
    # They come in their place.
    if options["no_port"] or options["port"] is not None:
        dropped.pop("listen", None)
    if options["listen"] is not None or options["no_port"]:
        dropped.pop("port", None)
    if dropped:
        words = plain(" ".join(_words(dropped)))
        note(f"options of the last treadle up that are not kept: {words}")


def _recalled(folder: Path) -> tuple[Remembered, dict[str, Any]]:
    """The options of the last `treadle up`, as words and as values; none if there are none."""
    last = recall(folder)
    try:
        return last, up.make_context("treadle up", list(last.words)).params if last.words else {}
    except click.UsageError as error:
        raise InvalidInputError(
            f"the options of the last treadle up in {folder / FILE} are invalid "
            f"({error.format_message().rstrip('.')}); remove the file, or run treadle up with "
            "options"
        ) from None


def _shared(options: Mapping[str, Any]) -> bool:
    return bool(options["share"] or options["share_group"])


def _address(options: Mapping[str, Any]) -> str | None:
    """Ray's own variable is kept with the other options, for the next start."""
    found: str | None = options["address"]
    if found is None and options["engine"] == "ray":
        return os.environ.get("RAY_ADDRESS") or None
    return found


def _check_cluster(options: Mapping[str, Any]) -> None:
    """Options for an engine of several nodes."""
    names = ("address", "lost_cluster", "failover")
    given = [name for name in names if options[name] is not None]
    if given and options["engine"] in (None, "local", "memory"):
        option = f"--{given[0].replace('_', '-')}"
        raise click.UsageError(f"{option} is for an engine of a cluster, such as --engine ray")
    _failover_s(options["failover"])


def _failover_s(text: str | None) -> float | None:
    """None: never. Raises InvalidInputError."""
    if text is None or text == "never":
        return FAILOVER_S if text is None else None
    found = 0.0
    with suppress(InvalidInputError):
        found = duration(text, "--failover")
    if found < FAILOVER_MIN_S:
        raise InvalidInputError(
            f"--failover is {plain(text)}; expected a time such as 10m, from "
            f"{span(FAILOVER_MIN_S)}, or never"
        )
    return found


def _check(options: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other, before anything is started."""
    if options["engine"] is not None:
        check_engine(options["engine"])
    _check_cluster(options)
    if options["gpus"] and options["avoid"]:
        raise click.UsageError("--gpus and --avoid cannot be combined")
    if options["devices"] and (options["gpus"] or options["avoid"]):
        raise click.UsageError(
            "--devices is for CPU slots and cannot be combined with --gpus or --avoid"
        )
    if options["listen"] is not None and options["port"] is not None:
        raise click.UsageError("--listen includes a port and cannot be combined with --port")
    if options["no_port"] and (options["listen"] is not None or options["port"] is not None):
        raise click.UsageError("--no-port cannot be combined with --port or --listen")
    check_keeping(options["keep_logs"], options["keep_records"])
    if options["listen"] is not None:
        host_and_port(options["listen"])
    _check_tls(options)
    named = options["socket"] is not None or os.environ.get("TREADLE_SOCKET")
    if _shared(options) and not named and os.geteuid() != 0:
        raise click.UsageError(
            "--share needs --socket PATH in a folder that others may enter, such as "
            "/tmp/treadle.sock"
        )


def _check_tls(options: Mapping[str, Any]) -> None:
    if (options["tls_cert"] is None) != (options["tls_key"] is None):
        raise click.UsageError("--tls-cert and --tls-key are given together")
    over_tcp = options["listen"] is not None or options["port"] is not None
    if not over_tcp and (options["tls_cert"] is not None or options["host"]):
        raise click.UsageError("--tls-cert, --tls-key and --host need --listen or --port")


def host_and_port(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"\[?([^\[\]\s]+?)\]?:([0-9]{1,5})", text)
    if not found or int(found[2]) > 65_535:
        raise InvalidInputError(
            f"--listen is {plain(text)}; expected HOST:PORT, such as 0.0.0.0:8437"
        )
    return found[1], int(found[2])


def _words(options: Mapping[str, Any]) -> list[str]:
    """The options as words for the background process, which starts in another folder."""
    words: list[str] = []
    for name, value in options.items():
        if not _is_given(value):
            continue
        if isinstance(value, tuple):
            words += [word for each in value for word in (f"--{name}", str(each))]
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value.expanduser().absolute() if isinstance(value, Path) else value))
    return words


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _run_here(options: Mapping[str, Any]) -> int:
    """Run the daemon in this process."""
    # Only this command should pay for the server's imports.
    import asyncio  # noqa: PLC0415
    import logging  # noqa: PLC0415

    from treadle.control.api import Wanted  # noqa: PLC0415
    from treadle.server.certificate import CertificateFiles  # noqa: PLC0415
    from treadle.server.daemon import DaemonSettings, run_daemon  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Jobs inherit this environment, and must not see the store's password.
    os.environ.pop(STORE_VARIABLE, None)
    tls = None
    if options["tls_cert"] is not None:
        tls = CertificateFiles(
            *(options[name].expanduser().absolute() for name in ("tls_cert", "tls_key"))
        )
    settings = DaemonSettings(
        state=state_folder(options["state"]),
        socket=_socket(options),
        engine=options["engine"] or "local",
        options=EngineOptions(
            address=options["address"] or "",
            lost_cluster=options["lost_cluster"] or "",
            failover_s=_failover_s(options["failover"]),
            devices=options["devices"],
            gpus=_listed(options["gpus"]),
            avoid=_listed(options["avoid"]),
            warm=not options["no_warm"],
        ),
        wanted=Wanted(options["policy"] or "", options["placement"] or "", options["try"] or ""),
        store=options["store"],
        listen=host_and_port(options["listen"]) if options["listen"] else None,
        port=options["port"],
        no_port=options["no_port"],
        hosts=options["host"],
        tls=tls,
        share=options["share"],
        share_group=options["share_group"],
        admins=tuple(options["admin"]),
        keep_logs=options["keep_logs"] or "",
        keep_records=options["keep_records"] or "",
    )
    asyncio.run(run_daemon(settings))
    _end_with_stuck_threads()
    return 0


def _end_with_stuck_threads() -> None:
    """A thread may wait for a store that does not answer: the interpreter must not end under it."""
    if threading.active_count() > 1:
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)


def _socket(options: Mapping[str, Any]) -> Path:
    """The socket to listen on: this user's, or the shared one."""
    given: Path | None = options["socket"]
    if given is not None:
        return given
    if os.environ.get("TREADLE_SOCKET"):
        return default_socket().absolute()
    return SHARED_SOCKET if _shared(options) and os.geteuid() == 0 else default_socket()
