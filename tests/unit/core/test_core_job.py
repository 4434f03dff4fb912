"""Jobs, and their rows."""

from math import inf, nan

import pytest

from tests.unit.stories import Told
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobSubmitted
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.ranking import Rank
from treadle.core.reasons import Reason
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule

TWO = Allocation((Device("n0", 0), Device("n0", 1)))


def test_a_job_needs_an_id() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        JobSpec("", 1.0)
    assert str(refusal.value) == "a job needs an id"


@pytest.mark.parametrize(
    ("work", "shown"), [(0.0, "0"), (-2.5, "-2.5"), (inf, "inf"), (nan, "nan")]
)
def test_work_is_a_number_above_zero(work: float, shown: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        JobSpec("a", work)
    assert str(refusal.value) == f"job a has {shown} of work; expected a number above 0"


@pytest.mark.parametrize("sizes", [(), (0,), (-1, 2), (2, 1), (1, 1)])
def test_sizes_ascend_from_one(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        JobSpec("a", 1.0, sizes=sizes)
    assert str(refusal.value) == f"job a asks for sizes {sizes}; expected ascending numbers from 1"


def test_the_asked_size_is_one_of_the_sizes() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        JobSpec("a", 1.0, sizes=(2, 4), asked=3)
    assert str(refusal.value) == "job a asks for 3, not one of (2, 4)"


def test_without_an_asked_size_it_is_the_largest() -> None:
    assert JobSpec("a", 1.0, sizes=(2, 4)).asked == 4
    assert JobSpec("a", 1.0, sizes=(2, 4), asked=2).asked == 2


def test_several_sizes_mean_elastic() -> None:
    assert JobSpec("a", 1.0, sizes=(1, 2)).elastic
    assert not JobSpec("a", 1.0, sizes=(2,)).elastic


def test_an_iteration_is_its_stages_one_after_another() -> None:
    assert Profile(load_s=1.0, prepare_s=2.0, compute_s=4.0, sync_s=8.0).iteration_s == 15.0


def test_a_measured_iteration_counts_more_than_its_stages() -> None:
    assert Profile(load_s=1.0, compute_s=4.0, alone_s=4.5).iteration_s == 4.5


@pytest.mark.parametrize("curve", [((2, 1.0), (2, 0.5)), ((4, 1.0), (2, 0.5)), ((1, 0.0),)])
def test_a_scaling_curve_ascends_in_size_and_takes_time(
    curve: tuple[tuple[int, float], ...],
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        Profile(curve=curve)
    assert str(refusal.value) == f"a scaling curve must ascend in size, not {curve}"


def running(**fields: float) -> Job:
    """A job of 100 iterations at 2 a second on two devices, last seen at 10 s."""
    row = Job(
        JobSpec("a", 100.0, sizes=(2,)),
        sequence=0,
        phase=Phase.RUNNING,
        submitted_at=0.0,
        since_at=10.0,
        allocation=TWO,
        iterations_done=20.0,
        iterations_per_s=2.0,
        observed_at=10.0,
        held_s=5.0,
        service_s=10.0,
    )
    return row._replace(**fields)  # type: ignore[arg-type]


def test_counts_are_carried_forward_at_the_last_reported_speed() -> None:
    job = running()
    assert job.iterations_at(15.0) == 30.0
    assert job.remaining_at(15.0) == 70.0
    assert job.held_at(15.0) == 10.0
    assert job.service_at(15.0) == 20.0


def test_work_is_never_carried_past_the_end() -> None:
    assert running().iterations_at(1000.0) == 100.0
    assert running().remaining_at(1000.0) == 0.0


def test_a_job_that_waits_stands_still() -> None:
    job = running()._replace(allocation=None, iterations_per_s=0.0)
    assert (job.size, job.iterations_at(99.0)) == (0, 20.0)
    assert (job.held_at(99.0), job.service_at(99.0)) == (5.0, 10.0)
    assert job.settled(99.0) == job._replace(observed_at=99.0)


def test_settling_changes_what_is_written_and_not_what_is_true() -> None:
    job = running()
    settled = job.settled(15.0)
    assert settled.observed_at == 15.0
    for moment in (15.0, 17.0, 60.0):
        assert settled.iterations_at(moment) == job.iterations_at(moment)
        assert settled.held_at(moment) == job.held_at(moment)
        assert settled.service_at(moment) == job.service_at(moment)


# -- what is assumed of what is not said -----------------------------------------------------------


def test_a_profile_of_which_nothing_is_known_is_one_second_of_computing_on_one_device() -> None:
    assert Profile() == Profile(
        load_s=0.0,
        prepare_s=0.0,
        compute_s=1.0,
        sync_s=0.0,
        alone_s=0.0,
        size=1,
        serial=0.0,
        restart_s=0.0,
        memory_gib=0.0,
        model="",
        curve=(),
    )
    assert Profile().iteration_s == 1.0


def test_a_job_of_which_only_the_work_is_known_asks_for_one_device() -> None:
    assert JobSpec("a", 5.0) == JobSpec(
        "a",
        5.0,
        sizes=(1,),
        asked=1,
        profile=Profile(),
        plans=(Plan(1, 1, None, "none", offload=False, recompute=False, accumulate=1),),
        submit_at=0.0,
        guaranteed=True,
        priority=0,
        retries=0,
        estimate_s=0.0,
        trial=False,
        resumable=True,
    )


def test_a_row_begins_with_nothing_done_and_no_order() -> None:
    row = Job(JobSpec("a", 5.0), 0, Phase.WAITING, 3.0, 3.0)
    assert row[5:11] == (None, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert row[11:] == (-1, -1, 0.0, 0.0, 0, 0, 0.0, (), None, 0.0, (), "", (), 0.0)
    assert row.size == 0


def test_a_job_may_be_tried_on_one_device_only_if_it_says_so() -> None:
    assert [JobSpec("a", 5.0, sizes=(2, 4)).runs_on(size) for size in (1, 2, 3, 4)] == [
        False,
        True,
        False,
        True,
    ]
    tried = JobSpec("a", 5.0, sizes=(2, 4), trial=True)
    assert [tried.runs_on(size) for size in (1, 2, 3, 4)] == [True, True, False, True]
    assert not JobSpec("a", 5.0, sizes=(2,)).elastic
    assert tried.elastic


def test_an_allocation_is_its_devices_in_the_first_turn_unless_said() -> None:
    plain = Allocation((Device("n0", 0),))
    assert plain == Allocation((Device("n0", 0),), DATA_PARALLEL, 0, None)
    assert plain != Allocation((Device("n0", 0),), DATA_PARALLEL, 1, None)


# -- what a policy answers unless it says otherwise ------------------------------------------------


def test_a_policy_that_says_nothing_ranks_by_arrival_and_lets_others_overtake() -> None:
    decider = Told()
    scheduler = Scheduler(decider, Cluster.grid(1, 4))
    scheduler.step([JobSubmitted(JobSpec("a", 5.0)), JobSubmitted(JobSpec("b", 5.0))], 0.0)
    assert decider.rank(scheduler.jobs["a"], 9.0) == Rank(0.0)
    assert [identity for _, _, identity in scheduler.ranking.queue] == ["a", "b"]
    assert not decider.in_order
    assert dict(decider.held_back(scheduler.snapshot(0.0))) == {}


def test_a_policy_that_says_nothing_refuses_only_what_is_larger_than_the_cluster() -> None:
    decider, cluster = Told(), Cluster.grid(1, 4)
    assert decider.never_fits(JobSpec("a", 5.0, sizes=(4, 8)), cluster) is None
    assert decider.never_fits(JobSpec("a", 5.0, sizes=(5, 8)), cluster) == (
        "it asks for 5 devices and the cluster has 4"
    )


def test_a_policy_that_says_nothing_knows_running_from_waiting() -> None:
    decider = Told(Schedule({"a": Allocation((Device("n0", 0),))}))
    scheduler = Scheduler(decider, Cluster.grid(1, 4))
    scheduler.step([JobSubmitted(JobSpec("a", 5.0)), JobSubmitted(JobSpec("b", 5.0))], 0.0)
    assert scheduler.why("a", 1.0) == Reason("starting", {"size": 1})
    assert scheduler.why("b", 1.0) == Reason("rank", {"ahead": 0})


def test_an_iteration_that_takes_no_time_is_refused() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        Profile(compute_s=0.0)
    assert str(refusal.value) == "the stages take 0 seconds; expected at least one to take longer"
    assert Profile(compute_s=0.5).iteration_s == 0.5


# -- Rows that are written whole, which is quicker, are those that `_replace` would write ----------


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
