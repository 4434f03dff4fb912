"""What a list says of jobs that wait while the daemon has no time to ask the policy."""

import asyncio
import threading
from pathlib import Path

from tests.unit.control.memory import ME, Bench, play
from tests.unit.control.test_estimates import teach
from treadle.control.api.last_reasons import KEPT_MAX, KEPT_S, LastReasons
from treadle.wire.jobs import State


def test_u14_a_list_of_a_busy_daemon_keeps_the_reason_that_why_gave(tmp_path: Path) -> None:
    """1. A free device is kept for a gang, so a long job waits, and `ps` says so. 2. The thread
    that asks the policy is busy: the list says the same. 3. The user holds the job: it says that.
    4. Of a job that no list has shown yet, it claims nothing."""

    async def story(here: Bench) -> None:
        teach(here, "steady", *[600.0] * 5)
        teach(here, "long", *[6000.0] * 5)
        await here.reached(await here.submit("forever", model="steady"), State.RUNNING)
        await here.submit("forever", devices="2", model="steady")
        await here.settle()
        for _ in range(4):
            await here.submit("sleep", "0")
            await here.settle()
        late, held = [await here.submit("forever", model="long") for _ in range(2)]
        await here.settle()

        async def said() -> dict[str, str]:
            return {view.id: view.because for view in (await here.live.jobs()).jobs}

        before = await said()
        assert "is kept for job" in before[late]
        done = threading.Event()
        thinking = here.live._queries.thinking
        busy = asyncio.create_task(thinking.about("busy", lambda _: done.wait(30.0)))
        await asyncio.sleep(0)
        try:
            await here.live.hold(ME, held)
            fresh = await here.submit("forever", model="long")
            await here.settle()
            after = await said()
        finally:
            done.set()
        assert await busy
        assert after[late] == before[late]
        assert after[held] == "its user holds it"
        assert after[fresh] == f"not asked yet; treadle why {fresh} asks the policy"

    play(story, tmp_path, devices=2, policy="afs")


def test_a_reason_is_kept_for_a_while_and_of_so_many_jobs() -> None:
    said = LastReasons()
    said.note({"old": ("order", "one"), "new": ("order", "one")}, 0.0)
    said.note({"new": ("order", "two")}, KEPT_S)
    assert said.at(KEPT_S) == {"old": ("order", "one"), "new": ("order", "two")}
    assert said.at(KEPT_S + 1.0) == {"new": ("order", "two")}
    said.note({f"j{n}": ("order", "") for n in range(KEPT_MAX)}, KEPT_S)
    assert len(said.at(KEPT_S)) == KEPT_MAX
    assert "new" not in said.at(KEPT_S)
