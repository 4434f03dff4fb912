"""The lease of a controller: one lives, others are refused, and epochs only grow."""

import threading
from collections.abc import Callable

import pytest

from treadle.core.errors import InvalidInputError
from treadle.engines.clusters.ray import lease
from treadle.engines.clusters.ray.lease import Holder, Lease

ANN = Holder(text="host a, pid 7, state folder /a", instance="a:/a")
BOB = Holder(text="host b, pid 9, state folder /b", instance="b:/b")


class Values:
    """The key-value store of one cluster, in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}
        self.lock = threading.Lock()

    def create(self, key: str, value: bytes) -> bool:
        with self.lock:
            if key in self.rows:
                return False
            self.rows[key] = value
            return True

    def put(self, key: str, value: bytes) -> None:
        self.rows[key] = value

    def get(self, key: str) -> bytes | None:
        return self.rows.get(key)

    def keys(self, prefix: str) -> list[str]:
        return [key for key in list(self.rows) if key.startswith(prefix)]

    def delete(self, key: str) -> None:
        self.rows.pop(key, None)


class Pauses:
    """Time as a newcomer spends it; something may happen meanwhile."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.spent_s, self._then = 0.0, then

    def __call__(self, seconds: float) -> None:
        self.spent_s += seconds
        self._then()


def test_a_second_controller_is_refused_and_told_who_has_the_lease() -> None:
    values, beats = Values(), iter(range(1, 1000))
    held = lease.take(values, ANN, pause=Pauses())
    lease.renew(values, held, 0)
    alive = Pauses(lambda: lease.renew(values, held, next(beats)))
    with pytest.raises(InvalidInputError) as refused:
        lease.take(values, BOB, pause=alive)
    assert str(refused.value) == (
        "another Treadle manages this Ray cluster: host a, pid 7, state folder /a; stop it there "
        "with treadle down, or use that one"
    )
    assert alive.spent_s < lease.LEASE_S / 10


def test_a_lease_that_is_not_renewed_runs_out_and_the_next_epoch_is_higher() -> None:
    values, waiting = Values(), Pauses()
    held = lease.take(values, ANN, pause=Pauses())
    lease.renew(values, held, 5)
    assert lease.take(values, BOB, pause=waiting) == Lease(held.epoch + 1)
    assert waiting.spent_s >= lease.LEASE_S
    assert lease.renew(values, held, 6) == BOB  # The first one hears of it.


def test_a_lease_that_was_given_back_is_taken_at_once() -> None:
    values, waiting = Values(), Pauses()
    held = lease.take(values, ANN, pause=waiting)
    lease.give_back(values, held)
    assert lease.take(values, BOB, pause=waiting).epoch == 2
    assert waiting.spent_s == 0


def test_a_holder_that_leaves_while_another_waits_is_followed_at_once() -> None:
    values = Values()
    held = lease.take(values, ANN, pause=Pauses())
    lease.renew(values, held, 3)
    waiting = Pauses(lambda: lease.give_back(values, held))
    assert lease.take(values, BOB, pause=waiting).epoch == 2
    assert waiting.spent_s < 1


def test_the_same_state_folder_takes_over_at_once_after_a_crash() -> None:
    values, waiting = Values(), Pauses()
    lease.renew(values, lease.take(values, ANN, pause=waiting), 1)
    assert lease.take(values, ANN, pause=waiting).epoch == 2
    assert waiting.spent_s == 0


def test_a_controller_that_lost_its_driver_keeps_its_epoch() -> None:
    values = Values()
    held = lease.take(values, ANN, above=4, pause=Pauses())
    assert held == Lease(5)
    assert lease.take(values, ANN, resumes=5, pause=Pauses()) == held


def test_it_does_not_if_another_had_the_cluster_in_between() -> None:
    values = Values()
    lease.take(values, ANN, pause=Pauses())
    lease.give_back(values, lease.take(values, BOB, pause=Pauses()))
    assert lease.take(values, ANN, resumes=1, pause=Pauses()).epoch == 3


def test_a_cluster_that_was_started_again_goes_on_with_the_epoch_of_its_controller() -> None:
    assert lease.take(Values(), ANN, resumes=7, pause=Pauses()) == Lease(7)


def test_of_many_at_once_each_has_another_epoch() -> None:
    values, taken = Values(), []
    gate = threading.Barrier(8)

    def newcomer(number: int) -> None:
        gate.wait()
        mine = Holder(text="", instance="one folder")
        taken.append(lease.take(values, mine, pause=Pauses()).epoch)

    threads = [threading.Thread(target=newcomer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken)) == 8
    assert values.keys("lease/") == [f"lease/{max(taken):012d}"]
