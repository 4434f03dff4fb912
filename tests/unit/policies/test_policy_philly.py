"""Philly's scheduler in small stories: shares, tries, locality, and what is taken back."""

from tests.unit.stories import Story, play
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobFailed, JobSubmitted
from treadle.core.free import FreeDevices
from treadle.core.job import JobSpec
from treadle.core.reasons import Reason
from treadle.policies.base.placement import Consolidate
from treadle.policies.simple.philly import PHILLY_NODES, Places
from treadle.testing.builders import job


def started(text: str, jobs: list[JobSpec], cluster: str = "2x4") -> list[str]:
    return [line for line in play(text, jobs, cluster) if " start " in line]


def test_a_job_that_finds_no_place_tries_again_after_three_minutes() -> None:
    """c could start at 100 s, when a and b end, and does when it tries: at 180 s."""
    jobs = [job("a", size=3), job("b", size=3), job("c", size=2)]
    assert started("philly", jobs)[2] == "180 start c n0:0,1"


def test_locality_is_given_up_step_by_step() -> None:
    """Two devices are free, one on each node: too many nodes for the first try, not for later."""
    jobs = [job("a", size=3, length_s=5000.0), job("b", size=3, length_s=5000.0), job("c", size=2)]
    assert started("philly?r1=2&r2=9", jobs)[-1] == "360 start c n1:3 n0:3"
    assert started("philly?r1=0&r2=9", jobs)[-1] == "0 start c n1:3 n0:3"


def test_racks_are_crossed_only_at_last() -> None:
    cluster = Cluster(tuple(Node(f"n{i}", 2, rack=f"r{i // 2}") for i in range(4)))
    free, places = FreeDevices.of(cluster), Places(Consolidate())
    free.take([device for device in free if device.number == 0])
    assert places.find(cluster, free, 2, 0) is None
    found = places.find(cluster, free, 2, 1)
    assert found is not None
    assert {device.node for device in found} in ({"n0", "n1"}, {"n2", "n3"})
    assert places.find(cluster, free, 3, 1) is None
    assert len(places.find(cluster, free, 3, 2) or ()) == 3


def test_tenants_borrow_only_what_no_other_tenant_wants() -> None:
    """1. red has half of four devices as its quota and borrows the rest at 0 s.
    2. At 10 s both want more; the one device that comes free goes to blue.
    3. It is given back at 30 s; red, which tries every nine seconds, has it at the next try.
    """
    jobs = [
        job("r1", size=2, length_s=500.0, tenant="red"),
        job("r2", size=1, length_s=10.0, tenant="red"),
        job("b0", size=1, length_s=500.0, tenant="blue"),
        job("r3", size=1, tenant="red", at=1.0),
        job("b1", size=1, tenant="blue", at=1.0, length_s=20.0),
    ]
    found = started("philly?retry_s=9&tick_s=1", jobs, "1x4")
    assert found[3:] == ["10 start b1 n0:3", "37 start r3 n0:3"]


def test_a_tenant_holds_no_more_than_its_limit_whatever_is_idle() -> None:
    """Half of eight devices is red's quota; with most=1 it never borrows, with 1.5 up to six."""
    jobs = [job(f"r{n}", size=2, tenant="red") for n in range(4)]
    quotas = "philly?quotas=red:1:blue:1&retry_s=9&tick_s=1"
    at_once = [line for line in started(quotas, jobs) if line.startswith("0 ")]
    assert len(at_once) == 4
    for most, count in ((1, 2), (1.5, 3)):
        found = started(f"{quotas}&most={most}", jobs)
        assert [line.startswith("0 ") for line in found].count(True) == count
        assert len(found) == 4
    assert len([line for line in started(f"{quotas}&most=1&granted=2", jobs) if "0 " in line]) == 4


def test_a_job_beyond_the_limit_runs_when_its_tenant_holds_nothing_else() -> None:
    jobs = [job("a", size=1, tenant="red"), job("b", size=8, tenant="red", at=1.0)]
    found = started("philly?quotas=red:1:blue:3&most=1&retry_s=9&tick_s=1", jobs)
    assert found[1] == "100 start b n1:0,1,2,3 n0:0,1,2,3"


def test_a_job_of_several_nodes_waits_for_a_rack_that_has_them() -> None:
    cluster = Cluster(tuple(Node(f"n{i}", 2, rack=f"r{i // 2}") for i in range(4)))
    free, places = FreeDevices.of(cluster), Places(Consolidate())
    free.take([device for device in free if device.node in {"n1", "n3"}])
    assert places.find(cluster, free, 4, 1) is None
    assert len(places.find(cluster, free, 4, 2) or ()) == 4
    free.give([device for device in free.emptied() if device.node in {"n1", "n3"}])
    assert len(places.find(cluster, free, 6, 0) or ()) == 6, "no rack has six"


def test_waiting_for_a_share_is_named_and_counted() -> None:
    story = Story("philly?quotas=red:1:blue:3", "1x4")
    story.tell(0.0, JobSubmitted(job("a", size=4, tenant="red")))
    story.tell(1.0, JobSubmitted(job("b", size=2, tenant="red")))
    story.tell(2.0, JobSubmitted(job("c", size=2, tenant="blue")))
    snapshot = story.scheduler.snapshot(2.0)
    assert story.scheduler.policy.held_back(snapshot) == {2: 1}
    numbers = {"quota": 1.0, "used": 4, "asked": 2}
    assert story.scheduler.why("b", 2.0) == Reason("quota", {"tenant": "red", **numbers})
    assert story.scheduler.why("c", 2.0).code == "devices"


def test_waiting_for_a_better_place_is_named_with_the_next_try() -> None:
    story = Story("philly", "2x4")
    story.tell(0.0, *(JobSubmitted(job(name, size=3)) for name in "ab"))
    story.tell(2.0, JobSubmitted(job("c", size=2)))
    numbers = {"asked": 2, "tries": 1, "level": 0, "in_s": 208.0}
    assert story.scheduler.why("c", 2.0) == Reason("tries", numbers)


def test_borrowed_devices_are_taken_back_from_the_youngest() -> None:
    """blue has waited for ten minutes within its quota of half the devices."""
    jobs = [
        job("old", size=2, length_s=9000.0, tenant="red"),
        job("young", size=2, length_s=9000.0, tenant="red", at=1.0),
        job("b", size=2, tenant="blue", at=2.0),
    ]
    found = play("philly", jobs, "1x4")
    assert found[2:4] == ["750 stop young", "750 start b n0:2,3"]
    assert not any("stop" in line for line in play("philly?full=1.1", jobs, "1x4"))


def test_a_job_that_failed_joins_the_end_of_its_queue() -> None:
    story = Story("philly?retry_s=1&tick_s=1", "1x4")
    story.tell(0.0, *(JobSubmitted(job(name, size=4, retries=1)) for name in "ab"))
    story.runs(0.0, "a")
    actions = story.tell(5.0, JobFailed("a", story.scheduler.jobs["a"].action, 1.0))
    assert [action.job for action in actions] == ["b"]


def test_quotas_of_the_study_are_known() -> None:
    assert sum(PHILLY_NODES.values()) == 352
    jobs = [job("a", size=4, tenant="6214e9"), job("b", size=4, tenant="unheard of")]
    assert len(started("philly?quotas=philly", jobs)) == 2
