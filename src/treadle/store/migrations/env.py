"""Alembic's entry point: run the migrations on the given connection, in its transaction."""

from alembic import context

from treadle.store.schema import REVISION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=REVISION_TABLE,
    # Both databases can roll back changes of tables; alembic does not expect it of SQLite.
    transactional_ddl=True,
    # SQLite changes a column by copying its table.
    render_as_batch=True,
)
context.run_migrations()
