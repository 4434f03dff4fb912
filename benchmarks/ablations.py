"""What each lever of weave is worth: the same policy with one lever off, on the league's workloads.

    .venv/bin/python benchmarks/ablations.py --figure docs

Mean completion time over that of the whole policy; above 1, the lever pays. Runs are kept as those
of `treadle league`, by content. Workloads whose trace file is not there are named and left out.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.pictures import new_picture, save

from treadle.league.competition import Plan, play
from treadle.league.result_cache import ResultCache
from treadle.league.standings import geometric_mean, standings
from treadle.league.workload_list import chosen, standard

FIGURE = "weave-ablations"
# What is off, and the parameters that turn it off.
LEVERS: Mapping[str, str] = {
    "no company": "group=1",
    "sizes as asked": "sizes=off",
    "no order (p = 0)": "power=0",
    "p = 0.5": "power=0.5",
    "p = 1": "power=1",
    "changes are free": "restart_s=0",
}
Ratios = Mapping[str, Mapping[str, float]]  # by lever, then by workload


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", choices=("weave", "weave-l"), default="weave")
    parser.add_argument("--traces", default="../shared/traces")
    parser.add_argument("--workloads", default="", help="names, with commas; all by default")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/treadle/league")
    parser.add_argument("--figure", type=Path, help=f"folder for {FIGURE}.svg")
    options = parser.parse_args()
    names = [name for name in options.workloads.split(",") if name]
    found = ratios(options, names)
    print(table(options.policy, found))
    if options.figure:
        draw(options.policy, found, options.figure)


def ratios(options: argparse.Namespace, names: Sequence[str]) -> Ratios:
    """The mean of each ablation over that of the whole policy."""
    listed = chosen(standard(), names)
    for one in listed:
        if one.missing(options.traces):
            print(f"{one.name} is left out: {one.missing(options.traces)} is missing")
    policies = {lever: f"{options.policy}?{parameters}" for lever, parameters in LEVERS.items()}
    plan = Plan(
        [one for one in listed if not one.missing(options.traces)],
        [options.policy, *policies.values()],
        seeds=options.seeds,
        traces=options.traces,
        cpu_limit_s=120.0,
    )
    played = []
    for cell, _ in play(plan, workers=options.jobs, cache=ResultCache(options.cache)):
        played.append(cell)
        print(f"{cell.workload} {cell.policy}", file=sys.stderr)
    rows = {(row.workload, row.policy): row.mean_s for row in standings(played)}
    return {
        lever: {
            one.name: rows[one.name, policy] / rows[one.name, options.policy]
            for one in plan.workloads
            if rows[one.name, policy]
        }
        for lever, policy in policies.items()
    }


def table(policy: str, found: Ratios) -> str:
    """In Markdown: a row for each workload, a column for each lever."""
    workloads = list(dict.fromkeys(name for some in found.values() for name in some))
    lines = [f"| {policy} | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    for name in workloads:
        cells = [f"{some[name]:.2f}" if name in some else "-" for some in found.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    means = [f"{geometric_mean(list(some.values())):.3f}" for some in found.values()]
    lines.append("| geometric mean | " + " | ".join(means) + " |")
    return "\n".join(lines)


def draw(policy: str, found: Ratios, folder: Path) -> None:
    """A line for each lever: a dot for each workload, and a bar up to the geometric mean."""
    picture = new_picture(8.0, 0.45 * len(found) + 1.2)
    axes = picture.axes[0]
    levers = list(found)[::-1]
    for place, lever in enumerate(levers):
        some = list(found[lever].values())
        mean = geometric_mean(some)
        axes.barh(place, mean - 1.0, left=1.0, height=0.6, color="#56b4e9", alpha=0.6)
        axes.plot(some, [place] * len(some), "o", color="#0072b2", markersize=4, alpha=0.7)
        worst = max(found[lever], key=lambda name: found[lever][name])
        if found[lever][worst] > 1.1:
            label = (found[lever][worst], place)
            axes.annotate(f"  {worst}", label, va="center", fontsize=8, color="#444444")
    axes.axvline(1.0, color="#1b2330", linewidth=1)
    axes.set_xscale("log")
    ticks = [tick for tick in (0.9, 1, 1.2, 1.5, 2, 3, 5, 8, 12) if tick <= _largest(found) * 1.3]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(right=_largest(found) * 1.6)
    axes.set_yticks(range(len(levers)), levers)
    axes.set(xlabel=f"mean completion time over that of {policy} (bar: geometric mean)")
    axes.grid(axis="x", color="#eceff3")
    axes.set_axisbelow(True)
    save(picture, folder / f"{FIGURE}.svg")


def _largest(found: Ratios) -> float:
    return max(value for some in found.values() for value in some.values())


if __name__ == "__main__":
    main()
