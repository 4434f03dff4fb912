"""How well is it predicted what jobs get done together? Measured groups beside predictions.

The table of errors leaves one kind of job out of the fit at a time, and judges the groups it is in.

    python benchmarks/company.py ../shared/profiles/h200_sharing.csv
"""

import csv
import sys
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
    return (
        f"mean error {sum(map(abs, off)) / len(off):.1%}, worst {max(map(abs, off)):.1%}, "
        f"bias {sum(off) / len(off):+.1%}, members off by {sum(members) / len(members):.3f}"
    )


def main() -> None:
    busy, groups = read(Path(sys.argv[1]))
    token, ours = by(Sharing(capacity=1.0, hidden=0.0)), by(TIME_SLICED)
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
