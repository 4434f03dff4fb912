"""Sums of device time are read from an index alone, not from every attempt's row.

On SQLite only: PostgreSQL holds no index row with names as long as a user's may be.
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "sqlite":
        return
    op.create_index(
        "attempts_by_owner",
        "attempts",
        [
            "owner",
            "tenant",
            "job",
            "started_at",
            "ended_at",
            "device_count",
            "busy",
            "failed",
        ],
    )
