"""From what is held to what is wanted: the orders, their order, and what is refused."""

import pytest

from treadle.core.actions import Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.difference import difference
from treadle.core.errors import DoubleBookingError, PolicyError
from treadle.core.job import Job, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.tenancy import Tenancy
from treadle.testing.builders import job


def on(*numbers: int, turn: int = 0) -> Allocation:
    return Allocation(tuple(Device("n0", number) for number in numbers), turn=turn)


class World:
    """Jobs a, b, c and d of one to four devices on one node, some of them running."""

    def __init__(self, **held: Allocation) -> None:
        self.book = Tenancy(Cluster.grid(1, 8))
        self.jobs = {
            name: Job(
                job(name, size=4, sizes=(1, 2, 4)),
                number,
                Phase.RUNNING if name in held else Phase.WAITING,
                0.0,
                0.0,
                held.get(name),
            )
            for number, name in enumerate("abcd")
        }
        for name, allocation in held.items():
            self.book.claim(name, allocation)

    def to(self, **changes: Allocation | None):
        return difference(self.jobs, self.book.tenants, changes, 10)


def test_those_who_only_let_go_come_first_and_ids_count_up() -> None:
    orders = World(a=on(0), b=on(1)).to(c=on(0, 1), a=None, b=None)
    assert orders == [Stop(10, "a"), Stop(11, "b"), Start(12, "c", on(0, 1), ("a", "b"))]


def test_a_job_that_needs_anothers_devices_follows_it() -> None:
    orders = World(a=on(0), b=on(1)).to(a=on(1), b=on(2))
    assert orders == [Change(10, "b", on(2)), Change(11, "a", on(1), ("b",))]


def test_two_that_swap_stop_one_of_them_and_start_it_behind_the_other() -> None:
    orders = World(a=on(0), b=on(1)).to(a=on(1), b=on(0))
    assert orders == [
        Stop(10, "a"),
        Change(11, "b", on(0), ("a",)),
        Start(12, "a", on(1), ("a", "b")),
    ]


def test_a_job_that_waits_for_a_circle_is_not_the_one_that_stops() -> None:
    """a and b swap; d, which comes first, wants a device that a leaves."""
    orders = World(a=on(0, 4), b=on(1), d=on(3)).to(d=on(4), a=on(1), b=on(0))
    assert [(type(order), order.job) for order in orders] == [
        (Stop, "a"),
        (Change, "d"),
        (Change, "b"),
        (Start, "a"),
    ]


@pytest.mark.parametrize(
    "changes",
    [{"b": on(1, 2)}, {"b": on(1, 2), "a": on(1)}, {"a": None, "b": on(0, 1), "c": on(1, 2)}],
)
def test_a_device_cannot_be_given_to_two(changes: dict[str, Allocation | None]) -> None:
    with pytest.raises(DoubleBookingError, match="n0:1 turn 0"):
        World(a=on(0, 1)).to(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"z": on(0)},  # a job that is not known
        {"d": None},  # on its way out
        {"d": on(0)},
        {"a": on(0, 1, 2)},  # a size that it does not offer
        {"a": Allocation(on(0, 1).devices, Plan(tensor=2))},  # and a plan
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Allocation | None]) -> None:
    world = World()
    world.jobs["d"] = world.jobs["d"]._replace(phase=Phase.STOPPING)
    with pytest.raises(PolicyError, match=f"^job {next(iter(changes))} "):
        world.to(**changes)


def test_another_plan_on_the_same_devices_is_a_change() -> None:
    tensor = Plan(tensor=2)
    world = World(a=on(0, 1))
    spec = JobSpec("a", 1.0, sizes=(2,), plans=(DATA_PARALLEL, tensor))
    world.jobs["a"] = world.jobs["a"]._replace(spec=spec)
    wanted = Allocation(on(0, 1).devices, tensor)
    assert world.to(a=wanted) == [Change(10, "a", wanted)]
