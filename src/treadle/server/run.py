"""Runs the API on a Unix socket, and on a TCP port when asked.

The sockets are bound here, before anything else happens, so that a path or port that is taken is a
sentence at start-up and not a log line. Over TCP a token is always needed: every user of the
machine can reach a loopback port. Beyond loopback there is TLS, always: a token that anybody on
the way can read is no token.
"""

import asyncio
import contextlib
import ipaddress
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import uvicorn

from treadle.control.api import LiveService
from treadle.control.loop import wall
from treadle.core.errors import InvalidInputError
from treadle.server.app import create_app
from treadle.server.certificate import CertificateFiles, ServerCertificate, names_for
from treadle.server.door import Connection, Door
from treadle.server.limits import DoorLimits
from treadle.server.peers import PeerProtocol
from treadle.server.settings import ServerSettings

SOCKET_PATH_BYTES_MAX = 100  # the kernel takes 107
CLOSE_S_MAX = 3.0
REFRESH_S = 60.0  # between looks at the certificate's files
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """Where to listen. Without `port` there is no TCP; port 0 takes any that is free."""

    socket_path: Path | None = None
    socket_mode: int = 0o600  # 0o666: every user of this machine, each as themselves
    socket_group: int | None = None  # only its members are served there
    listen: str | None = None  # an address other than loopback
    port: int | None = None
    hosts: tuple[str, ...] = ()  # further names by which the server is reached
    tls: CertificateFiles | None = None  # for TCP
    tls_folder: Path | None = None  # where to keep a certificate of our own, if one is needed


class Bound(NamedTuple):
    """Where the server listens."""

    socket_path: Path | None
    url: str  # empty without a port
    fingerprint: str = ""  # of the key of its certificate; empty without TLS


@asynccontextmanager
async def serving(
    service: LiveService,
    doors: Doors,
    *,
    settings: ServerSettings | None = None,
    before: Callable[[Bound], object] | None = None,
) -> AsyncIterator[Bound]:
    """Serve while the block runs; `before` is called before the first request is answered."""
    with contextlib.ExitStack() as sockets:
        settings = settings or ServerSettings()
        settings = replace(settings, group=doors.socket_group)
        certificate = _certificate(doors)
        openings: list[_Opening] = []
        url = ""
        if doors.socket_path is not None:
            made = sockets.enter_context(_unix_socket(doors.socket_path, doors))
            openings.append(_Opening(made, settings.unix))
        if doors.port is not None:
            made = sockets.enter_context(_tcp_socket(doors.listen or LOOPBACK, doors.port))
            openings.append(_Opening(made, settings.tcp, certificate))
            taken = made.getsockname()[1]
            scheme = "http" if certificate is None else "https"
            url = f"{scheme}://{_in_url(_reachable(doors.listen))}:{taken}"
            names = _host_names(doors.listen, taken, doors.hosts)
            settings = replace(settings, hosts=(*settings.hosts, *names))
        fingerprint = "" if certificate is None else certificate.fingerprint
        bound = Bound(doors.socket_path, url, fingerprint)
        if before is not None:
            before(bound)
        app = create_app(service, settings=settings)
        server = _Server(_config(app), openings, settings)
        tasks = [
            asyncio.create_task(server.serve(sockets=[each.listener for each in openings])),
            asyncio.create_task(app.state.serving.metrics.watch_lag(settings.clock)),
            asyncio.create_task(_keep_fresh(certificate)),
        ]
        try:
            await _started(server, tasks[0])
            yield bound
        finally:
            app.state.serving.closing.set()
            await app.state.serving.hub.close()
            server.should_exit = True
            for task in tasks[1:]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _certificate(doors: Doors) -> ServerCertificate | None:
    """The certificate for TCP; None where there is no TCP, or only plain HTTP on loopback."""
    if doors.port is None:
        return None
    if doors.tls is not None:
        return ServerCertificate.given(doors.tls)
    if doors.listen is None or is_loopback(doors.listen):
        return None
    if doors.tls_folder is None:
        raise InvalidInputError(
            f"{_in_url(doors.listen)} can be reached by other machines and needs TLS; give "
            "--tls-cert and --tls-key"
        )
    names = names_for(doors.listen, doors.hosts)
    return ServerCertificate.made(doors.tls_folder, names, _now())


async def _keep_fresh(certificate: ServerCertificate | None) -> None:
    while certificate is not None:
        await asyncio.sleep(REFRESH_S)
        # The folder may be on a disk that hangs.
        await asyncio.to_thread(certificate.refresh, _now())


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _now() -> datetime:
    return datetime.fromtimestamp(wall(), UTC)


class _Opening(NamedTuple):
    """A socket that is to become a door."""

    listener: socket.socket
    limits: DoorLimits
    certificate: ServerCertificate | None = None


