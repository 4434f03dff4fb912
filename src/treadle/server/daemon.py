"""The daemon: a live controller and its API on one event loop, until it is asked to stop."""

import asyncio
import contextlib
import gc
import grp
import logging
import os
import pwd
import signal
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from treadle.control.api import LiveService, LiveSettings, Wanted
from treadle.core.errors import InvalidInputError
from treadle.engines.node.open_files import raise_limit
from treadle.engines.registry import EngineOptions, engine_factory
from treadle.files import replace
from treadle.server.certificate import CertificateFiles
from treadle.server.limits import door_limits
from treadle.server.run import LOOPBACK, Bound, Doors, serving
from treadle.server.settings import ServerSettings
from treadle.server.threads import SteadyThreads
from treadle.store.address import shown
from treadle.store.bond import (
    bond,
    default_store,
    folder_identity,
    folder_lock,
    refuse_missing,
)
from treadle.store.deadline import Deadline
from treadle.store.store import LOCK_WAIT_S, Store

PORT_FILE = "port"  # in the state folder: the one that was used last

logger = logging.getLogger("treadle")


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSettings:
    """The options of `treadle up`; what is empty is as it was before, or the default."""

    state: Path
    socket: Path
    engine: str = "local"
    options: EngineOptions = field(default_factory=EngineOptions)
    wanted: Wanted = field(default_factory=Wanted)
    store: str | None = None
    listen: tuple[str, int] | None = None
    port: int | None = None  # None: the one that it had, else any that is free
    no_port: bool = False  # only the Unix socket
    hosts: tuple[str, ...] = ()
    tls: CertificateFiles | None = None
    share: bool = False
    share_group: str | None = None
    admins: tuple[str, ...] = ()
    keep_logs: str = ""
    keep_records: str = ""


async def run_daemon(settings: DaemonSettings) -> None:
    """Serve until asked to stop, by the API or by a signal; jobs keep running."""
    asyncio.get_running_loop().set_default_executor(SteadyThreads())
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    live_settings, doors = _live_settings(settings), _doors(settings)
    url = settings.store or default_store(settings.state)
    # Held until this process ends: two daemons in one folder would stop each other's jobs.
    lock = folder_lock(settings.state, store=shown(url))
    lock.take(str(settings.state), Deadline(LOCK_WAIT_S))
    try:
        await _run(url, live_settings, doors)
    finally:
        lock.release()


async def _run(url: str, live_settings: LiveSettings, doors: Doors) -> None:
    unix, tcp = door_limits(raise_limit())
    refuse_missing(url, live_settings.root)
    store = Store.open(url)
    try:
        bond(store, live_settings.root)
        live = LiveService(store, live_settings)
    except BaseException:
        store.close()
        raise
    _keep_the_loop_free()
    _leave_on_signals(live)
    try:
        # Listen first: early requests are answered, and a second daemon is refused.
        limits = ServerSettings(unix=unix, tcp=tcp)
        told = partial(_told, live, live_settings.root)
        async with serving(live, doors, settings=limits, before=told):
            if await _begun(live):
                logger.info("up: %s", live.status())
                async with _objects(live, live_settings):
                    await live.stopped.wait()
    finally:
        await live.close()
        logger.info("down: jobs keep running")


@contextlib.asynccontextmanager
async def _objects(live: LiveService, settings: LiveSettings) -> AsyncIterator[None]:
    """On Kubernetes, objects there are jobs too."""
    found = folder_identity(settings.root)
    if settings.engine_name != "kubernetes" or found is None:
        yield
        return
    from treadle.server.job_objects.translator import keep_translating  # noqa: PLC0415

    work = asyncio.create_task(keep_translating(live, settings.options.address, found.id))
    try:
        yield
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def _told(live: LiveService, state: Path, bound: Bound) -> None:
    """The service says where it is reached; the port is kept for the next time."""
    live.listening(bound.url, bound.fingerprint)
    _keep_port(state, bound.url)


def _keep_the_loop_free() -> None:
    """Settings of the interpreter that keep its pauses short."""
    # While another thread computes, the loop has its turn within 0.1 ms in place of 5: it asks for
    # it again after every call of the system, a dozen times for a request.
    sys.setswitchinterval(0.0001)
    # A full collection takes 0.2 s with 10,000 jobs, and lists of them caused one every second.
    # Commands run without the collector; a daemon makes cycles with every connection.
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)


async def _begun(live: LiveService) -> bool:
    """Begin; False if it was asked to stop before, while its store does not answer perhaps."""
    begin = asyncio.ensure_future(live.begin())
    stopped = asyncio.ensure_future(live.stopped.wait())
    try:
        await asyncio.wait({begin, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if begin.done():
            begin.result()
            return True
        return False
    finally:
        stopped.cancel()
        begin.cancel()
        await asyncio.gather(begin, stopped, return_exceptions=True)


def _live_settings(settings: DaemonSettings) -> LiveSettings:
    for name in settings.admins:
        try:
            pwd.getpwnam(name)
        except KeyError:
            raise InvalidInputError(
                f"--admin names {name!r}, and this machine has no such user"
            ) from None
    return LiveSettings(
        root=settings.state,
        engine=engine_factory(settings.engine),
        engine_name=settings.engine,
        options=settings.options,
        wanted=settings.wanted,
        admins=frozenset(settings.admins),
        keep_logs=settings.keep_logs,
        keep_records=settings.keep_records,
        address=f"unix:{settings.socket}",
        socket=str(settings.socket),
    )


def _doors(settings: DaemonSettings) -> Doors:
    """A group is the narrower wish: it holds beside `share` and under root too."""
    group = _group(settings)
    shared = settings.share or os.geteuid() == 0
    mode = 0o660 if group is not None else 0o666 if shared else 0o600
    host, port = settings.listen or (None, _port(settings))
    return Doors(
        socket_path=settings.socket,
        socket_mode=mode,
        socket_group=group,
        listen=host,
        port=port,
        hosts=settings.hosts,
        tls=settings.tls,
        tls_folder=settings.state / "tls",
    )


def _port(settings: DaemonSettings) -> int | None:
    """The port on loopback: as asked, else the one of last time, so that open pages find it."""
    if settings.no_port or settings.port is not None:
        return settings.port
    try:
        last = int((settings.state / PORT_FILE).read_text())
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((LOOPBACK, last))
    except (OSError, ValueError, OverflowError):
        return 0
    return last


def _keep_port(state: Path, url: str) -> None:
    """Only a convenience: a folder that cannot be written to has other problems."""
    port = url.rpartition(":")[2]
    with contextlib.suppress(OSError):
        if port.isdigit():
            replace(state / PORT_FILE, port.encode(), mode=0o600)


def _group(settings: DaemonSettings) -> int | None:
    if settings.share_group is None:
        return None
    try:
        return grp.getgrnam(settings.share_group).gr_gid
    except KeyError:
        raise InvalidInputError(f"there is no group {settings.share_group!r}") from None


def _leave_on_signals(live: LiveService) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, live.stopped.set)
