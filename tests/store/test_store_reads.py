"""What is written is read back, in the order and the pages that are promised; on both databases."""

import pytest
from sqlalchemy import Select, delete

from tests.store.made import ATTEMPT, JOB, KEY, LINE, PROFILE, TOKEN, attempt, job, line
from treadle.store import queries, schema
from treadle.store.rows import Batch, JobFilter, UsageSum
from treadle.store.store import Store

EVERYTHING = Batch(
    journal=[LINE, line()],
    jobs=[JOB],
    attempts=[ATTEMPT],
    profiles=[PROFILE],
    tokens=[TOKEN],
    keys=[KEY],
    settings={"policy": "fifo"},
    secrets={"a": b"\x00\xffsealed"},
)


def test_an_empty_store_answers_every_question_with_nothing(store: Store) -> None:
    several = [store.active(), store.open_attempts(), store.lines(0), store.tokens()]
    assert several == [[], [], [], []]
    one = [store.job("a"), store.secret("a"), store.key("a", "k"), store.setting("x")]
    assert one == [None] * 4
    assert store.settings() == {}
    assert (store.last_line(), store.next_number()) == (0, 1)
    assert [store.usage(0, None, 10), store.profiles(9), store.jobs(JobFilter())] == [[], [], []]


def test_the_ids_of_a_batch_ascend_by_one_and_go_on_after_a_reopening(url: str) -> None:
    with Store.open(url) as store:
        assert store.write(Batch(journal=[LINE, LINE, LINE])) == (1, 2, 3)
        assert store.write(Batch(jobs=[JOB])) == ()
        assert store.write(Batch(journal=[LINE])) == (4,)
    with Store.open(url) as store:
        assert store.last_line() == 4
        assert store.write(Batch(journal=[LINE])) == (5,)


def test_of_too_many_profiles_those_that_changed_last_stay(store: Store) -> None:
    rows = [PROFILE._replace(key=f"{age}", changed_at=1000.0 - age) for age in range(7)]
    store.write(Batch(profiles=rows))
    assert store.prune(keys_before_at=0.0, tokens_before_at=0.0, profiles=7) == 0
    assert store.prune(keys_before_at=0.0, tokens_before_at=0.0, profiles=3) == 4
    assert store.profiles(99) == rows[:3]


def test_active_jobs_come_by_number_and_member(store: Store) -> None:
    rows = [
        job("z", 10),
        job("m1", 2, member=1, array="m"),
        job("m10", 2, member=10, array="m"),
        job("m0", 2, member=0, array="m"),
        job("gone", 1, ended_at=5.0),
    ]
    store.write(Batch(jobs=rows))
    assert [row.id for row in store.active()] == ["m0", "m1", "m10", "z"]
    assert store.next_number() == 11


def test_pages_of_jobs_show_each_of_them_once_newest_first(store: Store) -> None:
    members = [job(f"m{member}", 3, member=member, array="m") for member in range(7)]
    store.write(Batch(jobs=[job("a", 1), job("b", 2), *members, job("c", 4)]))
    seen, before = [], None
    while page := store.jobs(JobFilter(), before=before, limit=3):
        seen += [row.id for row in page]
        last = page[-1]
        before = (last.number, -1 if last.member is None else last.member)
    assert seen == ["c", "m6", "m5", "m4", "m3", "m2", "m1", "m0", "b", "a"]


def test_filters_of_jobs(store: Store) -> None:
    rows = [
        job("a", 1),
        job("b", 2, owner="bob", tenant="speech", state="done", ended_at=5.0),
        job("c", 3, name="bert"),
        job("d", 4, name="bert", owner="bob", state="failed", ended_at=6.0, array="x", member=0),
    ]
    store.write(Batch(jobs=rows))
    for wanted, found in FILTERS:
        assert "".join(row.id for row in store.jobs(wanted)) == found, wanted


FILTERS = [
    (JobFilter(), "dcba"),
    (JobFilter(owner="ada"), "ca"),
    (JobFilter(tenant="speech"), "b"),
    (JobFilter(name="bert"), "dc"),
    (JobFilter(array="x"), "d"),
    (JobFilter(states=("done", "failed")), "db"),
    (JobFilter(ended=True), "db"),
    (JobFilter(ended=False), "ca"),
    (JobFilter(owner="ada", name="bert", ended=False), "c"),
    (JobFilter(owner="nobody"), ""),
]


def test_lines_are_read_after_an_id_by_job_and_by_kind(store: Store) -> None:
    rows = [line("ab"[number % 2], kind=f"K{number % 3}") for number in range(12)]
    store.write(Batch(journal=rows))
    assert [row.id for row in store.lines(4, limit=3)] == [5, 6, 7]
    assert [row.id for row in store.lines(4, job="a")] == [5, 7, 9, 11]
    assert [row.id for row in store.lines(0, kinds=("K0", "K1"), job="b")] == [2, 4, 8, 10]
    assert [row.id for row in store.lines_last(limit=2)] == [11, 12]
    assert [row.id for row in store.lines_last(job="a", kinds=("K0",), limit=1)] == [7]
    assert store.lines(0, limit=0) == store.lines(12) == []
    assert store.lines(11) == [rows[11]._replace(id=12)]


