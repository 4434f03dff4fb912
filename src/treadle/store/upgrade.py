"""Run the migrations up to a revision; the only module that imports alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection

from treadle.store.errors import StoreError, first_line


def run(connection: Connection, revision: str, *, scripts: Path) -> None:
    """Upgrade inside the connection's transaction; env.py finds it in the configuration."""
    config = Config()
    # The configuration would interpolate a percent sign.
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, revision)
    except CommandError as error:
        raise StoreError(
            f"the store cannot be upgraded to revision {revision}: {first_line(error)}",
            retryable=False,
        ) from error
