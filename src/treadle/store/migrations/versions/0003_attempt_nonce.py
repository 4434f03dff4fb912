"""Attempts have a nonce, since job and attempt numbers are given again after a restore.

Older attempts have none, and neither have their folders.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    words = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column("attempts", sa.Column("nonce", words, nullable=False, server_default=""))
