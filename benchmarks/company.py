"""How well is it predicted what jobs get done together? Measured groups beside predictions.

The table of errors leaves one kind of job out of the fit at a time, and judges the groups it is in.

    python benchmarks/company.py ../shared/profiles/h200_sharing.csv
    python benchmarks/company.py --pairs PAIRS.csv [--alone ALONE.csv]

The second form tries the predictor, as it is, on pairs that others measured. A line of PAIRS.csv is
one pair, with the columns

    speed1, speed2        what each keeps of its speed alone, 1 is all of it
    gpu_util1, gpu_util2  how busy each keeps the GPU alone, in per cent as nvidia-smi says

With --alone the last two come from another table, with one line for each job and the column
gpu_util: the job is found by all columns whose names with 1 and 2 behind them are in PAIRS.csv
(model and model1, batchsize and batchsize1, ...). Two tables of the Lucid scheduler (ASPLOS'23, the
repository S-Lab-System-Group/Lucid) are in this form: simulation/data/colocate_info.csv and
simulation/analyzer/single_data.csv.
"""

import argparse
import csv
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from treadle.models.company.predictor import MPS, TIME_SLICED, Sharing, shares

CAPACITIES = [0.9 + 0.05 * step for step in range(7)]
HIDDEN = [0.25 * step for step in range(5)]

# Measured with MPS on the same machine on another day, from the page beside the table.
WITH_MPS = {
    ("transformer", "transformer"): 1.40,
    ("transformer", "lstm"): 1.72,
    ("transformer", "resnet"): 2.09,
    ("transformer", "tiny"): 2.44,
    ("transformer", "augment", "storage"): 2.97,
}
# The same from batch.py and mps_check.py, beside the same jobs alone a few minutes before.
BATCH_BUSY = {
    "transformer": 0.892,
    "tiny": 0.127,
    "large": 0.926,
    "lstm": 0.648,
    "augment": 0.014,
    "resnet": 0.421,
    "storage": 0.028,
}
BATCH = {
    ("transformer", "resnet"): 1.66,
    ("transformer", "tiny", "large"): 2.03,
    ("lstm", "resnet", "storage", "large"): 2.85,
}


class Group(NamedTuple):
    kinds: tuple[str, ...]
    measured: tuple[float, ...]  # speeds relative to alone

    @property
    def total(self) -> float:
        return sum(self.measured)


Predict = Callable[[Sequence[float]], Sequence[float]]


def read(path: Path) -> tuple[dict[str, float], list[Group]]:
    """Busy shares of the kinds alone, and the groups."""
    busy: dict[str, float] = {}
    members: dict[str, list[tuple[str, float]]] = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        if "+" in row["group"]:
            found = (row["member"], float(row["relative_to_alone"]))
            members.setdefault(row["group"], []).append(found)
        else:
            busy[row["member"]] = float(row["group_gpu_busy"])
    groups = []
    for rows in members.values():
        kinds, measured = zip(*rows, strict=True)
        groups.append(Group(kinds, measured))
    return busy, groups


def read_pairs(pairs: Path, alone: Path | None) -> list[tuple[tuple[float, float], Group]]:
    """Busy shares of both jobs, and what they kept; see above for the columns."""
    rows = list(csv.DictReader(pairs.read_text().splitlines()))
    jobs = [] if alone is None else list(csv.DictReader(alone.read_text().splitlines()))
    names = [name for name in (jobs[0] if jobs else ()) if _is_name(name, rows[0])]
    busy = {tuple(job[name] for name in names): job["gpu_util"] for job in jobs}
    found = []
    for row in rows:
        keys = [tuple(row[f"{name}{member}"] for name in names) for member in (1, 2)]
        told = [row[f"gpu_util{member}"] for member in (1, 2)] if alone is None else []
        first, second = (float(one) / 100 for one in told or [busy[key] for key in keys])
        measured = (float(row["speed1"]), float(row["speed2"]))
        found.append(((first, second), Group(("first", "second"), measured)))
    return found


def _is_name(column: str, pair: dict[str, str]) -> bool:
    figures = {"speed", "gpu_util"}
    return column not in figures and {f"{column}1", f"{column}2"} <= pair.keys()


