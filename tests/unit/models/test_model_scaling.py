"""Speed by size, by placement and by sharing."""

from dataclasses import replace

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.job import JobSpec, Profile
from treadle.models.scaling import Effects, ScalingModel, speedup
from treadle.testing.builders import job


def on(*names: str) -> Allocation:
    """Devices written `n0:1`."""
    pairs = [name.split(":") for name in names]
    return Allocation(tuple(Device(node, int(number)) for node, number in pairs))


CLUSTER = Cluster((Node("n0", 2, rack="r0"), Node("n1", 2, rack="r0"), Node("n2", 2, rack="r1")))


def spec(size: int, serial: float = 0.0, iteration_s: float = 0.5) -> JobSpec:
    profile = Profile(compute_s=iteration_s, size=size, serial=serial)
    return replace(job("a", size=size), profile=profile)


def test_a_serial_share_limits_the_speed_up() -> None:
    assert speedup(1, 0.5) == 1.0
    assert speedup(3, 0.5) == 1.5
    assert speedup(8, 1.0) == 1.0
    assert ScalingModel().alone(spec(1, serial=0.5), 3) == 3.0


def test_a_serial_share_is_counted_from_the_measured_size() -> None:
    """From 3 devices at 1.5 times one to 5 at 5/3 times one."""
    model, job_of_three = ScalingModel(), spec(3, serial=0.5)
    assert model.alone(job_of_three, 5) == pytest.approx(2.0 * (5 / 3) / 1.5)
    assert model.alone(job_of_three, 5) == model.alone(job_of_three, 5)


def test_more_nodes_than_needed_cost_their_factor() -> None:
    model = ScalingModel.on(CLUSTER, Effects(across_nodes=0.5))
    assert model.iterations_per_s(spec(2), on("n0:0", "n0:1"), ()) == 2.0
    assert model.iterations_per_s(spec(2), on("n0:0", "n1:1"), ()) == 1.0


def test_another_rack_costs_on_top() -> None:
    model = ScalingModel.on(CLUSTER, Effects(across_nodes=0.5, across_racks=0.25))
    assert model.iterations_per_s(spec(2), on("n0:0", "n1:0"), ()) == 1.0
    assert model.iterations_per_s(spec(2), on("n0:0", "n2:0"), ()) == 0.25
    only_racks = ScalingModel.on(CLUSTER, Effects(across_racks=0.25))
    assert only_racks.iterations_per_s(spec(2), on("n0:0", "n2:0"), ()) == 0.5


def test_every_sharer_costs_its_factor() -> None:
    model = ScalingModel.on(CLUSTER, Effects(shared=0.5))
    other = (spec(1), on("n0:0"))
    assert model.iterations_per_s(spec(1), on("n0:0"), [other]) == 1.0
    assert model.iterations_per_s(spec(1), on("n0:0"), [other, other]) == 0.5
