"""The store against a model of dicts: batches, reopenings and deaths in any order."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.store.dying import POINTS, die_while_writing
from treadle.store.rows import (
    AttemptRow,
    Batch,
    JobFilter,
    JobRow,
    JournalRow,
    KeyRow,
    ProfileRow,
    TokenRow,
)
from treadle.store.store import Store

SPITEFUL = [
    "'; DROP TABLE jobs; --",
    '" OR 1=1',
    "%s %(a)s :a ?",
    "\\",
    "ß\u202e\U0001f9f5",
    "\x7f\r\n",
]
JOBS = ["a", "b", "'; --", "ä%s", "A"]  # a job's number is its place here
characters = st.characters(codec="utf-8", exclude_characters="\0")
words = st.sampled_from(SPITEFUL) | st.text(characters, max_size=12)
few = st.sampled_from(["", "ada", "'bob'", "%"])
bodies = words.map(str.encode)
moments = st.floats(0, 1e10, allow_nan=False)
maybe = st.none() | moments
wholes = st.integers(-(2**63) + 1, 2**63 - 1)
identities = st.sampled_from(JOBS)

jobs = st.builds(
    lambda identity, *rest: JobRow(identity, JOBS.index(identity), None, *rest),
    identities, few, words, few, few, few, wholes, moments, maybe, bodies, st.none() | bodies,
)  # fmt: skip
attempts = st.builds(
    AttemptRow,
    job=identities,
    number=st.integers(1, 3),
    action=wholes,
    owner=few,
    tenant=words,
    devices=st.lists(words, max_size=3).map(tuple),
    started_at=maybe,
    ended_at=maybe,
    busy=st.none() | st.floats(0, 1),
    failed=st.booleans(),
    body=bodies,
    nonce=words,
)
lines = st.builds(JournalRow, moments, moments, words, few, bodies, st.just(0))
tokens = st.builds(
    lambda identity, *rest: TokenRow(identity, f"digest {identity}", *rest),
    identities, words, few, words, moments, maybe, maybe, st.none() | wholes,
)  # fmt: skip
batches = st.builds(
    Batch,
    journal=st.lists(lines, max_size=4),
    jobs=st.lists(jobs, max_size=3),
    attempts=st.lists(attempts, max_size=3),
    profiles=st.lists(st.builds(ProfileRow, words, bodies, moments), max_size=2),
    tokens=st.lists(tokens, max_size=2),
    keys=st.lists(st.builds(KeyRow, few, few, words, bodies, moments), max_size=2),
    settings=st.dictionaries(words, words, max_size=2),
    secrets=st.dictionaries(identities, st.binary(max_size=9), max_size=2),
    forgotten=st.lists(identities, max_size=2),
)


class StoreMachine(RuleBasedStateMachine):
    url = ""  # a new one for each example

    def __init__(self) -> None:
        super().__init__()
        self.store = Store.open(self.url)
        self.lines: list[JournalRow] = []
        self.jobs: dict[str, JobRow] = {}
        self.attempts: dict[tuple[str, int], AttemptRow] = {}
        self.profiles: dict[str, ProfileRow] = {}
        self.tokens: dict[str, TokenRow] = {}
        self.keys: dict[tuple[str, str], KeyRow] = {}
        self.settings: dict[str, str] = {}
        self.secrets: dict[str, bytes] = {}

    def apply(self, batch: Batch) -> tuple[int, ...]:
        first = len(self.lines) + 1
        self.lines += [row._replace(id=number) for number, row in enumerate(batch.journal, first)]
        self.jobs.update({row.id: row for row in batch.jobs})
        self.attempts.update({(row.job, row.number): row for row in batch.attempts})
        self.profiles.update({row.key: row for row in batch.profiles})
        self.tokens.update({row.id: row for row in batch.tokens})
        self.keys.update({(row.owner, row.key): row for row in batch.keys})
        self.settings |= batch.settings
        self.secrets |= batch.secrets
        for name in batch.forgotten:
            self.secrets.pop(name, None)
        return tuple(range(first, len(self.lines) + 1))

    @rule(batch=batches)
    def write(self, batch: Batch) -> None:
        assert self.store.write(batch) == self.apply(batch)

    @rule(lines=st.integers(1, 5), keep=st.integers(0, 3))
    def close_a_segment(self, lines: int, keep: int) -> None:
        """Where lines are kept is not seen by those who read them."""
        ready = self.store.ready_segment(lines=lines, keep=keep)
        if ready is not None:
            self.store.close_segment(ready)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.url, lock_wait_s=20)

    @rule(batch=batches, point=st.sampled_from(POINTS))
    def die(self, batch: Batch, point: str) -> None:
        self.store.close()
        died = die_while_writing(self.url, batch, point)
        # A group without rows is not reached: then the batch was written to its end.
        if not died or point == "committed":
            self.apply(batch)
        self.store = Store.open(self.url, lock_wait_s=20)

    @invariant()
    def everything_is_there_and_nothing_else(self) -> None:
        store = self.store
        assert store.lines(0) == self.lines
        assert store.last_line() == len(self.lines)
        for limit in (1, 3):
            assert store.lines_last(limit=limit) == self.lines[-limit:]
            assert store.lines(1, limit=limit) == self.lines[1 : 1 + limit]
        for name in {row.job for row in self.lines} - {""}:
            mine_ = [row for row in self.lines if row.job == name]
            assert store.lines(0, job=name) == mine_ == store.lines_last(job=name)
        newest = sorted(self.jobs.values(), key=lambda row: -row.number)
        assert store.jobs(JobFilter()) == newest
        assert store.active() == [row for row in reversed(newest) if row.ended_at is None]
        for name in JOBS:
            mine = sorted(row for row in self.attempts.values() if row.job == name)
            assert store.attempts(name) == mine
            assert store.secret(name) == self.secrets.get(name)
        going_on = [row for row in self.attempts.values() if row.ended_at is None]
        assert store.open_attempts() == sorted(
            going_on, key=lambda row: (row.action, row.job, row.number)
        )
        assert {row.id: row for row in store.tokens()} == self.tokens
        assert all(store.key(*pair) == row for pair, row in self.keys.items())
        assert store.settings() == self.settings
        assert all(store.setting(key) == value for key, value in self.settings.items())
        ranked = sorted(self.profiles.values(), key=lambda row: (row.changed_at, row.key))
        assert store.profiles(99) == ranked[::-1]

    @rule(owner=few, since_at=moments, until_at=moments, now_at=moments)
    def ask(self, owner: str, since_at: float, until_at: float, now_at: float) -> None:
        found = self.store.jobs(JobFilter(owner=owner, ended=False))
        assert {row.id for row in found} == {
            row.id
            for row in self.jobs.values()
            if row.ended_at is None and owner in ("", row.owner)
        }
        sums = self.store.usage(since_at, until_at, now_at)
        for owner_, tenant in {(row.owner, row.tenant) for row in sums}:
            total = next(row for row in sums if row[:2] == (owner_, tenant))
            mine = [r for r in self.attempts.values() if (r.owner, r.tenant) == (owner_, tenant)]
            shares = [_share_s(row, since_at, until_at, now_at=now_at) for row in mine]
            known = [
                s * row.busy for s, row in zip(shares, mine, strict=True) if row.busy is not None
            ]
            assert total.allocated_s == pytest.approx(sum(shares))
            assert total.used_s is None or total.used_s == pytest.approx(sum(known))

    def teardown(self) -> None:
        self.store.close()


def _share_s(row: AttemptRow, since_at: float, until_at: float, *, now_at: float) -> float:
    if row.started_at is None:
        return 0.0
    ended_at = now_at if row.ended_at is None else row.ended_at
    length_s = min(ended_at, until_at) - max(row.started_at, since_at)
    return max(0.0, length_s) * len(row.devices)


@pytest.mark.slow
def test_the_store_behaves_as_dicts_that_survive(make_url: Callable[[], str]) -> None:
    class MachineOnADatabase(StoreMachine):
        def __init__(self) -> None:
            self.url = make_url()
            super().__init__()

    run_state_machine_as_test(
        MachineOnADatabase,
        settings=settings(
            max_examples=6,
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
