"""Measure the tables of README and docs, and write them where they stand, or check them.

    python -m benchmarks.figures fast            measure one and print it
    python -m benchmarks.figures --write         measure all and write them (make figures)
    python -m benchmarks.figures --check fast    fail if a figure is off by more than its tolerance

A table stands between two comments, with a line that says when, where and from which commit:

    <!-- figures: fast -->
    ...
    <!-- /figures -->

Times are compared after both machines' calibration loops; CPU time may differ by 1.5 and memory by
1.25, other columns by what the table's entry below says.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from benchmarks import growth, league_tables
from benchmarks.speed import calibrate, fast, trace
from replications.run import expected, measure

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"<!-- figures: (\S+) -->\n(.*?)<!-- /figures -->", re.DOTALL)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
CALIBRATED = re.compile(r"calibration loop takes ([\d.]+) s")
CPU_TIMES, CPU_SLACK_S = 1.5, 0.05
MB_TIMES, MB_SLACK = 1.25, 5.0
Table = Sequence[Sequence[str]]  # the head first


class Figure(NamedTuple):
    """A table in a page, and what measures it."""

    page: str
    measured: Callable[[], Table]
    within: float = 0.0  # of figures that are neither CPU time nor memory, as a share
    picture: Callable[[], str] | None = None  # drawn when the table is written; its Markdown


class Block(NamedTuple):
    """A table as it stands in a page."""

    calibration_s: float  # of the machine; 0: nothing is said
    table: Table


def exact() -> Table:
    """Averages beside those that other simulators published for the same workload."""
    rows = [["policy", "placement", "time", "Treadle", "published", "by"]]
    for row in expected():
        if row["trace"] == "common960":
            trace(row["trace"])
            mean_s, _ = measure(row)
            figures = [f"{mean_s:.2f}", row["jct_mean_s"]]
            rows.append([f"`{row['policy']}`", row["placement"], row["time"], *figures])
            rows[-1].append(row["published_for"])
    return rows


def daemon(module: str) -> Table:
    """What a benchmark of a daemon measures; it exits with 1 if a budget is missed."""
    words = [sys.executable, "-m", module, "--json"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    found: dict[str, float] = json.loads(done.stdout)["figures"]
    return [["what", "measured"], *([name, f"{value:.3g}"] for name, value in found.items())]


def _growth(axis: str) -> Figure:
    return Figure(
        "docs/scale.md", partial(growth.rows, axis), 0.2, partial(growth.draw, axis, ROOT / "docs")
    )


FIGURES: Mapping[str, Figure] = {
    "exact": Figure("README.md", exact),
    "fast": Figure("README.md", fast),
    "league": Figure("docs/league.md", league_tables.policies, 0.02),
    "league-workloads": Figure("docs/league.md", league_tables.workloads, 0.02),
    "weave": Figure("docs/weave.md", league_tables.weave, 0.02),
    "weave-further": Figure("docs/weave.md", league_tables.weave_further, 0.02),
    "live": Figure("docs/operations.md", partial(daemon, "benchmarks.live"), 0.5),
    "installation": Figure("docs/operations.md", partial(daemon, "benchmarks.installation"), 0.5),
    **{f"growth-{axis}": _growth(axis) for axis in growth.SIZES},
}


def blocks(page: str) -> dict[str, Block]:
    """The marked tables of a page."""
    found = {}
    for name, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        calibrated = CALIBRATED.search(text)
        lines = [line for line in text.splitlines() if line.startswith("|")]
        cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
        table = [row for number, row in enumerate(cells) if number != 1]
        found[name] = Block(float(calibrated[1]) if calibrated else 0.0, table)
    return found


def unmatched() -> Iterator[str]:
    """Tables without a place, and marks without a table."""
    pages = {str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]}
    marked = {(page, name) for page in pages for name in blocks(page)}
    known = {(figure.page, name) for name, figure in FIGURES.items()}
    for page, name in sorted(known - marked):
        yield f"{page} has no place for the table {name}: <!-- figures: {name} -->"
    for page, name in sorted(marked - known):
        yield f"{page} marks a table {name}, which nothing measures"


def off(figure: Figure, block: Block, fresh: Table, calibration_s: float) -> Iterator[str]:
    """The cells that differ by more than the tolerance."""
    slower = calibration_s / block.calibration_s if block.calibration_s else 1.0
    nothing: Sequence[str] = ("",)
    for old, new in zip_longest(block.table, fresh, fillvalue=nothing):
        for head, printed, found in zip_longest(fresh[0], old, new, fillvalue=""):
            if not _near(head, printed, found, figure.within, slower):
                yield f"{new[0] or old[0]}, {head}: printed {printed!r}, measured {found!r}"


def _near(head: str, printed: str, found: str, within: float, slower: float) -> bool:
    if head in {"what", "policy", "workload"} or NUMBER.sub("0", printed) != NUMBER.sub("0", found):
        return printed == found
    for one, other in zip(NUMBER.findall(printed), NUMBER.findall(found), strict=True):
        old, new = (float(text.replace(",", "")) for text in (one, other))
        if "CPU" in head:
            old, times, slack = old * slower, CPU_TIMES, CPU_SLACK_S
        elif "MB" in head:
            times, slack = MB_TIMES, MB_SLACK
        else:
            times, slack = 1 + within, 0.0
        if max(old, new) > min(old, new) * times + slack + 1e-9:
            return False
    return True


def written(text: str, name: str, table: Table, where: str, picture: str = "") -> str:
    """The page with this table, and a picture below it, between its marks."""
    if any("CPU" in head for head in table[0]):
        where += f" The calibration loop takes {_calibration_s():.2f} s."
    head, *rows = ["| " + " | ".join(row) + " |" for row in table]
    lines = [where, "", head, "|---" * len(table[0]) + "|", *rows]
    lines += ["", picture] if picture else []
    block = f"<!-- figures: {name} -->\n" + "\n".join(lines) + "\n<!-- /figures -->"
    return BLOCK.sub(lambda found: block if found[1] == name else found[0], text)


@cache
def where() -> str:
    """When and on what it was measured."""
    today = datetime.now(UTC)
    machine = f"{os.cpu_count()} {platform.machine()} cores, Python {platform.python_version()}"
    return f"Measured on {today.day} {today:%B %Y} at commit {_commit()}, {machine}."


@cache
def _calibration_s() -> float:
    return calibrate()


def _commit() -> str:
    words = ["git", "describe", "--always", "--exclude=*", "--dirty=, with changes"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TABLE", help=", ".join(FIGURES))
    parser.add_argument("--write", action="store_true", help="write them into README and docs")
    parser.add_argument("--check", action="store_true", help="fail if one is off")
    options = parser.parse_args()
    wrong = list(unmatched())
    for name in options.names or FIGURES:
        if name not in FIGURES:
            parser.error(f"there is no table {name!r}; there are {', '.join(FIGURES)}")
        figure = FIGURES[name]
        try:
            table = figure.measured()
        except FileNotFoundError as error:
            wrong.append(f"{name}: {error}")
            continue
        page = ROOT / figure.page
        print("\n".join(" | ".join(row) for row in table), flush=True)
        if options.check and name in blocks(figure.page):
            found = off(figure, blocks(figure.page)[name], table, _calibration_s())
            wrong += [f"{figure.page}, {name}: {one}" for one in found]
        if options.write:
            picture = figure.picture() if figure.picture else ""
            text = page.read_text(encoding="utf-8")
            page.write_text(written(text, name, table, where(), picture))
    for one in wrong:
        print(one, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
