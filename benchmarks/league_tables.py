"""Tables of docs/league.md and docs/weave.md, each from one run of `treadle league`."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.speed import ROOT, TRACES, trace

Json = Mapping[str, Any]
WEAVES = (("weave", "known"), ("weave-l", "blind"))
FURTHER = ("--add", "benchmarks/further_workloads.toml", "--workloads", "further-*")


def policies() -> list[list[str]]:
    """Every policy over all workloads."""
    heads = ["policy", "class", "/best", "/other", "p99/best", "/LB2", "first", "ranked", "worst"]
    rows = [[*heads, "CPU s", "MB"]]
    for one in _league()["overall"]:
        ratios = [one[key] for key in ("to_best", "to_other", "p99_to_best", "to_shared")]
        rows.append(
            [
                *(one["policy"], one["group"]),
                *(f"{ratio:.3f}" if ratio else "-" for ratio in ratios),
                *(str(one["first"]), f"{one['ranked']} of {one['workloads']}"),
                f"{one['worst']:.2f} ({one['worst_at']})",
                *(f"{one['cpu_max_s']:.1f}", f"{one['peak_mb']:.0f}"),
            ]
        )
    return rows


def workloads() -> list[list[str]]:
    """The best of each class on each workload."""
    rows = [["workload", "LB1", "LB2"]]
    for group in ("known", "blind"):
        rows[0] += [f"best {group}", "mean s", "p99 s"]
    found = _league()
    for one in found["workloads"]:
        best = [
            next(row for row in found["rows"] if _is(row, one["name"], group) and row["rank"] == 1)
            for group in ("known", "blind")
        ]
        bounds = [f"{best[0][key]:,.0f}" for key in ("bound_alone_s", "bound_shared_s")]
        rows.append([one["name"], *bounds])
        for row in best:
            rows[-1] += [row["policy"], f"{row['mean_s']:,.0f}", f"{row['p99_s']:,.0f}"]
    return rows


def weave() -> list[list[str]]:
    """weave and weave-l beside the best other policy of their class."""
    return _against(_league())


def weave_further() -> list[list[str]]:
    """The same on workloads on which no parameter was chosen."""
    return _against(_league(*FURTHER, seeds=1))


def _against(found: Json) -> list[list[str]]:
    rows = [["workload"]]
    for name, group in WEAVES:
        rows[0] += [f"`{name}`", f"best {group}", "mean", "p99", "longest"]
    duels = [found["against"][name]["workloads"] for name, _ in WEAVES]
    for pair in zip(*duels, strict=True):
        rows.append([pair[0]["workload"]])
        for one in pair:
            half = (one["high"] - one["low"]) / 2
            rows[-1] += [
                f"{one['mean_s']:,.0f}" if one["mean_s"] else "cut off",
                f"{one['other']} {one['other_mean_s']:,.0f}",
                f"{one['ratio']:.3f} ± {half:.2f}",
                *(f"{one['p99_ratio']:.2f}", f"{one['longest_ratio']:.2f}"),
            ]
    rows.append(["geometric mean"])
    for name, _ in WEAVES:
        whole = found["against"][name]["all"]
        half = (whole["high"] - whole["low"]) / 2
        rows[-1] += ["", "", f"{whole['ratio']:.3f} ± {half:.2f}"]
        rows[-1] += [f"{whole['p99_ratio']:.2f}", f"{whole['longest_ratio']:.2f}"]
    return rows


def _is(row: Json, workload: str, group: str) -> bool:
    return bool(row["workload"] == workload and row["group"] == group)


@cache
def _league(*words: str, seeds: int = 3) -> Json:
    """What `treadle league` finds; it exits with 1 if a policy has lost a workload."""
    trace("common960")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "league.json"
        given: Sequence[str] = ("--against", ",".join(name for name, _ in WEAVES))
        command = [sys.executable, "-m", "treadle", "league", "--traces", str(TRACES), *given]
        command += ["--seeds", str(seeds), "--json", str(path), *words]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        if done.returncode not in {0, 1} or not path.exists():
            raise SystemExit(f"{' '.join(command)} failed")
        found: Json = json.loads(path.read_text())
    return found
