"""The table of starts in docs/learning.md: printed ranges of starts on several queues.

    python benchmarks/start_rows.py TRACES_FOLDER [--rows WORD ...] [--processes N]

Queues are recorded in parts by several processes (queued_starts.py), and rows are printed as soon
as they are there. What the columns mean stands in calibration.py and beside the table. `--rows`:
only those with one of these words in them, such as openb or weave-l.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

# Started as a file, this folder is not a package.
sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.calibration import (
    EIGHTY,
    SHARES,
    Starts,
    as_often,
    find,
    hindsight_of,
    overall_held,
    read,
    tally_of,
)
from benchmarks.start_ranges import Judged, Shown


class Row(NamedTuple):
    trace: str
    jobs: int
    policy: str = "afs"


ROWS = (
    Row("openb_pod_list_default", 3000),
    Row("openb_pod_list_default", 8000),
    Row("philly_dev_aug14_oct31", 2000),
    Row("philly_dev_aug14_oct31", 4000),
    Row("chronus_MIX1", 1500),
    Row("afs_vc_103959", 2000),
    Row("afs_vc_103959", 2000, "weave-l"),
    Row("afs_vc_103959", 10000),
    Row("afs_vc_e13805", 10000),
    Row("elasticflow_sim_cluster01", 5000),
    Row("itp_raw_cluster01", 900),
    Row("itp_raw_cluster01", 1595),
    Row("itp_raw_cluster02", 900),
    Row("itp_raw_cluster02", 900, "weave-l"),
    Row("itp_raw_cluster02", 3000),
    Row("itp_raw_cluster03", 1000),
    Row("itp_raw_cluster03", 1000, "weave-l"),
    Row("itp_raw_cluster03", 3011),
    Row("itp_raw_cluster03", 3011, "weave-l"),
    Row("itp_raw_cluster05", 900),
    Row("itp_raw_cluster05", 3629),
    Row("itp_raw_cluster06", 700),
    Row("itp_raw_cluster06", 700, "weave-l"),
    Row("itp_raw_cluster06", 2396),
    Row("itp_raw_cluster10", 260),
    Row("itp_raw_cluster10", 260, "weave-l"),
)
HEAD = (
    "| trace | policy | jobs that wait | devices | no range | held | width s | overall s | ratio "
    "| narrowest | overall held | as often | hindsight | known |\n" + "|---" * 14 + "|"
)


def line(row: Row, queue: Judged) -> str:
    """One row of the table."""
    cells = [f"{row.trace}, {row.jobs:,} jobs", row.policy, f"{queue.waits:,}", f"{queue.devices}"]
    cells.append(f"{queue.learned.unsure:,}")
    if shown := queue.learned.shown:
        tally = tally_of(shown)
        width, overall = median(tally.widths), median(tally.overall)
        cells += [
            f"{tally.held / len(shown):.1%}",
            f"{width:,.0f}",
            f"{overall:,.0f}",
            _ratio(width, overall),
            _ratio(width, median(tally.narrowest)),
            f"{overall_held(shown, EIGHTY) / len(shown):.1%}",
            _as_often(shown, width),
            _hindsight(shown, overall),
        ]
    if queue.known.shown:
        tally = tally_of(queue.known.shown)
        ratio = _ratio(median(tally.widths), median(tally.overall))
        cells.append(f"{ratio} ({tally.held / len(queue.known.shown):.1%})")
    return f"| {' | '.join(cells)} |"


def _as_often(shown: Sequence[Shown], width: float) -> str:
    place = as_often(shown)
    overall = median(one.overall[place].high_s - one.overall[place].low_s for one in shown)
    return f"{_ratio(width, overall)} ({SHARES[place]:.0%})"


def _hindsight(shown: Sequence[Shown], overall: float) -> str:
    if len(shown) < 2:
        return ""
    held, width = hindsight_of(shown)
    return f"{_ratio(width, overall)} ({held:.1%})"


def _ratio(width: float, overall: float) -> str:
    return f"{width / overall if overall else 0.0:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", nargs="*", default=[""], help="words of rows; default: all")
    parser.add_argument("--processes", type=int, default=1, help="at a time")
    chosen = parser.parse_args()
    rows = [row for row in ROWS if any(word in f"{row}" for word in chosen.rows)]
    print(HEAD, flush=True)
    with ProcessPoolExecutor(chosen.processes) as pool:
        asked = [
            (row, Starts(pool, read(str(find(chosen.folder, row.trace)), row.jobs), row.policy))
            for row in rows
        ]
        for row, starts in asked:
            print(line(row, starts.judged()), flush=True)


if __name__ == "__main__":
    main()
