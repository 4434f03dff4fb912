"""The book of who may use which device in which turn."""

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.errors import DoubleBookingError
from treadle.core.tenancy import Tenancy


def on(*numbers: int, turn: int = 0) -> Allocation:
    return Allocation(tuple(Device("n0", number) for number in numbers), turn=turn)


@pytest.fixture
def book() -> Tenancy:
    return Tenancy(Cluster.grid(1, 4))


def test_a_double_booking_names_device_turn_and_both_jobs(book: Tenancy) -> None:
    book.claim("a", on(1, 2))
    with pytest.raises(DoubleBookingError) as refusal:
        book.claim("b", on(2, 3))
    assert str(refusal.value) == ("device n0:2 turn 0 is held by job a and was also given to job b")


def test_a_copy_goes_its_own_way(book: Tenancy) -> None:
    book.claim("a", on(0))
    twin = book.copy()
    twin.claim("b", on(0, turn=1))
    twin.claim("c", on(1))
    assert book.tenants == {Device("n0", 0): {0: "a"}}
    assert (book.free.total, twin.free.total) == (3, 2)
    book.release(on(0))
    assert twin.ring("b", on(0, turn=1)) == {"a"}


def test_a_node_that_returns_is_free_but_for_what_jobs_still_hold_there(book: Tenancy) -> None:
    book.claim("a", on(1, 2))
    book.free.remove("n0")
    assert book.free.total == 0
    book.add(Node("n0", 4))
    assert list(map(str, book.free)) == ["n0:0", "n0:3"]
    book.release(on(1, 2))
    assert book.free.total == 4


def test_a_node_may_return_with_fewer_devices_than_jobs_hold_there(book: Tenancy) -> None:
    book.claim("a", on(1, 2))
    book.free.remove("n0")
    book.add(Node("n0", 2))
    assert list(map(str, book.free)) == ["n0:0"]
