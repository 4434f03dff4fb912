"""A batch as SQL statements: which rows are inserted, replaced or deleted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Executable, Table, bindparam, delete, update
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


class Statements:
    """The statements in the dialect of one database, built once."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
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
            sqlite.insert(table) if self._kind == "sqlite" else postgresql.insert(table)
        )
        columns = [column.name for column in table.columns if not column.primary_key]
        put: Executable = statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={name: statement.excluded[name] for name in columns},
        )
        return put
