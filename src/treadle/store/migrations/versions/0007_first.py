"""The tables of a new store, which come from the schema: what the first upgrade will follow."""

revision = "0007"
down_revision = None
