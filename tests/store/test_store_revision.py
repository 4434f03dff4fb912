"""Tables that are not this Treadle's are refused with a sentence."""

import pytest
from sqlalchemy import text

from treadle.store.errors import StoreError
from treadle.store.rows import (
    AttemptRow,
    HistoryRow,
    JobRow,
    JournalRow,
    KeyRow,
    ProfileRow,
    TokenRow,
)
from treadle.store.schema import REVISION, REVISION_TABLE, metadata
from treadle.store.store import Store


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("journal", JournalRow),
        ("jobs", JobRow),
        ("profiles", ProfileRow),
        ("history", HistoryRow),
        ("tokens", TokenRow),
        ("keys", KeyRow),
    ],
)
def test_columns_stand_in_the_order_of_the_rows(table: str, row: type) -> None:
    assert tuple(metadata.tables[table].columns.keys()) == row._fields  # type: ignore[attr-defined]


def test_attempts_have_one_column_more_for_sums() -> None:
    assert tuple(metadata.tables["attempts"].columns.keys()) == (
        *AttemptRow._fields,
        "device_count",
    )


def test_a_store_of_another_treadle_is_refused(url: str) -> None:
    with Store.open(url) as store, store._backend.writing.connect() as connection:
        connection.execute(text(f"UPDATE {REVISION_TABLE} SET version_num = '0999'"))
        connection.commit()
    with pytest.raises(StoreError) as found:
        Store.open(url)
    assert str(found.value).endswith(
        f"was written by another Treadle (revision 0999, this one knows {REVISION}); install that "
        "Treadle or name another store"
    )
    assert not found.value.retryable


def test_a_database_of_another_program_is_left_alone(url: str) -> None:
    with Store.open(url) as store, store._backend.writing.connect() as connection:
        connection.execute(text(f"DROP TABLE {REVISION_TABLE}"))
        connection.commit()
    with pytest.raises(StoreError, match="has a table attempts that Treadle did not make"):
        Store.open(url)
