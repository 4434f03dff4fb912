"""Somebody who waits for an order goes before those who wait for an answer."""

import threading
from pathlib import Path
from time import monotonic

from tests.unit.control.memory import Bench, play
from treadle.control.loop.orders_first import PASSED, REST_S, OrdersUnderWay


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


def test_a_submission_is_answered_before_the_policy_decides(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        await here.submit("forever")
        await here.settle()
        decisions = here.live.context.scheduler.decisions
        await here.submit("forever")
        assert here.live.context.scheduler.decisions == decisions
        await here.settle()
        assert here.live.context.scheduler.decisions > decisions

    play(story, tmp_path)
