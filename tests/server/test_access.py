"""Every route x role x method over real HTTP, and forged headers on each."""

import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping
from itertools import product

import httpx2
import pytest

from tests.server.running import Running, running
from tests.server.tls import certificate_files
from tests.shared import thorough
from treadle.client import Client
from treadle.server import access
from treadle.server.app import offered
from treadle.server.routes import PREFIX
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import Role

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PEOPLE = ("stranger", "viewer", "owner", "other", "job", "admin")
READERS = {"viewer", "owner", "other", "admin"}
USERS = {"owner", "other", "admin"}
OWNERS = {"owner", "admin"}

# Written out by hand: who gets past each route. All others are refused.
ALLOWED: dict[str, set[str]] = {
    "GET /health": set(PEOPLE),
    "GET /status": READERS,
    "GET /openapi.json": READERS,
    "GET /metrics": READERS,
    "POST /jobs": USERS,
    "POST /jobs/dry-run": USERS,
    "POST /jobs/orders": USERS,  # each id is then checked by itself
    "GET /jobs": READERS,
    "GET /jobs/{identity}": READERS,
    "PATCH /jobs/{identity}": OWNERS,
    "POST /jobs/{identity}/cancel": OWNERS,
    "POST /jobs/{identity}/hold": OWNERS,
    "POST /jobs/{identity}/release": OWNERS,
    "POST /jobs/{identity}/pause": OWNERS,
    "POST /jobs/{identity}/resume": OWNERS,
    "GET /jobs/{identity}/why": READERS,
    "GET /jobs/{identity}/history": READERS,
    "POST /jobs/{identity}/report": {"owner", "admin", "job"},
    "GET /jobs/{identity}/log": {"owner", "admin"},
    "POST /prune": USERS,
    "GET /nodes": READERS,
    "PUT /nodes/{node}/order": {"admin"},
    "PUT /devices/{device}/order": {"admin"},
    "POST /devices/{device}/unquarantine": {"admin"},
    "GET /policy": READERS,
    "PUT /policy": {"admin"},
    "GET /config": {"admin"},  # it may have passwords of mail and chat
    "PUT /config": {"admin"},
    "POST /shutdown": {"admin"},
    "GET /events": READERS,
    "GET /stream": READERS,
    "GET /usage": READERS,
    "GET /usage/days": READERS,
    "GET /decisions": READERS,
    "GET /learned": READERS,
    "POST /learned/forget": USERS,  # then by whose the script is
    "GET /queue": READERS,
    "GET /spells": READERS,
    "POST /what-if": USERS,
    "GET /snapshot": READERS,
    "GET /journal": READERS,
    "GET /debug": {"admin"},
    "POST /session": set(PEOPLE),
    "GET /session": READERS,
    "DELETE /session": READERS,
    "POST /session/link": USERS,
    "GET /tokens": USERS,
    "POST /tokens": USERS,
    "DELETE /tokens": {"admin"},  # here of another user
    "DELETE /tokens/{identity}": USERS,
}
BODIES: dict[str, object] = {
    "POST /jobs": {"command": ["true"]},
    "POST /jobs/dry-run": {"command": ["true"]},
    "POST /prune": {"dry_run": True},
    "POST /learned/forget": {"script": "train.py"},
    "POST /what-if": {"policy": "fifo"},
    "POST /jobs/orders": {"verb": "hold", "ids": ["nope"]},
    "PATCH /jobs/{identity}": {"priority": 1},
    "POST /jobs/{identity}/report": {"step": 1},
    "PUT /nodes/{node}/order": {"order": "undrain"},
    "PUT /devices/{device}/order": {"order": "manage"},
    "PUT /policy": {"policy": "fifo"},
    "PUT /config": {"text": "policy: fifo"},
    "POST /shutdown": {"mode": "leave"},
    "POST /tokens": {"name": "x", "role": "user"},
}
PARAMETERS: dict[str, dict[str, str]] = {
    "DELETE /tokens": {"user": "zoe"},
}
# What a route may answer to a caller it admits, where that is not a success.
PASSED = {
    "POST /devices/{device}/unquarantine": 409,
    "DELETE /tokens/{identity}": 404,
    "PUT /nodes/{node}/order": 404,  # the service has one node, of another name
    "POST /session/link": 409,  # on the Unix socket of a service that has no address
}


