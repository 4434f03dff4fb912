"""Requests made from the OpenAPI document, good ones and bad ones.

None may end in a 5xx. Every tenth is sent once more without a token and must be refused; every
twentieth answer is checked against the document.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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

from tests.server.running import Running, running
from tests.server.tls import certificate_files
from tests.shared import THOROUGH
from treadle.client import Client
from treadle.server.app import create_app, offered
from treadle.server.certificate import CertificateFiles
from treadle.server.settings import ServerSettings
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import Role

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


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    return certificate_files(tmp_path / "tls")


@pytest.fixture(params=["http", "tls"])
def server(request: pytest.FixtureRequest, files: CertificateFiles) -> Iterator[Running]:
    unlimited = ServerSettings(requests_per_s=1e9, requests_burst=10**9)
    tls = files if request.param == "tls" else None
    with running(settings=unlimited, tls=tls) as found:
        with Client(found.unix) as client:
            client.submit(JobRequest(command=("true",)))
        found.within(lambda: found.service.run("1"))
        found.within(lambda: found.service.end("1"))  # so that its log stream ends
        yield found


def test_no_request_that_the_document_allows_or_forbids_ends_in_an_error_of_ours(
    server: Running, files: CertificateFiles
):
    part = FEWER if server.bound.fingerprint else 1
    schema = schemathesis.openapi.from_dict(create_app(server.service).openapi())
    operations = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    assert len(operations) == len(offered())
    # They have no end; test_streams.py and test_hub.py are about them.
    endless = ("/events/stream", "/v1/stream")
    operations = [each for each in operations if not each.label.endswith(endless)]
    statuses: Counter[int] = Counter()
    with _session(files) as session:
        for operation in operations:
            session.cookies.clear()
            # Anew for each operation: some end it.
            token = server.service.token("anna", Role.ADMIN)
            shown = {"Authorization": f"Bearer {token}"}
            statuses += _fuzz(server, session, operation, shown, part)
    assert statuses.total() >= CASES_MIN / part, statuses
    assert min(statuses[200], statuses[422]) > 0, statuses


def varied(operation: Any) -> bool:
    return bool(operation.body or operation.query or operation.path_parameters)


def _session(files: CertificateFiles) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.verify = str(files.certificate)
    return session


def _fuzz(
    server: Running,
    session: requests.Session,
    operation: Any,
    shown: Mapping[str, str],
    part: int,
) -> Counter[int]:
    """Send many requests to one operation; what came back."""
    statuses: Counter[int] = Counter()

    def send(case: Any) -> None:
        number = statuses.total()
        # Most made-up ids are of no job; every other request is about one that is there.
        if number % 2 and "identity" in (case.path_parameters or {}):
            case.path_parameters = {"identity": "1"}
        answer = case.call(
            base_url=server.url, session=session, headers=dict(shown), verify=session.verify
        )
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, (case.as_curl_command(), answer.text)
        if number % 20 == 0 and not operation.label.endswith("/stream"):
            case.validate_response(answer, checks=CHECKS)
        if number % 10 == 0 and operation.label != OPEN:
            refused = case.call(base_url=server.url, session=session, verify=session.verify)
            assert 400 <= refused.status_code < 500, case.as_curl_command()

    try_out(operation, send, (VARIED if varied(operation) else PLAIN) // part)
    return statuses


def try_out(operation: Any, send: Callable[[Any], None], most: int) -> None:
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
