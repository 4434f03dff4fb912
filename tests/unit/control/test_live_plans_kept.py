"""Plans of jobs that run: shown, and kept over a restart."""

import pytest

from tests.unit.control.memory import Bench, playing
from tests.unit.models.test_model_live_plans import CLUSTER, WORDS, running, spec
from treadle.cli.live.job_columns import JOB_COLUMNS
from treadle.control.learning import JobLearner
from treadle.core.plan import Plan, plan_of
from treadle.models.plans.live_plans import LivePlans
from treadle.models.plans.space import dense
from treadle.store.rows import ProfileRow


def test_a_plan_model_that_was_measured_is_known_to_the_next_controller() -> None:
    """1. A job names a model nobody knows. 2. A step of it is measured. 3. The daemon restarts."""
    first = JobLearner((), LivePlans(CLUSTER))
    first.plans.meet(spec("hub/mine"), WORDS)
    wanted = first.plans.offered(spec("hub/mine"), WORDS)
    guess = first.changes(1.0)
    first.plans.observe(running(wanted, "", 2), steps_per_s=4.0)
    rows = first.changes(2.0)
    assert first.changes(3.0) == []
    again = JobLearner(rows, LivePlans(CLUSTER))
    assert again.plans.types["hub/mine"] == first.plans.types["hub/mine"]
    assert again.changes(4.0) == [], "what was read is not written again"
    assert again.plans.offered(spec("hub/mine"), ("plan",)).plans != spec().plans
    # One that was only guessed is set by its first step, as it would have been.
    guessed = JobLearner(guess, LivePlans(CLUSTER))
    guessed.plans.observe(running(wanted, "", 2), steps_per_s=4.0)
    taken_s = guessed.plans.types["hub/mine"].iteration_s(Plan(data=2), dense(2))
    assert abs(taken_s - 0.25) < 1e-3


def test_a_plan_model_that_cannot_be_read_is_forgotten() -> None:
    rows = (ProfileRow("*plan mine", b"{}", 1.0),)
    assert "mine" not in JobLearner(rows, LivePlans(CLUSTER)).plans.types


# -- The execution plan of a running job, as users are shown it ------------------------------------


@pytest.mark.parametrize(("command", "plan"), [("announce size ; forever", "data parallel")])
@playing()
async def test_a_job_that_says_what_it_can_change_has_a_plan(
    here: Bench, command: str, plan: str
) -> None:
    job = await here.runs(*command.split(), resumable=True, devices="1..4", ranks="one")
    await here.settle()
    view = (await here.live.job(job)).job
    assert view.plan == plan
    assert JOB_COLUMNS["plan"].text(view, 0.0) == plan


@playing()
async def test_how_any_other_job_splits_its_work_is_not_known(here: Bench) -> None:
    job = await here.runs(devices="2")
    await here.settle()
    assert (await here.live.job(job)).job.plan == ""


def test_a_plan_has_a_name_that_is_its_text_but_for_the_default() -> None:
    assert Plan().name == "data parallel"
    assert plan_of("d2 zero-3 x4").name == "d2 zero-3 x4"
