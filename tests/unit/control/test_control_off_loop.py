"""Nothing that may block runs on the event loop: no question to the store, no file of ours."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event

from tests.unit.control.memory import ME, Bench
from treadle.control.api import LiveService
from treadle.control.jobs import job_table as table_module
from treadle.control.loop import Condition, StoreReads, off_loop
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.store.errors import StoreError
from treadle.store.store import Store
from treadle.wire.jobs import Code, JobChange, JobRequest
from treadle.wire.machine import TokenRequest

FILES = ("open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename")


class Audit:
    """What the thread of the loop did that may block."""

    def __init__(self, root: Path, store: Store) -> None:
        self.found: list[str] = []
        self._root = str(root)
        self._thread = threading.get_ident()
        self._on = True
        sys.addaudithook(self._file)  # There is no way to take it away again, but to switch it off.
        for engine in (store._backend.reading, store._backend.writing):
            event.listen(engine, "before_cursor_execute", self._statement)

    def end(self) -> None:
        self._on = False

    def _file(self, name: str, given: tuple[object, ...]) -> None:
        if self._on and name in FILES and threading.get_ident() == self._thread:
            path = str(given[0])
            if path.startswith(self._root):
                self.found.append(f"{name} {path}")

    def _statement(self, *given: object) -> None:
        if self._on and threading.get_ident() == self._thread:
            self.found.append(str(given[2]))


@contextmanager
def audited(live: LiveService, root: Path) -> Iterator[Audit]:
    audit = Audit(root, live.context.store)
    try:
        yield audit
    finally:
        audit.end()


async def ask_everything(live: LiveService, ended: str, waiting: str) -> None:
    """Every question and order of the API."""
    for identity in (ended, waiting):
        await live.job(identity)
        await live.why(identity)
    await live.log(ended)
    for past in (False, True):
        await live.jobs(ended=past, limit=3)
    await live.dry_run(ME, JobRequest(command=("true",), after=(ended,)))
    await live.submit(ME, JobRequest(command=("true",), after=(ended,)), key="one")
    await live.submit(ME, JobRequest(command=("true",), after=(ended,)), key="one")
    await live.change(ME, waiting, JobChange(name="other"))
    for order in (live.hold, live.release, live.cancel):
        await order(ME, waiting)
    await live.events(limit=5)
    await live.events_last(job=ended)
    await live.usage()
    await live.snapshot()
    await live.debug()
    me = live.who_of_uid(os.geteuid())
    made = await live.make_token(me, TokenRequest(name="mine"))
    assert live.who_of_token(made.token) is not None
    await live.revoke_token(me, live.tokens(me)[0].id)
    assert b"".join([piece async for piece in live.journal()])
    followed = live.follow(after=0)
    await anext(followed)
    for _ in (live.status(), live.nodes(), live.policy(), live.figures(), live.tokens(ME)):
        continue


def test_a8_no_question_to_the_store_and_no_file_is_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "ENDED_MAX", 2)

    async def story() -> None:
        here = Bench(tmp_path, MemoryWorld.of(Node("here", 4, "none")), "backfill")
        live = here.live
        await live.begin()
        code = Code(commit="c" * 40, dirty=True, diff="- one\n+ two\n")
        done = await live.submit(ME, JobRequest(command=("true",), array="0-5", code=code))
        await here.settle()
        assert live.context.jobs.record(done.jobs[0]) is None, "it must come from the store"
        waiting = await here.submit("forever", held=True)
        with audited(live, tmp_path) as audit:
            await ask_everything(live, done.jobs[0], waiting)
            await here.settle()
            assert audit.found == []
            # The audit itself does see such things.
            live.context.store.last_line()
            (tmp_path / "file").write_text("")
            assert len(audit.found) == 2
        await live.close()

    asyncio.run(asyncio.wait_for(story(), 180))


def test_a_store_that_does_not_answer_is_refused_at_once_and_probed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Two reads wait in vain. 2. The next is refused at once. 3. They return: all is well."""
    monkeypatch.setattr(off_loop, "PROBE_EVERY_S", 600.0)

    async def story(store: Store) -> None:
        condition, gate = Condition(), threading.Event()
        reads = StoreReads(store, condition, within_s=0.05)
        for _ in range(off_loop.MISSES):
            with pytest.raises(StoreError, match=r"has not answered for 0\.05 s"):
                await reads.ask(lambda _: gate.wait())
        assert "has not answered" in condition.store_silent
        asked: list[Store] = []
        with pytest.raises(StoreError, match="has not answered"):
            await reads.ask(asked.append)
        assert asked == []
        gate.set()
        while condition.store_silent:
            await asyncio.sleep(0.001)
        assert await reads.ask(Store.last_line) == 0
        reads.close()

    with Store.open(f"sqlite:///{tmp_path / 'treadle.db'}") as store:
        asyncio.run(asyncio.wait_for(story(store), 180))


@pytest.mark.parametrize(
    ("unreached", "retryable", "said"),
    [
        (True, True, r"has not answered for 0 s \(the disk\)"),
        (True, False, r"has not answered for 0 s \(the disk\)"),
        (False, True, "^the disk$"),
        (False, False, "^the disk$"),
    ],
)
def test_an_error_that_comes_late_is_silence_only_if_the_store_was_not_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unreached: bool, retryable: bool, said: str
) -> None:
    monkeypatch.setattr(off_loop, "SLOW_S", 0.0)
    condition = Condition()

    def fail(_: Store) -> None:
        raise StoreError("the disk", retryable=retryable, unreached=unreached)

    async def story(store: Store) -> None:
        reads = StoreReads(store, condition)
        with pytest.raises(StoreError, match=said) as found:
            await reads.ask(fail)
        assert found.value.retryable is (retryable or unreached)
        reads.close()

    with Store.open(f"sqlite:///{tmp_path / 'treadle.db'}") as store:
        asyncio.run(asyncio.wait_for(story(store), 180))
    assert bool(condition.store_silent) is unreached
