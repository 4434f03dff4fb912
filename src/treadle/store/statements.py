"""A batch as SQL statements: which rows are inserted, replaced or deleted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    CursorResult,
    Dialect,
    Executable,
    Table,
    bindparam,
    delete,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from treadle.store import schema
from treadle.store.rows import Batch

Values = Sequence[Mapping[str, object]]


class Group(NamedTuple):
    """Statements on one table; the hook is called with the name after them."""

    name: str
    statement: Executable
    values: Values


# Advance the writer's row, but only if this writer was the last to change it.
CLAIM = (
    update(schema.writer)
    .where(schema.writer.c.holder == bindparam("held_by"))
    .where(schema.writer.c.sequence == bindparam("left_at"))
    .values(sequence=bindparam("reached"), line=bindparam("last_line"))
)


class Ready:
    """A statement as a database's driver takes it.

    SQLAlchemy prepares a statement for each of its uses, which takes longer than SQLite needs.
    """

    def __init__(self, statement: Any, columns: Sequence[str], dialect: Dialect) -> None:  # noqa: ANN401
        compiled = statement.compile(dialect=dialect, column_keys=columns)
        self._text, self._by_place = compiled.string, compiled.positional
        kinds = {name: bound.type.dialect_impl(dialect) for name, bound in compiled.binds.items()}
        self._takes = [
            (name, kinds[name].bind_processor(dialect))
            for name in compiled.positiontup or compiled.binds
        ]

    def run(self, connection: Connection, values: Values) -> CursorResult[Any]:
        given = [
            {name: row[name] if to is None else to(row[name]) for name, to in self._takes}
            for row in values
        ]
        rows = [tuple(row.values()) for row in given] if self._by_place else given
        return connection.exec_driver_sql(self._text, rows if len(rows) > 1 else rows[0])


class Statements:
    """The statements in the dialect of one database, built once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._ready: dict[Executable, Ready] = {}  # each is of this package, and bound alike
        # A journal line is written once; a second one with its id must raise an error.
        self._journal = schema.journal.insert()
        self._jobs = self._put(schema.jobs)
        self._attempts = self._put(schema.attempts)
        self._profiles = self._put(schema.profiles)
        self._histories = self._put(schema.history)
        self._tokens = self._put(schema.tokens)
        self._keys = self._put(schema.keys)
        self.settings = self._put(schema.settings)
        self._secrets = self._put(schema.secrets)
        self._forget = delete(schema.secrets).where(schema.secrets.c.job == bindparam("gone"))
        self.outputs = self._put(schema.outputs)
        self.take_over = self._put(schema.writer)

    def run(
        self, connection: Connection, statement: Executable, values: Values
    ) -> CursorResult[Any]:
        """Carry out a statement for each of these values, of which there are some."""
        ready = self._ready.get(statement)
        if ready is None:
            ready = self._ready[statement] = Ready(statement, list(values[0]), self._dialect)
        return ready.run(connection, values)

    def groups(self, batch: Batch, first_line: int) -> Iterator[Group]:
        """The groups that have rows, in the order in which they are written."""
        for group in self._all(batch, first_line):
            if group.values:
                yield group

    def _all(self, batch: Batch, first_line: int) -> Iterator[Group]:
        lines = [
            {**row._asdict(), "id": number} for number, row in enumerate(batch.journal, first_line)
        ]
        yield Group("journal", self._journal, lines)
        yield Group("jobs", self._jobs, [row._asdict() for row in batch.jobs])
        launches = [{**row._asdict(), "device_count": len(row.devices)} for row in batch.attempts]
        yield Group("attempts", self._attempts, launches)
        yield Group("profiles", self._profiles, [row._asdict() for row in batch.profiles])
        yield Group("histories", self._histories, [row._asdict() for row in batch.histories])
        yield Group("tokens", self._tokens, [row._asdict() for row in batch.tokens])
        yield Group("keys", self._keys, [row._asdict() for row in batch.keys])
        values = [{"key": key, "value": value} for key, value in batch.settings.items()]
        yield Group("settings", self.settings, values)
        sealed = [{"job": job, "sealed": secret} for job, secret in batch.secrets.items()]
        yield Group("secrets", self._secrets, sealed)
        yield Group("forgotten", self._forget, [{"gone": job} for job in batch.forgotten])

    def _put(self, table: Table) -> Executable:
        """Insert, or replace the row with the same key."""
        statement: Any = (
            sqlite.insert(table) if self._dialect.name == "sqlite" else postgresql.insert(table)
        )
        columns = [column.name for column in table.columns if not column.primary_key]
        put: Executable = statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={name: statement.excluded[name] for name in columns},
        )
        return put
