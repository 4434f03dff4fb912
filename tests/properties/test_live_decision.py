"""What the live decision promises whatever the policy: progress, no overcommit, patience, calm."""

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import Phase as Examples
from hypothesis import strategies as st
from tests.properties.live_runs import HOUR_S, PATIENCE_S, LiveRun
from tests.shared import THOROUGH

from treadle.core.actions import Start, Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.events import NodeDrained
from treadle.core.job import JobSpec
from treadle.core.lifecycle import Phase
from treadle.policies import registry
from treadle.policies.live.patience import LENGTHS
from treadle.testing.builders import job
from treadle.testing.live_case import LiveCase
from treadle.testing.policy_contract import Watched
from treadle.testing.strategies import live_cases

FAST = settings().max_examples < 10
MARGIN_S = 900.0  # between a reservation that falls due and the start
LOST_SHARE = 0.25  # of busy time, at most, to restarts; and so many restarts of each job
LOST_RESTARTS = 4
ALIKE = 1.25  # the last of equal jobs ends at most so many rounds of them after the first

# A stream takes a second under each policy, of which there are many.
STREAMED = (Examples.explicit, Examples.generate) if THOROUGH else (Examples.explicit,)

# Policies that let the first job wait beside room for it, and for what.
ON_PURPOSE = {"philly": "the next of several looks for local devices, which are minutes apart"}


def quick(examples: int) -> settings:
    most = min(2, examples) if FAST else examples
    return settings(max_examples=most, deadline=None, suppress_health_check=list(HealthCheck))


def needing(identity: str, memory_gib: float, *, at: float = 0.0) -> JobSpec:
    spec = replace(job(identity, length_s=2000.0, at=at), host_memory_gib=memory_gib)
    return replace(spec, resumable=False)


def measured(spec: JobSpec) -> JobSpec:
    """The job as one that can share devices."""
    profile = replace(spec.profile, busy=0.2, memory_busy=0.1, cores=1.0, memory_gib=5.0)
    return replace(spec, profile=profile)


# -- progress ------------------------------------------------------------------------------------


BESIDE_AN_EMPTY_NODE = LiveCase(
    Cluster(tuple(Node(f"n{i}", 2, memory_gib=100.0) for i in range(2))),
    (needing("z", 90.0), needing("y", 50.0, at=10.0)),
)


def too_much_memory_together() -> LiveCase:
    """Jobs that would share devices, on a node that has host memory for one of them."""
    cluster = Cluster((Node("n0", 2, memory_gib=100.0),))
    jobs = [measured(replace(needing(name, 60.0), sizes=(2,), asked=2)) for name in "ab"]
    return LiveCase(cluster, tuple(jobs))


def first_in_order_runs(run: LiveRun, now: float) -> None:
    job = run.first_eligible(now)
    if job is not None and run.is_settled(now) and not run.may_be_reserved(now):
        fitting = run.nodes_that_fit(job)
        assert not fitting, f"{job.id} waits at {now:g} s beside {fitting}"


@pytest.mark.parametrize("name", [name for name in registry.names() if name not in ON_PURPOSE])
@quick(4)
@example(case=BESIDE_AN_EMPTY_NODE)
@example(case=too_much_memory_together())
@given(case=live_cases())
def test_the_first_eligible_job_starts_if_a_node_has_room(name: str, case: LiveCase) -> None:
    LiveRun(name, case, look=first_in_order_runs).to_the_end()


# -- no overcommit -------------------------------------------------------------------------------


def growing(*sizes: int) -> LiveCase:
    """A job that grows when a device comes free on a node that has no memory for it."""
    cluster = Cluster(tuple(Node(f"n{i}", 2, memory_gib=100.0) for i in range(2)))
    elastic = job("elastic", size=sizes[0], sizes=sizes, length_s=1e4, at=5.0)
    elastic = replace(
        elastic, host_memory_gib=50.0, profile=replace(elastic.profile, restart_s=1.0)
    )
    brief = replace(needing("brief", 0.0), iterations=200.0)
    room = (brief, replace(brief, id="long", iterations=1e5)) if sizes[0] == 1 else ()
    return LiveCase(cluster, (replace(needing("z", 90.0), iterations=1e5), *room, elastic))