@pytest.mark.parametrize("number", [10**30, -(10**30)])
def test_numbers_beyond_the_database_are_no_error_of_a_read(store: Store, number: int) -> None:
    store.write(EVERYTHING)
    assert len(store.lines(number)) == (0 if number > 0 else 2)
    assert len(store.jobs(JobFilter(), before=(number, number))) == (1 if number > 0 else 0)
    assert len(store.lines(0, limit=number)) == (2 if number > 0 else 0)


def test_usage_is_clipped_to_the_window_and_counts_open_attempts_until_now(store: Store) -> None:
    store.write(
        Batch(
            attempts=[
                attempt("before", started_at=0.0, ended_at=100.0),
                attempt("across", started_at=50.0, ended_at=150.0, busy=0.5),
                attempt("inside", started_at=110.0, ended_at=120.0, failed=True, devices=("x",)),
                attempt("open", started_at=190.0),
                attempt("later", started_at=200.0, ended_at=300.0),
                attempt("never", started_at=None),
                attempt("backwards", started_at=150.0, ended_at=149.0, owner="bob"),
                attempt("other", started_at=100.0, ended_at=110.0, tenant="speech"),
            ]
        )
    )
    assert store.usage(100.0, 200.0, 195.0) == [
        UsageSum("ada", "speech", 1, 20.0, None, 0.0),
        UsageSum("ada", "vision", 3, 100.0 + 10.0 + 10.0, 50.0, 10.0),
        UsageSum("bob", "vision", 1, 0.0, None, 0.0),
    ]


@pytest.mark.parametrize("since_at", [0.0, 1000.0])
def test_usage_is_read_from_an_index_alone(sqlite_url: str, since_at: float) -> None:
    """A row of an attempt is ten times as long as what a sum needs of it."""
    with Store.open(sqlite_url) as store, store._backend.reading.connect() as connection:
        query = queries.usage(since_at, None, now_at=2000.0)
        assert isinstance(query, Select)
        text = query.compile(connection.engine, compile_kwargs={"literal_binds": True})
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all()
    assert any("USING COVERING INDEX attempts_by_owner" in row[3] for row in plan), plan


def test_profiles_come_newest_first(store: Store) -> None:
    store.write(Batch(profiles=[PROFILE._replace(key=k, changed_at=at) for k, at in _CHANGES]))
    assert [row.key for row in store.profiles(3)] == ["c", "b", "a"]


_CHANGES = (("a", 2.0), ("b", 2.0), ("c", 9.0), ("d", 1.0))


def test_pruning_deletes_old_idempotency_keys(store: Store) -> None:
    fresh = KEY._replace(key="k2", made_at=5000.0)
    store.write(Batch(keys=[KEY, fresh]))
    assert store.prune(keys_before_at=2000.0, tokens_before_at=0.0, profiles=9) == 1
    assert (store.key("ada", "k1"), store.key("ada", "k2")) == (None, fresh)


def test_pruning_deletes_tokens_that_expired_long_ago(store: Store) -> None:
    ends = (None, 10.0, 20.0)
    store.write(
        Batch(
            tokens=[TOKEN._replace(id=f"t{end}", digest=f"d{end}", expires_at=end) for end in ends]
        )
    )
    assert store.prune(keys_before_at=0.0, tokens_before_at=15.0, profiles=9) == 1
    assert [row.expires_at for row in store.tokens()] == [20.0, None]


def test_pruning_takes_as_many_transactions_as_it_needs(store: Store) -> None:
    store.write(Batch(keys=[KEY._replace(key=f"k{number}") for number in range(1201)]))
    counts = [
        store.prune(keys_before_at=2000.0, tokens_before_at=0.0, profiles=9) for _ in range(4)
    ]
    assert counts == [500, 500, 201, 0]


def test_ids_of_deleted_lines_are_not_given_again(url: str) -> None:
    with Store.open(url) as store:
        store.write(Batch(journal=[line()] * 3))
        with store._backend.writing.begin() as connection:
            connection.execute(delete(schema.journal))
    with Store.open(url) as store:
        assert store.last_line() == 3
        assert store.write(Batch(journal=[line()])) == (4,)


def test_it_is_known_whether_a_record_names_a_difference_of_code(store: Store) -> None:
    named, other = "a" * 64, "b" * 64
    store.write(Batch(jobs=[JOB._replace(record=f'{{"diff":"{named}"}}'.encode())]))
    assert (store.names_diff(named), store.names_diff(other)) == (True, False)
    store.forget_jobs([JOB.id])
    assert not store.names_diff(named)