def try_pairs(pairs: Path, alone: Path | None) -> None:
    found = read_pairs(pairs, alone)
    for name, predict in (("token model", TOKEN), ("ours", by(TIME_SLICED))):
        off = [sum(predict(busy)) / group.total - 1.0 for busy, group in found]
        members = [
            abs(predicted - measured)
            for busy, group in found
            for predicted, measured in zip(predict(busy), group.measured, strict=True)
        ]
        print(f"{name}: {summary(off, members)}, {len(found)} pairs")


def error(busy: dict[str, float], group: Group, predict: Predict) -> float:
    """Of the predicted sum, as a share of the measured one; above 0: too optimistic."""
    return sum(predict([busy[kind] for kind in group.kinds])) / group.total - 1.0


def mean_error(busy: dict[str, float], groups: Sequence[Group], predict: Predict) -> float:
    return sum(abs(error(busy, group, predict)) for group in groups) / len(groups)


def fitted(busy: dict[str, float], groups: Sequence[Group]) -> Sharing:
    candidates = [Sharing(*pair) for pair in product(CAPACITIES, HIDDEN)]
    return min(candidates, key=lambda sharing: mean_error(busy, groups, by(sharing)))


def by(sharing: Sharing) -> Predict:
    return lambda busy: shares(busy, sharing)


TOKEN = by(Sharing(capacity=1.0, hidden=0.0))


def left_out(busy: dict[str, float], groups: Sequence[Group]) -> float:
    """The mean error where the kind judged was not in the fit."""
    errors = []
    for kind in busy:
        seen = [group for group in groups if kind not in group.kinds]
        predict = by(fitted(busy, seen))
        errors += [abs(error(busy, group, predict)) for group in groups if kind in group.kinds]
    return sum(errors) / len(errors)


def judged(busy: dict[str, float], groups: Sequence[Group], predict: Predict) -> str:
    off = [error(busy, group, predict) for group in groups]
    members = [
        abs(predicted - measured)
        for group in groups
        for predicted, measured in zip(
            predict([busy[kind] for kind in group.kinds]), group.measured, strict=True
        )
    ]
    return summary(off, members)


def summary(off: Sequence[float], members: Sequence[float]) -> str:
    return (
        f"mean error {sum(map(abs, off)) / len(off):.1%}, worst {max(map(abs, off)):.1%}, "
        f"bias {sum(off) / len(off):+.1%}, members off by {sum(members) / len(members):.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?", help="groups in the form of h200_sharing")
    parser.add_argument("--pairs", type=Path, help="pairs that others measured")
    parser.add_argument("--alone", type=Path, help="what was measured of their jobs alone")
    options = parser.parse_args()
    if options.pairs is not None:
        try_pairs(options.pairs, options.alone)
    if options.table is not None:
        try_table(options.table)
    elif options.pairs is None:
        parser.error("give a table of groups, or --pairs")


def try_table(path: Path) -> None:
    busy, groups = read(path)
    token, ours = TOKEN, by(TIME_SLICED)
    print(f"{'group':32} {'measured':>8} {'token':>6} {'error':>7} {'ours':>6} {'error':>7}")
    for group in groups:
        line = f"{'+'.join(group.kinds):32} {group.total:8.2f}"
        for predict in (token, ours):
            off = error(busy, group, predict)
            line += f" {group.total * (1 + off):6.2f} {off:+7.1%}"
        print(line)
    print(f"token model: {judged(busy, groups, token)}")
    print(f"ours: {judged(busy, groups, ours)}")
    best = fitted(busy, groups)
    print(f"best fit here: capacity {best.capacity:.2f}, hidden {best.hidden:.2f}")
    print(f"one kind left out of the fit: mean error {left_out(busy, groups):.1%}")
    for name, alone, table in (("older", busy, WITH_MPS), ("newer", BATCH_BUSY, BATCH)):
        ratios = [
            sum(shares([alone[kind] for kind in kinds], MPS)) / measured - 1
            for kinds, measured in table.items()
        ]
        mean, bias = sum(map(abs, ratios)) / len(ratios), sum(ratios) / len(ratios)
        print(f"with MPS, {name}: mean error {mean:.1%}, bias {bias:+.1%}, {len(ratios)} groups")


if __name__ == "__main__":
    main()
