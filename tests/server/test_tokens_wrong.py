"""Wrong tokens: guesses are counted for each address, and nobody else pays for them."""

import httpx2

from tests.server.running import running
from treadle.server.settings import ServerSettings
from treadle.testing.clocks import ManualClock
from treadle.wire.machine import Role

STATUS = "/api/v1/status"


def from_address(url: str, source: str) -> httpx2.Client:
    transport = httpx2.HTTPTransport(local_address=source)
    return httpx2.Client(base_url=url, transport=transport, trust_env=False)


def answers(http: httpx2.Client, token: str, times: int = 1) -> list[int]:
    headers = {"Authorization": f"Bearer {token}"}
    return [http.get(STATUS, headers=headers).status_code for _ in range(times)]


def test_guesses_from_one_address_are_slowed_down_and_others_are_not():
    clock = ManualClock()
    settings = ServerSettings(wrong_tokens_burst=5, clock=clock)
    with running(settings=settings) as server:
        token = server.service.token("ada", Role.USER)
        with (
            from_address(server.url, "127.0.0.3") as guesser,
            from_address(server.url, "127.0.0.4") as other,
        ):
            assert answers(guesser, "treadle_x_y", 8) == [401] * 5 + [429] * 3
            assert answers(other, "treadle_x_y") == [401]
            # Behind one address there may be many users: a right token is taken all the same.
            assert answers(guesser, token) == [200]
            server.within(lambda: clock.advance(2.0))
            assert answers(guesser, "treadle_x_y", 3) == [401] * 2 + [429]
            refused = guesser.get(STATUS, headers={"Authorization": "Bearer treadle_x_y"}).json()
            assert refused["code"] == "too-fast"
            assert "wrong tokens from 127.0.0.3" in refused["detail"]


def test_requests_without_a_token_are_counted_for_each_address():
    with (
        running(settings=ServerSettings(requests_burst=3, clock=ManualClock())) as server,
        from_address(server.url, "127.0.0.3") as one,
        from_address(server.url, "127.0.0.4") as other,
    ):
        health = [one.get("/api/v1/health").status_code for _ in range(4)]
        assert health == [200, 200, 200, 429]
        assert other.get("/api/v1/health").status_code == 200
