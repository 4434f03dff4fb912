"""Muri (Zhao et al., SIGCOMM'22): the simulator's figures, its ablations, and the real cluster's.

ARTIFACT follows the authors' simulator: every running job pays its start-up time again in every
interval between two events, changed or not, and in a group the start-up times of all members;
predicted ends ignore that; placement is first-fit; groups run in lock step. HONEST charges a
start-up only when an allocation changes. The published figures are those of the authors' figure
scripts; most of them were made with autopack off.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.replications.paper import Find, Paper, end_h, hours
from treadle.replications.rows import Row
from treadle.reports.metrics import Summary
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload

ARTIFACT = Settings(
    placement="first-fit",
    restart_cost="measured",
    restart_charge="groups",
    sharing="staggered",
)
HONEST = Settings(restart_cost="measured")

_ANTMAN = "antman?hoard=on"
# What the artifact does differently for one policy.
_SETTINGS: Mapping[str, Settings] = {
    "srtf": replace(ARTIFACT, policy="srtf?repack=on"),
    "srsf": replace(ARTIFACT, policy="srsf?repack=on"),
    "tiresias": replace(ARTIFACT, policy="tiresias?as_lists=on", placement="count"),
    "themis": replace(ARTIFACT, policy="themis?lease_s=0"),
    "antman": replace(ARTIFACT, policy=_ANTMAN, restart_charge="decisions", sharing="gaps"),
}

# What groups do in the artifact where Muri is run with such a parameter.
_SHARING_BY = {"ordering=worst": "staggered-worst", "matching=none": "staggered-unmatched"}

# How near the average must come. Themis depends on the authors' solver and is not judged.
_TOLERANCES: Mapping[str, float | None] = {
    "srtf": 1e-5,
    "srsf": 1e-5,
    "tiresias": 0.02,
    "antman": 0.02,
    "themis": None,
    "muri-s": 0.02,
    "muri-l": 0.04,
}
_MAKESPAN, _ABLATION, _TESTBED = 0.02, 0.06, 0.05
_POLICIES = tuple(_TOLERANCES)
# Seconds by trace: for each policy in that order, average completion time and last end.
_PUBLISHED: Mapping[str, tuple[tuple[float, float], ...]] = {
    "muri_trace3": (
        (193081.796, 8174135.280),
        (185021.880, 8174135.280),
        (347213.248, 8174226.280),
        (305453.941, 8174140.280),
        (397058.802, 8172104.510),
        (85502.554, 8174135.280),
        (88686.973, 8174135.280),
    ),
    "muri_trace3_pr": (
        (844394.780, 7261795.828),
        (798057.683, 6907790.403),
        (2213110.128, 6761641.420),
        (2674393.018, 5799634.744),
        (1502768.219, 6760041.974),
        (537776.616, 4400674.990),
        (921094.745, 4403652.203),
    ),
    "muri_trace4": (
        (581982.900, 14787990.592),
        (487167.169, 14887908.866),
        (1319382.936, 13073838.618),
        (2212462.719, 12292270.736),
        (994970.736, 13793094.420),
        (365467.891, 11029124.280),
        (429174.868, 10918239.072),
    ),
    "muri_trace4_pr": (
        (1430856.446, 14272665.008),
        (1218501.968, 14426755.371),
        (2674022.636, 12584603.564),
        (4676092.801, 11793469.428),
        (2271053.053, 13471484.420),
        (954225.287, 9990192.513),
        (1488033.596, 10104721.763),
    ),
}
_ABLATIONS: Mapping[str, Mapping[str, float]] = {
    "muri_trace3": {"muri-l?ordering=worst": 146324.408, "muri-l?matching=none": 96016.954},
    "muri_trace3_pr": {"muri-l?group=2": 1348968.422, "muri-l?group=3": 1242056.648},
    "muri_trace4": {"muri-l?ordering=worst": 614727.470, "muri-l?matching=none": 487577.636},
    "muri_trace4_pr": {"muri-l?group=2": 2170262.136, "muri-l?group=3": 1994350.657},
}
# The real cluster of 64 V100s: average completion time in seconds.
_REAL: Mapping[str, float] = {
    "srtf": 249140.177,
    "srsf": 238612.093,
    "tiresias": 336533.172,
    "muri-s": 117634.554,
    "muri-l": 129744.660,
}
_MURI = ("muri-s", "muri-l")
_MERGE = "merge=first"  # as the artifact does
# Others as they are by default.
_HONESTLY = {
    "themis": "themis?lease_s=0",
    "antman": _ANTMAN,
    **{name: f"{name}?{_MERGE}" for name in _MURI},
}
_SHARING = ("antman", "muri-s", "muri-l")  # the others keep their devices to themselves
# What the paper compares with what.
_GAINS = (
    ("srtf", "muri-s"),
    ("srsf", "muri-s"),
    ("tiresias", "muri-l"),
    ("antman", "muri-l"),
    ("themis", "muri-l"),
)


def settings(name: str, options: Mapping[str, str]) -> Settings:
    """The artifact's settings for a policy; it may have parameters, as in `muri-s?group=2`."""
    base, _, query = name.partition("?")
    known = _SETTINGS.get(base, replace(ARTIFACT, policy=base))
    parameters = [known.policy.partition("?")[2], query]
    if base in _MURI and "autopack=" not in query:
        autopack = options.get("autopack", "off")
        if autopack not in {"on", "off"}:
            raise InvalidInputError(f"autopack is on or off, not {autopack!r}")
        parameters.append(f"autopack={autopack}")
    if base in _MURI and "merge=" not in query:
        parameters.append(_MERGE)
    text = "&".join(part for part in parameters if part)
    sharing = next((kind for sign, kind in _SHARING_BY.items() if sign in query), known.sharing)
    return replace(known, policy=f"{base}?{text}" if text else base, sharing=sharing)


