"""Quotas of tenants under the live decision."""

from dataclasses import replace

import pytest

from tests.properties.live_runs import LiveRun
from tests.unit.stories import Story
from treadle.core.actions import Start, Stop
from treadle.core.allocation import Pause
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobPaused, JobStarted, JobStopped, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason
from treadle.core.scheduler import Scheduler
from treadle.policies import registry
from treadle.policies.live.quotas import LENT_S
from treadle.testing.builders import job, policy
from treadle.testing.live_case import LiveCase

POLICIES = ("fifo", "backfill", "srtf", "afs", "las", "max-min", "weave-l", "muri-l", "tiresias")


def of(tenant: str, name: str, length_s: float = 5000.0, **fields: object) -> JobSubmitted:
    return JobSubmitted(replace(job(name, length_s=length_s, tenant=tenant), **fields))  # type: ignore[arg-type]


def story(text: str, quotas: str = "a:2/b:2") -> Story:
    return Story(f"{text}+live?quotas={quotas}", "1x4")


def settle(told: Story, now: float, *events: JobSubmitted) -> None:
    """All orders are carried out at once."""
    actions = told.tell(now, *events)
    while actions:
        stops = [JobStopped(a.job, a.id, 0.0) for a in actions if isinstance(a, Stop)]
        told.runs(now, *(a.job for a in actions if not isinstance(a, Stop)))
        actions = told.tell(now, *stops) if stops else []


def used(told: Story) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for row in told.scheduler.jobs.values():
        sizes[row.spec.tenant] = sizes.get(row.spec.tenant, 0) + row.size
    return sizes


@pytest.mark.parametrize("text", POLICIES)
def test_each_tenant_gets_its_quota_whatever_the_other_submitted_before(text: str) -> None:
    told = story(text)
    settle(told, 0.0, *(of("a", f"a{n}") for n in range(4)))
    assert used(told) == {"a": 4}
    settle(told, 100.0, of("b", "b0"), of("b", "b1"))
    held = [told.scheduler.jobs[name].allocation for name in ("b0", "b1")]
    assert len({device for own in held if own is not None for device in own.devices}) == 2


@pytest.mark.parametrize("text", POLICIES)
def test_what_cannot_be_given_back_is_not_lent(text: str) -> None:
    told = story(text)
    settle(told, 0.0, *(of("a", f"a{n}", resumable=False) for n in range(4)))
    assert used(told) == {"a": 2}
    reason = told.scheduler.why("a3", 0.0)
    assert reason == Reason("not-lent", {"tenant": "a", "asked": 1, "free": 2})


def pausable(told: Story, now: float) -> None:
    """All orders are carried out at once, and attempts say that they can be frozen."""
    rows = told.scheduler.jobs
    for row in [row for row in rows.values() if row.phase is Phase.STARTING]:
        if row.allocation is not None and row.allocation.paused:
            told.tell(now, JobPaused(row.id, row.action, row.allocation.paused))
        else:
            told.tell(now, JobStarted(row.id, row.action, 0.0, 1.0, pauses=(Pause.FROZEN,)))


@pytest.mark.parametrize("text", POLICIES)
def test_what_can_be_paused_is_lent_and_comes_back(text: str) -> None:
    """1. A's opportunistic jobs keep no checkpoints, and have all four devices. 2. B's first two
    come. 3. They have the devices of two that are frozen."""
    told = story(text)
    rigid = {"resumable": False, "guaranteed": False}
    told.tell(0.0, *(of("a", f"a{n}", **rigid) for n in range(4)))
    pausable(told, 0.0)
    assert used(told) == {"a": 4}
    told.tell(100.0, of("b", "b0"), of("b", "b1"))
    for at in (100.0, 101.0, 102.0):
        pausable(told, at)
        told.tell(at)
    rows = told.scheduler.jobs
    assert [rows[name].phase for name in ("b0", "b1")] == [Phase.RUNNING] * 2
    assert sorted(rows[f"a{n}"].phase for n in range(4)) == [Phase.PAUSED] * 2 + [Phase.RUNNING] * 2


@pytest.mark.parametrize(("needs_gib", "lent"), [(0.0, 0), (40.0, 4), (41.0, 0)])
def test_what_would_keep_most_of_the_memory_is_not_lent(needs_gib: float, lent: int) -> None:
    """Once frozen it keeps its GPU memory, and half is to be left."""
    told = story("fifo")
    cluster = Cluster((Node("n0", 4, device_memory_gib=80.0),))
    told.scheduler = Scheduler(policy("fifo+live?quotas=a:2/b:2&share=off"), cluster)
    jobs = [
        of("a", f"a{n}", resumable=False, guaranteed=False, device_memory_gib=needs_gib)
        for n in range(4)
    ]
    told.tell(0.0, *jobs)
    assert used(told) == {"a": lent}