class _Server(uvicorn.Server):
    """uvicorn with doors of ours, and without signal handlers: the daemon has its own."""

    def __init__(
        self, config: uvicorn.Config, openings: Sequence[_Opening], settings: ServerSettings
    ) -> None:
        super().__init__(config)
        self._openings = openings
        self._settings = settings

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        doors = [
            Door(each.listener, each.limits, self._speaker, each.certificate)
            for each in self._openings
        ]
        for door in doors:
            door.open()
        self.servers = doors  # type: ignore[assignment]  # uvicorn closes and waits for them
        self.started = True

    def _speaker(self, connection: Connection) -> PeerProtocol:
        made = PeerProtocol(config=self.config, server_state=self.server_state, app_state={})
        made.entry = connection
        made.stranger_s_max = min(made.stranger_s_max, self._settings.stranger_s_max)
        connection.speaker = made
        return made

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: Callable[..., object]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=PeerProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # what strangers send must not fill the log
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        # Longer than clients keep theirs, so that none sends on a connection that is being closed.
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(CLOSE_S_MAX),
    )


async def _started(server: uvicorn.Server, running: asyncio.Task[None]) -> None:
    while not server.started:
        if running.done():
            running.result()
            raise InvalidInputError("the API server stopped during start-up")
        await asyncio.sleep(0.005)


@contextlib.contextmanager
def _unix_socket(path: Path, doors: Doors) -> Iterator[socket.socket]:
    """Bind there; a user without access cannot connect even for a moment.

    Connecting works only after `listen`, which comes after group and mode are set.
    """
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        raise InvalidInputError(
            f"the socket's path {path} is longer than {SOCKET_PATH_BYTES_MAX} bytes;"
            " set TREADLE_SOCKET to a shorter one"
        )
    _make_folder(path.parent, shared=bool(doors.socket_mode & 0o077))
    _clear_way(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.closing(made):
        try:
            made.bind(str(path))
        except OSError as error:
            raise InvalidInputError(f"cannot make the socket {path}: {error.strerror}") from None
        if doors.socket_group is not None:
            _give_to_group(path, doors.socket_group)
        path.chmod(doors.socket_mode)
        ours = _mark(path)
        try:
            yield made
        finally:
            # A server that came after us may have put its own there.
            with contextlib.suppress(FileNotFoundError):
                if _mark(path) == ours:
                    path.unlink()


def _give_to_group(path: Path, group: int) -> None:
    try:
        os.chown(path, -1, group)
    except OSError as error:
        path.unlink()
        raise InvalidInputError(
            f"the socket {path} cannot be given to the group {group}: {error.strerror}; "
            "only root and its members may do that"
        ) from None


def _mark(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_ino, found.st_ctime_ns


def _make_folder(folder: Path, *, shared: bool) -> None:
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True)
        if shared:
            folder.chmod(0o755)
    found = folder.stat()
    sticky_or_closed = found.st_mode & stat.S_ISVTX or not found.st_mode & 0o022
    if found.st_uid not in {os.geteuid(), 0} or not sticky_or_closed:
        raise InvalidInputError(
            f"the folder {folder} of the socket belongs to another user or is writable by"
            " others; choose one of your own"
        )


def _clear_way(path: Path) -> None:
    """Remove the socket of a server that is gone; refuse to remove anything else."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise InvalidInputError(f"{path} exists and is not a socket; move it away")
    if found.st_uid != os.geteuid():
        raise InvalidInputError(f"the socket {path} belongs to another user; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except FileNotFoundError:
            return
        except OSError:
            pass
    raise InvalidInputError(f"a server is already running on {path}; `treadle status` shows it")


@contextlib.contextmanager
def _tcp_socket(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio switches Nagle's algorithm off: 1 ms an answer, not 44.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with contextlib.closing(made):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, port))
        except (OSError, OverflowError) as error:
            raise InvalidInputError(
                f"cannot listen on {_in_url(host)}:{port}: {error}; choose another port"
            ) from None
        yield made


def _host_names(listen: str | None, port: int, hosts: Sequence[str]) -> Iterator[str]:
    """Values that `Host` may have: loopback, the address listened on, and the names given."""
    names = [LOOPBACK, "localhost", "[::1]", *hosts]
    if listen and listen not in {"0.0.0.0", "::"}:
        names.append(_in_url(listen))
    elif listen:
        names += [socket.gethostname(), socket.getfqdn()]
    for name in names:
        yield f"{name}:{port}"
        if port == 80:
            yield name
    # Behind a proxy the name comes without our port.
    yield from hosts


def _reachable(listen: str | None) -> str:
    if listen in {None, "0.0.0.0"}:
        return LOOPBACK
    return "::1" if listen == "::" else str(listen)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
