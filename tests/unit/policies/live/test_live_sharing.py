"""Jobs that join running ones, in small stories; no device ever gets more memory than it has."""

from dataclasses import replace

import pytest

from tests.unit.stories import Told
from treadle.control.loop import PolicyInCharge, belief_on
from treadle.core.actions import Action, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.errors import PolicyError
from treadle.core.events import (
    JobCancelled,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    JobUpdated,
)
from treadle.core.job import JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule
from treadle.models.company.belief import CompanyBelief
from treadle.policies.live.naming import allows, with_setting, wrapped
from treadle.policies.live.patience import WAIT_S

DEVICE = Device("n0", 0)


def gpus(count: int, gib: float = 80.0, cores: int = 16) -> Cluster:
    return Cluster((Node("n0", count, device_memory_gib=gib, cores=cores),))


def seen(name: str, busy: float | None = 0.2, gib: float = 4.0, **fields: object) -> JobSpec:
    """A job that was seen alone, and cannot be stopped without losing its work."""
    profile = Profile(busy=busy, memory_gib=gib, model=name)
    given = {"resumable": False, **fields}
    return JobSpec(name, 1000.0, profile=profile, **given)  # type: ignore[arg-type]


def live(
    text: str = "afs", cluster: Cluster | None = None, belief: CompanyBelief | None = None
) -> Scheduler:
    """A scheduler with the policy and belief of a live controller."""
    found = cluster or gpus(1)
    belief = belief or belief_on(found)
    return Scheduler(PolicyInCharge().make(text, "consolidate", belief), found)


def told(scheduler: Scheduler, now: float, *specs: JobSpec) -> list[Action]:
    """Submit these jobs; those that are ordered to start then run."""
    actions = scheduler.step([JobSubmitted(spec) for spec in specs], now)
    starts = [action for action in actions if isinstance(action, Start)]
    scheduler.step([JobStarted(a.job, a.id, 0.0, 1.0) for a in starts], now)
    return actions


@pytest.mark.parametrize("policy", ["fifo", "afs", "las", "muri-l", "muri-s"])
def test_u10_a_newcomer_joins_a_running_job_at_once_and_stops_none(policy: str) -> None:
    """Neither job can resume, so nothing but a plain start would do."""
    scheduler = live(policy)
    told(scheduler, 0.0, seen("a"))
    (order,) = told(scheduler, 5.0, seen("b"))
    assert isinstance(order, Start)
    assert (order.job, order.after) == ("b", ())
    assert order.allocation == Allocation((DEVICE,), turn=1)


def test_a_job_joins_once_it_is_known_and_not_before() -> None:
    scheduler = live()
    told(scheduler, 0.0, seen("a", busy=None))
    assert told(scheduler, 1.0, seen("b")) == []
    actions = scheduler.step([JobUpdated(seen("a"))], 60.0)
    assert [(type(a), a.job) for a in actions] == [(Start, "b")]


@pytest.mark.parametrize(
    ("running", "newcomer"),
    [
        (seen("a", busy=None), seen("b", busy=None)),
        (seen("a", gib=50.0), seen("b", busy=None, gib=0.0)),
        (seen("a", gib=50.0), seen("b", busy=None, gib=30.0)),
        (seen("a"), seen("b", gib=0.0)),
        (seen("a"), seen("b", exclusive=True)),
        (seen("a", exclusive=True), seen("b")),
        (seen("a", busy=1.0), seen("b", busy=1.0)),
        (seen("a", gib=50.0), seen("b", gib=30.0)),
        (seen("a", priority=1), seen("b")),
        (seen("a", busy=0.3), seen("b", sizes=(2,))),
    ],
    ids=[
        "unseen",
        "large",
        "both",
        "unknown",
        "exclusive",
        "beside",
        "busy",
        "memory",
        "priority",
        "size",
    ],
)
def test_jobs_that_do_not_share(running: JobSpec, newcomer: JobSpec) -> None:
    scheduler = live(cluster=Cluster((*gpus(1).nodes, Node("n1", 1, device_memory_gib=80.0))))
    told(scheduler, 0.0, running, seen("z", exclusive=True))
    assert told(scheduler, 1.0, newcomer) == []