def test_a_job_that_ends_soon_is_lent_devices() -> None:
    told = story("backfill")
    short = [of("a", f"a{n}", length_s=LENT_S - 1.0, resumable=False) for n in range(4)]
    settle(told, 0.0, *short)
    assert used(told) == {"a": 4}


def test_what_quotas_leave_goes_to_any_job() -> None:
    told = story("backfill", "a:1/b:1")
    settle(told, 0.0, *(of("c", f"c{n}", resumable=False) for n in range(4)))
    assert used(told) == {"c": 2}


def test_a_job_beyond_its_quota_waits_for_what_others_were_lent() -> None:
    """b has three devices, one more than its quota; a0 would take it if its quota was larger."""
    told = story("backfill", "a:1/b:2")
    settle(told, 0.0, of("a", "a0"), *(of("b", f"b{n}") for n in range(3)))
    settle(told, 1.0, of("a", "a1"))
    counts = {"quota": 1.0, "used": 1, "asked": 1}
    assert told.scheduler.why("a1", 1.0) == Reason("quota", {"tenant": "a", **counts})


def test_if_all_have_what_they_are_owed_devices_are_what_is_missing() -> None:
    told = story("backfill")
    settle(told, 0.0, *(of(tenant, f"{tenant}{n}") for tenant in "ab" for n in range(2)))
    settle(told, 1.0, of("a", "a2"))
    assert told.scheduler.why("a2", 1.0).code == "devices"


def test_an_elastic_job_gives_back_what_it_has_beyond_its_quota() -> None:
    told = Story("max-min+live?quotas=a:2/b:2", "1x4")
    wide = JobSpec("wide", 5000.0, (1, 2, 3, 4), asked=4, tenant="a")
    settle(told, 0.0, JobSubmitted(wide))
    assert used(told) == {"a": 4}
    settle(told, 100.0, of("b", "b0"), of("b", "b1"))
    assert used(told) == {"a": 2, "b": 2}
    assert told.scheduler.why("wide", 100.0).code == "shrunk"


def test_a_start_within_the_quota_says_whom_it_stopped() -> None:
    told = story("backfill")
    settle(told, 0.0, *(of("a", f"a{n}") for n in range(4)))
    actions = told.tell(100.0, of("b", "b0"))
    (stop,) = [action for action in actions if isinstance(action, Stop)]
    (start,) = [action for action in actions if isinstance(action, Start)]
    assert (stop.for_job, start.job) == ("b0", "b0")
    told.tell(101.0, JobStopped(stop.job, stop.id, 0.0))
    told.runs(101.0, "b0")
    found = Reason("preempted", {"for_job": "b0", "since_s": 4.0})
    assert told.scheduler.why(stop.job, 105.0) == found


# -- Quotas bind under every live policy: what is lent can be taken back in time -------------------


SOON_S = 10.0

QUOTAS = "quotas=a:2/b:2"


def long(identity: str, *, sizes: tuple[int, ...], resumable: bool) -> JobSpec:
    spec = job(identity, size=sizes[-1], sizes=sizes, length_s=1000.0, tenant="a")
    return replace(spec, resumable=resumable)


def lent(*, elastic: bool) -> LiveCase:
    """Four slots, two each for two tenants; one has submitted four long jobs when the other's
    first comes."""
    sizes = (1, 2, 3, 4) if elastic else (1,)
    jobs = [long(f"a{n}", sizes=sizes, resumable=elastic) for n in range(4)]
    return LiveCase(Cluster.grid(1, 4), (*jobs, job("b", at=100.0, tenant="b")))


@pytest.mark.parametrize("name", registry.names())
def test_what_cannot_be_taken_back_is_not_lent(name: str) -> None:
    run = LiveRun(f"{name}?{QUOTAS}", lent(elastic=False)).to_the_end()
    assert run.started_at["b"] <= 100.0 + SOON_S


@pytest.mark.parametrize("name", registry.names())
def test_what_was_lent_is_taken_back_in_time(name: str) -> None:
    run = LiveRun(f"{name}?{QUOTAS}", lent(elastic=True)).to_the_end()
    assert run.started_at["b"] <= 100.0 + SOON_S


@pytest.mark.parametrize("name", registry.names())
def test_a_tenant_keeps_its_share(name: str) -> None:
    """Neither has less than its quota while it has jobs for it, and the other has more."""

    def look(run: LiveRun, now: float) -> None:
        if now % SOON_S == 0 and run.is_settled(now):
            held = dict.fromkeys("ab", 0)
            for row in run.scheduler.jobs.values():
                held[row.spec.tenant] += row.size
            assert min(held.values()) >= 2, f"at {now:g} s: {held}"

    jobs = [job(f"{tenant}{n}", length_s=100.0, tenant=tenant) for tenant in "ab" for n in range(6)]
    case = LiveCase(Cluster.grid(1, 4), tuple(jobs))
    LiveRun(f"{name}?{QUOTAS}", case, look=look).to_the_end(until=290.0)
