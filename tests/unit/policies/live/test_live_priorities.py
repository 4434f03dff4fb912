"""Jobs of a higher priority take what they need, from as few jobs as can be."""

import pytest

from treadle.control.loop.live_policy import belief_on
from treadle.core.actions import Action, Start, Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobStarted, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.policies import registry
from treadle.policies.base.placement import placement
from treadle.policies.live.naming import wrapped


def orders(name: str, *, cores: int, resumable: bool = True) -> list[Action]:
    """What happens if an urgent job comes while four others have all devices of a node."""
    cluster = Cluster((Node("n0", 4, cores=cores),))
    made = registry.policy(wrapped(name), placement("consolidate"), belief_on(cluster))
    scheduler = Scheduler(made, cluster)
    specs = [JobSpec(f"j{n}", 900.0, resumable=resumable) for n in range(4)]
    begun = scheduler.step([JobSubmitted(spec) for spec in specs], 0.0)
    scheduler.step([JobStarted(order.job, order.id, 0.0, 1.0) for order in begun], 1.0)
    return scheduler.step([JobSubmitted(JobSpec("urgent", 8.0, priority=5))], 10.0)


@pytest.mark.parametrize("cores", [0, 4])
@pytest.mark.parametrize("name", [name for name in registry.names() if name != "philly"])
def test_one_job_is_stopped_for_an_urgent_one_and_no_other_is_touched(
    name: str, cores: int
) -> None:
    found = orders(name, cores=cores)
    (stop,) = [order for order in found if not isinstance(order, Start)]
    assert isinstance(stop, Stop)
    assert stop.for_job == "urgent"
    assert [order.job for order in found if isinstance(order, Start)] == ["urgent"]


@pytest.mark.parametrize("name", registry.names())
def test_a_job_that_cannot_resume_is_stopped_for_none(name: str) -> None:
    assert orders(name, cores=0, resumable=False) == []


@pytest.mark.parametrize("name", ["weave-l", "srtf", "fifo", "afs"])
def test_an_urgent_job_that_comes_while_another_starts_has_its_device_once_it_runs(
    name: str,
) -> None:
    cluster = Cluster((Node("n0", 1),))
    made = registry.policy(wrapped(name), placement("consolidate"), belief_on(cluster))
    scheduler = Scheduler(made, cluster)
    (begun,) = scheduler.step([JobSubmitted(JobSpec("low", 20_000.0))], 0.0)
    assert scheduler.step([JobSubmitted(JobSpec("urgent", 8.0, priority=5))], 10.0) == []
    found = scheduler.step([JobStarted("low", begun.id, 0.0, 1.0)], 30.0)
    assert [(type(action), action.job) for action in found] == [(Stop, "low"), (Start, "urgent")]
