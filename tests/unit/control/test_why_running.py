"""`why` of a running job, and of a policy that cannot answer."""

from pathlib import Path

from tests.unit.control.memory import Bench, play
from treadle.control.loop.live_policy import Guarded, PolicyInCharge
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobSubmitted
from treadle.core.job import JobId
from treadle.core.reasons import Reason
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.simple.orders import fifo
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.testing.builders import job
from treadle.wire.jobs import State


def test_a_running_job_says_how_many_devices_it_has(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        name = await here.submit("forever", devices="1..2")
        await here.reached(name, State.RUNNING)
        why = await here.live.why(name)
        assert why.code == "running"
        assert why.numbers == {"size": 2, "least": 1, "most": 2, "asked": 2}
        assert (await here.live.job(name)).job.because == "", "that it runs, the state says"

    play(story, tmp_path, devices=2, policy="weave-l")


class Speechless(Wrapper):
    """A policy that raises when it is asked why."""

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        raise ValueError(f"no words for {job}")


def test_a_policy_that_raises_stops_nothing() -> None:
    inner = Speechless(fifo(placement("consolidate"), ScalingModel()))
    scheduler = Scheduler(Guarded(inner, PolicyInCharge()), Cluster((Node("n", 1),)))
    scheduler.step([JobSubmitted(job("a")), JobSubmitted(job("b"))], 0.0)
    assert scheduler.why("a", 1.0).code == "starting"
    assert scheduler.why("b", 1.0).code == "devices"
