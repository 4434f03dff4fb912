"""A daemon as root that several real users share."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.attack.people import User, group_of_machine, user_of_machine
from tests.control.daemons import Daemon, daemon
from treadle.wire.jobs import JobRequest, State

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Machine:
    """A daemon, two users, an admin, and a group that the first user is in."""

    daemon: Daemon
    ada: User
    bob: User
    admin: User
    group: int

    def submits(self, user: User, body: str, **fields: object) -> str:
        """Submit a job as that user; its id."""
        request = {"command": ["bash", "-c", body], "workdir": "/", "grace_s": 0.5, **fields}
        status, answer = self.asks(user, "POST", "/jobs", request)
        assert status == 201, answer
        return str(answer["id"])

    def runs(self, user: User, body: str, **fields: object) -> str:
        job = self.submits(user, body, **fields)
        self.daemon.reached(State.RUNNING, job)
        return job

    def prints(self, user: User, body: str, **fields: object) -> str:
        """What a job of that user prints."""
        job = self.submits(user, body, **fields)
        (view,) = self.daemon.ended(job)
        text = self.daemon.client.log(job).text
        assert view.state is State.SUCCEEDED, (view, text)
        return text

    def asks(
        self, user: User, method: str, path: str, body: object = None, token: str | None = None
    ) -> tuple[int, Any]:
        code = f"result = ask({method!r}, {path!r}, {body!r}, {token!r})"
        status, answer = user.does(code, socket=self.daemon.socket)
        return status, answer

    def request(self, **fields: object) -> JobRequest:
        return JobRequest(workdir="/", **fields)  # type: ignore[arg-type]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [name for name in ("useradd", "userdel", "groupadd") if shutil.which(name) is None]
    reason = "only root makes users" if os.geteuid() != 0 else f"this machine has no {missing}"
    for item in items:
        if item.path.is_relative_to(HERE) and (os.geteuid() != 0 or missing):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="package")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="treadle-attack-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="package")
def machine(folder: Path) -> Iterator[Machine]:
    tail = f"{os.getpid()}"
    with (
        group_of_machine(f"tg{tail}") as group,
        user_of_machine(f"ta{tail}", folder, groups=[f"tg{tail}"]) as ada,
        user_of_machine(f"tb{tail}", folder) as bob,
        user_of_machine(f"tc{tail}", folder) as admin,
        daemon("--devices", "4", "--port", "0", "--admin", admin.name) as served,
    ):
        served.socket.parent.chmod(0o755)
        yield Machine(served, ada, bob, admin, group)
