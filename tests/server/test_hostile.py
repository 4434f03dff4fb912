"""Hostile requests: each is refused with a sentence, and none with a 5xx."""

import json
import socket
from collections.abc import Iterator

import httpx2
import pytest

from tests.server.running import Running, running
from treadle.client import Client
from treadle.server import peers
from treadle.server.settings import ServerSettings
from treadle.wire.machine import Role

JOBS = "/api/v1/jobs"
UNPARSED = (
    "field 'priority' should be a valid integer, unable to parse string as an integer, found 'high'"
)
SMALL = ServerSettings(body_bytes_max=10_000, body_s_max=0.2)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(settings=SMALL) as found:
        yield found


@pytest.fixture(scope="module")
def http(server: Running) -> Iterator[httpx2.Client]:
    token = server.service.token("anna", Role.ADMIN)
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=server.url, headers=headers, timeout=10, trust_env=False) as found:
        yield found


def refused(answer: httpx2.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    assert not problem["detail"].endswith(".")
    return answer.status_code, str(problem["detail"])


def test_a_body_that_says_it_is_too_long_is_refused_unread(http: httpx2.Client):
    answer = http.post(JOBS, json={"command": ["x" * 20_000]})
    assert refused(answer) == (413, "the body is longer than 10000 bytes")


def test_a_body_that_does_not_say_how_long_it_is_is_cut_off(http: httpx2.Client):
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    answer = http.post(JOBS, content=endless(), headers={"Content-Type": "application/json"})
    assert refused(answer) == (413, "the body is longer than 10000 bytes")


def test_a_body_without_a_token_is_not_read(server: Running):
    answer = httpx2.post(server.url + JOBS, json={"command": ["x" * 20_000]}, trust_env=False)
    assert refused(answer)[0] == 401


def test_a_body_that_trickles_in_is_given_up(server: Running, http: httpx2.Client):
    lines = (
        f"POST {JOBS} HTTP/1.1",
        f"Host: {server.url.removeprefix('http://')}",
        f"Authorization: {http.headers['Authorization']}",
        "Content-Type: application/json",
        "Content-Length: 100",
        "",
        "{",
    )
    answer = talk(server, "\r\n".join(lines).encode())
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"the body had not arrived after 0.2 s" in answer


def test_a_head_that_trickles_in_is_given_up(monkeypatch):
    monkeypatch.setattr(peers, "REQUEST_HEAD_S_MAX", 0.2)
    with running() as server:
        assert talk(server, b"GET /api/v1/hea") == b""


def test_more_values_than_a_request_needs_are_refused(server: Running):
    with running() as roomy:
        token = roomy.service.token("anna", Role.ADMIN)
        answer = httpx2.post(
            roomy.url + JOBS,
            content=b"[" + b"0," * 100_000 + b"0]",
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
            trust_env=False,
        )
    assert refused(answer) == (422, "the body has more than 50000 values in it")


@pytest.mark.parametrize("text", ["\\ud800", "x\\uDBFFy", "\\udc00", "\\ud800\\u0041"])
def test_half_of_a_character_is_called_that(http: httpx2.Client, text: str):
    answer = http.post(
        JOBS,
        content=f'{{"command":["{text}"]}}'.encode(),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 422
    assert "which is half of a character" in answer.json()["detail"]


def test_nested_json_is_refused(http: httpx2.Client):
    for depth in (100, 4000):
        body = b'{"env":' + b"[" * depth + b"]" * depth + b"}"
        answer = http.post(JOBS, content=body, headers={"Content-Type": "application/json"})
        assert refused(answer) == (422, "the body is nested deeper than 64")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b'{"command":["true"],"time_limit_s":NaN}',
        b'{"command":["true"],"time_limit_s":1e400}',
        b'{"command":["\\ud800"]}',
        b'{"command":["a\\u0000b"]}',
        b'{"command":["true"],"env":{"A\\u0000":"b"}}',
        b'{"command":["true"],"priority":99999999999999999999}',
        b'{"command":["true"],"time_limit_s":"NaN"}',
        b'{"command":["true"],"grace_s":"inf"}',
        b'{"command":"true"}',
        b'{"command":["true"],"code":{"commit":5,"more":1}}',
        b"[]",
        b"null",
        b"5",
        b"",
    ],
)
def test_what_is_not_a_request_is_refused(http: httpx2.Client, body: bytes):
    answer = http.post(JOBS, content=body, headers={"Content-Type": "application/json"})
    assert refused(answer)[0] == 422


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_bodies_of_other_types_are_refused(http: httpx2.Client, kind: str):
    body = json.dumps({"command": ["true"]}).encode()
    answer = http.post(JOBS, content=body, headers={"Content-Type": kind})
    assert refused(answer)[0] == 415