def figures(find: Find, cluster: Cluster) -> Iterator[tuple[str, Row]]:
    """Every figure under its heading."""
    for name, published in _PUBLISHED.items():
        workload = find(name)
        table = dict(zip(_POLICIES, published, strict=True))
        yield from _as_published(name, workload, cluster, table)
        yield from _honestly(name, workload, cluster, table)
    heading = "muri_testbed400: average completion time on the real cluster, hours"
    workload = find("muri_testbed400")
    for policy, real_s in _REAL.items():
        chosen = settings(policy, {"autopack": "on"})
        measured = hours(_run(workload, cluster, chosen))
        judged = _TESTBED if policy.startswith("muri") else None
        yield heading, Row(policy, measured, real_s / 3600, judged)


def _as_published(
    name: str, workload: Workload, cluster: Cluster, table: Mapping[str, tuple[float, float]]
) -> Iterator[tuple[str, Row]]:
    ends: list[Row] = []
    for policy, (mean_s, end_s) in table.items():
        summary = _run(workload, cluster, settings(policy, {}))
        tolerance = _TOLERANCES[policy]
        yield (
            f"{name}: average completion time as the artifact simulates, hours",
            Row(policy, hours(summary), mean_s / 3600, tolerance),
        )
        judged = None if tolerance is None else _MAKESPAN
        ends.append(Row(policy, end_h(summary), end_s / 3600, judged))
    for ablation, mean_s in _ABLATIONS[name].items():
        measured = hours(_run(workload, cluster, settings(ablation, {})))
        yield (
            f"{name}: average completion time of muri-l without one of its parts, hours",
            Row(ablation, measured, mean_s / 3600, _ABLATION),
        )
    for row in ends:
        yield f"{name}: makespan as the artifact simulates, hours", row


def _honestly(
    name: str, workload: Workload, cluster: Cluster, table: Mapping[str, tuple[float, float]]
) -> Iterator[tuple[str, Row]]:
    """The gains with honest restart costs: with the artifact's model of sharing, then Treadle's."""
    measured: dict[str, float] = {}
    for how, sharing, chosen in (
        ("groups in lock step", "staggered", table),
        ("jobs share by tokens", "tokens", _SHARING),
    ):
        for policy in chosen:
            model = "gaps" if (policy, sharing) == ("antman", "staggered") else sharing
            settings = replace(HONEST, policy=_HONESTLY.get(policy, policy), sharing=model)
            measured[policy] = mean_h = hours(_run(workload, cluster, settings))
            yield (
                f"{name}: average completion time where only changes cost, {how}, hours",
                Row(policy, mean_h, None),
            )
        for baseline, muri in _GAINS:
            yield (
                f"{name}: times faster where only changes cost, {how}",
                Row(
                    f"{muri} than {baseline}",
                    measured[baseline] / measured[muri],
                    table[baseline][0] / table[muri][0],
                ),
            )


def _run(workload: Workload, cluster: Cluster, chosen: Settings) -> Summary:
    return prepare(workload, cluster, chosen).finish()


PAPER = Paper(
    cluster="8x8",
    policies=("srtf", "srsf", "tiresias", "antman", "muri-s", "muri-l"),
    figures=figures,
    settings=settings,
    options=("autopack",),
    from_zero=True,
)
