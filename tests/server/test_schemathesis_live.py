"""The same with the real controller behind the API; its one device is avoided, so nothing runs."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import requests
import schemathesis
from schemathesis.core.result import Ok

from tests.server.test_live_api import DAEMON, _answers
from tests.server.test_schemathesis import try_out, varied
from tests.shared import THOROUGH
from tests.waiting import until
from treadle.client import Client
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import Role, TokenRequest
from treadle.wire.problems import UnavailableError

VARIED, PLAIN = (30, 5) if THOROUGH else (3, 2)  # requests of an operation in each mode
CASES_MIN = 1000 if THOROUGH else 150
# One ends the daemon, and the streams of a job that waits have no end.
LEFT_OUT = ("/shutdown", "/stream")
SIMULATES = "/what-if"  # in a process of its own: a second or more each


@pytest.fixture
def client() -> Iterator[Client]:
    with TemporaryDirectory(prefix="treadle-") as folder:
        path = Path(folder) / "s" / "treadle.sock"
        daemon = subprocess.Popen(
            [sys.executable, "-c", DAEMON, str(Path(folder) / "state"), str(path)],
            env={**os.environ, "PYTHONPATH": "src"},
            stderr=subprocess.DEVNULL,
        )
        with Client(f"unix:{path}", timeout_s=60) as found, daemon:
            try:
                until(lambda: _answers(found))
                until(lambda: _is_avoided(found))
                until(lambda: found.status().free == 0)
                yield found
                found.shut_down("cancel")
                daemon.wait(60)
            finally:
                daemon.kill()


def _is_avoided(client: Client) -> bool:
    """A daemon that has just begun may not have asked its machines yet."""
    with suppress(UnavailableError):
        for device in client.nodes()[0].devices:
            client.order_device(device.name, "avoid")
        return True
    return False


def test_the_real_controller_answers_everything_without_an_error_of_ours(client: Client):
    client.submit(JobRequest(command=("true",)))
    token = client.make_token(TokenRequest(name="fuzz", role=Role.ADMIN)).token
    url = client.status().url
    session = requests.Session()
    session.trust_env = False
    session.headers["Authorization"] = f"Bearer {token}"
    document = session.get(f"{url}/api/v1/openapi.json", timeout=30).json()
    schema = schemathesis.openapi.from_dict(document)
    statuses: Counter[int] = Counter()
    for each in schema.get_all_operations():
        if isinstance(each, Ok) and not each.ok().label.endswith(LEFT_OUT):
            statuses += _fuzz(each.ok(), session, url)
    assert statuses.total() >= CASES_MIN, statuses
    assert min(statuses[200], statuses[201], statuses[422]) > 0, statuses
    assert client.status().running == 0


def _fuzz(operation: Any, session: requests.Session, url: str) -> Counter[int]:
    statuses: Counter[int] = Counter()

    def send(case: Any) -> None:
        if statuses.total() % 2 and "identity" in (case.path_parameters or {}):
            case.path_parameters = {"identity": "1"}
        answer = case.call(base_url=url, session=session, timeout=60)
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, (case.as_curl_command(), answer.text)

    few = operation.label.endswith(SIMULATES)
    try_out(operation, send, 1 if few else VARIED if varied(operation) else PLAIN)
    return statuses
