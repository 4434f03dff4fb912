"""Closed segments: the same lines, elsewhere; and what is left of jobs that are pruned."""

from tests.store.made import JOB, LINE
from treadle.store.rows import Batch, JobFilter
from treadle.store.store import Store


def close(store: Store, *, lines: int, keep: int) -> bool:
    ready = store.ready_segment(lines=lines, keep=keep)
    if ready is not None:
        store.close_segment(ready)
    return ready is not None


def filled(store: Store, count: int = 12) -> None:
    rows = [
        LINE._replace(job="ab"[n % 2], kind=f"K{n % 3}", wall_at=float(n)) for n in range(count)
    ]
    store.write(Batch(journal=rows))


def test_lines_of_segments_are_read_like_those_of_the_journal(store: Store) -> None:
    filled(store)
    before = store.lines(0)
    assert close(store, lines=5, keep=3)
    assert close(store, lines=4, keep=3)
    assert not close(store, lines=4, keep=3), "too few would stay"
    assert [(s.first, s.last, s.lines) for s in store.segments()] == [(1, 5, 5), (6, 9, 4)]
    assert store.lines(0) == before
    assert [row.id for row in store.lines(4, limit=3)] == [5, 6, 7]
    assert [row.id for row in store.lines(4, job="a")] == [5, 7, 9, 11]
    assert [row.id for row in store.lines(0, kinds=("K0", "K1"), job="b")] == [2, 4, 8, 10]
    assert [row.id for row in store.lines_last(limit=2)] == [11, 12]
    assert [row.id for row in store.lines_last(limit=7)] == [6, 7, 8, 9, 10, 11, 12]
    assert [row.id for row in store.lines_last(job="a", kinds=("K0",), limit=2)] == [1, 7]
    store.write(Batch(journal=[LINE]))
    assert store.lines(12)[0].id == 13, "ids go on where they were"


def test_a_reader_goes_on_behind_lines_that_are_gone(store: Store) -> None:
    filled(store)
    close(store, lines=6, keep=3)
    segment = store.segments(thinned=False)[0]
    kept = [row for row in store.segment_lines(segment) if row.id in (2, 5)]
    store.rewrite_segment(segment, kept, thinned=True)
    assert store.segments(thinned=False) == []
    assert [row.id for row in store.lines(0, limit=4)] == [2, 5, 7, 8]
    assert [row.id for row in store.lines(2, limit=2)] == [5, 7]
    assert [row.id for row in store.lines(0, job="a", limit=2)] == [5, 7]


def test_a_job_that_is_forgotten_leaves_nothing_behind(store: Store) -> None:
    rows = [JOB._replace(id=name, number=n, ended_at=9.0) for n, name in enumerate("abc", 1)]
    store.write(Batch(jobs=rows))
    filled(store)
    close(store, lines=6, keep=3)
    assert [row.id for row in store.ended_before(10.0)] == ["a", "b", "c"]
    assert store.forget_jobs(["a", "c"]) == 6
    assert {row.job for row in store.lines(0)} == {"b"}
    assert store.lines(0, job="a") == []
    assert [row.id for row in store.jobs(JobFilter())] == ["b"]
    assert store.next_number() == 4, "numbers are not given again"


def test_lines_of_an_array_go_with_its_last_job(store: Store) -> None:
    rows = [
        JOB._replace(id=f"7_{n}", number=7, member=n, array="7", ended_at=9.0) for n in range(2)
    ]
    store.write(Batch(jobs=rows, journal=[LINE._replace(job="7"), LINE._replace(job="7_0")]))
    store.forget_jobs(["7_0"])
    assert [row.job for row in store.lines(0)] == ["7"]
    store.forget_jobs(["7_1"])
    assert store.lines(0) == []


def test_what_jobs_left_is_listed_oldest_first_until_it_is_pruned(store: Store) -> None:
    rows = [JOB._replace(id=name, number=n, ended_at=9.0 - n) for n, name in enumerate("abc", 1)]
    store.write(Batch(jobs=[*rows, JOB._replace(id="d", number=4, ended_at=None)]))
    found, after = store.unmeasured(2)
    assert [row.job for row in found] == ["a", "b"]
    more, end = store.unmeasured(2, after=after)
    assert [row.job for row in more] == ["c"]
    assert end is None
    measured = [row._replace(bytes=100) for row in (*found, *more)]
    store.put_outputs(measured)
    assert store.unmeasured(10) == ([], None)
    assert [row.job for row in store.outputs()] == ["c", "b", "a"]
    assert [row.job for row in store.outputs(after=(6.0, "c"), limit=1)] == ["b"]
    store.put_outputs([measured[2]._replace(bytes=0, pruned_at=20.0)])
    assert store.output_bytes() == store.output_bytes(JOB.owner) == 200
    assert store.outputs(owner="nobody") == []
    pruned = store.output("c")
    assert pruned is not None
    assert pruned.pruned_at == 20.0
