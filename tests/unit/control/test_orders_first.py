"""Somebody who waits for an order goes before those who wait for an answer."""

import threading
from pathlib import Path
from time import monotonic

import pytest

from tests.unit.control.memory import Bench, play
from treadle.control.loop import commit, controller
from treadle.control.loop.orders_first import PASSED, REST_S, OrdersUnderWay
from treadle.store.rows import Batch
from treadle.wire.jobs import State


def test_a_computation_rests_until_the_order_is_over() -> None:
    orders, rested = OrdersUnderWay(), threading.Event()

    def compute() -> None:
        orders.rest()
        rested.set()

    with orders.one():
        with orders.one():
            assert orders.number == 2
        thread = threading.Thread(target=compute)
        thread.start()
    assert rested.wait(30)
    thread.join()
    assert orders.number == 0


def test_orders_without_end_do_not_keep_a_computation() -> None:
    """It rests once, and passes the next places without a rest."""
    orders = OrdersUnderWay()
    with orders.one():
        orders.rest()
        begun_s = monotonic()
        for _ in range(PASSED):
            orders.rest()
        assert monotonic() - begun_s < PASSED * REST_S / 2


def test_a_submission_is_answered_before_the_policy_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "QUICK_S", 0.0)

    async def story(here: Bench) -> None:
        await here.submit("forever")
        await here.settle()
        decisions = here.live.context.scheduler.decisions
        await here.submit("forever")
        assert here.live.context.scheduler.decisions == decisions
        await here.settle()
        assert here.live.context.scheduler.decisions > decisions

    play(story, tmp_path)


def test_a_quick_decision_is_written_with_the_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "QUICK_S", 60.0)
    monkeypatch.setattr(commit, "LATER_S", 60.0)  # So that no other write comes between.

    async def story(here: Bench) -> None:
        written: list[list[str]] = []
        write = here.live.context.store.write

        def note(batch: Batch) -> tuple[int, ...]:
            written.append([row.kind for row in batch.journal if row.kind != "Decided"])
            return write(batch)

        monkeypatch.setattr(here.live.context.store, "write", note)
        first = await here.submit("forever")
        await here.reached(first, State.RUNNING)
        await here.submit("forever", held=True)
        submitted = ["JobAccepted", "JobSubmitted"]
        assert written == [
            [*submitted, "Start"],
            ["JobStarted", *submitted, "JobHeld"],
        ]

    play(story, tmp_path)
