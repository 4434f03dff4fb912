"""A real server on real sockets, in a thread, for tests that speak HTTP to it."""

import asyncio
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.server.memory import MemoryService
from treadle.client.address import Address
from treadle.client.pinning import pinned
from treadle.server.certificate import CertificateFiles
from treadle.server.run import Bound, Doors, serving
from treadle.server.settings import ServerSettings

Result = TypeVar("Result")


class Running:
    """A server that answers; `within` runs something on its event loop."""

    def __init__(self, service: MemoryService, bound: Bound, loop: asyncio.AbstractEventLoop):
        self.service = service
        self.bound = bound
        self._loop = loop

    @property
    def unix(self) -> str:
        return f"unix:{self.bound.socket_path}"

    @property
    def url(self) -> str:
        return self.bound.url

    @property
    def cookie(self) -> str:
        """The name of its cookie."""
        return f"treadle_session_{self.bound.url.rpartition(':')[2]}"

    @property
    def address(self) -> Address:
        """Over TCP, with the key that the server has."""
        return Address("", self.bound.url, self.bound.fingerprint)

    @property
    def verify(self) -> ssl.SSLContext | bool:
        """For the HTTP library alone."""
        return pinned(self.bound.fingerprint) if self.bound.fingerprint else True

    def within(self, act: Callable[[], Result]) -> Result:
        done: Future[Result] = Future()

        def run() -> None:
            try:
                done.set_result(act())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(10)


@contextmanager
def running(
    service: MemoryService | None = None,
    *,
    settings: ServerSettings | None = None,
    port: int | None = 0,
    socket_path: Path | None = None,
    socket_mode: int = 0o600,
    tls: CertificateFiles | None = None,
) -> Iterator[Running]:
    """Serve on a Unix socket and a loopback port until the block ends."""
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        made = service or MemoryService(Path(folder))
        doors = Doors(
            socket_path=socket_path or Path(folder) / "s" / "treadle.sock",
            socket_mode=socket_mode,
            port=port,
            tls=tls,
        )
        ready: Future[Running] = Future()
        stops: list[Callable[[], object]] = []

        async def main() -> None:
            loop, stop = asyncio.get_running_loop(), asyncio.Event()
            stops.append(lambda: loop.call_soon_threadsafe(stop.set))
            async with serving(made, doors, settings=settings) as bound:
                ready.set_result(Running(made, bound, loop))
                await stop.wait()

        def run() -> None:
            try:
                asyncio.run(main())
            except BaseException as error:
                if not ready.done():
                    ready.set_exception(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield ready.result(10)
        finally:
            for stop in stops:
                stop()
            thread.join(10)
            assert not thread.is_alive(), "the server did not end"
