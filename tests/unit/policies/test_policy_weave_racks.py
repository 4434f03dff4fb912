"""weave keeps jobs of several nodes in one rack, and does not grow them beyond it for nothing."""

import pytest

from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import JobSubmitted
from treadle.core.free import FreeDevices
from treadle.core.job import JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import Effects, ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.policies.weave.places import WithinRacks

CLUSTER = Cluster(tuple(Node(f"{rack}{n}", 2, rack=rack) for rack in "ab" for n in range(3)))


def racks(devices: tuple[Device, ...] | None) -> set[str]:
    return {device.node[0] for device in devices or ()}


def test_a_rack_with_room_is_preferred_and_the_fuller_one_taken() -> None:
    inner = placement("consolidate")
    chosen = WithinRacks(inner, CLUSTER)
    free = FreeDevices.of(CLUSTER)
    assert racks(chosen.place(free, 4)) == {"a"}
    free.take((Device("a0", 0), Device("a1", 0)))
    assert racks(inner.place(free, 4)) == {"a", "b"}
    assert racks(chosen.place(free, 4)) == {"b"}


def test_what_fits_no_rack_is_placed_across_them() -> None:
    chosen = WithinRacks(placement("consolidate"), CLUSTER)
    free = FreeDevices.of(CLUSTER)
    assert racks(chosen.place(free, 8)) == {"a", "b"}
    assert chosen.place(free, 13) is None


@pytest.mark.parametrize("name", ["weave", "weave-l"])
@pytest.mark.parametrize(("across", "size"), [(0.5, 4), (1.0, 8)])
def test_a_job_grows_beyond_its_rack_only_where_that_pays(
    name: str, across: float, size: int
) -> None:
    belief = ScalingModel.on(CLUSTER, Effects(across_racks=across))
    scheduler = Scheduler(policy(name, placement("consolidate"), belief), CLUSTER)
    spec = JobSpec("a", 1e5, (4, 8), asked=4, profile=Profile(size=4))
    scheduler.step([JobSubmitted(spec)], 0.0)
    assert scheduler.jobs["a"].size == size
