"""The access table: for each route the role that it needs and what it costs, as its row says.

A route of `*_routes.py` cannot be declared without. The service then checks who owns the job.
"""

import re
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from treadle.wire.machine import Role, Who
from treadle.wire.problems import NotAllowedError, NotKnownError

OPEN: Final = "open"  # no token needed
JOB: Final = "job"  # a running job with its own token, or a user

Needed = Role | str


class Load(Enum):
    """What a request costs the server; read_turns.py gives turns by it."""

    NONE = "none"  # answered in any case: what monitors ask, and what running jobs report
    READ = "read"
    COMPUTED = "computed"
    SIMULATED = "simulated"
    ORDER = "order"


class Row(NamedTuple):
    needed: Needed
    load: Load


class Found(NamedTuple):
    row: Row
    job: str  # that the request names


TABLE: dict[tuple[str, str], Row] = {}  # by method and path; routes.py fills it


def row_of(method: str, path: str) -> Found | None:
    """The row of a request, before its route is known; None if it has no route."""
    for pattern, row in _patterns().get(method, ()):
        found = pattern.fullmatch(path)
        if found is not None:
            return Found(row, found.groupdict().get("identity", ""))
    return None


@cache
def _patterns() -> dict[str, list[tuple[re.Pattern[str], Row]]]:
    """By method; a route that names itself comes before one that takes any name."""
    found: dict[str, list[tuple[re.Pattern[str], Row]]] = {}
    for (method, route), row in sorted(TABLE.items(), key=lambda each: "{" in each[0][1]):
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(route))
        found.setdefault(method, []).append((re.compile(f"/api/v1{pattern}"), row))
    return found


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
