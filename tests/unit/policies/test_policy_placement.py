"""Which devices: each placement on clusters small enough to see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.cluster import Cluster, Device, Node
from treadle.core.free import FreeDevices
from treadle.policies.base.placement import PLACEMENTS, Consolidate, Fit, placement
from treadle.testing.strategies import clusters


def placed(name: str, cluster: Cluster, size: int, *held: str) -> str | None:
    """The devices chosen for the size while those named `node:number` are held."""
    free = FreeDevices.of(cluster)
    if held:
        pairs = [text.split(":") for text in held]
        free.take([Device(node, int(number)) for node, number in pairs])
    devices = placement(name).place(free, size)
    return None if devices is None else " ".join(map(str, devices))


TWO = Cluster.grid(2, 4)
THREE = Cluster.grid(3, 2)


def test_the_tightest_node_that_fits_is_the_same_for_count_and_consolidate() -> None:
    for name in ("count", "consolidate"):
        assert placed(name, TWO, 2, "n1:0") == "n1:1 n1:2", name
        assert placed(name, TWO, 4, "n1:0") == "n0:0 n0:1 n0:2 n0:3", name


def test_the_first_node_with_room_need_not_be_the_tightest() -> None:
    assert placed("first-fit", TWO, 2, "n1:0") == "n0:0 n0:1"
    assert placed("first-fit", TWO, 2, "n0:0", "n0:1", "n0:2") == "n1:0 n1:1"
    assert placed("first-fit", TWO, 4, "n0:0", "n1:0") is None


def test_count_splits_over_as_few_nodes_as_it_can() -> None:
    assert placed("count", TWO, 4, "n0:0", "n1:0") == "n0:1 n0:2 n0:3 n1:1"
    assert placed("count", THREE, 3, "n0:0") == "n1:0 n1:1 n0:1", "the rest goes to the tightest"
    assert placed("count", THREE, 6) == "n0:0 n0:1 n1:0 n1:1 n2:0 n2:1"


def test_what_is_larger_than_a_node_gets_whole_nodes_and_a_remainder() -> None:
    for name in ("consolidate", "first-fit", "balance"):
        assert placed(name, THREE, 4) == "n0:0 n0:1 n1:0 n1:1", name
        assert placed(name, THREE, 4, "n0:0") == "n1:0 n1:1 n2:0 n2:1", name
        assert placed(name, THREE, 3, "n2:0") == "n0:0 n0:1 " + (
            "n2:1" if name == "consolidate" else "n1:0"
        )
        assert placed(name, THREE, 4, "n0:0", "n1:0") is None, name
        assert placed(name, THREE, 5, "n0:0", "n1:0") is None, name


def test_whole_nodes_without_a_place_for_the_remainder_are_no_use() -> None:
    cluster = Cluster((Node("a", 4), Node("b", 4), Node("c", 2)))
    held = ("b:0", "b:1", "c:0")
    assert placed("consolidate", cluster, 6, *held) == "a:0 a:1 a:2 a:3 b:2 b:3"
    assert placed("consolidate", cluster, 7, *held) is None


def test_larger_nodes_first_where_they_are_unlike() -> None:
    cluster = Cluster((Node("a", 1), Node("b", 2), Node("c", 2), Node("d", 3)))
    assert placed("consolidate", cluster, 5) == "d:0 d:1 d:2 b:0 b:1"
    assert placed("consolidate", cluster, 6) == "d:0 d:1 d:2 b:0 b:1 a:0"
    assert placed("consolidate", cluster, 7) == "d:0 d:1 d:2 b:0 b:1 c:0 c:1"
    assert placed("consolidate", cluster, 8) == "d:0 d:1 d:2 b:0 b:1 c:0 c:1 a:0"
    assert placed("consolidate", cluster, 4, "d:0") is None, "it waits for the large node"
    two = Cluster((Node("a", 4), Node("b", 4), *(Node(f"c{n}", 1) for n in range(4))))
    assert placed("consolidate", two, 8, "a:0") is None, "and for as many as it can have"


@given(cluster=clusters(), name=st.sampled_from(sorted(PLACEMENTS)), data=st.data())
def test_the_empty_cluster_has_room_for_every_size_up_to_its_own(
    cluster: Cluster, name: str, data: st.DataObject
) -> None:
    size = data.draw(st.integers(0, cluster.device_count))
    found = placement(name).place(FreeDevices.of(cluster), size) if size else ()
    assert found is not None
    assert len(set(found)) == len(found) == size


def test_balance_takes_the_node_with_the_smallest_share_in_use() -> None:
    assert placed("balance", TWO, 2, "n0:0") == "n1:0 n1:1"
    assert placed("balance", TWO, 4, "n0:0", "n1:0") is None
    mixed = Cluster((Node("a", 4), Node("b", 2), Node("c", 2)))
    assert placed("balance", mixed, 1) == "a:0"
    assert placed("balance", mixed, 1, "a:0") == "b:0"
    assert placed("balance", mixed, 1, "a:0", "b:0", "c:0") == "a:1"
    assert placed("balance", mixed, 1, "a:0", "a:1", "b:0", "c:0") == "a:2"
    assert placed("balance", mixed, 1, "a:0", "a:1", "a:2", "b:0", "c:0") == "b:1"


def test_spread_takes_one_after_another_from_the_emptiest() -> None:
    assert placed("spread", TWO, 3) == "n0:0 n1:0 n0:1"
    assert placed("spread", TWO, 3, "n0:0", "n0:1") == "n1:0 n1:1 n0:2"


@pytest.mark.parametrize(
    ("name", "size", "grain"),
    [
        ("count", 3, 1),
        ("spread", 3, 1),
        ("consolidate", 3, 3),
        ("consolidate", 4, 4),
        ("consolidate", 6, 2),
        ("first-fit", 8, 4),
        ("first-fit", 3, 3),
        ("balance", 3, 3),
        ("balance", 6, 2),
    ],
)
def test_a_node_matters_from_so_many_free_devices_on(name: str, size: int, grain: int) -> None:
    assert placement(name).grain(size, FreeDevices.of(Cluster.grid(3, 4))) == grain


@given(cluster=clusters(), data=st.data(), name=st.sampled_from(sorted(PLACEMENTS)))
def test_where_a_size_does_not_fit_no_larger_one_does_and_what_is_placed_is_free(
    cluster: Cluster, data: st.DataObject, name: str
) -> None:
    free = FreeDevices.of(cluster)
    everything = list(free)
    held = data.draw(st.lists(st.sampled_from(everything), unique=True))
    if held:
        free.take(held)
    before = list(free)
    fits = []
    for size in range(1, len(everything) + 2):
        devices = placement(name).place(free, size)
        fits.append(devices is not None)
        if devices is not None:
            assert len(set(devices)) == len(devices) == size
            assert set(devices) <= set(before)
    assert fits == sorted(fits, reverse=True)
    assert list(free) == before


@given(cluster=clusters(), data=st.data(), name=st.sampled_from(sorted(PLACEMENTS)))
def test_more_free_devices_never_make_a_size_unplaceable(
    cluster: Cluster, data: st.DataObject, name: str
) -> None:
    """The preemptive walk relies on it: a preempted job lost a device to the newcomer."""
    more = FreeDevices.of(cluster)
    everything = list(more)
    held = data.draw(st.lists(st.sampled_from(everything), unique=True, min_size=1))
    some, kept = held[: len(held) // 2], held[len(held) // 2 :]
    more.take(kept)
    less = more.copy()
    if some:
        less.take(some)
    for size in range(1, len(everything) + 1):
        if placement(name).place(less, size) is not None:
            assert placement(name).place(more, size) is not None


def test_what_never_fits_is_said_with_its_reason_and_only_of_this_cluster() -> None:
    class OnOneNode(Consolidate):
        def place(self, free: FreeDevices, size: int) -> tuple[Device, ...] | None:
            return None if size > free.largest else super().place(free, size)

    fit = Fit(OnOneNode())
    cluster = Cluster((Node("a", 4), Node("b", 2), Node("c", 2)))
    assert fit.never(4, cluster) is None
    assert fit.never(9, cluster) == "it asks for 9 devices and the cluster has 8"
    assert fit.never(7, cluster) == (
        "it asks for 7 devices and this placement finds no room for them "
        "even on the empty cluster of 3 nodes"
    )
    assert fit.never(7, Cluster.grid(2, 8)) is None
