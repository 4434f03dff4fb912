"""The tables, the same on SQLite and PostgreSQL.

Column names and their order are those of the rows in `rows.py`, so that a row of the database is a
row of ours. Bodies are JSON and kept as text, so that they can be read in a database shell.
Text is compared by code point on both databases. A new store gets these tables. Once there is a
release, change one and write the upgrade that does the same to a store that is there.
"""

import json

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)

REVISION = "0007"  # the newest one that this Treadle knows
REVISION_TABLE = "treadle_revision"
NO_MEMBER = -1  # stored for a job outside an array; sorts before member 0


class BodyText(TypeDecorator[bytes]):
    """Bytes of UTF-8 to us, text to the database."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else value.decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        return None if value is None else value.encode()


class MemberNumber(TypeDecorator[int]):
    """None is kept as a number, since the two databases sort NULL differently."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int:  # noqa: ARG002
        return NO_MEMBER if value is None else value

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        return None if value == NO_MEMBER else value


class NamesText(TypeDecorator[tuple[str, ...]]):
    """A tuple of names as a JSON array."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> str:  # noqa: ARG002
        return json.dumps(value or (), ensure_ascii=False)

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[str, ...]:  # noqa: ARG002
        return tuple(json.loads(value or "[]"))


def _words() -> Text:
    words = Text()
    return words.with_variant(Text(collation="C"), "postgresql")


def _whole() -> BigInteger:
    # Only a primary key declared as INTEGER is the row number in SQLite.
    whole = BigInteger()
    return whole.with_variant(Integer(), "sqlite")


metadata = MetaData()

journal = Table(
    "journal",
    metadata,
    Column("at", Double, nullable=False),
    Column("wall_at", Double, nullable=False),
    Column("kind", _words(), nullable=False),
    Column("job", _words(), nullable=False),
    Column("body", BodyText, nullable=False),
    # Given by the writer: the database would leave gaps after a rollback.
    Column("id", _whole(), primary_key=True, autoincrement=False),
    Index("journal_by_job", "job", "id"),
)

# Lines that were closed, compressed; their ids are not in the journal any more. See segments.py.
segments = Table(
    "segments",
    metadata,
    Column("first", _whole(), primary_key=True, autoincrement=False),  # the id of its first line
    Column("last", BigInteger, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("first_at", Double, nullable=False),
    Column("last_at", Double, nullable=False),
    Column("thinned", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

segment_jobs = Table(
    "segment_jobs",
    metadata,
    Column("job", _words(), primary_key=True),
    Column("segment", BigInteger, primary_key=True, autoincrement=False),
    Index("segment_jobs_by_segment", "segment"),
)

# What an ended job left on disk. A job without a row has not been looked at yet.
outputs = Table(
    "outputs",
    metadata,
    Column("job", _words(), primary_key=True),
    Column("owner", _words(), nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("pruned_at", Double),
    Index("outputs_by_age", "ended_at", "job"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", _words(), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("member", MemberNumber, nullable=False),
    Column("array", _words(), nullable=False),
    Column("name", _words(), nullable=False),
    Column("owner", _words(), nullable=False),
    Column("tenant", _words(), nullable=False),
    Column("state", _words(), nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("submitted_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("record", BodyText, nullable=False),
    Column("row", BodyText),
    Index("jobs_by_number", "number", "member", unique=True),
    Index("jobs_by_array", "array", "number", "member"),
    Index("jobs_by_name", "name", "number", "member"),
    Index("jobs_by_owner", "owner", "number", "member"),
    Index("jobs_by_tenant", "tenant", "number", "member"),
)
Index(
    "jobs_active",
    jobs.c.number,
    jobs.c.member,
    sqlite_where=jobs.c.ended_at.is_(None),
    postgresql_where=jobs.c.ended_at.is_(None),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job", _words(), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("action", BigInteger, nullable=False),
    Column("owner", _words(), nullable=False),
    Column("tenant", _words(), nullable=False),
    Column("devices", NamesText, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("busy", Double),
    Column("failed", Boolean, nullable=False),
    Column("body", BodyText, nullable=False),
    Column("nonce", _words(), nullable=False, server_default=""),
    # The length of `devices`, for sums of device time.
    Column("device_count", BigInteger, nullable=False),
    Index("attempts_by_end", "ended_at"),
    # All that sums of device time need: a row is ten times as long, and they look at every one.
    # PostgreSQL holds no index row with names as long as a user's may be.
    Index(
        "attempts_by_owner",
        "owner",
        "tenant",
        "job",
        "started_at",
        "ended_at",
        "device_count",
        "busy",
        "failed",
    ).ddl_if(dialect="sqlite"),
)

# What was measured of each attempt over time, compressed (control/learning/load_history.py).
history = Table(
    "history",
    metadata,
    Column("job", _words(), primary_key=True),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("started_at", Double, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

profiles = Table(
    "profiles",
    metadata,
    Column("key", _words(), primary_key=True),
    Column("body", BodyText, nullable=False),
    Column("changed_at", Double, nullable=False),
    Index("profiles_by_change", "changed_at", "key"),
)

settings = Table(
    "settings",
    metadata,
    Column("key", _words(), primary_key=True),
    Column("value", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", _words(), primary_key=True),
    Column("digest", _words(), nullable=False),
    Column("name", _words(), nullable=False),
    Column("owner", _words(), nullable=False),
    Column("role", _words(), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("used_at", Double),
    Column("uid", BigInteger),
    Column("used_from", Text),
    Index("tokens_by_digest", "digest", unique=True),
)

keys = Table(
    "keys",
    metadata,
    Column("owner", _words(), primary_key=True),
    Column("key", _words(), primary_key=True),
    Column("digest", _words(), nullable=False),
    Column("body", BodyText, nullable=False),
    Column("made_at", Double, nullable=False),
    Index("keys_by_age", "made_at"),
)

secrets = Table(
    "secrets",
    metadata,
    Column("job", _words(), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
)

# One row. Each transaction advances it, but only from the value that its writer left: so a commit
# whose answer was lost is recognised, and a second writer is refused before it does harm.
writer = Table(
    "writer",
    metadata,
    Column("one", Integer, CheckConstraint("one = 1", name="writer_one"), primary_key=True),
    Column("holder", _words(), nullable=False),  # the process that opened the store last
    Column("sequence", BigInteger, nullable=False),  # the holder's last batch
    Column("line", BigInteger, nullable=False),  # the highest id ever given in the journal
)
