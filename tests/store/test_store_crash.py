"""A writer is killed: the batch is there as a whole or not at all, and the next one goes on."""

import signal
from random import Random

import pytest

from tests.forked import context
from tests.store.dying import JOIN_S, POINTS, die_while_writing, joined, write_until_killed
from tests.store.made import ATTEMPT, HISTORY, JOB, KEY, LINE, PROFILE, TOKEN
from treadle.store.rows import Batch
from treadle.store.store import Store

OLD = Batch(journal=[LINE], jobs=[JOB], settings={"policy": "fifo"}, secrets={"gone": b"1"})
NEW = Batch(
    journal=[LINE, LINE],
    jobs=[JOB._replace(state="running")],
    attempts=[ATTEMPT],
    profiles=[PROFILE],
    histories=[HISTORY],
    tokens=[TOKEN],
    keys=[KEY],
    settings={"policy": "las"},
    secrets={"a": b"2"},
    forgotten=["gone"],
)


@pytest.mark.parametrize("point", POINTS)
def test_a_writer_killed_at_any_point_has_written_all_or_nothing(url: str, point: str) -> None:
    with Store.open(url) as store:
        store.write(OLD)
    assert die_while_writing(url, NEW, point)
    with Store.open(url, lock_wait_s=20) as store:
        written = point == "committed"
        assert len(store.lines(0)) == (3 if written else 1)
        assert store.last_line() == (3 if written else 1)
        assert store.job("a") == (NEW if written else OLD).jobs[0]
        assert store.attempts("a") == (NEW.attempts if written else [])
        assert store.profiles(9) == (NEW.profiles if written else [])
        assert store.histories("a") == (NEW.histories if written else [])
        assert store.tokens() == (NEW.tokens if written else [])
        assert (store.key("ada", "k1") is not None) == written
        assert store.setting("policy") == ("las" if written else "fifo")
        assert (store.secret("a"), store.secret("gone")) == (
            (b"2", None) if written else (None, b"1")
        )
        first = store.last_line() + 1
        assert store.write(NEW) == (first, first + 1)


def test_a_writer_killed_at_any_moment_leaves_a_beginning_of_what_it_wrote(url: str) -> None:
    random = Random(5)
    seen = 0
    for _ in range(12):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=write_until_killed, args=(url, theirs))
        child.start()
        theirs.close()
        # Let it confirm some numbers; then kill it wherever it is.
        for _ in range(random.randint(1, 20)):
            assert ours.poll(JOIN_S)
            seen = ours.recv()
        child.kill()
        assert joined(child) == -signal.SIGKILL
        child.close()
        while ours.poll(0):
            try:
                seen = ours.recv()
            except EOFError:
                break
        ours.close()
        with Store.open(url, lock_wait_s=20) as store:
            number = int(store.setting("number") or "0")
            # What was confirmed is there; one more may be, whose confirmation was killed.
            assert number in (seen, seen + 1)
            lines = store.lines(0, limit=10_000)
            assert [row.id for row in lines] == list(range(1, 2 * number + 1))
            assert [row.at for row in lines] == [1.0 + index // 2 for index in range(2 * number)]
            seen = number
