"""Workloads drawn from a seed, scaled in time so that they offer a cluster the load asked for.

    generate:philly?jobs=5000&seed=1&load=0.95

The load is that of the drawn jobs, not of their distribution: the span in which they arrive is
their work divided by the cluster's devices and by the load. The same address on the same cluster
always gives the same jobs.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TypeVar
from urllib.parse import parse_qsl

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.traces.aiturbo import ARRIVALS, DURATIONS, draw_aiturbo
from treadle.traces.collector import SUBMIT_MAX_S
from treadle.traces.philly_durations import LONGEST_S
from treadle.traces.philly_like import draw_philly
from treadle.traces.poisson import draw_poisson
from treadle.traces.workload import Workload

Number = TypeVar("Number", int, float)

JOBS_MAX = 5_000_000
LOAD_MIN, LOAD_MAX = 0.001, 1000.0
_PARAMETERS = ("jobs", "seed", "load", "arrivals", "longest", "unpredictable", "cpu", "durations")

# name -> one line of help
KINDS = {
    "philly": "sizes, durations, tenants, ends and bursts of Microsoft's Philly log",
    "aiturbo": "families of repeated jobs, most of them predictable, as in AITurbo's table",
    "poisson": "independent arrivals, small and short jobs first; the plain one",
}


def generate(  # noqa: PLR0913  # all but the first by name
    kind: str,
    *,
    jobs: int = 1000,
    seed: int = 0,
    load: float = 0.9,
    cluster: Cluster,
    arrivals: str = "",
    longest_s: int | None = None,
    unpredictable: float | None = None,
    cpu_only: float = 0.0,
    durations: str = "",
) -> Workload:
    """Draw jobs that offer the cluster this load; none is larger than the cluster."""
    _check(kind, jobs, load, cluster)
    if arrivals and kind != "aiturbo":
        raise InvalidInputError(f"arrivals is for aiturbo; {kind} has its own, leave it out")
    for given, title in (
        (unpredictable is not None, "unpredictable"),
        (cpu_only, "cpu"),
        (durations, "durations"),
    ):
        if given and kind != "aiturbo":
            raise InvalidInputError(f"{title} is for aiturbo; {kind} knows no such jobs")
    if longest_s is not None and kind != "philly":
        raise InvalidInputError(f"longest is for philly; {kind} has its own, leave it out")
    random = Random(f"{kind}/{seed}")
    name = f"generate:{kind}?jobs={jobs}&seed={seed}&load={load:g}"
    match kind:
        case "philly":
            longest_s = LONGEST_S if longest_s is None else longest_s
            drawn = draw_philly(random, jobs, load, cluster, longest_s=longest_s)
            name += f"&longest={longest_s}" if longest_s != LONGEST_S else ""
        case "poisson":
            drawn = draw_poisson(random, jobs, load, cluster)
        case _:
            drawn = draw_aiturbo(
                random,
                jobs,
                load,
                cluster,
                arrivals or ARRIVALS[0],
                unpredictable=unpredictable,
                cpu_only=cpu_only,
                durations=durations or DURATIONS[0],
            )
            name += f"&arrivals={arrivals or ARRIVALS[0]}"
            name += "" if unpredictable is None else f"&unpredictable={unpredictable:g}"
            name += f"&cpu={cpu_only:g}" if cpu_only else ""
            name += f"&durations={durations}" if durations not in {"", DURATIONS[0]} else ""
    _check_span(drawn)
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
            raise InvalidInputError(
                f"generate:{kind} has no parameter {name!r}{did_you_mean(name, _PARAMETERS)} "
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
        longest_s=_number(given, "longest", "86400", int) if "longest" in given else None,
        unpredictable=(
            _number(given, "unpredictable", "0.25", float) if "unpredictable" in given else None
        ),
        cpu_only=_number(given, "cpu", "0", float),
        durations=given.get("durations", ""),
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
        raise InvalidInputError(
            f"no generator is called {kind!r}{did_you_mean(kind, KINDS)} "
            f"(known: {', '.join(KINDS)})"
        )
    if not 1 <= jobs <= JOBS_MAX:
        raise InvalidInputError(f"jobs is {jobs}; expected 1 to {JOBS_MAX:,}")
    if not LOAD_MIN <= load <= LOAD_MAX:  # Not-a-number is in no range.
        raise InvalidInputError(
            f"load is {load:g}; expected a number from {LOAD_MIN:g} to {LOAD_MAX:g}, such as 0.9"
        )
    if not cluster.device_count:
        raise InvalidInputError("the cluster has no devices; expected at least one to draw for")


def _check_span(drawn: Workload) -> None:
    """Refuse submission times that the trace readers would reject."""
    last_s = drawn.jobs[-1].submit_at
    if last_s > SUBMIT_MAX_S:
        raise InvalidInputError(
            f"the last job would be submitted at second {last_s:g}; expected at most "
            f"{SUBMIT_MAX_S:g}, so ask for fewer jobs or more load"
        )