@pytest.mark.parametrize("policy", ["fifo", "afs", "muri-l", "weave-l"])
def test_a_job_of_which_nothing_is_known_is_tried_beside_one_that_leaves_room(policy: str) -> None:
    scheduler = live(policy, gpus(2))
    told(scheduler, 0.0, seen("busy", busy=0.7), seen("idle", busy=0.1))
    (order,) = told(scheduler, 5.0, seen("new", busy=None, gib=0.0))
    assert isinstance(order, Start)
    idle = scheduler.jobs["idle"].allocation
    assert idle is not None
    assert (order.allocation.devices, order.allocation.turn) == (idle.devices, 1)
    (order,) = told(scheduler, 6.0, seen("newer", busy=None, gib=0.0))
    assert isinstance(order, Start), "one at a time beside each"
    assert order.allocation.devices != idle.devices
    assert told(scheduler, 7.0, seen("newest", busy=None, gib=0.0)) == []


def test_the_next_is_tried_once_the_one_before_trains() -> None:
    """Both are taken to need 40 % of the memory, so a third has to wait."""
    belief = belief_on(gpus(1))
    scheduler = live("fifo", gpus(1), belief)
    told(scheduler, 0.0, seen("idle", busy=0.1))
    (first,) = told(scheduler, 5.0, seen("first", busy=None, gib=0.0))
    group = frozenset(("idle", "first"))
    assert told(scheduler, 6.0, seen("second", busy=None, gib=0.0)) == []
    belief.present([group], group)
    scheduler.wake_at = 8.0
    (second,) = scheduler.step([], 8.0)
    assert isinstance(first, Start)
    assert isinstance(second, Start)
    assert (first.allocation.turn, second.allocation.turn) == (1, 2)
    scheduler.step([JobStarted("second", second.id, 0.0, 1.0)], 9.0)
    belief.present([group | {"second"}], group | {"second"})
    assert told(scheduler, 10.0, seen("third", busy=None, gib=0.0)) == []


def test_none_is_tried_beside_newcomers_alone() -> None:
    """The job that was known has ended: what they cost it is not seen any more."""
    belief = belief_on(gpus(1))
    scheduler = live("fifo", gpus(1), belief)
    (idle,) = told(scheduler, 0.0, seen("idle", busy=0.1))
    told(scheduler, 5.0, seen("first", busy=None, gib=0.0))
    scheduler.step([JobFinished("idle", idle.id)], 6.0)
    belief.present([], {"first"})
    assert told(scheduler, 7.0, seen("second", busy=None, gib=0.0)) == []


@pytest.mark.parametrize("text", ["fifo?tries=off", "fifo?share=off"])
def test_trying_can_be_switched_off(text: str) -> None:
    scheduler = live(wrapped(text))
    told(scheduler, 0.0, seen("a", busy=0.1))
    assert told(scheduler, 5.0, seen("b", busy=None, gib=0.0)) == []


def test_groups_are_formed_up_to_four_and_by_what_they_gain() -> None:
    scheduler = live("afs", gpus(2))
    told(scheduler, 0.0, seen("busy", busy=0.9), seen("idle", busy=0.1))
    joined = [told(scheduler, 1.0 + n, seen(f"n{n}", busy=0.1)) for n in range(7)]
    where = [a.allocation.devices[0].number for (a,) in joined[:3] if isinstance(a, Start)]
    assert len(where) == 3
    sizes = [len(turns) for turns in scheduler.tenancy.tenants.values()]
    assert max(sizes) == 4
    assert sum(sizes) <= 8


def using(name: str, cores: float, **fields: object) -> JobSpec:
    """A job that was seen alone, with the cores that it used beside each device."""
    spec = seen(name, **fields)  # type: ignore[arg-type]
    return replace(spec, profile=replace(spec.profile, cores=cores))


def test_a_node_has_the_cores_that_its_jobs_were_measured_to_use() -> None:
    """Three augment on the CPU with seven cores each: two of them are all that 16 cores carry."""
    scheduler = live("afs", gpus(1, cores=16))
    told(scheduler, 0.0, using("a", 7.0))
    assert len(told(scheduler, 1.0, using("b", 7.0))) == 1
    assert told(scheduler, 2.0, using("c", 7.0)) == []
    assert len(told(scheduler, 3.0, using("d", 3.0))) == 1, "a smaller one still fits"


