"""Rows that are written whole, which is quicker, are those that `_replace` would write."""

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobSpec
from treadle.core.lifecycle import Phase

HELD = Allocation((Device("n0", 0), Device("n0", 1)))
# Every number another, so that none can stand in another's place.
ROW = Job(
    JobSpec("a", 50.0),
    *(3, Phase.WAITING, 1.0, 2.0, None, 0.5, 0.25, 1.5, 7.0, 8.0, 4, 5, 9.0, 10.0, 2, 1, 11.0),
    ("n7",),
    None,
    12.0,
)


def test_a_start() -> None:
    assert ROW.given(Phase.STARTING, HELD, 77, 20.0) == ROW._replace(
        phase=Phase.STARTING,
        since_at=20.0,
        observed_at=20.0,
        allocation=HELD,
        action=77,
        attempt=77,
        begun_at=20.0,
        last_wait_s=18.0,
        starts=3,
        waited_s=30.0,
    )


def test_a_report_that_it_runs() -> None:
    assert ROW.started(Phase.RUNNING, 6.0, 0.75, 30.0) == ROW._replace(
        phase=Phase.RUNNING, since_at=30.0, iterations_done=6.0, iterations_per_s=0.75
    )


def test_a_report_of_progress() -> None:
    for row in (ROW, ROW._replace(allocation=HELD)):
        assert row.progressed(6.0, 0.75, 30.0) == row._replace(
            iterations_done=6.0,
            iterations_per_s=0.75,
            held_s=row.held_at(30.0),
            service_s=row.service_at(30.0),
            observed_at=30.0,
        )
