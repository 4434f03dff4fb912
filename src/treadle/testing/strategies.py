"""Hypothesis strategies: small clusters and workloads in which everything can collide."""

from hypothesis import strategies as st

from treadle.core.cluster import Cluster, Node
from treadle.core.job import JobSpec
from treadle.testing.builders import job


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """One to four nodes of one to four devices, in one or two racks."""
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    racks = draw(st.integers(1, 2))
    return Cluster(
        tuple(Node(f"n{i}", count, rack=f"r{i % racks}") for i, count in enumerate(counts))
    )


@st.composite
def workloads(
    draw: st.DrawFn, *, size_max: int = 8, jobs_max: int = 12, elastic: bool = True
) -> list[JobSpec]:
    """Jobs in order of submission; whole-number times, so that many things coincide."""
    jobs = []
    for number in range(draw(st.integers(1, jobs_max))):
        size = draw(st.integers(1, size_max))
        sizes = None
        if elastic and draw(st.booleans()):
            sizes = tuple(sorted({size, *draw(st.lists(st.integers(1, size_max), max_size=3))}))
        jobs.append(
            job(
                f"j{number}",
                size=size,
                sizes=sizes,
                length_s=float(draw(st.integers(1, 30))),
                at=float(draw(st.integers(0, 40))),
                retries=draw(st.integers(0, 2)),
            )
        )
    return sorted(jobs, key=lambda spec: spec.submit_at)
