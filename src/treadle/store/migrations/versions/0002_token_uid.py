"""Tokens are bound to the user id of their owner, since a name can be given to another user.

The id of older tokens stays empty: who had the name when they were made is not known.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("uid", sa.BigInteger()))
