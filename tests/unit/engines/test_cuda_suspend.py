"""Processes are suspended all together or not at all, whatever the driver refuses."""

import pytest

from treadle.engines.node.cuda_suspend import (
    CHECKPOINTED,
    LOCKED,
    RUNS,
    Driver,
    DriverError,
    bring_back,
    resume,
    suspend,
)


class Scripted(Driver):
    """A driver that knows these processes, and refuses one step of one of them."""

    def __init__(self, pids: tuple[int, ...], refuses: tuple[str, int] = ("", 0)) -> None:
        self.states = dict.fromkeys(pids, RUNS)
        self._refuses = refuses

    def state(self, pid: int) -> int | None:
        return self.states.get(pid)

    def lock(self, pid: int) -> None:
        self._step("lock", pid, RUNS, LOCKED)

    def checkpoint(self, pid: int) -> None:
        self._step("checkpoint", pid, LOCKED, CHECKPOINTED)

    def restore(self, pid: int) -> None:
        self._step("restore", pid, CHECKPOINTED, LOCKED)

    def unlock(self, pid: int) -> None:
        self._step("unlock", pid, LOCKED, RUNS)

    def _step(self, name: str, pid: int, before: int, after: int) -> None:
        assert self.states[pid] == before
        if (name, pid) == self._refuses:
            raise DriverError(f"{name} {pid}")
        self.states[pid] = after


def test_all_that_have_something_on_a_device_are_suspended_and_resumed() -> None:
    driver = Scripted((2, 3))
    suspend(driver, [1, 2, 3])
    assert driver.states == {2: CHECKPOINTED, 3: CHECKPOINTED}
    resume(driver, [1, 2, 3])
    assert driver.states == {2: RUNS, 3: RUNS}


@pytest.mark.parametrize(
    "refuses", [("lock", 2), ("lock", 3), ("checkpoint", 2), ("checkpoint", 3)]
)
def test_what_cannot_be_suspended_runs_on(refuses: tuple[str, int]) -> None:
    driver = Scripted((2, 3), refuses)
    with pytest.raises(DriverError):
        suspend(driver, [2, 3])
    assert driver.states == {2: RUNS, 3: RUNS}


def test_one_that_cannot_be_brought_back_does_not_hold_up_the_others() -> None:
    driver = Scripted((2, 3), ("restore", 2))
    suspend(driver, [2, 3])
    with pytest.raises(DriverError, match="restore 2"):
        resume(driver, [2, 3])
    assert driver.states == {2: CHECKPOINTED, 3: RUNS}


def test_a_job_is_brought_back_as_far_as_the_driver_knows_it() -> None:
    driver = Scripted((2, 3))
    suspend(driver, [2, 3])
    driver.restore(2)  # One that was brought back before, and said so to nobody.
    bring_back(driver, [1, 2, 3])
    assert driver.states == {2: RUNS, 3: RUNS}
    with pytest.raises(DriverError):
        bring_back(driver, [1])