def making_way(devices: tuple[int, int], moved: int, urgent: int) -> LiveCase:
    """A job that makes way for an urgent one to a node that has devices and no cores for it."""
    cluster = Cluster(tuple(Node(f"n{i}", count, cores=4) for i, count in enumerate(devices)))
    jobs = (
        replace(job("moved", size=moved, length_s=900.0), host_cores=4.0),
        replace(job("stays", size=2, length_s=900.0, at=1.0), host_cores=2.0),
        replace(job("urgent", size=urgent, length_s=900.0, at=300.0), priority=1),
    )
    return LiveCase(cluster, jobs)


def beyond_all_quotas() -> LiveCase:
    """A tenant without a quota has devices, and the quotas are more than there is."""
    jobs = (
        job("j0", sizes=(1, 2), length_s=100.0, tenant="a"),
        job("j2", length_s=1000.0, at=25.0),
        job("j3", size=4, length_s=1.0, at=45.0, tenant="b"),
        job("j5", size=4, length_s=1000.0, at=65.0, tenant="a"),
    )
    return LiveCase(Cluster((Node("n0", 4),)), jobs, quotas="a:4/b:4")


def beside_a_smaller_one() -> LiveCase:
    """An elastic job that made way for an urgent one is not what others of its size share with."""
    jobs = (
        job("j1", size=4, sizes=(1, 2, 3, 4), length_s=30.0, at=80.0),
        replace(job("j2", size=2, length_s=10.0, at=100.0), priority=100),
        job("j3", size=4, length_s=5000.0, at=100.0),
    )
    return LiveCase(Cluster((Node("n0", 4),)), jobs)


def nothing_is_given_twice(run: LiveRun, now: float) -> None:
    found = list(run.overcommitted())
    assert not found, f"at {now:g} s: {found}"


@pytest.mark.parametrize("name", registry.names())
@quick(4)
@example(case=making_way((3, 4), 2, 3))
@example(case=making_way((2, 3), 1, 2))
@example(case=growing(1, 2))
@example(case=growing(2, 3))
@given(case=live_cases())
def test_nothing_is_overcommitted_by_starts_and_changes(name: str, case: LiveCase) -> None:
    LiveRun(name, case, look=nothing_is_given_twice).to_the_end()


# -- patience ------------------------------------------------------------------------------------


def bound_s(starved: JobSpec, longest_s: float) -> float:
    """How long a job may be passed over beside jobs that take so long at most."""
    return PATIENCE_S + LENGTHS * starved.iterations + 3 * longest_s + MARGIN_S


