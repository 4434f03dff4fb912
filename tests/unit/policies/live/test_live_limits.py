"""Users and tenants have no more than they may, and others get what that leaves."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.live_runs import LiveRun
from tests.unit.stories import Story
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.reasons import Number, Reason
from treadle.policies.live.limits import Limits
from treadle.policies.live.naming import wrapped
from treadle.policies.registry import names
from treadle.testing.builders import job
from treadle.testing.live_case import LiveCase
from treadle.testing.strategies import live_cases

POLICIES = ("fifo", "backfill", "srtf", "las", "afs", "weave-l", "muri-l", "tiresias", "sia")


def of(owner: str, name: str, length_s: float = 1000.0, **fields: object) -> JobSpec:
    return replace(job(name, length_s=length_s), owner=owner, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", ["ann:1", "ann::1", "*:1:1", "@t:1"])
@pytest.mark.parametrize("policy", POLICIES)
def test_one_of_many_runs_and_others_are_not_behind(policy: str, limits: str) -> None:
    """Ann, who may have one, submitted a hundred; Bob's first starts at once, on a free device."""
    anns = [of("ann", f"a{n:03}", tenant="t", resumable=False) for n in range(100)]
    bobs = of("bob", "b", submit_at=10.0, resumable=False)
    text = f"{policy}?limits={limits}&fair=off"
    run = LiveRun(text, LiveCase(Cluster.grid(1, 4), (*anns, bobs))).to_the_end(5000.0)
    assert run.started_at["b"] <= 11.0
    begun = sorted(at for name, at in run.started_at.items() if name != "b")
    assert all(later >= earlier + 999.0 for earlier, later in pairwise(begun))
    assert len(begun) >= 4


@pytest.mark.parametrize("policy", ["afs", "weave-l", "aiturbo"])
def test_an_elastic_job_does_not_grow_beyond(policy: str) -> None:
    spec = of("ann", "a", sizes=(1, 2, 3, 4), asked=4)
    run = LiveRun(f"{policy}?limits=ann:2", LiveCase(Cluster.grid(1, 4), (spec,)))
    run.to_the_end(100.0)
    assert run.scheduler.jobs["a"].size <= 2


def test_why_names_the_limit() -> None:
    story = Story("fifo+live?limits=ann:1/@t::2", "1x4")
    specs = [of("ann", "a0"), of("ann", "a1"), *(of("bob", f"b{n}", tenant="t") for n in range(3))]
    started = story.tell(0.0, *map(JobSubmitted, specs))
    story.runs(0.0, *(action.job for action in started))
    assert sorted(action.job for action in started) == ["a0", "b0", "b1"]
    snapshot = story.scheduler.snapshot(3.0)
    reason = story.scheduler.policy.reason
    numbers: dict[str, Number] = {"who": "ann", "asked": 1, "what": "devices", "most": 1}
    assert reason(snapshot, "a1") == Reason("limit", numbers)
    numbers = {"who": "@t", "asked": 1, "what": "jobs", "most": 2}
    assert reason(snapshot, "b2") == Reason("limit", numbers)


@pytest.mark.parametrize(
    "text", ["ann", "ann:x", "ann:1:2:3", ":1", "@:1", "ann:1/ann:2", "ann:-1", "ann:1,bob:2"]
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        Limits(text)


@settings(max_examples=400, deadline=None)
@given(
    policy=st.sampled_from([name for name in sorted(names()) if name != "philly"]),
    case=live_cases(),
    owners=st.lists(st.sampled_from(("ann", "bob")), min_size=1, max_size=8),
    limits=st.sampled_from(("ann:1", "ann:2:1", "*:3", "*::1", "@a:2/bob:1", "@a::1")),
)
def test_nobody_has_more_and_all_that_can_end_do(
    policy: str, case: LiveCase, owners: list[str], limits: str
) -> None:
    """1. Users and tenants have limits. 2. None is exceeded after any step. 3. What fits ends."""
    jobs = tuple(replace(spec, owner=owners[at % len(owners)]) for at, spec in enumerate(case.jobs))
    bounds = Limits(limits)

    def look(run: LiveRun, _: float) -> None:
        rows = run.scheduler.jobs.values()
        for row in rows:
            for limit in bounds.of(row):
                theirs = [each.size for each in rows if limit in bounds.of(each)]
                assert sum(theirs) <= limit.devices
                assert sum(map(bool, theirs)) <= limit.running

    text = f"{policy}?limits={limits}"
    case = replace(case, jobs=jobs, quotas="")
    free = LiveRun(policy, case).to_the_end()
    run = LiveRun(text, case, look=look).to_the_end()
    least = {spec.id: spec.sizes[0] for spec in jobs}
    rows = run.scheduler.jobs
    for name in rows.keys() - free.scheduler.jobs.keys():
        assert any(least[name] > limit.devices for limit in bounds.of(rows[name]))
    assert wrapped(text).endswith(f"+live?limits={limits}")
