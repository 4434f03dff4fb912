"""The two lengths of a job that waits: the one that orders it, and when it will be gone."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play
from tests.unit.control.test_estimates import teach
from treadle.control.learning.learned_lengths import Profiles, Program, Question
from treadle.core.cluster import Cluster
from treadle.core.events import JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.wire.jobs import State

MINUTES_OR_HOURS = [*[60.0] * 4, 36_000.0, *[60.0] * 4, 36_000.0, *[60.0] * 8]


def test_a_job_that_may_take_hours_does_not_start_on_devices_kept_for_a_gang(
    tmp_path: Path,
) -> None:
    """1. A job of ten minutes runs, and a gang of two waits for it. 2. Four others overtake the
    gang, so devices are kept for it. 3. A job arrives whose like took a minute, or ten hours."""

    async def story(here: Bench) -> None:
        teach(here, "mixed", *MINUTES_OR_HOURS)
        teach(here, "steady", *[600.0] * 5)
        await here.reached(await here.submit("forever", model="steady"), State.RUNNING)
        gang = await here.submit("forever", devices="2", model="steady")
        await here.settle()
        for _ in range(4):
            await here.submit("sleep", "0")
            await here.settle()
        late = await here.submit("forever", model="mixed")
        await here.settle()
        assert here.state(late) is State.PENDING
        why = await here.live.why(late)
        assert (why.code, why.numbers["for_job"]) == ("reserved", gang)

    play(story, tmp_path, devices=2, policy="afs")


def test_the_same_job_is_ordered_by_how_soon_it_may_end(tmp_path: Path) -> None:
    """1. The only device is taken. 2. A job of ten minutes waits, then one whose like took a minute
    nine times of ten, and else hours. 3. The device comes free: the second starts."""

    async def story(here: Bench) -> None:
        teach(here, "mixed", *MINUTES_OR_HOURS)
        teach(here, "steady", *[600.0] * 5)
        first = await here.submit("forever", model="steady")
        await here.reached(first, State.RUNNING)
        steady = await here.submit("forever", model="steady")
        mixed = await here.submit("forever", model="mixed")
        await here.settle()
        spec = here.live.context.scheduler.jobs[mixed].spec
        assert spec.order_work < 600.0 < spec.iterations
        await here.live.cancel(ME, first)
        await here.reached(mixed, State.RUNNING)
        assert here.state(steady) is State.PENDING

    play(story, tmp_path, devices=1, policy="afs")


@pytest.mark.parametrize(
    "name", ["sjf", "srtf", "srsf", "gittins", "afs", "altruistic", "muri-s", "aiturbo"]
)
def test_every_policy_that_orders_by_length_reads_the_one_for_order(name: str) -> None:
    cluster = Cluster.grid(1, 1)
    made = policy(name, placement("consolidate"), ScalingModel.on(cluster))
    scheduler = Scheduler(made, cluster)
    known = JobSpec("known", 600.0, (1,))
    mixed = JobSpec("mixed", 4000.0, (1,), order_work=60.0)
    actions = scheduler.step([JobSubmitted(known), JobSubmitted(mixed)], 0.0)
    assert actions[0].job == "mixed"


@pytest.mark.parametrize(
    ("limit_s", "length_s"), [(None, 3600.0), (1e6, 3600.0), (3600.0, 3600.0), (60.0, 60.0)]
)
def test_a_users_estimate_is_the_length_within_the_time_limit(
    limit_s: float | None, length_s: float
) -> None:
    program = Program("ann", "", ("train",))
    question = Question.of(program, asked=1, sizes=(1,), estimate_s=3600.0, limit_s=limit_s)
    assert Profiles().ask(question).length_s == length_s