def stream(starved: JobSpec, each_s: float, *, nodes: int = 1, resumable: bool = False) -> LiveCase:
    """A job that could run alone, and more later and shorter ones than the cluster can take."""
    cluster = Cluster(tuple(Node(f"n{i}", 4 // nodes, memory_gib=100.0) for i in range(nodes)))
    others = [
        replace(
            job(f"j{number}", length_s=each_s, at=number * each_s / 5),
            host_memory_gib=20.0,
            resumable=resumable,
        )
        for number in range(int(bound_s(starved, each_s) / each_s * 5))
    ]
    return LiveCase(cluster, tuple(sorted((starved, *others), key=lambda spec: spec.submit_at)))


@st.composite
def streams(draw: st.DrawFn) -> LiveCase:
    length_s = draw(st.sampled_from((0.25, 1.0))) * HOUR_S
    starved = replace(
        job("starved", size=draw(st.integers(1, 4)), length_s=length_s, at=1.0),
        host_memory_gib=draw(st.sampled_from((0.0, 90.0))),
        resumable=draw(st.booleans()),
        exclusive=draw(st.booleans()),
    )
    each_s = float(draw(st.sampled_from((600, 1200))))
    nodes = draw(st.integers(1, 2))
    return stream(starved, each_s, nodes=nodes, resumable=draw(st.booleans()))


# Not sjf: a long job waits there while shorter ones come (docs/decision.md).
def is_not_passed_over(run: LiveRun, now: float) -> None:
    row = run.scheduler.jobs.get("starved")
    if row is not None and row.phase is Phase.WAITING:
        limit_s = bound_s(row.spec, run.case.jobs[0].iterations)
        assert now - row.since_at <= limit_s, f"it has waited for {now - row.since_at:g} s"


@pytest.mark.parametrize("name", [name for name in registry.names() if name != "sjf"])
@settings(quick(1), phases=STREAMED)
@example(case=stream(replace(needing("starved", 90.0, at=1.0), iterations=HOUR_S), HOUR_S))
@given(case=streams())
def test_no_job_is_passed_over_for_longer_than_the_rule_says(name: str, case: LiveCase) -> None:
    LiveRun(name, case, look=is_not_passed_over).to_the_end()


# -- no thrash -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.names())
@quick(3)
@given(case=live_cases())
def test_restarts_cost_a_bounded_share_of_busy_time(name: str, case: LiveCase) -> None:
    """A job's own faults, its holds and lost nodes are not the decision's."""
    run = LiveRun(name, replace(case, facts=(), failing={})).to_the_end()
    restart_s = {spec.id: spec.profile.restart_s for spec in case.jobs}
    lost_s = sum(
        restart_s[action.job]
        for now, action in run.orders
        if not isinstance(action, Stop) and now > run.started_at[action.job]
    )
    allowed_s = LOST_SHARE * busy_s(run) + LOST_RESTARTS * sum(restart_s.values())
    assert lost_s <= allowed_s


def busy_s(run: LiveRun) -> float:
    """Seconds in which jobs held devices."""
    sum_s, since = 0.0, dict[str, float]()
    for now, action in run.orders:
        if isinstance(action, Start):
            since[action.job] = now
        elif isinstance(action, Stop):
            sum_s += now - since.pop(action.job)
    return sum_s + sum(run.ended_at[name] - begun for name, begun in since.items())


# -- equal jobs ----------------------------------------------------------------------------------


@st.composite
def equal_jobs(draw: st.DrawFn) -> LiveCase:
    """Jobs that differ in nothing, more than can run at once; some of them can share devices."""
    devices = draw(st.integers(1, 4))
    node = Node("n0", devices, cores=64, memory_gib=500.0, device_memory_gib=80.0)
    sizes = tuple(range(1, 1 + draw(st.integers(1, devices))))
    spec = job("j", size=draw(st.sampled_from(sizes)), sizes=sizes, length_s=600.0)
    if draw(st.booleans()):
        spec = replace(measured(spec), kind="k")
    count = draw(st.integers(devices + 1, 2 * devices))
    return LiveCase(Cluster((node,)), tuple(replace(spec, id=f"j{n}") for n in range(count)))


@pytest.mark.parametrize("name", registry.names())
@quick(3)
@given(case=equal_jobs())
def test_equal_jobs_end_about_together(name: str, case: LiveCase) -> None:
    """If each is given all that it can use, the last round ends later than the first by all."""
    devices, spec = case.cluster.device_count, case.jobs[0]
    rounds = ceil(len(case.jobs) / (devices // spec.sizes[-1]))
    ended = LiveRun(name, case).to_the_end().ended_at
    assert len(ended) == len(case.jobs)
    assert max(ended.values()) <= ALIKE * rounds * min(ended.values())


# -- determinism ---------------------------------------------------------------------------------


def beside_a_drained_node() -> LiveCase:
    """A job could share with one that runs on, on a node that takes no new work."""
    node = Node("n0", 1, cores=8, device_memory_gib=80.0)
    spec = measured(needing("a", 0.0))
    jobs = (spec, replace(spec, id="b"), replace(spec, id="c", submit_at=10.0))
    cluster = Cluster((node, replace(node, name="n1")))
    return LiveCase(cluster, jobs, facts=((5.0, NodeDrained("n0")),))


def with_quotas_on_two_types() -> LiveCase:
    nodes = (Node("n0", 1, "cpu"), Node("n1", 1))
    jobs = tuple(job(f"j{n}", length_s=1.0, tenant="a") for n in range(4))
    return LiveCase(Cluster(nodes), jobs, quotas="a:2/b:2")


@pytest.mark.parametrize("name", registry.names())
@quick(3)
@example(case=beside_a_drained_node())
@example(case=with_quotas_on_two_types())
@given(case=live_cases())
def test_the_same_snapshot_gets_the_same_schedule_and_is_left_alone(
    name: str, case: LiveCase
) -> None:
    LiveRun(name, case, around=Watched).to_the_end()