@pytest.mark.parametrize("policy", ["fifo", "afs", "muri-l", "weave-l"])
def test_two_jobs_of_somewhat_more_than_a_core_each_share_a_machine_of_two(policy: str) -> None:
    """A training on one thread, with a helper thread, uses 1.07 cores. It costs them 7 % of their
    speed, which is no reason to wait for half of it."""
    scheduler = live(policy, Cluster((Node("n0", 1, cores=2),)))
    told(scheduler, 0.0, using("a", 1.07, busy=0.535))
    (order,) = told(scheduler, 1.0, using("b", 1.07, busy=0.535))
    assert isinstance(order, Start)
    assert order.allocation == Allocation((DEVICE,), turn=1)


def test_cores_of_a_group_are_those_beside_each_of_its_devices() -> None:
    """Jobs on both devices of a node with 4 cores have 2 for each."""
    scheduler = live("fifo", gpus(2, cores=4))
    told(scheduler, 0.0, using("a", 1.5, sizes=(2,)))
    assert told(scheduler, 1.0, using("b", 1.5, sizes=(2,))) == []
    assert len(told(scheduler, 2.0, using("c", 0.7, sizes=(2,)))) == 1


def test_cores_that_a_job_asks_for_count_as_if_it_used_them() -> None:
    scheduler = live("afs", gpus(1, cores=16))
    told(scheduler, 0.0, using("a", 1.0, host_cores=12.0))
    assert told(scheduler, 1.0, using("b", 6.0)) == []
    assert len(told(scheduler, 2.0, using("c", 3.0))) == 1


@pytest.mark.parametrize("policy", ["muri-l", "muri-s"])
def test_policies_that_form_groups_themselves_look_at_cores_too(policy: str) -> None:
    scheduler = live(policy, gpus(1, cores=4))
    told(scheduler, 0.0, using("a", 3.0))
    assert told(scheduler, 1.0, using("b", 3.0)) == []
    assert len(told(scheduler, 2.0, using("c", 1.0))) == 1


def test_sharing_can_be_switched_off_for_any_policy() -> None:
    for text in ("afs?share=off", "muri-l?share=off", "muri-l?group=2&share=off"):
        scheduler = live(text)
        told(scheduler, 0.0, seen("a"))
        assert told(scheduler, 1.0, seen("b")) == []
    assert wrapped("muri-l?group=2&share=off") == "muri-l?group=2+live?share=off"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("weave-l", "weave-l?tries=off"),
        ("weave-l?power=1&tries=on", "weave-l?power=1&tries=off"),
        ("afs+locality+live?tries=on", "afs?tries=off+locality"),
        ("afs+live?pause=off&tries=on", "afs?tries=off+live?pause=off"),
    ],
)
def test_a_setting_of_the_decision_replaces_the_one_that_was_there(
    text: str, expected: str
) -> None:
    assert with_setting(text, "tries", "off") == expected
    assert not allows(expected, "tries")
    assert allows(with_setting(expected, "tries", "on"), "tries")


def test_jobs_that_slow_each_other_more_than_predicted_are_parted_and_it_is_remembered() -> None:
    cluster = gpus(1)
    belief = belief_on(cluster)
    scheduler = Scheduler(PolicyInCharge().make("afs", "consolidate", belief), cluster)
    old, new = seen("a"), seen("b", resumable=True)
    told(scheduler, 0.0, old)
    assert len(told(scheduler, 1.0, new)) == 1
    group = {"a": (old, 0.4), "b": (new, 0.4)}
    assert belief.measured(group, 10.0, mps=False) is None
    assert belief.measured(group, 30.0, mps=False) is not None
    scheduler.stale = True
    (order,) = scheduler.step([], 30.0)
    assert isinstance(order, Stop)
    assert order.job == "b"
    scheduler.step([JobStopped("b", order.id, 0.0)], 31.0)
    assert told(scheduler, 32.0, seen("c")) != [], "another kind may join"
    assert "b" not in scheduler.tenancy.tenants[DEVICE].values()


def test_a_job_of_higher_priority_takes_the_device_of_a_group() -> None:
    scheduler = live("afs")
    told(scheduler, 0.0, seen("a", resumable=True))
    told(scheduler, 1.0, seen("b", resumable=True))
    actions = told(scheduler, 2.0, seen("urgent", busy=None, priority=3))
    assert {(type(a), a.job) for a in actions} == {(Stop, "a"), (Stop, "b"), (Start, "urgent")}
    (start,) = [action for action in actions if isinstance(action, Start)]
    stopped = [action.job for action in actions if isinstance(action, Stop)]
    assert sorted(start.after) == sorted(stopped), "the memory of both is taken until they go"


