"""A real PostgreSQL for the tests: its own data, a free port on loopback, gone afterwards."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from typing import Self

import pytest

MISSING = "PostgreSQL is not installed"
WAIT_S = 180


def programs() -> Path | None:
    """The folder of the newest server on this machine, if there is one."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda path: int(path.parent.name.split(".")[0]), default=None)


def running() -> Iterator["PostgresServer"]:
    """What a fixture yields: a server that runs, gone afterwards; skipped where there is none."""
    if programs() is None:
        pytest.skip(MISSING)
    server = PostgresServer()
    try:
        yield server.start()
    finally:
        server.remove()


class PostgresServer:
    """initdb, start, stop, start again on the same port; everything is gone after `remove`."""

    def __init__(self, *, flush: bool = False) -> None:
        """Without `flush` the disk is not waited for: a killed server loses nothing by that."""
        found = programs()
        assert found is not None, MISSING
        self._programs = found
        self._flush = "on" if flush else "off"
        # The path of a Unix socket must be short, and pytest's folders are not; nor may others
        # enter those, and the server refuses to run as root.
        self._folder = Path(tempfile.mkdtemp(prefix="treadle-pg-", dir="/tmp"))
        self._data = self._folder / "data"
        self._user = self._server_user()
        self.port = _free_port()
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
        self._run(
            "initdb", "-D", self._data, "-U", "treadle", "-A", "trust", "-E", "UTF8", "--no-sync",
            "--locale=C.UTF-8",
        )  # fmt: skip

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://treadle@127.0.0.1:{self.port}/{database}"

    def start(self) -> Self:
        settings = (
            f"-c port={self.port} -c listen_addresses=127.0.0.1"
            f" -c unix_socket_directories={self._folder} -c max_connections=60"
            f" -c fsync={self._flush}"
        )
        self._control("start", "-l", self._folder / "log", "-o", settings)
        return self

    def stop(self, mode: str = "fast") -> None:
        """mode: "smart" waits for the clients, "fast" cuts them off, "immediate" is a crash."""
        self._control("stop", "-m", mode)

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def pause(self) -> None:
        """Stop all its processes where they are, as a hung disk or a swapping machine would."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for pid in (first, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def remove(self) -> None:
        if (self._data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self._folder)

    def _control(self, verb: str, *words: str | Path) -> None:
        self._run("pg_ctl", verb, "-D", self._data, "-w", "-t", str(WAIT_S), "-s", *words)

    def _run(self, program: str, *words: str | Path) -> None:
        # The server keeps what it inherits open, so a pipe would never end.
        with (self._folder / "output").open("w+") as output:
            done = subprocess.run(
                [self._programs / program, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                user=self._user or None,
                group=(self._user and pwd.getpwnam(self._user).pw_gid) or None,
                extra_groups=[] if self._user else None,
                timeout=2 * WAIT_S,
                check=False,
            )
            output.seek(0)
            assert done.returncode == 0, f"{program} {words[0]}: {output.read()}"

    @staticmethod
    def _server_user() -> str:
        """Who runs the server; empty for ourselves."""
        if os.geteuid() != 0:
            return ""
        known = {account.pw_name for account in pwd.getpwall()}
        return "postgres" if "postgres" in known else "nobody"


def _free_port() -> int:
    """One below those that the kernel hands to clients, who could take it while we restart."""
    random = SystemRandom()
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
