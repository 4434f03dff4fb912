"""The one table of what changes cost."""

from dataclasses import replace

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.models.change_costs import RESTART_S, change_s

MEASURED = Profile(restart_s=12.0, resize_s=0.05)
DEVICES = tuple(Device("n0", number) for number in range(4))


def running(profile: Profile) -> Job:
    spec = JobSpec("a", 100.0, sizes=(1, 2, 3, 4), asked=2, profile=profile)
    return Job(spec, 0, Phase.RUNNING, 0.0, 0.0, Allocation(DEVICES[:2]))


@pytest.mark.parametrize(
    ("new", "cost_s"),
    [
        (None, 12.0),
        (Allocation(DEVICES[:3]), 0.05),
        (Allocation(DEVICES[:1]), 0.05),
        (Allocation(DEVICES[1:4]), 12.0),
        (Allocation(DEVICES[2:]), 12.0),
    ],
)
def test_a_change_of_size_that_keeps_devices_is_cheap(
    new: Allocation | None, cost_s: float
) -> None:
    assert change_s(running(MEASURED), new) == cost_s


@pytest.mark.parametrize("new", [None, Allocation(DEVICES[:3]), Allocation(DEVICES[2:])])
def test_without_a_measurement_every_change_is_a_restart(new: Allocation | None) -> None:
    assert change_s(running(Profile()), new) == RESTART_S


@pytest.mark.parametrize(("lead", "cost_s"), [("n0", 0.05), ("", 12.0), ("n1", 0.05), ("n2", 12.0)])
def test_another_node_is_a_change_of_size_if_the_one_that_coordinates_stays(
    lead: str, cost_s: float
) -> None:
    more = Allocation((*DEVICES[:2], Device("n1", 0)))
    assert change_s(running(replace(MEASURED, lead=lead)), more) == cost_s
