"""Workloads drawn from a seed, scaled in time so that they offer a cluster the load asked for.

    generate:philly?jobs=5000&seed=1&load=0.95

The load is that of the drawn jobs and not of the distribution they come from: the span in which
they arrive is their work divided by the cluster's devices and by the load. The same address on the
same cluster always gives the same jobs.
"""

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from math import isfinite
from random import Random
from typing import TypeVar
from urllib.parse import parse_qsl

from weft.core.cluster import Cluster
from weft.core.errors import InvalidInputError
from weft.traces.aiturbo import ARRIVALS, draw_aiturbo
from weft.traces.philly_like import draw_philly
from weft.traces.poisson import draw_poisson
from weft.traces.workload import Workload

Number = TypeVar("Number", int, float)

JOBS_MAX = 1_000_000
LOAD_MAX = 1000.0
_PARAMETERS = ("jobs", "seed", "load", "arrivals")

# name -> one line for people
KINDS = {
    "philly": "sizes, durations, tenants, ends and bursts of Microsoft's Philly log",
    "aiturbo": "families of repeated jobs, most of them predictable, as in AITurbo's table",
    "poisson": "independent arrivals, small and short jobs first; the plain one",
}


def generate(
    kind: str,
    *,
    jobs: int = 1000,
    seed: int = 0,
    load: float = 0.9,
    cluster: Cluster,
    arrivals: str = "",
) -> Workload:
    """Draw jobs that offer the cluster this load; none is larger than the cluster."""
    _check(kind, jobs, load, cluster)
    if arrivals and kind != "aiturbo":
        raise InvalidInputError(f"arrivals is for aiturbo; {kind} has its own, leave it out")
    random = Random(f"{kind}/{seed}")
    name = f"generate:{kind}?jobs={jobs}&seed={seed}&load={load:g}"
    match kind:
        case "philly":
            drawn = draw_philly(random, jobs, load, cluster)
        case "poisson":
            drawn = draw_poisson(random, jobs, load, cluster)
        case _:
            drawn = draw_aiturbo(random, jobs, load, cluster, arrivals or ARRIVALS[0])
            name += f"&arrivals={arrivals or ARRIVALS[0]}"
    note = f"drawn for {cluster.device_count:,} devices at load {load:g}: {KINDS[kind]}"
    return replace(drawn, name=name, notes=(note, *drawn.notes))


def from_address(address: str, cluster: Cluster) -> Workload:
    """The workload of `KIND?jobs=..&seed=..&load=..`."""
    kind, _, query = address.partition("?")
    given: dict[str, str] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise InvalidInputError(
            f"generate:{address} is not understood; "
            "expected generate:KIND?jobs=1000&seed=0&load=0.9"
        ) from None
    for name, value in pairs:
        if name not in _PARAMETERS:
            near = get_close_matches(name, _PARAMETERS, n=1, cutoff=0.0)[0]
            raise InvalidInputError(
                f"generate:{kind} has no parameter {name!r}; did you mean {near}? "
                f"(known: {', '.join(_PARAMETERS)})"
            )
        if name in given:
            raise InvalidInputError(f"generate:{kind} is given {name} twice; keep one")
        given[name] = value
    return generate(
        kind,
        jobs=_number(given, "jobs", "1000", int),
        seed=_number(given, "seed", "0", int),
        load=_number(given, "load", "0.9", float),
        cluster=cluster,
        arrivals=given.get("arrivals", ""),
    )


def _number(
    given: dict[str, str], name: str, default: str, kind: Callable[[str], Number]
) -> Number:
    text = given.get(name, default)
    try:
        return kind(text)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise InvalidInputError(
            f"{name} is {text!r}; expected {expected}, such as {default}"
        ) from None


def _check(kind: str, jobs: int, load: float, cluster: Cluster) -> None:
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1, cutoff=0.0)[0]
        raise InvalidInputError(
            f"no generator is called {kind!r}; did you mean {near}? (known: {', '.join(KINDS)})"
        )
    if not 1 <= jobs <= JOBS_MAX:
        raise InvalidInputError(f"jobs is {jobs}; expected 1 to {JOBS_MAX:,}")
    if not (isfinite(load) and 0 < load <= LOAD_MAX):
        raise InvalidInputError(f"load is {load:g}; expected a number above 0, such as 0.9")
    if not cluster.device_count:
        raise InvalidInputError("the cluster has no devices; expected at least one to draw for")
