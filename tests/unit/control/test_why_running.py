"""`why` of a running job asks the policy, and survives a policy that cannot answer."""

from pathlib import Path

from tests.unit.control.memory import Bench, play
from treadle.control.loop.live_policy import Guarded, PolicyInCharge
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobSubmitted
from treadle.core.job import JobId
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Reason, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.simple.orders import fifo
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.testing.builders import job
from treadle.wire.jobs import State


def test_a_running_job_under_weave_says_what_the_policy_chose(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        name = await here.submit("forever", devices="1..2")
        await here.reached(name, State.RUNNING)
        because = (await here.live.why(name)).because
        assert because.startswith("it has run on 2 devices for ")
        assert because.endswith(
            "; 2 devices rather than 1, with which it is expected to get 45 % less done; "
            "alone, as no job has to share; how it scales was not measured yet"
        )

    play(story, tmp_path, devices=2, policy="weave-l")


def test_a_running_job_under_a_policy_with_nothing_to_add_says_how_long_it_ran(
    tmp_path: Path,
) -> None:
    async def story(here: Bench) -> None:
        name = await here.submit("forever")
        await here.reached(name, State.RUNNING)
        because = (await here.live.why(name)).because
        assert because.startswith("it has run on 1 device for ")
        assert ";" not in because

    play(story, tmp_path, devices=1, policy="backfill")


class Speechless(Wrapper):
    """A policy that raises when it is asked why."""

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        raise ValueError(f"no words for {job}")


def test_a_policy_that_raises_is_quoted_and_stops_nothing() -> None:
    inner = Speechless(fifo(placement("consolidate"), ScalingModel()))
    scheduler = Scheduler(Guarded(inner, PolicyInCharge()), Cluster((Node("n", 1),)))
    scheduler.step([JobSubmitted(job("a")), JobSubmitted(job("b"))], 0.0)
    assert scheduler.why("a", 1.0).choice == "the policy cannot say why (no words for a)"
    assert scheduler.why("b", 1.0).sentence == (
        "it waits for its turn; the policy cannot say more (no words for b)"
    )
