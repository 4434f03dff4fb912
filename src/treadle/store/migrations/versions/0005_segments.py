"""Old lines of the journal are kept in compressed segments; what each ended job left on disk.

`segments` has lines that were closed, by the ids they had; `segment_jobs` says which jobs are in
which. `outputs` has the size of each ended job's logs, and when they were pruned.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _words() -> sa.Text:
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _whole() -> sa.BigInteger:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "segments",
        sa.Column("first", _whole(), primary_key=True, autoincrement=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.Double(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.Column("thinned", sa.Boolean(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "segment_jobs",
        sa.Column("job", _words(), primary_key=True),
        sa.Column("segment", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Index("segment_jobs_by_segment", "segment"),
    )
    op.create_table(
        "outputs",
        sa.Column("job", _words(), primary_key=True),
        sa.Column("owner", _words(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("pruned_at", sa.Double()),
        sa.Index("outputs_by_age", "ended_at", "job"),
    )
