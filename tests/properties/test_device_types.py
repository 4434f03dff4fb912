"""No job is ever given a device that it may not use, under any live policy, and none starves."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.core.actions import Start, Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.events import (
    Event,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeJoined,
    NodeLost,
)
from treadle.core.job import JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies import registry
from treadle.policies.base.placement import placement
from treadle.policies.live.naming import wrapped
from treadle.testing.builders import job
from treadle.testing.checks import check
from treadle.testing.strategies import workloads

TYPES = ("NVIDIA A100-SXM4-80GB", "NVIDIA H200", "cpu")
WORDS = ((), (), ("gpu",), ("any",), ("cpu",), ("h200",), ("A100",), ("a100", "H200"), ("tpu",))
EXTRA = (
    "weave-l?quotas=a:3/b:2",
    "philly?retry_s=3&tick_s=1",
    "afs+defrag",
    "srtf+locality?share=0.2+dedicated?from=3+try-small?seconds=3",
)
EXAMPLES = 5
POLICIES = [*(name for name in registry.names() if name != "philly"), *EXTRA]


@st.composite
def typed_clusters(draw: st.DrawFn) -> Cluster:
    """One to five nodes of one to four devices, of one to three types."""
    nodes = draw(
        st.lists(st.tuples(st.integers(1, 4), st.sampled_from(TYPES)), min_size=1, max_size=5)
    )
    return Cluster(
        tuple(Node(f"n{i}", count, device_type=kind) for i, (count, kind) in enumerate(nodes))
    )


def allowed(spec: JobSpec, cluster: Cluster) -> set[str]:
    """The types that a job may use here, as docs/jobs.md says it."""
    there = {node.device_type for node in cluster.nodes}
    found: set[str] = set()
    for word in spec.device_types or (("gpu",) if there - {"cpu"} else ("any",)):
        match word.lower():
            case "any":
                found |= there
            case "cpu":
                found |= there & {"cpu"}
            case "gpu":
                found |= there - {"cpu"}
            case name:
                found |= {each for each in there if each != "cpu" and name in each.lower()}
    return found


class World:
    """A scheduler under a live policy, whose jobs start, end and lose their nodes at random."""

    def __init__(self, text: str, cluster: Cluster, place: str, seed: int) -> None:
        model = TokenModel(ScalingModel.on(cluster), StageTimes())
        self.scheduler = Scheduler(registry.policy(text, placement(place), model), cluster)
        self.random = Random(seed)
        self.now = 0.0
        self.finished: set[str] = set()
        self.away: list[Node] = []

    def step(self, *events: Event) -> None:
        orders = self.scheduler.step(events, self.now)
        check(self.scheduler)
        for order in orders:
            if not isinstance(order, Stop):
                self.judge(order.job, [device.node for device in order.allocation.devices])
        answers: list[Event] = []
        for order in orders:
            row = self.scheduler.jobs.get(order.job)
            if row is None:
                continue
            if isinstance(order, Stop):
                answers.append(JobStopped(order.job, order.id, row.iterations_done))
            elif not isinstance(order, Start) or row.action == order.id:
                answers.append(JobStarted(order.job, row.action, row.iterations_done, 1.0))
        if answers:
            self.step(*answers)

    def judge(self, job: str, nodes: Sequence[str]) -> None:
        row, cluster = self.scheduler.jobs[job], self.scheduler.cluster
        kinds = {node.name: node.device_type for node in cluster.nodes}
        used = {kinds[name] for name in nodes}
        may = allowed(row.spec, cluster)
        assert used <= may, f"{job} ({row.spec.device_types}) was given {used}"
        assert not row.only_on or set(nodes) <= set(row.only_on)
        if len(used) > 1 and "any" not in row.spec.device_types:
            for kind in may:
                names = [n for n in cluster.nodes if n.device_type == kind]
                names = [n for n in names if not row.only_on or n.name in row.only_on]
                assert sum(n.device_count for n in names) < row.spec.sizes[0], "of one type"

    def happens(self) -> None:
        """One thing at random: a job ends, a node is lost or returns."""
        self.now += self.random.choice((1.0, 30.0, 400.0))
        running = [row for row in self.scheduler.jobs.values() if row.phase is Phase.RUNNING]
        nodes = self.scheduler.cluster.nodes
        match self.random.randrange(8):
            case 0 if len(nodes) > 1 and len(self.away) < 2:
                node = self.random.choice(nodes)
                self.away.append(node)
                self.step(NodeLost(node.name))
            case 1 if self.away:
                self.step(NodeJoined(self.away.pop()))
            case _ if running:
                row = self.random.choice(running)
                self.finished.add(row.id)
                self.step(JobFinished(row.id, row.action))
            case _:
                self.step()


@pytest.mark.parametrize("text", POLICIES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    cluster=typed_clusters(),
    jobs=workloads(size_max=5),
    words=st.lists(st.sampled_from(WORDS), min_size=12, max_size=12),
    ranks=st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=12, max_size=12),
    bound=st.lists(st.sampled_from(((), (), (), ("n0",), ("n0", "n1"))), min_size=12, max_size=12),
    place=st.sampled_from(("consolidate", "count")),
    seed=st.integers(0, 999),
)
def test_jobs_get_what_they_may_use_and_all_that_can_run_end(
    text: str,
    cluster: Cluster,
    jobs: list[JobSpec],
    words: list[tuple[str, ...]],
    ranks: list[tuple[int, bool]],
    bound: list[tuple[str, ...]],
    place: str,
    seed: int,
) -> None:
    world = World(wrapped(text), cluster, place, seed)
    for spec, types, (priority, resumable), nodes in zip(jobs, words, ranks, bound, strict=False):
        typed = replace(
            spec,
            device_types=types,
            priority=priority,
            resumable=resumable,
            submit_at=0.0,
            tenant="ab"[priority % 2],
        )
        world.scheduler.take([JobSubmitted(typed)], world.now)
        row = world.scheduler.jobs[spec.id]
        world.scheduler.rows[spec.id] = row._replace(only_on=nodes)
        world.happens()
    while world.away:
        world.step(NodeJoined(world.away.pop()))
    for _ in range(400):
        if not world.scheduler.ranking.queue and not any(
            row.allocation for row in world.scheduler.jobs.values()
        ):
            break
        world.now = max(world.now + 1.0, min(world.scheduler.wake_at, world.now + 1e5))
        running = [row for row in world.scheduler.jobs.values() if row.phase is Phase.RUNNING]
        if running:
            row = world.random.choice(running)
            world.finished.add(row.id)
            world.step(JobFinished(row.id, row.action))
        else:
            world.step()
    left = [row for row in world.scheduler.jobs.values() if row.id not in world.scheduler.unfit]
    assert all(_is_bound_away(row.only_on, row.spec, cluster) for row in left), left


def _is_bound_away(nodes: tuple[str, ...], spec: JobSpec, cluster: Cluster) -> bool:
    """Whether the nodes that have its files are too few or of other types."""
    may = allowed(spec, cluster)
    there = [n for n in cluster.nodes if n.name in nodes and n.device_type in may]
    return bool(nodes) and (
        sum(node.device_count for node in there) < spec.sizes[0] or spec.sizes[0] > 1
    )


# Policies that start a job of one device whenever one is free.
BUSY = ("backfill", "sjf", "srtf", "las", "tiresias", "max-min", "optimus", "afs", "weave-l", "sia")


@pytest.mark.parametrize("text", BUSY)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    cluster=typed_clusters(),
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=25),
    seed=st.integers(0, 999),
)
def test_no_job_waits_while_a_device_that_it_may_use_is_free(
    text: str, cluster: Cluster, words: list[tuple[str, ...]], seed: int
) -> None:
    world = World(f"{text}+live", cluster, "count", seed)
    for number, types in enumerate(words):
        spec = replace(job(f"j{number}", length_s=50.0), device_types=types)
        world.step(JobSubmitted(spec))
        world.happens()
        there = world.scheduler.cluster
        kinds = {node.name: node.device_type for node in there.nodes}
        free = {kinds[device.node] for device in world.scheduler.tenancy.free}
        for _, _, name in world.scheduler.ranking.queue:
            assert not free & allowed(world.scheduler.jobs[name].spec, there), name
