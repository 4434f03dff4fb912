"""What was measured of each attempt over time is kept with its job's record."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def _words() -> sa.Text:
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "history",
        sa.Column("job", _words(), primary_key=True),
        sa.Column("attempt", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
    )