@pytest.fixture(scope="module", params=["http", pytest.param("tls", marks=thorough)])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    tls = certificate_files(tmp_path_factory.mktemp("tls")) if request.param == "tls" else None
    with running(tls=tls) as found:
        yield found


@pytest.fixture(scope="module")
def tokens(server: Running) -> dict[str, str]:
    service = server.service
    made = {
        "viewer": service.token("vera", Role.VIEWER),
        "owner": service.token("olga", Role.USER),
        "other": service.token("otto", Role.USER),
        "admin": service.token("anna", Role.ADMIN),
    }
    with Client(server.address, made["owner"]) as client:
        identity = client.submit(JobRequest(command=("true",), name="the one")).id
    assert identity == "1"
    server.within(lambda: service.run("1"))
    BODIES["POST /session"] = {"token": made["viewer"]}  # of this server
    return {**made, "job": service.job_token("1")}


@pytest.fixture(scope="module")
def http(server: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(
        base_url=server.url, timeout=10, trust_env=False, verify=server.verify
    ) as found:
        yield found


def ask(
    http: httpx2.Client, name: str, headers: Mapping[str, str], *, method: str = ""
) -> tuple[int, str]:
    """The status of a request to a route, and the problem's code; streams are not read."""
    route_method, template = name.split(" ")
    path = (
        template.replace("{identity}", "1").replace("{device}", "here:0").replace("{node}", "here")
    )
    body = BODIES.get(name)
    http.cookies.clear()  # a session that was begun is not to count
    with http.stream(
        method or route_method,
        PREFIX + path,
        headers=dict(headers),
        json=body,
        params=PARAMETERS.get(name),
    ) as found:
        kind = found.headers.get("content-type", "")
        if kind != "application/problem+json" or method == "HEAD":
            return found.status_code, ""
        found.read()
        return found.status_code, str(found.json()["code"])


def bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def test_the_list_here_has_every_route():
    assert ALLOWED.keys() == {f"{method} {path}" for method, path in offered()}


@pytest.mark.parametrize("name", ALLOWED)
def test_a_route_admits_exactly_the_roles_it_should(
    server: Running, http: httpx2.Client, tokens: dict[str, str], name: str
):
    for person in PEOPLE:
        check(name, person, ask(http, name, bearer(tokens.get(person))))


def check(name: str, person: str, found: tuple[int, str]) -> None:
    if person in ALLOWED[name]:
        assert found[0] < 300 or found[0] == PASSED.get(name), (person, found)
    else:
        refused = (401, "not-known") if person == "stranger" else (403, "not-allowed")
        assert found == refused, person


@pytest.mark.parametrize("path", sorted({path for _, path in offered()}))
def test_methods_that_are_not_in_the_table_are_not_served(
    http: httpx2.Client, tokens: dict[str, str], path: str
):
    allowed = {method for method, each in offered() if each == path}
    if path in {"/jobs/dry-run", "/jobs/orders"}:
        allowed |= {"GET", "PATCH"}  # of a job with that id, of which there is none
    for method in METHODS:
        if method in allowed:
            continue
        status, _ = ask(http, f"GET {path}", bearer(tokens["admin"]), method=method)
        assert status == 405, method


FORGED: tuple[dict[str, str], ...] = (
    {"Host": "evil.example"},
    {"Host": "127.0.0.1"},
    {"Host": "127.0.0.1:1"},
    {"Host": "treadle"},
    {"Host": ""},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
)


@pytest.mark.parametrize("name", ALLOWED)
def test_forged_hosts_and_origins_are_refused_on_every_route_and_method(
    http: httpx2.Client, tokens: dict[str, str], name: str
):
    """Every header and method on one route, and each on some of the others."""
    place = list(ALLOWED).index(name)
    some = [(FORGED[place % len(FORGED)], name.split(" ", maxsplit=1)[0])]
    for forged, method in product(FORGED, METHODS) if name == "POST /jobs" else some:
        headers = {**bearer(tokens["admin"]), **forged}
        status, code = ask(http, name, headers, method=method)
        assert status == 403, (forged, method)
        assert code in {"not-allowed", ""}  # an answer to HEAD has no body


def test_our_own_origin_may_ask(http: httpx2.Client, tokens: dict[str, str], server: Running):
    headers = {**bearer(tokens["viewer"]), "Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    assert ask(http, "GET /jobs", headers)[0] == 200


def test_no_answer_allows_other_origins(http: httpx2.Client, tokens: dict[str, str]):
    for person in PEOPLE:
        answer = http.get(f"{PREFIX}/jobs", headers=bearer(tokens.get(person)))
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_every_answer_carries_the_security_headers(http: httpx2.Client, tokens: dict[str, str]):
    for path in (f"{PREFIX}/health", f"{PREFIX}/jobs", "/nothing"):
        headers = http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert len(headers["x-request-id"]) == 16
        assert "server" not in headers


def test_the_host_header_of_the_unix_socket_is_checked_too(server: Running):
    transport = httpx2.HTTPTransport(uds=str(server.bound.socket_path))
    with httpx2.Client(transport=transport, base_url="http://treadle") as http:
        assert http.get(f"{PREFIX}/status").status_code == 200
        assert http.get(f"{PREFIX}/status", headers={"Host": "evil.example"}).status_code == 403
        assert http.get(f"{PREFIX}/status", headers={"Origin": "null"}).status_code == 403


def test_a_header_that_is_sent_twice_is_refused(server: Running, tokens: dict[str, str]):
    host = server.url.partition("//")[2]
    lines = [
        "GET /api/v1/status HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {tokens['viewer']}",
        f"Authorization: Bearer {tokens['admin']}",
        "Connection: close",
    ]
    name, _, port = host.partition(":")
    with contextlib.ExitStack() as opened:
        connection = opened.enter_context(socket.create_connection((name, int(port)), timeout=5))
        if isinstance(server.verify, ssl.SSLContext):
            connection = opened.enter_context(server.verify.wrap_socket(connection))
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "given", ["Bearer", "Basic YTpi", "Bearer x", "Bearer treadle_a_b", "Bearer " + "x" * 5000, "a"]
)
def test_what_is_not_a_token_is_refused(http: httpx2.Client, given: str):
    answer = http.get(f"{PREFIX}/status", headers={"Authorization": given})
    assert (answer.status_code, answer.json()["code"]) == (401, "not-known")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_wrong_token_is_refused_on_the_unix_socket_too(server: Running):
    with Client(server.unix, "treadle_a_b") as client, pytest.raises(Exception, match="unknown"):
        client.status()


def test_the_token_of_a_job_reports_for_that_job_only(http: httpx2.Client, tokens: dict[str, str]):
    made = http.post(
        f"{PREFIX}/jobs", headers=bearer(tokens["owner"]), json={"command": ["true"]}
    ).json()
    answer = http.post(
        f"{PREFIX}/jobs/{made['id']}/report", headers=bearer(tokens["job"]), json={"step": 1}
    )
    assert answer.status_code == 403
    assert answer.json()["detail"] == f"the token of job 1 may not report for job {made['id']}"


@pytest.mark.parametrize(
    "wrong", [{"step": True}, {"step": "7"}, {"step": 1, "stages": {"load": True}}]
)
def test_only_numbers_are_steps(
    http: httpx2.Client, tokens: dict[str, str], wrong: dict[str, object]
):
    path = f"{PREFIX}/jobs/1/report"
    answer = http.post(path, headers=bearer(tokens["job"]), json=wrong)
    assert answer.status_code == 422, answer.text
    answer = http.post(path, headers=bearer(tokens["job"]), json={"step": 1, "total": 2.5})
    assert answer.status_code != 422, answer.text


def test_no_token_is_in_any_answer_after_it_was_made(http: httpx2.Client, tokens: dict[str, str]):
    texts = []
    for name in ALLOWED:
        method, template = name.split(" ")
        if method != "GET" or template.endswith("/stream"):
            continue
        path = PREFIX + template.replace("{identity}", "1")
        answer = http.get(path, headers=bearer(tokens["admin"]))
        texts.append(answer.text + str(answer.headers))
    for token in tokens.values():
        secret = token.rpartition("_")[2]
        assert not any(secret in text for text in texts)


def test_a_request_has_its_row_before_its_route_is_known():
    for (method, route), row in access.TABLE.items():
        path = route.replace("{identity}", "7_3").replace("{device}", "host:0")
        job = "7_3" if "{identity}" in route else ""
        assert access.row_of(method, f"{PREFIX}{path}") == access.Found(row, job)
    assert access.row_of("POST", f"{PREFIX}/jobs/7/cancel/more") is None
