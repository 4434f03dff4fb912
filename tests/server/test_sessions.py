"""Sessions of browsers over real HTTP: log in, orders, log out, and all that must not work."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.server.running import Running, running
from tests.server.tls import certificate_files
from treadle.client import Client
from treadle.server.routes import PREFIX
from treadle.server.sessions import (
    LINK_S_MAX,
    LINKS_PER_USER_MAX,
    SESSION_S_MAX,
    SESSIONS_PER_USER_MAX,
    Sessions,
)
from treadle.server.settings import ServerSettings
from treadle.testing.clocks import ManualClock
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import Role, Who

SESSION = f"{PREFIX}/session"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock: ManualClock) -> Iterator[Running]:
    with running(settings=ServerSettings(clock=clock, wrong_tokens_burst=5)) as found:
        yield found


def browser(server: Running) -> httpx2.Client:
    return httpx2.Client(base_url=server.url, timeout=10, trust_env=False, verify=server.verify)


def log_in(http: httpx2.Client, token: str) -> None:
    """Begin a session; from then on the browser sends what shows it, as the page does."""
    answer = http.post(SESSION, json={"token": token})
    assert answer.status_code == 201, answer.text
    http.headers["X-CSRF-Token"] = answer.json()["csrf"]


def code_of(server: Running) -> str:
    with Client(server.address, server.service.token("olga", Role.USER)) as client:
        url = client.session_link().url
    assert url.startswith(f"{server.url}/#/login/")
    return url.rpartition("/#/login/")[2]


def test_a_session_is_begun_used_and_ended(server: Running):
    token = server.service.token("olga", Role.USER)
    with browser(server) as http:
        assert http.get(SESSION).status_code == 401
        log_in(http, token)
        assert http.get(SESSION).json()["user"] == "olga"
        made = http.post(f"{PREFIX}/jobs", json={"command": ["true"]})
        assert made.status_code in {200, 201}
        assert http.delete(SESSION).status_code == 204
        assert server.cookie not in http.cookies
        assert http.get(SESSION).status_code == 401


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(server: Running, tmp_path):
    token = server.service.token("olga", Role.USER)
    with browser(server) as http:
        cookie = http.post(SESSION, json={"token": token}).headers["set-cookie"]
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert "secure" not in parts
    with running(tls=certificate_files(tmp_path)) as safe, browser(safe) as http:
        token = safe.service.token("olga", Role.USER)
        assert "; secure" in http.post(SESSION, json={"token": token}).headers["set-cookie"].lower()


def test_a_viewer_cannot_cancel(server: Running):
    with Client(server.unix) as client:
        client.submit(JobRequest(command=("true",)))
    with browser(server) as http:
        log_in(http, server.service.token("vera", Role.VIEWER))
        assert http.post(f"{PREFIX}/jobs/1/cancel").status_code == 403
        assert http.get(f"{PREFIX}/jobs/1").status_code == 200


def test_a_session_ends_with_its_token(server: Running):
    token = server.service.token("olga", Role.USER)
    with browser(server) as http:
        log_in(http, token)
        with Client(server.address, token) as client:
            client.revoke_tokens()
        assert http.get(SESSION).status_code == 401


def test_a_session_ends_after_twelve_hours(server: Running, clock: ManualClock):
    with browser(server) as http:
        log_in(http, server.service.token("olga", Role.USER))
        server.within(lambda: clock.advance(clock.now() + SESSION_S_MAX - 1))
        assert http.get(SESSION).status_code == 200
        server.within(lambda: clock.advance(clock.now() + 2))
        assert http.get(SESSION).status_code == 401


def test_a_session_never_has_a_cookie_that_was_sent(server: Running):
    token = server.service.token("olga", Role.USER)
    with browser(server) as http:
        http.cookies.set(server.cookie, "chosen")
        answer = http.post(SESSION, json={"token": token})
        assert "chosen" not in answer.headers["set-cookie"]


def test_a_browser_that_logs_in_again_has_one_session(server: Running):
    token = server.service.token("olga", Role.USER)
    with browser(server) as http:
        log_in(http, token)
        old = {
            "Cookie": f"{server.cookie}={http.cookies[server.cookie]}",
            "X-CSRF-Token": http.headers["X-CSRF-Token"],
        }
        log_in(http, token)
        assert http.get(SESSION).status_code == 200
        http.cookies.clear()
        assert http.get(SESSION, headers=old).status_code == 401


def test_a_link_works_once_and_for_a_minute(server: Running, clock: ManualClock):
    code = code_of(server)
    with browser(server) as http:
        made = http.post(SESSION, json={"link": code})
        assert (made.status_code, made.json()["user"]) == (201, "olga")
        assert http.post(SESSION, json={"link": code}).status_code == 401
        late = code_of(server)
        server.within(lambda: clock.advance(clock.now() + LINK_S_MAX + 1))
        assert http.post(SESSION, json={"link": late}).status_code == 401


def test_guesses_are_limited_as_wrong_tokens_are(server: Running):
    with browser(server) as http:
        guesses = [http.post(SESSION, json={"token": "treadle_x_y"}).status_code for _ in range(4)]
        guesses += [http.post(SESSION, json={"link": "x"}).status_code for _ in range(3)]
    assert guesses == [401] * 5 + [429] * 2


@pytest.mark.parametrize(
    "body", [{}, {"token": "a", "link": "b"}, {"tokens": "a"}, {"token": 1}, []]
)
def test_a_log_in_has_a_token_or_a_link(server: Running, body: object):
    with browser(server) as http:
        assert http.post(SESSION, json=body).status_code == 422


def test_a_log_in_is_short_and_json(server: Running):
    with browser(server) as http:
        assert http.post(SESSION, json={"token": "x" * 3000}).status_code == 413
        assert http.post(SESSION, content=b"token=x").status_code == 415
        wrong = {"Origin": "http://evil.example"}
        assert http.post(SESSION, json={"token": "x"}, headers=wrong).status_code == 403


def test_a_job_cannot_log_in(server: Running):
    with Client(server.unix) as client:
        client.submit(JobRequest(command=("true",)))
    with browser(server) as http:
        token = server.service.job_token("1")
        assert http.post(SESSION, json={"token": token}).status_code == 403


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("{name}=x; {name}={value}", 200),
        ("{name}={value}; {name}=x", 200),
        ("{name}=" + "x; {name}=" * 20 + "{value}", 200),
        ("{name}={value}" + "; {name}=x" * 8, 401),
        ("treadle_session={value}", 401),
        ("{name}={value}x", 401),
        ("x=y; {value}", 401),
        ("={value}", 401),
    ],
)
def test_cookies_that_others_set_neither_open_nor_shut(server: Running, given: str, status: int):
    """Browsers send those of longer paths first, and ours is for the shortest."""
    with browser(server) as http:
        log_in(http, server.service.token("olga", Role.USER))
        value = http.cookies[server.cookie]
        http.cookies.clear()
        headers = {"Cookie": given.format(name=server.cookie, value=value)}
        assert http.get(SESSION, headers=headers).status_code == status


def test_two_daemons_of_one_host_log_nobody_out_of_the_other(server: Running):
    with running() as second, browser(server) as http:
        log_in(http, server.service.token("olga", Role.USER))
        token = second.service.token("olga", Role.USER)
        assert http.post(f"{second.url}{SESSION}", json={"token": token}).status_code == 201
        assert len(http.cookies) == 2
        assert http.get(SESSION).status_code == 200


def test_sessions_and_links_are_limited(clock: ManualClock):
    sessions = Sessions(clock)
    who = Who(user="olga", role=Role.USER)
    begun = [sessions.begin(who, lambda: who)[0] for _ in range(SESSIONS_PER_USER_MAX + 3)]
    assert len(sessions) == SESSIONS_PER_USER_MAX
    assert [sessions.find(halves) is None for halves in begun[:4]] == [True] * 3 + [False]
    codes = [sessions.make_link(who, lambda: who)[0] for _ in range(LINKS_PER_USER_MAX + 1)]
    with pytest.raises(Exception, match="unknown, used or expired"):
        sessions.use_link(codes[0])
    assert sessions.use_link(codes[1])[0] == who


def test_the_page_opens_from_a_link_and_nothing_else_does(server: Running):
    opening = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    with browser(server) as http:
        assert http.get("/", headers=opening).status_code == 200
        framed = {**opening, "Sec-Fetch-Dest": "iframe"}
        assert http.get("/", headers=framed).status_code == 403
        assert http.get(f"{PREFIX}/health", headers=opening).status_code == 403
