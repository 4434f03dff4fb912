"""Check rows before they are written: only what both databases can store is accepted.

PostgreSQL has no NUL in text, SQLite turns NaN into NULL, neither has integers beyond 64 bits, and
PostgreSQL's indexes refuse long entries. A row that one of them would refuse is refused for both,
before the transaction begins.
"""

from math import isfinite
from typing import Any

from treadle.core.errors import InvalidInputError
from treadle.store.rows import Batch

WORD_BYTES_MAX = 1024  # two of them and a number fit into one entry of a PostgreSQL index
BODY_BYTES_MAX = 64 * 2**20
WHOLE_MAX = 2**63 - 1


def check(batch: Batch) -> None:
    """Raise InvalidInputError for the first value that cannot be stored."""
    for table, rows in (
        ("journal", batch.journal),
        ("jobs", batch.jobs),
        ("attempts", batch.attempts),
        ("profiles", batch.profiles),
        ("tokens", batch.tokens),
        ("keys", batch.keys),
    ):
        for row in rows:
            # Nearly every row passes this quick test, which halves the time of the check.
            if not all(map(_plain, row)):
                for field, value in zip(row._fields, row, strict=True):
                    _refuse(table, field, _objection(value))
    for history in batch.histories:  # Its body is bytes that are not text.
        _refuse("history", "job", _objection(history.job) or _objection(history.started_at))
    for job in batch.jobs:
        if job.member is not None and job.member < 0:
            _refuse("jobs", "member", f"is {job.member}, but members are numbered from 0")
    for key, text in batch.settings.items():
        _refuse("settings", "key", _objection(key))
        _refuse("settings", "value", _word_objection(text, bytes_max=BODY_BYTES_MAX))
    for name in (*batch.secrets, *batch.forgotten):
        _refuse("secrets", "job", _objection(name))


def findable(*words: str) -> bool:
    """Whether such text can be in the store at all; if not, a query need not be run."""
    return all(_word_objection(word, bytes_max=BODY_BYTES_MAX) == "" for word in words)


def _refuse(table: str, field: str, objection: str) -> None:
    if objection:
        raise InvalidInputError(f"the field {field} of {table} {objection}")


def _plain(value: Any) -> bool:  # noqa: ANN401  It checks the exact type.
    """Whether the value is one of the common kinds that are surely fine."""
    kind = type(value)
    if kind is str:
        return len(value) <= WORD_BYTES_MAX and value.isascii() and "\0" not in value
    if kind is float:
        return isfinite(value)
    if kind is int:
        return bool(-WHOLE_MAX <= value <= WHOLE_MAX)
    if kind is bytes:
        return not _body_objection(value)
    return value is None or kind is bool or (kind is tuple and all(map(_plain, value)))


def _objection(value: object) -> str:
    """What is wrong with the value; empty if nothing is."""
    match value:
        case str():
            return _word_objection(value, bytes_max=WORD_BYTES_MAX)
        case bytes():
            return _body_objection(value)
        case bool() | None:
            return ""
        case int():
            return "" if abs(value) <= WHOLE_MAX else f"is {value}, beyond 64 bits"
        case float():
            return "" if isfinite(value) else f"is {value}, but a finite number is expected"
        case tuple():
            return next(filter(None, map(_objection, value)), "")
        case _:
            raise AssertionError(f"a row holds {value!r}, which the store has no column type for")


def _word_objection(word: str, *, bytes_max: int) -> str:
    if "\x00" in word:
        return "contains a NUL character, which the store cannot keep"
    if word.isascii():
        length = len(word)
    else:
        try:
            length = len(word.encode())
        except UnicodeEncodeError:
            return "contains half of a surrogate pair, which is not text"
    return "" if length <= bytes_max else f"has {length} bytes, at most {bytes_max} are allowed"


def _body_objection(body: bytes) -> str:
    if len(body) > BODY_BYTES_MAX:
        return f"has {len(body)} bytes, at most {BODY_BYTES_MAX} are allowed"
    if b"\x00" in body:
        return "contains a NUL byte, which the store cannot keep"
    try:
        body.decode()
    except UnicodeDecodeError:
        return "is not UTF-8, but JSON is expected"
    return ""
