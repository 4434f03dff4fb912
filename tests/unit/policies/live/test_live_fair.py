"""Users of equal priority share the devices fairly."""

from dataclasses import replace
from math import isclose, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.live_runs import LiveRun
from tests.unit.stories import Story
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobFinished, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.reasons import Reason
from treadle.policies.live.decide import remembered
from treadle.policies.live.fair import Fairness, Used
from treadle.testing.builders import job
from treadle.testing.live_case import LiveCase

POLICIES = ("fifo", "srtf", "las", "afs", "weave-l", "muri-l", "tiresias", "themis")
DAY_S = 86_400.0
USERS = ("", "ann", "bob", "cleo")


def of(owner: str, name: str, length_s: float = 1000.0, **fields: object) -> JobSpec:
    return replace(job(name, length_s=length_s), owner=owner, **fields)  # type: ignore[arg-type]


def told(policy: str, *specs: JobSpec, devices: int = 2) -> Story:
    """What can start runs."""
    found = Story(policy, f"1x{devices}")
    started = found.tell(0.0, *map(JobSubmitted, specs))
    found.runs(0.0, *(action.job for action in started))
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_the_first_job_of_a_user_is_not_behind_the_tenth_of_another(policy: str) -> None:
    """Ann submitted ten at once, then Bob one: it takes the first device that comes free."""
    anns = [of("ann", f"a{n}", resumable=False) for n in range(10)]
    bobs = of("bob", "b", submit_at=10.0)
    started = {}
    for fair in ("off", "1d"):
        case = LiveCase(Cluster.grid(1, 2), (*anns, bobs))
        started[fair] = LiveRun(f"{policy}?fair={fair}", case).to_the_end().started_at
    assert started["1d"]["b"] <= 1000.0 + 1.0
    assert started["1d"]["b"] <= started["off"]["b"]


def test_priority_goes_before_fairness() -> None:
    story = told("fifo+live", *(of("ann", f"a{n}", resumable=False) for n in range(2)))
    story.tell(1.0, JobSubmitted(of("bob", "b")), JobSubmitted(of("ann", "a2", priority=1)))
    action = story.scheduler.jobs["a0"].action
    started = story.tell(1000.0, JobFinished("a0", action))
    assert [each.job for each in started] == ["a2"]


def test_why_names_the_users_that_go_first() -> None:
    """Had all devices come free at this moment, Bob's first job would be decided about first."""
    story = told("fifo+live", *(of("ann", f"a{n}", resumable=False) for n in range(2)))
    story.tell(1.0, *(JobSubmitted(of("ann", f"w{n}")) for n in range(2)))
    story.tell(2.0, *(JobSubmitted(of("bob", f"b{n}", resumable=False)) for n in range(2)))
    snapshot = story.scheduler.snapshot(3.0)
    free = snapshot._replace(free=snapshot.emptied(), tenants={})
    found = story.scheduler.policy.reason(free, "w1")
    assert found == Reason("share", {"user": "ann", "others": ("bob",)})


def test_what_was_used_counts_half_after_the_half_life() -> None:
    used = Used(0.0, {"ann": 3600.0, "gone": 1.5}, {"bob": 2})
    later = used.until(DAY_S, DAY_S)
    assert later.device_s["ann"] == pytest.approx(1800.0)
    assert "gone" not in later.device_s
    assert later.device_s["bob"] == pytest.approx(DAY_S / log(2.0))  # half of what it would become
    assert Used(0.0, {}, {"bob": 2}).until(1.0, DAY_S).device_s["bob"] == pytest.approx(
        2.0, rel=1e-4
    )


@given(
    st.dictionaries(st.sampled_from(USERS), st.floats(10.0, 1e6)),
    st.dictionaries(st.sampled_from(USERS), st.integers(0, 9)),
    st.floats(1.0, 1e6),
    st.floats(1.0, 1e6),
)
def test_use_does_not_depend_on_how_often_it_is_looked_at(
    sums: dict[str, float], holds: dict[str, int], first_s: float, then_s: float
) -> None:
    used = Used(0.0, sums, holds)
    once = used.until(first_s + then_s, DAY_S).device_s
    twice = used.until(first_s, DAY_S).until(first_s + then_s, DAY_S).device_s
    for user in {*once, *twice}:
        assert isclose(once.get(user, 0.0), twice.get(user, 0.0), rel_tol=1e-6, abs_tol=2.1)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Story, dict[str, float]]:
    """Jobs of a few users on eight devices, and what each has used."""
    users = draw(st.lists(st.sampled_from(USERS), min_size=1, max_size=20))
    specs = [
        of(user, f"j{n}", sizes=(size,), asked=size, priority=draw(st.integers(0, 1)))
        for n, user in enumerate(users)
        for size in (draw(st.sampled_from((1, 2, 4))),)
    ]
    used = {user: draw(st.floats(0.0, 8 * DAY_S)) for user in sorted(set(users))}
    return told("fifo+live?fair=off", *specs, devices=8), used


@given(crowds(), st.sampled_from(USERS), st.floats(1.0, 10.0))
def test_entitlements(given_: tuple[Story, dict[str, float]], user: str, times: float) -> None:
    """Nobody is entitled to more than is there or than it wants, or to nothing; more weight never
    brings less, more use never more; and the first job of each user is within."""
    story, device_s = given_
    snapshot, fairness = story.scheduler.snapshot(1.0), Fairness("1d")
    found = fairness.standings(snapshot, Used(1.0, device_s), resizes=False)
    assert sum(each.entitled for each in found.values()) <= 8.0 + 1e-9
    for each in found.values():
        assert 0.0 < each.entitled <= each.wants
    beyond = fairness.beyond(snapshot, Used(1.0, device_s), resizes=False)
    owners = {row.spec.owner for row in snapshot.jobs.values()}
    within = {row.spec.owner for row in snapshot.jobs.values() if row.id not in beyond}
    assert within == owners
    assert len(owners) > 1 or not beyond
    if user in found and user:
        heavy = Fairness(f"1d/{user}:{times}")
        more = heavy.standings(snapshot, Used(1.0, device_s), resizes=False)
        assert more[user].entitled >= found[user].entitled - 1e-9
    if user in found:
        spent = {**device_s, user: device_s[user] * times + 1.0}
        less = fairness.standings(snapshot, Used(1.0, spent), resizes=False)
        assert less[user].entitled <= found[user].entitled + 1e-9


def test_what_users_hold_is_counted_as_they_use_it() -> None:
    anns = (of("ann", "a", resumable=False), of("ann", "a2", resumable=False))
    story = told("fifo+live", *anns)
    story.tell(0.0, JobSubmitted(of("bob", "b", resumable=False)))
    used = remembered(story.scheduler.memory).used
    assert used.holds == {"ann": 2}
    story.tell(100.0, JobFinished("a", story.scheduler.jobs["a"].action))
    used = remembered(story.scheduler.memory).used
    assert used.device_s == {"ann": pytest.approx(200.0, rel=1e-3)}
    assert used.holds == {"ann": 1, "bob": 1}


@pytest.mark.parametrize("text", ["0", "soon", "1d/ann:0", "1d/ann", "1d/ann:-1"])
def test_a_wrong_setting_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="fair"):
        Fairness(text)