def test_a_job_joins_no_device_before_those_that_leave_it_are_gone() -> None:
    """1. Three share. 2. The first two are cancelled and have not left. 3. One comes and goes into
    the first turn: it waits for both."""
    scheduler = live()
    told(scheduler, 0.0, seen("a"))
    told(scheduler, 1.0, seen("b"))
    told(scheduler, 2.0, seen("c"))
    scheduler.step([JobCancelled("a"), JobCancelled("b")], 3.0)
    (start,) = scheduler.step([JobSubmitted(seen("d"))], 4.0)
    assert isinstance(start, Start)
    assert start.allocation.turn == 0
    assert set(start.after) == {"a", "b"}
    assert set(scheduler.in_the_way("d")) == {"a", "b"}


# -- memory -------------------------------------------------------------------------------------


def test_s5_the_core_refuses_a_schedule_in_which_memory_does_not_fit() -> None:
    both = {"a": Allocation((DEVICE,)), "b": Allocation((DEVICE,), turn=1)}
    scheduler = Scheduler(Told(Schedule(both)), gpus(1))
    with pytest.raises(PolicyError, match="60 \\+ 40 GiB of device memory"):
        scheduler.step([JobSubmitted(seen("a", gib=60.0)), JobSubmitted(seen("b", gib=40.0))], 0.0)
    assert not scheduler.tenancy.tenants


def test_the_core_refuses_company_for_an_exclusive_job() -> None:
    both = {"a": Allocation((DEVICE,)), "b": Allocation((DEVICE,), turn=1)}
    scheduler = Scheduler(Told(Schedule(both)), gpus(1))
    with pytest.raises(PolicyError, match="job b is exclusive"):
        scheduler.step([JobSubmitted(seen("a")), JobSubmitted(seen("b", exclusive=True))], 0.0)


def test_no_job_joins_while_devices_are_reserved() -> None:
    """A job that joins keeps a device in use for longer: the gang would wait without end."""
    scheduler = live("backfill", gpus(2))
    told(scheduler, 0.0, seen("a"), seen("b"))
    told(scheduler, 1.0, seen("gang", sizes=(2,), exclusive=True))
    joined = [f"j{n}" for n in range(20) if told(scheduler, 2.0 + n, seen(f"j{n}"))]
    assert 0 < len(joined) < 20
    now = WAIT_S + 4 * 1000.0 + 2.0
    scheduler.step([], now)
    ended = [JobFinished(name, scheduler.jobs[name].action) for name in joined]
    scheduler.step(ended, now)
    assert told(scheduler, now + 1.0, seen("late")) == []


@pytest.mark.parametrize("resumable", [True, False])
def test_quotas_bind_sharing_as_they_bind_starts(resumable: bool) -> None:
    """A job within its quota is joined by none of a tenant that has none."""
    scheduler = live("weave-l?quotas=vision:1", gpus(2))
    told(scheduler, 0.0, seen("x", exclusive=True))
    told(scheduler, 1.0, seen("v", tenant="vision", resumable=resumable))
    assert told(scheduler, 5.0, seen("w", resumable=True)) == []


@pytest.mark.parametrize("policy", ["weave-l", "weave", "afs", "fifo", "las"])
@pytest.mark.parametrize("busy", [0.1, 0.3])
def test_equal_jobs_share_equally(policy: str, busy: float) -> None:
    """Six equal jobs on three devices, known once three of them have run for a while."""
    scheduler = live(policy, gpus(3))

    def equal(number: int, busy: float | None) -> JobSpec:
        profile = Profile(busy=busy, memory_gib=4.0, model="m", serial=1.0)
        return JobSpec(f"j{number}", 1000.0, (1, 2, 3), asked=1, profile=profile)

    told(scheduler, 0.0, *(equal(number, None) for number in range(6)))
    actions = scheduler.step([JobUpdated(equal(number, busy)) for number in range(6)], 20.0)
    assert [type(action) for action in actions] == [Start] * 3
    assert [len(turns) for turns in scheduler.tenancy.tenants.values()] == [2, 2, 2]
