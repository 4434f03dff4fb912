"""The tables of the first Treadle that keeps a store.

Written out and not taken from `treadle.store.schema`: that file moves on, this one must not.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _words() -> sa.Text:
    words = sa.Text()
    return words.with_variant(sa.Text(collation="C"), "postgresql")


def _moment(name: str, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _word(name: str, *, primary_key: bool = False) -> sa.Column[str]:
    return sa.Column(name, _words(), primary_key=primary_key, nullable=False)


def upgrade() -> None:
    _journal()
    _jobs()
    _attempts()
    _people()
    _rest()


def _journal() -> None:
    whole = sa.BigInteger()
    op.create_table(
        "journal",
        _moment("at"),
        _moment("wall_at"),
        _word("kind"),
        _word("job"),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column(
            "id",
            whole.with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=False,
            nullable=False,
        ),
    )
    op.create_index("journal_by_job", "journal", ["job", "id"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        _word("id", primary_key=True),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("member", sa.BigInteger(), nullable=False),
        _word("array"),
        _word("name"),
        _word("owner"),
        _word("tenant"),
        _word("state"),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        _moment("submitted_at"),
        _moment("ended_at", nullable=True),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("row", sa.Text()),
    )
    op.create_index("jobs_by_number", "jobs", ["number", "member"], unique=True)
    for column in ("array", "name", "owner", "tenant"):
        op.create_index(f"jobs_by_{column}", "jobs", [column, "number", "member"])
    active = sa.text("ended_at IS NULL")
    op.create_index(
        "jobs_active", "jobs", ["number", "member"], sqlite_where=active, postgresql_where=active
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        _word("job", primary_key=True),
        sa.Column("number", sa.BigInteger(), primary_key=True, nullable=False),
        sa.Column("action", sa.BigInteger(), nullable=False),
        _word("owner"),
        _word("tenant"),
        sa.Column("devices", sa.Text(), nullable=False),
        _moment("started_at", nullable=True),
        _moment("ended_at", nullable=True),
        sa.Column("busy", sa.Double()),
        sa.Column("failed", sa.Boolean(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("device_count", sa.BigInteger(), nullable=False),
    )
    op.create_index("attempts_by_end", "attempts", ["ended_at"])


def _people() -> None:
    op.create_table(
        "tokens",
        _word("id", primary_key=True),
        _word("digest"),
        _word("name"),
        _word("owner"),
        _word("role"),
        _moment("created_at"),
        _moment("expires_at", nullable=True),
        _moment("used_at", nullable=True),
    )
    op.create_index("tokens_by_digest", "tokens", ["digest"], unique=True)
    op.create_table(
        "keys",
        _word("owner", primary_key=True),
        _word("key", primary_key=True),
        _word("digest"),
        sa.Column("body", sa.Text(), nullable=False),
        _moment("made_at"),
    )
    op.create_index("keys_by_age", "keys", ["made_at"])


def _rest() -> None:
    op.create_table(
        "profiles",
        _word("key", primary_key=True),
        sa.Column("body", sa.Text(), nullable=False),
        _moment("changed_at"),
    )
    op.create_index("profiles_by_change", "profiles", ["changed_at", "key"])
    op.create_table(
        "settings", _word("key", primary_key=True), sa.Column("value", sa.Text(), nullable=False)
    )
    op.create_table(
        "secrets",
        _word("job", primary_key=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "writer",
        sa.Column(
            "one",
            sa.Integer(),
            sa.CheckConstraint("one = 1", name="writer_one"),
            primary_key=True,
            nullable=False,
        ),
        _word("holder"),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
    )
