"""What a policy sees and answers, and the answers that it inherits."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.events import JobSubmitted
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
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


def test_a_job_larger_than_the_cluster_never_fits_unless_a_policy_knows_better() -> None:
    first, cluster = First(), Cluster.grid(1, 2)
    assert first.never_fits(job("a", size=2), cluster) is None
    assert first.never_fits(job("a", size=4, sizes=(1, 4)), cluster) is None
    assert first.never_fits(job("a", size=3), cluster) == (
        "it asks for 3 devices and the cluster has 2"
    )


def test_a_policy_has_something_to_say_about_every_job() -> None:
    world = scheduler("a", "b")
    assert world.why("a", 0.0).code == "starting"
    assert world.why("b", 0.0).code in ("devices", "rank")


def test_a_whole_schedule_names_only_what_differs() -> None:
    world = scheduler("a", "b")
    world.step([JobSubmitted(job("c"))], 1.0)
    snapshot = world.snapshot(2.0)
    assert {row.id for row in snapshot.holding()} == {"a", "b"}
    whole = Schedule.whole(snapshot, {"a": on(0), "c": on(1)}, valid_until=9.0)
    assert whole == Schedule({"b": None, "c": on(1)}, 9.0)


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


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    withheld=st.sets(st.integers(0, 7)),
    left=st.integers(0, 2),
)
def test_to_keep_all_that_run_is_the_same_done_at_once_or_one_by_one(
    sizes: list[int], withheld: set[int], left: int
) -> None:
    """Where all jobs that hold devices are kept, a shorter way leads to the same view."""
    made = Scheduler(policy("backfill", placement("count"), ScalingModel()), Cluster.grid(2, 4))
    jobs = [job(str(number), size=size, sizes=(size,)) for number, size in enumerate(sizes)]
    made.step([JobSubmitted(spec) for spec in jobs], 0.0)
    seen = made.snapshot(1.0)
    free = [Device(f"n{number // 4}", number % 4) for number in sorted(withheld)]
    seen = seen.withholding([device for device in free if seen.free.holds((device,))])
    rows = list(seen.holding())[left:]
    once, one_by_one = seen.keeping(rows), seen
    for row in rows:
        one_by_one = one_by_one.keeping([row])
    for view in (once, one_by_one):
        assert view.tenants == one_by_one.tenants
        assert list(view.free) == list(one_by_one.free)
        assert list(view.emptied()) == list(one_by_one.emptied())
        assert [row.id for row in view.holding()] == [row.id for row in one_by_one.holding()]
        assert [row.id for row in view.waiting()] == [row.id for row in one_by_one.waiting()]
        assert view.ranking.next_expiry_at == one_by_one.ranking.next_expiry_at
