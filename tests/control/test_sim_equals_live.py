"""A journal recorded live, lived through again by the simulator, gives the same decisions."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.control.asking import memory
from tests.control.living import ME, PATIENCE, bash, ended, export, living
from tests.control.recorded_run import orders_again, recorded_orders
from tests.shared import THOROUGH
from treadle.control.loop import PolicyInCharge, belief_on
from treadle.failures.retry import Classified, live_verdicts
from treadle.failures.rules import shipped
from treadle.journal.journal import read
from treadle.policies.live.naming import PLACEMENT
from treadle.wire.problems import ConflictError

# In an order of their own, resizing, and sharing; the others are much like these.
POLICIES = ("backfill", "afs", "muri-s")
OTHERS = ("fifo", "srtf", "las", "tiresias", "max-min")


@pytest.mark.parametrize("policy", [*POLICIES, *(OTHERS if THOROUGH else ())])
def test_the_simulator_decides_as_the_live_controller_did(tmp_path: Path, policy: str) -> None:
    async def story() -> None:
        async with living(tmp_path, policy=policy, engine=memory(4)) as live:
            jobs = []
            for number in range(12):
                resumes = bool(number % 3)
                devices = ("1", "2", "1..4", "3")[number % 4]
                request = bash(
                    f"sleep 0.42; exit {int(number == 7)}",
                    devices=devices,
                    resumable=resumes,
                    priority=number % 2,
                    estimate_s=1.0 + number % 5,
                    retries=1,
                )
                jobs.append((await live.submit(ME, request)).id)
                await asyncio.sleep(0.05)
            with suppress(ConflictError):  # It may have ended.
                await live.cancel(ME, jobs[5])
            await ended(live, *jobs)
            await export(live, tmp_path / "live.journal")

    asyncio.run(story())
    journal = read(tmp_path / "live.journal")
    made = PolicyInCharge().make(policy, PLACEMENT, belief_on(journal.opened.cluster))
    again = orders_again(journal, made, Classified(live_verdicts(shipped()), PATIENCE))
    recorded = recorded_orders(journal)
    assert len(recorded) >= 11
    assert again == recorded
