"""Jobs are found by name in the same way for one order and for many."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play
from treadle.wire.job_orders import JobsOrder, Verb
from treadle.wire.jobs import State
from treadle.wire.problems import ConflictError


def test_one_order_and_many_find_the_same_jobs_by_name(tmp_path: Path) -> None:
    """An ended job is found by its name, whichever way it is asked for."""

    async def story(here: Bench) -> None:
        over = await here.submit("true", name="over")
        await here.reached(over, State.SUCCEEDED)
        here.live.context.jobs.forget([over])  # Only the store has it now.
        answer = await here.live.order(ME, JobsOrder(verb=Verb.CANCEL, ids=("over", "none")))
        assert [each.error for each in answer.outcomes] == [
            "job over has ended already (succeeded)",
            "there is no job 'none'",
        ]
        with pytest.raises(ConflictError, match=r"job over has ended already \(succeeded\)"):
            await here.live.cancel(ME, "over")

    play(story, tmp_path)


def test_the_name_of_an_active_job_is_found_without_the_store(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        await here.submit("forever", name="mine", held=True)
        here.live.context.reads.close()
        answer = await here.live.order(ME, JobsOrder(verb=Verb.CANCEL, ids=("mine",)))
        assert (answer.done, answer.refused) == (1, 0)

    play(story, tmp_path)


# -- restarts -------------------------------------------------------------------------------------