@pytest.mark.parametrize(
    ("body", "sentence", "hint"),
    [
        ({}, "field 'command' is missing", ""),
        ({"command": ["a"], "prioritty": 3}, "field 'prioritty' is unknown", "did you mean"),
        ({"command": ["a"], "priority": "high"}, UNPARSED, ""),
        (
            {"command": ["a"], "secrets": {"KEY": ["hunter2"]}},
            "field 'secrets.KEY' should be a valid string, found a value of type list",
            "",
        ),
        (
            {"command": ["a"], "secrets": {"KEY": 1234567}},
            "field 'secrets.KEY' should be a valid string, found a value of type int",
            "",
        ),
    ],
)
def test_a_refusal_names_the_field_and_what_was_expected(
    http: httpx2.Client, body: object, sentence: str, hint: str
):
    answer = http.post(JOBS, json=body)
    assert refused(answer) == (422, sentence)
    assert hint in answer.json()["hint"]
    assert "hunter2" not in answer.text
    assert "1234567" not in answer.text


def test_a_field_of_another_request_is_not_proposed_again(http: httpx2.Client):
    """It said: field 'exclusive' is unknown, did you mean 'exclusive'?"""
    answer = http.patch(f"{JOBS}/1", json={"exclusive": True})
    assert refused(answer) == (422, "field 'exclusive' cannot be given here")
    assert "name, priority, tenant, devices and time_limit_s" in answer.json()["hint"]


def test_query_parameters_are_refused_by_name(http: httpx2.Client):
    answer = http.get(JOBS, params={"limit": "50000"})
    assert refused(answer) == (
        422,
        "query parameter 'limit' should be less than or equal to 10000, found '50000'",
    )


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs/..%2f..%2fetc%2fpasswd",
        "/api/v1/jobs/%2e%2e/status",
        "/api/v1/jobs/../status",
        "/api/v1/jobs/a%00b",
        "/api/v1/jobs/%252e%252e%252f",
        "/api/v1/jobs/a%5cb",
        "/api/v1/jobs/a%0d%0aX-Evil:%201",
        "/api/v1/jobs/1/log?rank=0&user=%00",
        "/api/v1/devices/..%2f..%2fx/order",
        "/api/v1/tokens/%2e%2e",
        "//api/v1/jobs/1/../../x",
    ],
)
def test_tricks_in_paths_are_refused(server: Running, http: httpx2.Client, path: str):
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {server.url.removeprefix('http://')}",
        f"Authorization: {http.headers['Authorization']}",
        "Connection: close",
        "",
        "",
    )
    answer = talk(server, "\r\n".join(lines).encode())
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert b"the path has characters that are not allowed" in answer
    assert b"X-Evil" not in answer


def test_unknown_paths_are_problems_too(http: httpx2.Client):
    for path in ("/docs", "/redoc", "/openapi.json", "/api/v1/", "/api/v1/jobs/"):
        assert refused(http.get(path)) == (404, f"there is no GET {path}")


def test_wrong_methods_say_what_is_allowed(http: httpx2.Client):
    answer = http.delete("/api/v1/status")
    assert refused(answer) == (405, "DELETE /api/v1/status is not supported (allowed: GET)")
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize("key", [b"x" * 129, b"a\tb", "schlüssel".encode()])
def test_a_key_is_short_and_printable(http: httpx2.Client, key: bytes):
    answer = http.post(JOBS, json={"command": ["true"]}, headers=[(b"Idempotency-Key", key)])
    assert refused(answer)[0] == 422


def test_our_own_mistakes_show_no_traceback_and_are_logged(caplog):
    with running() as server:

        def boom() -> None:
            raise RuntimeError("a secret detail")

        server.service.status = boom  # type: ignore[method-assign, assignment]
        with httpx2.Client(
            transport=httpx2.HTTPTransport(uds=str(server.bound.socket_path)),
            base_url="http://treadle",
        ) as http:
            answer = http.get("/api/v1/status")
            assert refused(answer)[0] == 500
            assert "secret detail" not in answer.text
            assert http.get("/api/v1/health").status_code == 200
    assert answer.json()["request_id"] in caplog.text
    assert "a secret detail" in caplog.text


def test_too_many_requests_at_once_are_told_to_wait():
    settings = ServerSettings(requests_per_s=0.001, requests_burst=5)
    with running(settings=settings) as server:
        token = server.service.token("anna", Role.VIEWER)
        answers = [
            httpx2.get(
                f"{server.url}/api/v1/status",
                headers={"Authorization": f"Bearer {token}"},
                trust_env=False,
            )
            for _ in range(7)
        ]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
        assert answers[-1].headers["retry-after"] == "1"
        # One who asks too much does not lock out the others.
        with Client(server.unix) as client:
            assert client.status().store == "memory"


def test_upgrades_to_other_protocols_are_not_taken_up(server: Running, http: httpx2.Client):
    lines = (
        "GET /api/v1/stream HTTP/1.1",
        f"Host: {server.url.removeprefix('http://')}",
        "Connection: Upgrade, close",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "",
        "",
    )
    assert talk(server, "\r\n".join(lines).encode()).startswith(b"HTTP/1.1 401")


def talk(server: Running, data: bytes) -> bytes:
    """Send bytes, and read whatever comes back until the server closes or says enough."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
            if b"request_id" in answer:
                break
        return answer
