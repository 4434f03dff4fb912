"""Workloads drawn from a seed, scaled in time so that they offer a cluster the load asked for.

    generate:poisson?jobs=5000&seed=1&load=0.95

The load is that of the drawn jobs and not of the distribution they come from: the span in which
they arrive is their work divided by the cluster's devices and by the load.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from random import Random
from urllib.parse import parse_qsl

from weft.core.cluster import Cluster
from weft.core.errors import InvalidInputError
from weft.traces.poisson import draw_poisson
from weft.traces.workload import Workload

JOBS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """What to draw. Jobs larger than the cluster are never drawn."""

    kind: str
    cluster: Cluster
    jobs: int = 1000
    seed: int = 0
    load: float = 0.9
    arrivals: str = ""  # aiturbo only

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            near = get_close_matches(self.kind, KINDS, n=1, cutoff=0.0)[0]
            raise InvalidInputError(
                f"no generator is called {self.kind!r}; did you mean {near}? "
                f"(known: {', '.join(KINDS)})"
            )
        if not 1 <= self.jobs <= JOBS_MAX:
            raise InvalidInputError(f"jobs is {self.jobs}; expected 1 to {JOBS_MAX:,}")
        if not (isfinite(self.load) and self.load > 0):
            raise InvalidInputError(f"load is {self.load:g}; expected a number above 0, such as 0.9")
        if not self.cluster.device_count:
            raise InvalidInputError("the cluster has no devices to generate jobs for")


KINDS: dict[str, Callable[[Random, int, float, Cluster], Workload]] = {"poisson": draw_poisson}


def generate(
    kind: str, *, jobs: int = 1000, seed: int = 0, load: float = 0.9, cluster: Cluster
) -> Workload:
    request = Request(kind, cluster, jobs, seed, load)
    return KINDS[kind](Random(f"{kind}/{seed}"), jobs, load, cluster)


def from_address(address: str, cluster: Cluster) -> Workload:
    kind, _, query = address.partition("?")
    given = dict(parse_qsl(query))
    return generate(
        kind,
        jobs=int(given.get("jobs", 1000)),
        seed=int(given.get("seed", 0)),
        load=float(given.get("load", 0.9)),
        cluster=cluster,
    )
