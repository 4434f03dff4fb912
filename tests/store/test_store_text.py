"""Text from strangers: kept exactly, or refused with a sentence; never read as a command."""

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.store.made import ATTEMPT, JOB, KEY, LINE, PROFILE, TOKEN
from treadle.core.errors import InvalidInputError
from treadle.store.rows import Batch, JobFilter
from treadle.store.store import Store

patient = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)


def _everywhere(word: str) -> Batch:
    body = word.encode()
    return Batch(
        journal=[LINE._replace(kind=word, job=word, body=body)],
        jobs=[
            JOB._replace(
                id=word,
                array=word,
                name=word,
                owner=word,
                tenant=word,
                state=word,
                record=body,
                row=body,
            )
        ],
        attempts=[
            ATTEMPT._replace(job=word, owner=word, tenant=word, devices=(word, word), body=body)
        ],
        profiles=[PROFILE._replace(key=word, body=body)],
        tokens=[TOKEN._replace(digest=word, name=word, owner=word, role=word)],
        keys=[KEY._replace(owner=word, key=word, digest=word, body=body)],
        settings={word: word},
        secrets={word: body},
    )


@patient
@given(word=texts)
@example(word="'; DROP TABLE jobs; --")
@example(word='"; DELETE FROM journal; --')
@example(word="%s%(id)s:id?$1{}\\")
@example(word="' OR ''='")
@example(word="\U0001f9f5ß\u202e\ufffe")
@example(word="")
def test_any_text_is_kept_and_found_in_every_column(store: Store, word: str) -> None:
    batch = _everywhere(word)
    # Two jobs may not have one number.
    batch.jobs[0] = batch.jobs[0]._replace(number=store.next_number())
    (number,) = store.write(batch)
    assert store.lines(number - 1) == [batch.journal[0]._replace(id=number)]
    assert batch.journal[0]._replace(id=number) in store.lines_last(job=word, kinds=(word,))
    assert store.job(word) == batch.jobs[0]
    wanted = JobFilter(states=(word,), owner=word, tenant=word, array=word, name=word)
    assert batch.jobs[0] in store.jobs(wanted)
    assert store.attempts(word) == batch.attempts
    assert batch.profiles[0] in store.profiles(1000)
    assert batch.tokens[0] in store.tokens()
    assert store.key(word, word) == batch.keys[0]
    assert store.setting(word) == word
    assert store.secret(word) == word.encode()
    assert word in {row.owner for row in store.usage(0, None, 2000)}


BROKEN = {
    "a\0b": "contains a NUL character, which the store cannot keep",
    "\ud800": "contains half of a surrogate pair, which is not text",
    "ä" * 600: "has 1200 bytes, at most 1024 are allowed",
}
FIELDS: list[tuple[str, Any, tuple[str, ...]]] = [
    ("journal", LINE, ("kind", "job")),
    ("jobs", JOB, ("id", "array", "name", "owner", "tenant", "state")),
    ("attempts", ATTEMPT, ("job", "owner", "tenant")),
    ("profiles", PROFILE, ("key",)),
    ("tokens", TOKEN, ("id", "digest", "name", "owner", "role")),
    ("keys", KEY, ("owner", "key", "digest")),
]


@pytest.mark.parametrize("word", BROKEN, ids=["nul", "surrogate", "long"])
def test_text_that_one_database_cannot_keep_is_refused_by_both(store: Store, word: str) -> None:
    for table, row, fields in FIELDS:
        for field in fields:
            batch = Batch(settings={"a": "b"})
            getattr(batch, table).append(row._replace(**{field: word}))
            with pytest.raises(InvalidInputError) as found:
                store.write(batch)
            assert str(found.value) == f"the field {field} of {table} {BROKEN[word]}"
    assert store.settings() == {}


REFUSED = [
    (
        Batch(journal=[LINE._replace(body=b"a\0")]),
        "body of journal contains a NUL byte, which the store cannot keep",
    ),
    (
        Batch(jobs=[JOB._replace(record=b"\xff")]),
        "record of jobs is not UTF-8, but JSON is expected",
    ),
    (
        Batch(attempts=[ATTEMPT._replace(devices=("x", "\0"))]),
        "devices of attempts contains a NUL character, which the store cannot keep",
    ),
    (
        Batch(attempts=[ATTEMPT._replace(busy=float("nan"))]),
        "busy of attempts is nan, but a finite number is expected",
    ),
    (
        Batch(journal=[LINE._replace(at=float("inf"))]),
        "at of journal is inf, but a finite number is expected",
    ),
    (
        Batch(jobs=[JOB._replace(priority=2**63)]),
        "priority of jobs is 9223372036854775808, beyond 64 bits",
    ),
    (
        Batch(jobs=[JOB._replace(member=-1)]),
        "member of jobs is -1, but members are numbered from 0",
    ),
    (
        Batch(settings={"a": "\0"}),
        "value of settings contains a NUL character, which the store cannot keep",
    ),
    (
        Batch(secrets={"\0": b""}),
        "job of secrets contains a NUL character, which the store cannot keep",
    ),
    (
        Batch(forgotten=["\0"]),
        "job of secrets contains a NUL character, which the store cannot keep",
    ),
]


def test_values_that_one_database_cannot_keep_are_refused_by_both(store: Store) -> None:
    for batch, sentence in REFUSED:
        with pytest.raises(InvalidInputError) as found:
            store.write(batch)
        assert str(found.value) == f"the field {sentence}"
    assert store.write(Batch(journal=[LINE])) == (1,)


def test_long_values_that_no_index_holds_are_kept(store: Store) -> None:
    word = "".join(chr(0x4E00 + number) for number in range(341))  # 1,023 bytes, nothing repeats
    long = "x" * 3_000_000
    store.write(_everywhere(word))
    store.write(Batch(settings={"a": long}, journal=[LINE._replace(body=long.encode())]))
    assert store.job(word) is not None
    assert store.setting("a") == long


@pytest.mark.parametrize("word", ["\0", "\ud800"])
def test_text_that_cannot_be_there_is_not_found(store: Store, word: str) -> None:
    store.write(_everywhere("x"))
    assert [store.job(word), store.secret(word), store.setting(word)] == [None] * 3
    assert [store.key(word, "x"), store.key("x", word)] == [None] * 2
    assert store.attempts(word) == []
    assert store.lines(0, job=word) == store.lines(0, kinds=(word,)) == []
    assert store.jobs(JobFilter(states=("x", word))) == store.jobs(JobFilter(name=word)) == []
