"""Hypothesis strategies: small clusters and workloads in which everything can collide.

`clusters` and `workloads` draw what any policy copes with by itself. With `live=True` they draw
every dimension that a user or an administrator can set, which takes the live decision, and
`live_cases` adds what happens meanwhile. The first choice of each dimension restricts nothing, so
that a failure shrinks to the dimensions that it needs.
"""

from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from treadle.core.cluster import CPU, Cluster, Node
from treadle.core.events import JobHeld, JobReleased, NodeDrained, NodeJoined, NodeLost
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.testing.live_case import Fact, LiveCase

TYPES = ("gpu", "NVIDIA A100-SXM4-80GB", "NVIDIA H200", CPU)
WORDS = ((), ("any",), ("gpu",), (CPU,), ("h200",), ("A100",), ("a100", "H200"))
TENANTS = ("", "a", "b")
OWNERS = ("", "ann", "bob")

Value = TypeVar("Value")


def _mostly(plain: Value, *others: Value) -> st.SearchStrategy[Value]:
    """Two times of three what restricts nothing, so that most jobs can run."""
    return st.sampled_from((*(plain for _ in (*others, *others)), *others))


_seconds = st.integers(1, 30).map(float)
_moments = st.integers(0, 40).map(float)


@st.composite
def clusters(draw: st.DrawFn, *, live: bool = False) -> Cluster:
    """One to four nodes of one to four devices, in one or two racks; live: unlike nodes."""
    counts = draw(st.lists(st.integers(1, 4), min_size=2 if live else 1, max_size=4))
    racks = draw(st.integers(1, 2))
    nodes = [Node(f"n{i}", count, rack=f"r{i % racks}") for i, count in enumerate(counts)]
    if live:
        makes = draw(st.lists(_makes(), min_size=1, max_size=2))
        nodes = [replace(node, **draw(st.sampled_from(makes))) for node in nodes]
    return Cluster(tuple(nodes))


@st.composite
def _makes(draw: st.DrawFn) -> dict[str, Any]:
    """What nodes of one make have; 0 is unknown."""
    kind = draw(st.sampled_from(TYPES))
    return {
        "device_type": kind,
        "cores": draw(st.sampled_from((0, 8, 4))),
        "memory_gib": draw(st.sampled_from((100.0, 60.0, 0.0))),
        "device_memory_gib": 0.0 if kind == CPU else draw(st.sampled_from((0.0, 80.0, 24.0))),
    }


@st.composite
def workloads(
    draw: st.DrawFn,
    *,
    size_max: int = 8,
    jobs_min: int = 1,
    jobs_max: int = 12,
    elastic: bool = True,
    live: bool = False,
) -> list[JobSpec]:
    """Jobs in order of submission; whole-number times, so that many things coincide."""
    jobs = draw(st.lists(_jobs(size_max, elastic=elastic), min_size=jobs_min, max_size=jobs_max))
    jobs = [replace(spec, id=f"j{number}") for number, spec in enumerate(jobs)]
    if live:
        jobs = [draw(_needy(spec)) for spec in jobs]
    return sorted(jobs, key=lambda spec: spec.submit_at)


@st.composite
def _jobs(draw: st.DrawFn, size_max: int, *, elastic: bool) -> JobSpec:
    """A job that any policy can decide about by itself."""
    sizes = draw(st.sets(st.integers(1, size_max), min_size=1, max_size=3 if elastic else 1))
    asked = draw(st.sampled_from(sorted(sizes)))
    return JobSpec(
        "job",
        iterations=draw(_seconds),
        sizes=tuple(sorted(sizes)),
        asked=asked,
        profile=Profile(size=asked, serial=draw(st.sampled_from((0.0, 0.1)))),
        submit_at=draw(_moments),
        retries=draw(st.integers(0, 2)),
        tenant=draw(st.sampled_from(TENANTS)),
        owner=draw(st.sampled_from(OWNERS)),
        guaranteed=draw(_mostly(True, False)),
        resumable=draw(_mostly(True, False)),
        preemptible=draw(_mostly(True, False)),
        priority=draw(st.integers(0, 2)),
    )


@st.composite
def _needy(draw: st.DrawFn, spec: JobSpec) -> JobSpec:
    """The job with needs of its own, and with what was measured of its kind."""
    memory_gib = draw(_mostly(0.0, 10.0, 30.0))
    measured = draw(st.booleans())
    profile = replace(
        spec.profile,
        restart_s=draw(st.sampled_from((0.0, 0.05, 3.0, 30.0))),
        memory_gib=memory_gib if measured else 0.0,
        busy=0.2 if measured else None,
        memory_busy=0.1 if measured else None,
        cores=1.0 if measured else None,
    )
    return replace(
        spec,
        profile=profile,
        plans=draw(_mostly((DATA_PARALLEL,), _plans(spec))),
        exclusive=draw(_mostly(False, True)),
        host_memory_gib=draw(st.sampled_from((0.0, 25.0, 50.0))),
        host_cores=float(draw(st.sampled_from((0, 2, 4)))),
        device_memory_gib=memory_gib,
        device_types=draw(_mostly(*WORDS)),
    )


def _plans(spec: JobSpec) -> tuple[Plan, ...]:
    """The plan that every size fits, and another where it fits some."""
    tensor = Plan(tensor=2)
    fits = any(tensor.fits(size) for size in spec.sizes)
    return (DATA_PARALLEL, tensor) if fits else (DATA_PARALLEL,)


@st.composite
def live_cases(draw: st.DrawFn) -> LiveCase:
    """A cluster of unlike nodes, jobs with needs, and what happens to both."""
    cluster = draw(clusters(live=True))
    jobs = draw(workloads(size_max=3, jobs_min=4, live=True))
    quotas = draw(_mostly("", "a:2/b:2", "a:1/b:4"))
    if quotas:  # A guaranteed job of a tenant without a quota would never run.
        jobs = [replace(spec, tenant=spec.tenant or "a") for spec in jobs]
    lives = {node: draw(_life(node)) for node in cluster.nodes}
    late = [node.name for node, life in lives.items() if life and _is_return(life[0])]
    late = [] if len(late) == len(lives) else late
    names = st.sampled_from([spec.id for spec in jobs])
    holds = draw(st.lists(_hold(names), max_size=2))
    return LiveCase(
        cluster.without(late),
        tuple(jobs),
        tuple(fact for facts in (*lives.values(), *holds) for fact in facts),
        draw(st.dictionaries(names, st.tuples(_seconds), max_size=2)),
        backoff_s=draw(st.sampled_from((0.0, 10.0))),
        avoids=draw(st.booleans()),
        quotas=quotas,
    )


@st.composite
def _life(draw: st.DrawFn, node: Node) -> tuple[Fact, ...]:
    """A node stays, joins later, or is drained or lost for a while."""
    at, back = draw(_moments), NodeJoined(node)
    first = draw(_mostly(None, back, NodeDrained(node.name), NodeLost(node.name)))
    if first is None or first is back:
        return () if first is None else ((at, back),)
    return ((at, first), (at + draw(_seconds), back))


def _is_return(fact: Fact) -> bool:
    return isinstance(fact[1], NodeJoined)


@st.composite
def _hold(draw: st.DrawFn, names: st.SearchStrategy[str]) -> tuple[Fact, ...]:
    """A job is put on hold for a while, or for a moment."""
    at, name = draw(_moments), draw(names)
    released_at = at + draw(st.integers(0, 10))
    return ((at, JobHeld(name, "user")), (released_at, JobReleased(name, "user")))
