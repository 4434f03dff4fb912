"""A session has two halves, a cookie and a header; every route of the access table needs both."""

import threading
from collections.abc import Iterator
from typing import NamedTuple

import httpx2
import pytest

from tests.server.running import Running, running
from tests.server.test_access import BODIES, FORGED, PARAMETERS, PASSED
from tests.waiting import until
from treadle.client import Client
from treadle.server.access import OPEN, TABLE
from treadle.server.routes import PREFIX
from treadle.server.sessions import SESSION_S_MAX
from treadle.server.settings import ServerSettings
from treadle.server.stream import CHECK_S
from treadle.testing.clocks import ManualClock
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import Role

SESSION = f"{PREFIX}/session"
STREAM = f"{PREFIX}/stream"
NEEDING = [f"{method} {path}" for (method, path), row in TABLE.items() if row.needed != OPEN]
# Not as they are asked for everywhere: the session must go on, and the server too.
ENDING = {"DELETE /session", "POST /shutdown"}


class Shown(NamedTuple):
    name: str
    cookie: str
    csrf: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Cookie": f"{self.name}={self.cookie}", "X-CSRF-Token": self.csrf}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    settings = ServerSettings(requests_per_s=1e9, requests_burst=10**9)
    with running(settings=settings) as found:
        with Client(found.unix) as client:
            client.submit(JobRequest(command=("true",)))
        found.within(lambda: found.service.run("1"))
        yield found


def begun(server: Running, user: str = "anna", role: Role = Role.ADMIN) -> Shown:
    with browser(server) as http:
        answer = http.post(SESSION, json={"token": server.service.token(user, role)})
        return Shown(server.cookie, http.cookies[server.cookie], answer.json()["csrf"])


@pytest.fixture(scope="module")
def anna(server: Running) -> Shown:
    return begun(server)


@pytest.fixture(scope="module")
def other(server: Running) -> Shown:
    return begun(server)


def browser(server: Running) -> httpx2.Client:
    return httpx2.Client(base_url=server.url, timeout=10, trust_env=False)


@pytest.fixture(scope="module")
def http(server: Running) -> Iterator[httpx2.Client]:
    with browser(server) as found:  # it takes a while to make
        yield found


def status(http: httpx2.Client, name: str, headers: dict[str, str]) -> int:
    """Of a request to a route; a stream is not read."""
    method, path = name.split(" ")
    path = PREFIX + path.replace("{identity}", "1").replace("{device}", "here:0")
    body, query = BODIES.get(name), PARAMETERS.get(name)
    http.cookies.clear()  # what is shown is in the headers
    with http.stream(method, path, json=body, params=query, headers=headers) as found:
        return found.status_code


@pytest.mark.parametrize("name", NEEDING)
def test_half_a_session_is_nobody_on_every_route(
    server: Running, http: httpx2.Client, anna: Shown, other: Shown, name: str
):
    """Every wrong pair on one route, and each on some of the others."""
    halves = (
        {"Cookie": f"{anna.name}={anna.cookie}"},
        {"X-CSRF-Token": anna.csrf},
        {**anna.headers, "X-CSRF-Token": ""},
        {**anna.headers, "X-CSRF-Token": anna.cookie},
        {**anna.headers, "X-CSRF-Token": anna.csrf[:-1]},
        {**anna.headers, "X-CSRF-Token": other.csrf},
        {"Cookie": f"{anna.name}={anna.csrf}", "X-CSRF-Token": anna.cookie},
    )
    before = len(server.service.asked)
    place = NEEDING.index(name) % len(halves)
    for wrong in halves if name == "POST /jobs" else halves[place : place + 1]:
        assert status(http, name, wrong) == 401, wrong
    assert len(server.service.asked) == before
    if name not in ENDING:
        found = status(http, name, anna.headers)
        assert found < 300 or found == PASSED.get(name)


def test_a_session_with_forged_headers_is_refused(http: httpx2.Client, anna: Shown):
    for forged in FORGED:
        assert status(http, "POST /jobs", {**anna.headers, **forged}) == 403, forged


def test_the_second_half_is_in_no_other_answer(server: Running, anna: Shown):
    with browser(server) as http:
        for name in NEEDING:
            method, path = name.split(" ")
            if method != "GET" or path.endswith("/stream"):
                continue
            path = PREFIX + path.replace("{identity}", "1")
            answer = http.get(path, headers=anna.headers, params=PARAMETERS.get(name))
            assert anna.csrf not in answer.text + str(answer.headers)
        assert http.get(SESSION, headers=anna.headers).json()["csrf"] == ""


def test_the_page_opens_for_a_browser_with_a_cookie_alone(server: Running, anna: Shown):
    cookie = {"Cookie": f"{anna.name}={anna.cookie}"}
    with browser(server) as http:
        assert http.get("/", headers=cookie).status_code == 200
        token = server.service.token("olga", Role.USER)
        assert http.post(SESSION, json={"token": token}, headers=cookie).status_code == 201
        assert status(http, "GET /status", anna.headers) == 200  # nobody logged out by half of it


def test_a_session_is_not_one_on_the_unix_socket(server: Running, anna: Shown):
    transport = httpx2.HTTPTransport(uds=str(server.bound.socket_path))
    with httpx2.Client(transport=transport, base_url="http://treadle") as http:
        assert http.get(SESSION, headers=anna.headers).json()["user"] != "anna"


@pytest.mark.parametrize("how", ["log out", "revoke the token", "twelve hours"])
def test_a_stream_ends_with_its_session(how: str):
    clock = ManualClock()
    with (
        running(settings=ServerSettings(clock=clock)) as server,
        browser(server) as http,
        browser(server) as other,
    ):
        shown = begun(server, "olga", Role.USER)
        with http.stream("GET", STREAM, headers=shown.headers) as found:
            lines = found.iter_lines()
            while "event: reset" not in next(lines):
                pass
            if how == "log out":
                assert other.delete(SESSION, headers=shown.headers).status_code == 204
            if how == "revoke the token":
                with Client(server.address, server.service.token("olga", Role.USER)) as client:
                    client.revoke_tokens()
            reading = threading.Thread(target=lambda: list(lines))
            reading.start()
            step = SESSION_S_MAX if how == "twelve hours" else CHECK_S
            server.within(lambda: clock.advance(clock.now() + step))
            # The hub looks once a second, of this clock.
            until(lambda: _second_later(server, clock) and not reading.is_alive())


def _second_later(server: Running, clock: ManualClock) -> bool:
    server.within(lambda: clock.advance(clock.now() + 1))
    return True
