"""What a policy sees and answers, and the answers that it inherits."""

from math import inf

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.events import JobFinished, JobSubmitted
from treadle.core.ports import Policy
from treadle.core.ranking import Rank
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import KEEP, Reason, Schedule, Snapshot
from treadle.testing.builders import job


def on(*numbers: int) -> Allocation:
    return Allocation(tuple(Device("n0", number) for number in numbers))


class First(Policy):
    """Gives the first device to the first job and writes nothing but `decide`."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        first = next(snapshot.waiting(), None)
        if first is None or not snapshot.free.total:
            return KEEP
        return Schedule({first.id: Allocation((next(iter(snapshot.free)),))})


def scheduler(*names: str) -> Scheduler:
    one = Scheduler(First(), Cluster.grid(1, 2))
    one.step([JobSubmitted(job(name)) for name in names], 0.0)
    return one


def test_a_policy_ranks_by_arrival_unless_it_says_otherwise() -> None:
    world = scheduler("a", "b", "c")
    assert [row.id for row in world.snapshot(0.0).waiting()] == ["b", "c"]
    assert [row.id for row in world.snapshot(0.0).holding()] == ["a"]
    assert First().rank(world.jobs["a"], 0.0) == Rank(0.0, 0.0, inf)


def test_a_job_larger_than_the_cluster_never_fits_unless_a_policy_knows_better() -> None:
    policy, cluster = First(), Cluster.grid(1, 2)
    assert policy.never_fits(job("a", size=2), cluster) is None
    assert policy.never_fits(job("a", size=4, sizes=(1, 4)), cluster) is None
    assert policy.never_fits(job("a", size=3), cluster) == (
        "it asks for 3 devices and the cluster has 2"
    )


def test_a_policy_has_something_to_say_about_every_job() -> None:
    world = scheduler("a", "b")
    assert world.why("a", 0.0) == Reason("running", "it runs")
    assert world.why("b", 0.0) == Reason("rank", "it waits for its turn")


def test_a_whole_schedule_names_only_what_differs() -> None:
    world = scheduler("a", "b")
    world.step([JobSubmitted(job("c"))], 1.0)
    snapshot = world.snapshot(2.0)
    assert {row.id for row in snapshot.holding()} == {"a", "b"}
    whole = Schedule.whole(snapshot, {"a": on(0), "c": on(1)}, valid_until=9.0)
    assert whole == Schedule({"b": None, "c": on(1)}, 9.0)


def test_to_keep_everything_is_to_change_nothing_for_ever() -> None:
    assert (dict(KEEP.changes), KEEP.valid_until) == ({}, inf)


def test_devices_that_are_withheld_are_neither_free_nor_held() -> None:
    world = scheduler("a", "b")
    world.step([], 1.0)
    seen = world.snapshot(1.0)
    assert list(map(str, seen.tenants)) == ["n0:0"]
    without = seen.withholding([Device("n0", 0)])
    assert (list(without.tenants), list(map(str, without.free))) == ([], ["n0:1"])
    without = seen.withholding([Device("n0", 1)])
    assert (list(map(str, without.tenants)), list(without.free)) == (["n0:0"], [])
    assert seen.withholding([]) is seen


def test_a_value_has_slots_and_is_compared_and_hashed_by_its_fields() -> None:
    assert not hasattr(JobFinished("a", 0), "__dict__")
    assert {JobFinished("a", 0), JobFinished("a", 0)} == {JobFinished("a", 0)}
    assert JobFinished("a", 0) != JobFinished("a", 1)


def test_keeping_a_job_that_waits_changes_nothing_for_the_others_kept() -> None:
    """Of the jobs to keep, the last holds nothing: the first is still out of the policy's reach."""
    world = scheduler("a", "b", "c")
    seen = world.snapshot(0.0)
    holder, waits = world.jobs["a"], world.jobs["c"]
    asked = [holder, waits]
    kept = seen.keeping(asked)
    assert asked == [holder, waits], "the caller's list is its own"
    assert (list(kept.tenants), [row.id for row in kept.holding()]) == ([], [])
    assert [row.id for row in kept.waiting()] == ["b", "c"]
    assert seen.keeping([waits]) is seen
