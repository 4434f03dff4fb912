"""The access table: which role each route needs.

`create_app` refuses to build if a route has no row here, or a row has no route. The service then
checks who owns the job.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from treadle.wire.machine import Role, Who
from treadle.wire.problems import NotAllowedError, NotKnownError

OPEN: Final = "open"  # no token needed
JOB: Final = "job"  # a running job with its own token, or a user

Needed = Role | str

TABLE: dict[tuple[str, str], Needed] = {
    ("GET", "/health"): OPEN,
    ("GET", "/status"): Role.VIEWER,
    ("GET", "/openapi.json"): Role.VIEWER,
    ("GET", "/metrics"): Role.VIEWER,
    ("POST", "/jobs"): Role.USER,
    ("POST", "/jobs/dry-run"): Role.USER,
    ("POST", "/jobs/orders"): Role.USER,
    ("GET", "/jobs"): Role.VIEWER,
    ("GET", "/jobs/{identity}"): Role.VIEWER,
    ("PATCH", "/jobs/{identity}"): Role.USER,
    ("POST", "/jobs/{identity}/cancel"): Role.USER,
    ("POST", "/jobs/{identity}/hold"): Role.USER,
    ("POST", "/jobs/{identity}/release"): Role.USER,
    ("GET", "/jobs/{identity}/why"): Role.VIEWER,
    ("GET", "/jobs/{identity}/why-not"): Role.VIEWER,
    ("GET", "/jobs/{identity}/history"): Role.VIEWER,
    ("POST", "/jobs/{identity}/report"): JOB,
    ("GET", "/jobs/{identity}/log"): Role.VIEWER,
    ("GET", "/jobs/{identity}/log/stream"): Role.VIEWER,
    ("POST", "/prune"): Role.USER,
    ("GET", "/nodes"): Role.VIEWER,
    ("PUT", "/nodes/{node}/order"): Role.ADMIN,
    ("PUT", "/devices/{device}/order"): Role.ADMIN,
    ("POST", "/devices/{device}/unquarantine"): Role.ADMIN,
    ("GET", "/policy"): Role.VIEWER,
    ("PUT", "/policy"): Role.ADMIN,
    ("POST", "/shutdown"): Role.ADMIN,
    ("GET", "/events"): Role.VIEWER,
    ("GET", "/events/stream"): Role.VIEWER,
    ("GET", "/stream"): Role.VIEWER,
    ("GET", "/usage"): Role.VIEWER,
    ("GET", "/usage/days"): Role.VIEWER,
    ("GET", "/decisions"): Role.VIEWER,
    ("GET", "/queue"): Role.VIEWER,
    ("GET", "/spells"): Role.VIEWER,
    ("POST", "/what-if"): Role.USER,
    ("GET", "/snapshot"): Role.VIEWER,
    ("GET", "/journal"): Role.VIEWER,
    ("GET", "/debug"): Role.ADMIN,
    ("POST", "/session"): OPEN,  # what it is given is checked as a token is
    ("GET", "/session"): Role.VIEWER,
    ("DELETE", "/session"): Role.VIEWER,
    ("POST", "/session/link"): Role.USER,
    ("GET", "/tokens"): Role.USER,
    ("POST", "/tokens"): Role.USER,
    ("DELETE", "/tokens"): Role.USER,
    ("DELETE", "/tokens/{identity}"): Role.USER,
}


class Row(NamedTuple):
    """What a request needs, and the job that it names."""

    needed: Needed
    job: str


def row_of(method: str, path: str) -> Row | None:
    """The row of a request, before its route is known; None if it has no route."""
    for pattern, needed in _PATTERNS.get(method, ()):
        found = pattern.fullmatch(path)
        if found is not None:
            return Row(needed, found.groupdict().get("identity", ""))
    return None


def _patterns() -> dict[str, list[tuple[re.Pattern[str], Needed]]]:
    """By method; a route that names itself comes before one that takes any name."""
    found: dict[str, list[tuple[re.Pattern[str], Needed]]] = {}
    for (method, route), needed in sorted(TABLE.items(), key=lambda row: "{" in row[0][1]):
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(route))
        found.setdefault(method, []).append((re.compile(pattern), needed))
    return found


_PATTERNS = _patterns()


def check_table(routes: Iterable[tuple[str, str]]) -> None:
    """Raise unless the table has exactly these routes."""
    there = set(routes)
    for method, path in sorted(there ^ TABLE.keys()):
        missing = "a row in server/access.py" if (method, path) in there else "a route"
        raise AssertionError(f"{method} {path} has no {missing.removeprefix('a ')}")


def check_access(needed: Needed, who: Who | None, *, job: str = "") -> None:
    """Raise unless the caller has the role a route needs; `job` is the job in its path."""
    if needed == OPEN:
        return
    if who is None:
        raise NotKnownError(
            "this request needs a token",
            hint="set TREADLE_TOKEN, or use the Unix socket; `treadle token make NAME` creates one",
        )
    if who.job:
        if needed != JOB:
            raise NotAllowedError(f"the token of job {who.job} may only report that job's progress")
        if who.job != job:
            raise NotAllowedError(f"the token of job {who.job} may not report for job {job}")
        return
    least = Role.USER if needed == JOB else Role(needed)
    if who.role.level < least.level:
        raise NotAllowedError(
            f"user {who.user} has the role {who.role.value}; this needs {least.value}",
            hint="ask an admin for a token with that role",
        )
