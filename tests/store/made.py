"""Rows for tests, of which a test names only what matters to it."""

from treadle.store.rows import (
    AttemptRow,
    HistoryRow,
    JobRow,
    JournalRow,
    KeyRow,
    ProfileRow,
    TokenRow,
)

JOB = JobRow(
    id="a",
    number=1,
    member=None,
    array="",
    name="resnet",
    owner="ada",
    tenant="vision",
    state="queued",
    priority=0,
    submitted_at=1000.5,
    ended_at=None,
    record=b'{"command":["true"]}',
    row=b'{"phase":"waiting"}',
)
ATTEMPT = AttemptRow(
    job="a",
    number=1,
    action=7,
    owner="ada",
    tenant="vision",
    devices=("GPU-1", "GPU-2"),
    started_at=1000.0,
    ended_at=None,
    busy=None,
    failed=False,
    body=b"{}",
)
LINE = JournalRow(at=0.5, wall_at=1000.5, kind="JobSubmitted", job="a", body=b'{"spec":{}}')
HISTORY = HistoryRow(job="a", attempt=1, started_at=1000.0, body=b"\x00\xff")
PROFILE = ProfileRow(key="train.py", body=b"{}", changed_at=1000.0)
TOKEN = TokenRow(
    id="t1",
    digest="d1",
    name="laptop",
    owner="ada",
    role="user",
    created_at=1000.0,
    expires_at=None,
    used_at=None,
    uid=1000,
)
KEY = KeyRow(owner="ada", key="k1", digest="d", body=b'{"id":"a"}', made_at=1000.0)


def job(identity: str, number: int, **changes: object) -> JobRow:
    return JOB._replace(id=identity, number=number, **changes)  # type: ignore[arg-type]


def attempt(identity: str, number: int = 1, **changes: object) -> AttemptRow:
    return ATTEMPT._replace(job=identity, number=number, **changes)  # type: ignore[arg-type]


def line(identity: str = "", **changes: object) -> JournalRow:
    return LINE._replace(job=identity, **changes)  # type: ignore[arg-type]
