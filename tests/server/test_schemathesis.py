"""Requests made from the OpenAPI document, good ones and bad ones, to a real daemon.

None may end in a 5xx. Every tenth is sent once more without a token and must be refused; every
twentieth answer is checked against the document. The daemon's one device is avoided.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.control.daemons import Daemon, daemon
from tests.server.tls import certificate_files
from tests.shared import THOROUGH
from tests.waiting import until
from treadle.client import Client
from treadle.server.app import offered
from treadle.server.certificate import CertificateFiles
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import Role, TokenRequest
from treadle.wire.problems import UnavailableError

CASES_MIN = 5000 if THOROUGH else 400
VARIED, PLAIN = (125, 10) if THOROUGH else (8, 4)  # requests of an operation in each mode
FEWER = 4  # the part of them that is also sent over TLS
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
OPEN = "GET /api/v1/health"
# One ends the daemon; streams have no end while a job waits, and test_streams.py is about them.
LEFT_OUT = ("/shutdown", "/stream")
SIMULATES = "/what-if"  # in a process of its own: a second or more each


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    return certificate_files(tmp_path / "tls")


@pytest.fixture(params=["http", "tls"])
def server(request: pytest.FixtureRequest, files: CertificateFiles) -> Iterator[Daemon]:
    tls = ("--tls-cert", str(files.certificate), "--tls-key", str(files.key))
    with daemon("--devices", "1", "--port", "0", *(tls if request.param == "tls" else ())) as here:
        until(lambda: _is_avoided(here.client))
        until(lambda: here.client.status().free == 0)
        here.client.submit(JobRequest(command=("true",)))
        yield here


def _is_avoided(client: Client) -> bool:
    """A daemon that has just begun may not have asked its machines yet."""
    with suppress(UnavailableError):
        for device in client.nodes()[0].devices:
            client.order_device(device.name, "avoid")
        return True
    return False


def test_no_request_that_the_document_allows_or_forbids_ends_in_an_error_of_ours(
    server: Daemon, files: CertificateFiles
) -> None:
    status = server.client.status()
    part = FEWER if status.fingerprint else 1
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(files.certificate)
        request = TokenRequest(name="fuzz", role=Role.ADMIN)
        shown = {"Authorization": f"Bearer {server.client.make_token(request).token}"}
        asked = session.get(f"{status.url}/api/v1/openapi.json", headers=shown, timeout=30)
        schema = schemathesis.openapi.from_dict(asked.json())
        operations = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
        assert len(operations) == len(offered())
        statuses: Counter[int] = Counter()
        for operation in operations:
            if operation.label.endswith(LEFT_OUT):
                continue
            session.cookies.clear()
            # Anew for each operation: some end it.
            shown = {"Authorization": f"Bearer {server.client.make_token(request).token}"}
            statuses += _fuzz(status.url, session, operation, shown, part)
    assert statuses.total() >= CASES_MIN / part, statuses
    assert min(statuses[200], statuses[201], statuses[422]) > 0, statuses
    assert server.client.status().running == 0


def _fuzz(
    url: str, session: requests.Session, operation: Any, shown: Mapping[str, str], part: int
) -> Counter[int]:
    """Send many requests to one operation; what came back."""
    statuses: Counter[int] = Counter()

    def send(case: Any) -> None:
        number = statuses.total()
        # Most made-up ids are of no job; every other request is about one that is there.
        if number % 2 and "identity" in (case.path_parameters or {}):
            case.path_parameters = {"identity": "1"}
        how = {"base_url": url, "session": session, "verify": session.verify, "timeout": 60}
        answer = case.call(headers=dict(shown), **how)
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, (case.as_curl_command(), answer.text)
        if number % 20 == 0:
            case.validate_response(answer, checks=CHECKS)
        if number % 10 == 0 and operation.label != OPEN:
            refused = case.call(**how)
            assert 400 <= refused.status_code < 500, case.as_curl_command()

    varied = operation.body or operation.query or operation.path_parameters
    few = operation.label.endswith(SIMULATES)
    _try_out(operation, send, 1 if few else (VARIED if varied else PLAIN) // part)
    return statuses


def _try_out(operation: Any, send: Callable[[Any], None], most: int) -> None:
    """Send so many requests that are right, and as many that are not."""
    for mode in MODES:
        if operation.label == OPEN and mode == GenerationMode.NEGATIVE:
            continue  # there is nothing to get wrong
        limits = settings(
            max_examples=most,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        limits(given(case=operation.as_strategy(generation_mode=mode))(send))()
