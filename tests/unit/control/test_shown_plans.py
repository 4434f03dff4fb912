"""The execution plan of a running job, as users are shown it."""

from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play
from treadle.cli.live.job_columns import JOB_COLUMNS
from treadle.core.plan import Plan, plan_of
from treadle.wire.jobs import State


@pytest.mark.parametrize(("command", "plan"), [("announce size ; forever", "data parallel")])
def test_a_job_that_says_what_it_can_change_has_a_plan(
    command: str, plan: str, tmp_path: Path
) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit(*command.split(), resumable=True, devices="1..4", ranks="one")
        await here.reached(job, State.RUNNING)
        await here.settle()
        view = (await here.live.job(job)).job
        assert view.plan == plan
        assert JOB_COLUMNS["plan"].text(view, 0.0) == plan

    play(story, tmp_path)


def test_how_any_other_job_splits_its_work_is_not_known(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", devices="2")
        await here.reached(job, State.RUNNING)
        await here.settle()
        assert (await here.live.job(job)).job.plan == ""

    play(story, tmp_path)


def test_a_plan_has_a_name_that_is_its_text_but_for_the_default() -> None:
    assert Plan().name == "data parallel"
    assert plan_of("d2 zero-3 x4").name == "d2 zero-3 x4"
