"""/metrics, and the limits that are pure arithmetic."""

from collections.abc import Iterator

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.running import Running, running
from treadle.client import Client
from treadle.server import limits
from treadle.server.limits import RequestRate, StreamCount, TooFastError
from treadle.server.settings import ServerSettings
from treadle.wire.machine import Role
from treadle.wire.problems import TooManyError


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as found:
        yield found


def samples(text: str) -> dict[tuple[str, str], float]:
    """Values by name and route."""
    return {
        (sample.name, sample.labels.get("route", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_controllers_figures_are_there_with_their_types(server: Running):
    with Client(server.unix) as client:
        text = client.metrics()
    kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
    assert kinds["treadle_jobs"] == "gauge"
    assert kinds["treadle_decisions"] == "counter"
    assert kinds["treadle_http_request_duration_seconds"] == "histogram"
    assert "treadle_event_loop_lag_seconds" in kinds


def test_requests_are_counted_by_route_and_never_by_path(server: Running):
    token = server.service.token("vera", Role.VIEWER)
    with httpx2.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False
    ) as http:
        for number in range(50):
            http.get(f"/api/v1/jobs/{number}")
            http.get(f"/nothing/{number}")
            http.request(f"FOO{number}", "/api/v1/jobs")
    with Client(server.unix) as client:
        text = client.metrics()
    found = samples(text)
    assert found["treadle_http_request_duration_seconds_count", "/api/v1/jobs/{identity}"] == 50
    assert found["treadle_http_request_duration_seconds_count", "(none)"] == 50
    assert "FOO" not in text


def test_a_burst_is_let_through_and_then_a_steady_rate():
    rate = RequestRate(per_s=10, burst=5)
    for _ in range(5):
        rate.take("ada", 0.0)
    with pytest.raises(TooFastError):
        rate.take("ada", 0.0)
    rate.take("bob", 0.0)
    rate.take("ada", 0.1)
    with pytest.raises(TooFastError):
        rate.take("ada", 0.1)


def test_names_that_come_once_are_forgotten(monkeypatch):
    monkeypatch.setattr(limits, "BUCKETS_MAX", 10)
    rate = RequestRate(per_s=10, burst=5)
    for number in range(1000):
        rate.take(str(number), float(number))
    assert len(rate._buckets) <= 10


def test_streams_are_given_back_even_after_an_error():
    count = StreamCount(most=1, per_user=1)
    with pytest.raises(ZeroDivisionError), count.counted("ada"):
        raise ZeroDivisionError
    with count.counted("ada"), pytest.raises(TooManyError):
        count.check("bob")
    assert count.total == 0


def test_a_client_that_asks_too_fast_is_slowed_and_not_refused():
    with (
        running(settings=ServerSettings(requests_per_s=50, requests_burst=5)) as server,
        Client(server.unix) as client,
    ):
        for _ in range(20):
            assert client.health() == {"status": "ok"}
