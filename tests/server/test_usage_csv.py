"""Usage by day as a table."""

import csv
import io

import httpx2

from tests.server.running import running
from treadle.wire.machine import Role


def test_the_total_of_a_day_follows_its_users_and_belongs_to_none() -> None:
    with running() as server:
        token = server.service.token("vera", Role.VIEWER)
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=server.url, headers=headers, trust_env=False) as http:
            answer = http.get("/api/v1/usage/days", params={"format": "csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    user, total = csv.DictReader(io.StringIO(answer.text))
    assert (user["user"], user["tenant"], user["allocated_h"]) == ("'=ada", "a,b", "1.5")
    assert (user["capacity_h"], user["fragmented_h"]) == ("", "")
    filled = {name: value for name, value in total.items() if value}
    assert filled == {"day": "2026-11-16", "capacity_h": "24.0", "fragmented_h": "0.5"}
