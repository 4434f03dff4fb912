"""What alembic runs: the steps, on the connection and in the transaction that it was given."""

from alembic import context

from treadle.store.schema import REVISION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=REVISION_TABLE,
    # Both databases undo changes of tables; alembic does not expect it of SQLite.
    transactional_ddl=True,
    # SQLite changes a column by copying its table.
    render_as_batch=True,
)
context.run_migrations()
