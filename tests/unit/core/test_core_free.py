"""The free devices: what placements may ask, and what giving, taking and losing does."""

import pytest

from treadle.core.cluster import Cluster, Device, Node
from treadle.core.free import FreeDevices


def devices(node: str, *numbers: int) -> tuple[Device, ...]:
    return tuple(Device(node, number) for number in numbers)


@pytest.fixture
def free() -> FreeDevices:
    """n0 has 4 of 4 free, n1 has 2 of 4 (0 and 3), n2 has 1 of 2 (1), n3 has 2 of 2."""
    cluster = Cluster((Node("n0", 4), Node("n1", 4), Node("n2", 2), Node("n3", 2)))
    free = FreeDevices.of(cluster)
    free.take(devices("n1", 1, 2))
    free.take(devices("n2", 0))
    return free


@pytest.mark.parametrize(
    ("size", "position"), [(1, 2), (2, 1), (3, 0), (4, 0), (5, None), (99, None)]
)
def test_the_tightest_node_is_the_first_of_the_fullest_with_room(
    free: FreeDevices, size: int, position: int | None
) -> None:
    assert free.tightest(size) == position


@pytest.mark.parametrize(("size", "position"), [(1, 0), (4, 0), (5, None)])
def test_the_first_node_with_room_is_by_the_clusters_order(
    free: FreeDevices, size: int, position: int | None
) -> None:
    assert free.first(size) == position


def test_the_emptiest_node_is_the_first_with_the_most_free(free: FreeDevices) -> None:
    assert free.emptiest() == 0
    free.take(devices("n0", 0, 1))
    assert free.emptiest() == 0
    free.take(devices("n0", 2))
    assert free.emptiest() == 1


def test_with_nothing_free_no_node_is_emptiest() -> None:
    free = FreeDevices.of(Cluster.grid(1, 1))
    free.take(devices("n0", 0))
    assert free.emptiest() is None
    assert free.first(1) is None
    assert list(free) == []


def test_whole_nodes_have_exactly_that_many_devices_and_all_of_them_free(free: FreeDevices) -> None:
    assert list(free.whole(4)) == [0]
    assert list(free.whole(2)) == [3], "n1 has two free, but it has four devices"
    assert list(free.whole(3)) == []
    assert list(free.whole(5)) == []


def test_taking_what_is_taken_is_our_mistake(free: FreeDevices) -> None:
    with pytest.raises(AssertionError, match="a device that is not free was taken"):
        free.take(devices("n1", 0, 1))


def test_giving_what_is_free_is_our_mistake(free: FreeDevices) -> None:
    with pytest.raises(AssertionError, match="a device that is already free was given back"):
        free.give(devices("n1", 0))


def test_a_copy_goes_its_own_way(free: FreeDevices) -> None:
    twin = free.copy()
    twin.take(devices("n0", 0))
    free.add(Node("n9", 8))
    free.remove("n3")
    assert (free.total, twin.total) == (15, 8)
    assert (free.largest, twin.largest) == (8, 4)
    assert free.holds(devices("n0", 0))
    assert list(twin.whole(2)) == [3]
    assert twin.tightest(5) is None
    assert free.tightest(5) == 4


def test_a_lost_node_takes_its_free_devices_with_it(free: FreeDevices) -> None:
    free.remove("n0")
    assert free.total == 5
    assert free.largest == 4, "n1 still has four devices"
    free.remove("n1")
    assert free.largest == 2
    assert list(map(str, free)) == ["n2:1", "n3:0", "n3:1"]


def test_devices_given_back_after_their_node_is_gone_stay_gone(free: FreeDevices) -> None:
    free.remove("n1")
    free.give(devices("n1", 1, 2))
    assert free.count_on("n1") == 0
    assert free.total == 7


def test_a_node_that_returns_stands_where_it_stood_with_all_its_devices(free: FreeDevices) -> None:
    free.remove("n0")
    free.add(Node("n0", 6))
    assert free.first(1) == 0
    assert free.pick(0, 6) == devices("n0", 0, 1, 2, 3, 4, 5)
    assert (free.total, free.largest) == (11, 6)


def test_a_node_that_joins_stands_last(free: FreeDevices) -> None:
    free.add(Node("late", 3))
    assert list(map(str, free))[-3:] == ["late:0", "late:1", "late:2"]
    assert free.tightest(3) == 4


def test_devices_are_claimed_all_or_none(free: FreeDevices) -> None:
    assert free.claim(devices("n0", 0, 1) + devices("n1", 0)) is True
    assert (free.count_on("n0"), free.count_on("n1"), free.total) == (2, 1, 6)
    assert free.claim(devices("n0", 2) + devices("n1", 1)) is False
    assert (free.count_on("n0"), free.count_on("n1"), free.total) == (2, 1, 6)
    assert not free.holds(devices("n0", 0))
    assert free.holds(devices("n0", 2))


def test_a_node_that_returns_larger_is_unknown_to_an_earlier_copy(free: FreeDevices) -> None:
    twin = free.copy()
    free.add(Node("n0", 6))
    assert free.knows(devices("n0", 5))
    assert not twin.knows(devices("n0", 5))
    assert (free.capacity[0], twin.capacity[0]) == (6, 4)
    assert twin.pick(0, 4) == devices("n0", 0, 1, 2, 3)


def test_a_node_that_returns_stays_gone_for_an_earlier_copy(free: FreeDevices) -> None:
    free.remove("n0")
    twin = free.copy()
    free.add(Node("n0", 4))
    assert (free.largest, twin.largest) == (4, 4)
    assert (free.total, twin.total) == (9, 5)
    assert list(free.whole(4)) == [0]
    assert list(twin.whole(4)) == []
    assert not twin.knows(devices("n0", 0))
    twin.give(devices("n0", 0))
    assert twin.total == 5, "what is given back on a gone node stays gone"


def test_devices_that_a_stopped_job_has_yet_to_leave_are_given_out_last() -> None:
    free = FreeDevices.of(Cluster.grid(2, 4))
    marked = free.leaving([Device("n0", 0), Device("n0", 2), Device("gone", 1)])
    assert [d.number for d in marked.pick_on("n0", 1)] == [1]
    assert [d.number for d in marked.pick_on("n0", 3)] == [1, 3, 0]
    assert [d.number for d in marked.copy().pick_on("n0", 2)] == [1, 3]
    assert [d.number for d in marked.pick_on("n1", 2)] == [0, 1], "another node"
    marked.take([Device("n0", 1), Device("n0", 3)])
    assert [d.number for d in marked.pick_on("n0", 1)] == [0], "all that are free are being left"
    assert [d.number for d in marked.leaving([]).pick_on("n0", 2)] == [0, 2]
    assert [d.number for d in free.pick_on("n0", 1)] == [0], "the original is as it was"


def test_only_some_nodes_are_a_cluster_of_their_own() -> None:
    free = FreeDevices.of(Cluster((Node("a", 4), Node("b", 2), Node("c", 2))))
    free.take((Device("b", 0),))
    seen = free.only({"b", "c"})
    assert (seen.total, seen.largest, seen.emptied().total) == (3, 2, 4)
    assert [str(device) for device in seen] == ["b:1", "c:0", "c:1"]
    assert not seen.knows((Device("a", 0),))
    assert (free.total, free.largest) == (7, 4)
